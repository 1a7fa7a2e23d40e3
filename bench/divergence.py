"""Does a fit with the defaults ever end further from the truth than its start?

    python -m bench.divergence [--fits 1000]

Designs of bench.coverage (p = 4), n in {500, 1000}, mu in {0.5, 1}, intervals bought.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import dpfast
from bench.coverage import DESIGNS, scale_option, simulate

CELLS = list(itertools.product(DESIGNS, (500, 1000), (0.5, 1.0)))


def run(cell: tuple[str, int, float], fits: int) -> tuple[int, int, float, float]:
    """Fits that end further away than they began, those of them that neither cover nor warn.

    And the mean and worst relative distance.
    """
    design, n, mu = cell
    loss, _, _, _, radius = DESIGNS[design]
    scale = scale_option(design)
    weights = None if radius is None else dpfast.Mallows(radius)
    ratios, silent = [], 0
    for seed in range(fits):
        X, y, truth = simulate(np.random.default_rng([seed, n]), design, n)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective(loss, weights=weights, scale=scale),
            privacy=mu,
            noise=noise,
        )
        ratios.append(float(np.linalg.norm(fit.params[:4] - truth) / np.linalg.norm(truth)))
        low, high = fit.conf_int()[:4].T
        covers = bool(((low <= truth) & (truth <= high)).all())
        silent += ratios[-1] > 1.0 and not covers and not fit.warnings
    return sum(ratio > 1.0 for ratio in ratios), silent, float(np.mean(ratios)), max(ratios)


def main(arguments: list[str] | None = None) -> int:
    """Print the table; the exit code is 1 if any did so silently."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    print(f"{'design':<26} {'n':>5} {'mu':>4}  further away  silent   mean   worst (1 = start)")
    total = 0
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(run, CELLS, [options.fits] * len(CELLS))
        for (design, n, mu), (worse, silent, mean, worst) in zip(CELLS, results, strict=True):
            total += silent
            print(
                f"{design:<26} {n:>5} {mu:>4}  {worse:>12}  {silent:>6}  {mean:.3f}  {worst:.3f}",
                flush=True,
            )
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
