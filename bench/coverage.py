"""Coverage and width of private intervals against non-private ones on the same simulated data.

    python -m bench.coverage [--fits 10000] [--processes 2] [--quick]

Prints the table and stores it as ``bench/results/coverage.md`` and ``.json``.  Designs: paper 1,
sections 3.2.1 (linear, sigma known or estimated jointly) and 3.2.2 (logistic).  Noise is seeded:
a simulation.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import dpfast
from bench.stored import keep

RESULTS = Path(__file__).parent / "results"
LEVEL = 0.95

#: name -> (loss, scale, true coefficients, standard deviation of covariates, radius or None)
DESIGNS = {
    "linear, R=sqrt(2)": ("log-cosh", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, 2**0.5),
    "linear, default R": ("log-cosh", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, None),
    "linear, Huber, R=sqrt(2)": ("huber", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, 2**0.5),
    "linear, far start": ("log-cosh", 2.0, (10.0, -11.0, 9.0, -11.0), 2.0, 2**0.5),
    "joint scale, default R": ("log-cosh", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, None),
    "joint scale, R=sqrt(2)": ("log-cosh", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, 2**0.5),
    "joint scale, Huber": ("huber", 2.0, (1.0, 1.0, 1.0, 1.0), 2.0, None),
    "joint scale, far start": ("log-cosh", 2.0, (10.0, -11.0, 9.0, -11.0), 2.0, None),
    "logistic, R=sqrt(2)": ("logistic", None, (1.5, 1.0, -1.0, 0.5), 1.0, 2**0.5),
    "logistic, default R": ("logistic", None, (1.5, 1.0, -1.0, 0.5), 1.0, None),
}

#: What is public about the scale of the "joint scale" designs, whose scale is 2; the search starts
#: at 2 (0.5 for "far start").
FREE = dpfast.FreeScale(0.1, 40.0)
FREE_FAR = dpfast.FreeScale(0.005, 50.0)


def scale_option(design: str) -> float | dpfast.FreeScale | None:
    """The ``scale`` argument of a design's fits."""
    if not design.startswith("joint scale"):
        return DESIGNS[design][1]
    return FREE_FAR if design.endswith("far start") else FREE


