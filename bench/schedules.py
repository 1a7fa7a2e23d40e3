"""How the default number of steps and budget schedule were chosen, on eight designs.

    python -m bench.schedules [--fits 60] [--quick]

For each design and setting: root mean square distance of the private estimate from the
non-private one, relative to the one-shot reference ``(2B/(n mu)) ||H^-1||_F`` (all the budget on
one gradient at the solution).  Prints the table and stores it as ``bench/results/schedules.md``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import dpfast
from bench.stored import keep
from dpfast.models import Mallows, Objective, resolve_loss

RESULTS = Path(__file__).parent / "results"

#: name -> (p with intercept, n, correlation of neighbours, heavy tails, loss, intercept)
DESIGNS = {
    "linear p=2 n=500": (2, 500, 0.0, False, "log-cosh", 0.5),
    "linear p=4 n=500": (4, 500, 0.0, False, "log-cosh", 0.5),
    "linear p=10 n=2000, correlated": (10, 2000, 0.8, False, "log-cosh", 0.5),
    "linear p=10 n=2000, heavy tails": (10, 2000, 0.0, True, "log-cosh", 0.5),
    "linear p=50 n=20000": (50, 20_000, 0.0, False, "log-cosh", 0.5),
    "logistic p=4 n=1000": (4, 1000, 0.0, False, "logistic", 0.5),
    "logistic p=10 n=10000, rare event": (10, 10_000, 0.0, False, "logistic", -3.0),
    "logistic p=20 n=20000, correlated": (20, 20_000, 0.8, False, "logistic", 0.5),
}

SETTINGS = [None, *itertools.product((6, 8, 10, 12), (2.0, 5.0, 10.0), (0.1, 0.3))]


def simulate(design: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One data set of a design."""
    p, n, correlation, heavy, loss, intercept = DESIGNS[design]
    rng = np.random.default_rng([seed, p, n])
    q = p - 1
    X = rng.standard_t(3, size=(n, q)) if heavy else rng.normal(size=(n, q))
    if correlation:
        lags = np.abs(np.subtract.outer(np.arange(q), np.arange(q)))
        X = X @ np.linalg.cholesky(correlation**lags).T
    t = intercept + X @ np.where(np.arange(q) % 2, -0.5, 0.5)
    if loss == "logistic":
        return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-t))).astype(float)
    return X, t + (rng.standard_t(3, size=n) if heavy else rng.normal(size=n))


def run(design: str, seeds: range) -> np.ndarray:
    """Squared distances (seed, setting) in units of the squared one-shot reference."""
    p, n, _, _, loss, _ = DESIGNS[design]
    scale = None if loss == "logistic" else 1.0
    objective = Objective(resolve_loss(loss), Mallows(p**0.5), p - 1, scale=scale)
    asked = Objective(loss, Mallows(p**0.5), scale=scale)
    rows = []
    for seed in seeds:
        X, y = simulate(design, seed)
        plain = dpfast.nonprivate_fit(X, y, asked)
        A = np.column_stack([np.ones(n), X])
        t = A @ plain.params
        weight = np.minimum(1.0, p / (A**2).sum(axis=1))
        curvature = objective.loss.psi_prime(t if loss == "logistic" else y - t)
        inverse = np.linalg.inv((A.T * (weight * curvature)) @ A / n)
        reference = 2.0 * objective.score_bound / n * np.linalg.norm(inverse)
        row = []
        for setting in SETTINGS:
            method = dpfast.optimize.Newton()
            if setting is not None:
                steps, ratio, share = setting
                method = dpfast.optimize.Newton(
                    steps=steps, schedule=dpfast.optimize.Geometric(ratio, share)
                )
            fit = dpfast.fit(
                dpfast.records(X, y, threads=1),
                None,
                asked,
                privacy=1.0,
                method=method,
                noise=dpfast.SeededNoise(seed),
                standardize=False,
            )
            row.append(float(((fit.params - plain.params) ** 2).sum()) / reference**2)
        rows.append(row)
    return np.array(rows)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=60)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="6 fits, nothing stored")
    options = parser.parse_args(arguments)
    fits = 6 if options.quick else options.fits
    halves = [range(0, fits // 2), range(fits // 2, fits)]
    table = {}
    with ProcessPoolExecutor(options.processes) as pool:
        for design in DESIGNS:
            parts = list(pool.map(run, [design] * 2, halves))
            table[design] = np.sqrt(np.concatenate(parts).mean(axis=0))
            print(design, table[design].round(2), file=sys.stderr, flush=True)
    ratios = np.array(list(table.values()))
    worst = (ratios / ratios.min(axis=1, keepdims=True)).max(axis=0)
    lines = [
        "# Steps and schedules",
        "",
        f"`python -m bench.schedules --fits {fits}`: total mu = 1, intervals bought. Root "
        "mean square distance from the non-private estimate, in units of the one-shot reference. "
        "`worst` is the largest ratio to the best setting of a design.",
        "",
        "| steps, ratio, uniform share | " + " | ".join(table) + " | worst |",
        "|---" * (len(table) + 2) + "|",
    ]
    for i in np.argsort(worst):
        name = "**default**" if SETTINGS[i] is None else ", ".join(map(str, SETTINGS[i]))
        cells = [f"{value:.2f}" for value in ratios[:, i]] + [f"{worst[i]:.2f}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick:
        RESULTS.mkdir(exist_ok=True)
        keep(RESULTS / "schedules.md", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
