"""Many small fits on one thread, on several threads and in as many processes.

    python -m bench.threads [--threads 2] [--fits 200]

On a free-threaded interpreter compare with `PYTHON_GIL=1`.  All three are measured in alternation;
what is printed is fits per second (medians) and how many times one thread that is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from statistics import median

import numpy as np

import dpfast

N, P = 1000, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, P - 1))
Y = X.sum(axis=1) + RNG.normal(size=N)


def fits(count: int) -> float:
    """Private Newton fits with intervals; noise of their own."""
    last = 0.0
    for _ in range(count):
        last = float(
            dpfast.fit(
                dpfast.records(X, Y, threads=1),
                None,
                dpfast.Objective("log-cosh", scale=1.0),
                privacy=1.0,
            ).params[0]
        )
    return last


def rate(pool: Executor, workers: int, count: int) -> float:
    start = time.perf_counter()
    list(pool.map(fits, [count // workers] * workers))
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    chosen = parser.parse_args()
    several = chosen.threads
    with (
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(several) as threads,
        ProcessPoolExecutor(several, multiprocessing.get_context("spawn")) as processes,
    ):
        ways = {
            "1 thread": (one, 1),
            f"{several} threads": (threads, several),
            f"{several} processes": (processes, several),
        }
        for pool, workers in ways.values():
            rate(pool, workers, several)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(chosen.rounds):
            for name, (pool, workers) in ways.items():
                found[name].append(rate(pool, workers, chosen.fits))
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, GIL {'on' if gil else 'off'}; n = {N}, p = {P}")
    base = median(found["1 thread"])
    for name, rates in found.items():
        print(f"{name:12} {median(rates):7.0f} fits/s  {median(rates) / base:5.2f}x")


if __name__ == "__main__":
    main()