def simulate(
    rng: np.random.Generator, design: str, n: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw one data set: covariates without intercept, response, true coefficients."""
    loss, scale, beta, spread, _ = DESIGNS[design]
    truth = np.array(beta)
    X = rng.normal(size=(n, 3)) * spread
    t = truth[0] + X @ truth[1:]
    if loss == "logistic":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(float)
    else:
        y = t + scale * rng.normal(size=n)
    return X, y, truth


def run(design: str, n: int, mu: float, seeds: range) -> dict[str, np.ndarray]:
    """Fit privately and not on each simulated data set; errors, half-widths and flags."""
    loss, _, _, _, radius = DESIGNS[design]
    scale = scale_option(design)
    weights = None if radius is None else dpfast.Mallows(radius)
    same = weights or dpfast.Mallows(len(DESIGNS[design][2]) ** 0.5)  # what the default is
    rows: dict[str, list] = {"private": [], "plain": [], "warned": [], "lost": []}
    for seed in seeds:
        X, y, truth = simulate(np.random.default_rng([seed, n]), design, n)
        if isinstance(scale, dpfast.FreeScale):
            truth = np.append(truth, DESIGNS[design][1])
        noise = dpfast.SeededNoise(seed)
        private = dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective(loss, weights=weights, scale=scale),
            privacy=mu,
            noise=noise,
            standardize=False,
            method="newton",
        )
        plain = dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=same, scale=scale))
        for key, fit in (("private", private), ("plain", plain)):
            interval = fit.conf_int(LEVEL)
            covered = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
            half = (interval[:, 1] - interval[:, 0]) / 2
            rows[key].append(np.concatenate([fit.params - truth, half, covered]))
        rows["warned"].append(bool(private.warnings))
        distance = np.linalg.norm(private.iterates[:, :4] - truth[:4], axis=1)
        rows["lost"].append(bool(distance[-1] > distance[0]))
    return {key: np.array(value) for key, value in rows.items()}


def summarise(design: str, n: int, mu: float, parts: list[dict[str, np.ndarray]]) -> dict:
    """One row of the table from the pieces of one cell."""
    merged = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    row = {"design": design, "n": n, "mu": mu, "fits": len(merged["private"])}
    for key in ("private", "plain"):
        error, half, covered = np.split(merged[key], 3, axis=1)
        row[f"coverage_{key}"] = covered.mean(axis=0).round(4).tolist()
        row[f"width_{key}"] = (2 * half.mean(axis=0)).round(4).tolist()
        row[f"error_{key}"] = float(np.linalg.norm(error[:, :4], axis=1).mean().round(4))
    ratio = np.array(row["width_private"]) / np.array(row["width_plain"])
    row["width_ratio"] = ratio.round(3).tolist()
    row["error_ratio"] = round(row["error_private"] / row["error_plain"], 3)
    row["warned"] = float(merged["warned"].mean().round(4))
    row["lost"] = int(merged["lost"].sum())
    return row


def markdown(rows: list[dict]) -> str:
    """The table, with the command that makes it."""
    lines = [
        "# Coverage of nominal 95% intervals at a total budget of mu",
        "",
        f"`python -m bench.coverage --fits {rows[0]['fits']}`; intercept first, then slopes, then "
        "the scale where it is estimated; widths relative to the non-private intervals of the same "
        "estimator on the same data, and so the mean l2 error of the coefficients; `warned` is the "
        "share of fits that carried a warning, `lost` the number that ended further from the truth "
        "than they started.",
        "",
        "| design | n | mu | fits | coverage | non-private coverage | width ratio | "
        "error ratio | warned | lost |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [
            row["design"],
            row["n"],
            row["mu"],
            row["fits"],
            " ".join(f"{v:.3f}" for v in row["coverage_private"]),
            " ".join(f"{v:.3f}" for v in row["coverage_plain"]),
            " ".join(f"{v:.2f}" for v in row["width_ratio"]),
            row["error_ratio"],
            row["warned"],
            row.get("lost", ""),  # not in rows stored before it was counted
        ]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--mu", type=float, default=1.0)
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS))
    parser.add_argument("--sizes", nargs="*", type=int, default=[500, 1000, 2000, 5000])
    parser.add_argument("--quick", action="store_true", help="200 fits, nothing stored")
    options = parser.parse_args(arguments)
    fits = 200 if options.quick else options.fits
    chunk = max(1, fits // (4 * options.processes))
    rows = []
    with ProcessPoolExecutor(options.processes) as pool:
        for design in options.designs:
            for n in options.sizes:
                chunks = [range(a, min(a + chunk, fits)) for a in range(0, fits, chunk)]
                count = len(chunks)
                parts = pool.map(run, [design] * count, [n] * count, [options.mu] * count, chunks)
                rows.append(summarise(design, n, options.mu, list(parts)))
                print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(markdown(rows))
    if not options.quick:
        rows = stored_with(rows)
        RESULTS.mkdir(exist_ok=True)
        keep(RESULTS / "coverage.md", markdown(rows))
        (RESULTS / "coverage.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def stored_with(rows: list[dict]) -> list[dict]:
    """The stored rows with these in place of the same cells, in the order of the designs."""
    path = RESULTS / "coverage.json"
    stored = json.loads(path.read_text()) if path.exists() else []
    cells = {(row["design"], row["mu"], row["n"]): row for row in [*stored, *rows]}
    known = {cell: row for cell, row in cells.items() if cell[0] in DESIGNS}
    order = list(DESIGNS)
    return [known[cell] for cell in sorted(known, key=lambda c: (order.index(c[0]), *c[1:]))]


if __name__ == "__main__":
    sys.exit(main())
