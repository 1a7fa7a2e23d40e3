"""Many small fits on one thread, on several threads and in as many processes

On a free-threaded interpreter compare with `PYTHON_GIL=1`.  All three are measured in alternation;
what is printed is fits per second (medians) and how many times one thread that is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from statistics import median

import numpy as np

import dpfast
from bench.study import Block, study

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1000, 4))
Y = X.sum(axis=1) + RNG.normal(size=len(X))


def fits(count: int) -> None:
    """Private fits with intervals; noise of their own."""
    objective = dpfast.Objective("log-cosh", scale=1.0)
    for _ in range(count):
        dpfast.fit(dpfast.records(X, Y, threads=1), None, objective, privacy=1.0)


def rate(pool: Executor, workers: int, count: int) -> float:
    start = time.perf_counter()
    list(pool.map(fits, [count // workers] * workers))
    return count / (time.perf_counter() - start)


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    several = asked.threads
    spawn = multiprocessing.get_context("spawn")
    with (
        ThreadPoolExecutor(1) as one,
        ThreadPoolExecutor(several) as threads,
        ProcessPoolExecutor(several, spawn) as processes,
    ):
        ways = {
            "1 thread": (one, 1),
            f"{several} threads": (threads, several),
            f"{several} processes": (processes, several),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for k in range(1 + asked.runs):  # the first is not counted
            for name, way in ways.items():
                found[name] += [rate(*way, 20 if asked.quick or not k else 200)] * (k > 0)
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    yield f"Python {sys.version.split()[0]}, GIL {'on' if gil else 'off'}; n = {len(X)}, p = 5"
    for name, rates in found.items():
        base = median(found["1 thread"])
        yield {"": name, "fits/s": round(median(rates)), "times": median(rates) / base}


main = study("threads", measured, __doc__, runs=9, threads=2)
