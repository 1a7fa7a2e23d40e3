"""Double-noise Newton beside noisy Newton and gradient descent, as p grows.

    python -m bench.double_noise [--fits 20] [--quick]

Root mean square distance of the private estimate from the non-private one, total mu = 1 without
intervals, relative to the one-shot reference ``(2B/(n mu)) ||H^-1||_F``.  Each p at the number of
records at which the noise of a Hessian, ``2 p^1.5/(n mu)``, is 0.05, 0.2 and 0.8 of the curvature
of p equally strong directions.  The last column is double noise with the best of five dampings for
the cell, which nobody knows in advance.  Stored as ``bench/results/double_noise.md``.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import dpfast
from bench.provenance import keep
from dpfast.models import Mallows, Objective, resolve_loss

RESULTS = Path(__file__).parent / "results"
LEVELS = (0.05, 0.2, 0.8)
CELLS = [
    (p, level, correlation)
    for p, level, correlation in itertools.product((4, 20, 50, 100), LEVELS, (0.0, 0.8))
]
DAMPINGS = (0.5, 1.0, 2.0, 4.0, 8.0)  # times Bbar/p

METHODS = {
    "Newton": "newton",
    "gradient descent, estimated step": dpfast.optimize.GradientDescent(step_size="estimated"),
    "gradient descent, public step": "gradient-descent",
    "double noise": "double-noise",
}


def simulate(p: int, n: int, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, p, n])
    X = rng.normal(size=(n, p - 1))
    if correlation:
        lags = np.abs(np.subtract.outer(np.arange(p - 1), np.arange(p - 1)))
        X = X @ np.linalg.cholesky(correlation**lags).T
    return X, 0.5 + X @ np.where(np.arange(p - 1) % 2, -0.5, 0.5) + rng.normal(size=n)


def run(cell: tuple[int, float, float], fits: int) -> dict[str, float]:
    """Root mean squares of one cell, in units of the one-shot reference."""
    p, level, correlation = cell
    n = round(2.0 * p**1.5 / level)
    objective = Objective(resolve_loss("log-cosh"), Mallows(p**0.5), p - 1, scale=1.0)
    methods = dict(METHODS)
    for factor in DAMPINGS:
        damping = factor * objective.curvature_bound / p
        methods[f"damping {factor:g} Bbar/p"] = dpfast.optimize.DoubleNoise(damping=damping)
    squares: dict[str, list[float]] = {name: [] for name in [*methods, "start"]}
    for seed in range(max(2, round(fits * min(1.0, 20.0 / p)))):
        X, y = simulate(p, n, correlation, seed)
        plain = dpfast.nonprivate_fit(
            X, y, dpfast.Objective("log-cosh", weights=dpfast.Mallows(p**0.5), scale=1.0)
        )
        A = np.column_stack([np.ones(n), X])
        weight = np.minimum(1.0, p / (A**2).sum(axis=1))
        curvature = weight * objective.loss.psi_prime(y - A @ plain.params)
        inverse = np.linalg.inv((A.T * curvature) @ A / n)
        reference = 2.0 * objective.score_bound / n * np.linalg.norm(inverse)
        squares["start"].append(float((plain.params**2).sum()) / reference**2)
        for name, method in methods.items():
            fit = dpfast.fit(
                dpfast.records(X, y, threads=1),
                None,
                dpfast.Objective("log-cosh", scale=1.0),
                privacy=1.0,
                method=method,
                inference=False,
                noise=dpfast.SeededNoise(seed),
            )
            squares[name].append(float(((fit.params - plain.params) ** 2).sum()) / reference**2)
    return {name: float(np.mean(values)) ** 0.5 for name, values in squares.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="2 fits, p <= 20, nothing stored")
    options = parser.parse_args(arguments)
    fits = 2 if options.quick else options.fits
    cells = [cell for cell in CELLS if cell[0] <= 20 or not options.quick]
    lines = [
        "# Double noise",
        "",
        f"`python -m bench.double_noise`, {fits} fits a cell (fewer above p = 20), total mu = 1, "
        "no intervals. Root mean square distance from the non-private estimate in units of the "
        "one-shot reference; `start` is the distance of the starting point.",
        "",
        "| p | n | correlation | "
        + " | ".join(METHODS)
        + " | double noise, best damping | start |",
        "|---" * (len(METHODS) + 5) + "|",
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        for cell, row in zip(cells, pool.map(run, cells, [fits] * len(cells)), strict=True):
            best = min(row[f"damping {factor:g} Bbar/p"] for factor in DAMPINGS)
            values = [row[name] for name in METHODS] + [best, row["start"]]
            p, level, correlation = cell
            texts = [str(p), str(round(2.0 * p**1.5 / level)), f"{correlation:g}"]
            texts += [f"{value:.2f}" for value in values]
            lines.append("| " + " | ".join(texts) + " |")
            print(lines[-1], file=sys.stderr, flush=True)
    text = "\n".join(lines) + "\n"
    print(text)
    if not options.quick:
        keep(RESULTS / "double_noise.md", text, __file__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
