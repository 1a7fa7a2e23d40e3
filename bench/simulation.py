"""Ten thousand simulated fits with intervals, on two processes: what a Monte Carlo study costs.

python -m bench.simulation [--fits 10000] [--processes 2]

Figure 5's design of Avella-Medina et al. (2023): n = 1000, three covariates and an intercept, the
default method, intervals included, seeded noise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import dpfast


def study(first: int, last: int) -> tuple[float, float]:
    """Coverage of the slopes, and the seconds the fits took (data generation left out)."""
    covered, seconds = 0, 0.0
    truth = np.array([1.0, 1.0, 1.0, 1.0])
    for seed in range(first, last):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 3))
        y = truth[0] + X @ truth[1:] + 2.0 * rng.normal(size=1000)
        start = time.perf_counter()
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective("log-cosh", scale=2.0),
            privacy=1.0,
            noise=noise,
        )
        low, high = fit.conf_int().T
        seconds += time.perf_counter() - start
        covered += int(((low <= truth) & (truth <= high))[1:].sum())
    return covered / (3.0 * (last - first)), seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--fits", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args(argv)
    edges = np.linspace(0, arguments.fits, arguments.processes + 1).astype(int)
    start = time.perf_counter()
    with ProcessPoolExecutor(arguments.processes, mp_context=get_context("spawn")) as pool:
        parts = list(pool.map(study, edges[:-1], edges[1:]))
    seconds = time.perf_counter() - start
    coverage = np.mean([part[0] for part in parts])
    inside = sum(part[1] for part in parts)
    print(
        f"{arguments.fits} fits with intervals, {arguments.processes} processes: {seconds:.1f} s "
        f"(start-up and data included), {1e6 * inside / arguments.fits:.0f} us a fit; "
        f"coverage of the slopes {coverage:.4f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
