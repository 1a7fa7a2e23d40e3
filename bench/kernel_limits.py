"""Kernels at the machine's limit, on one thread and on two

Logistic loss, Mallows weights.  The limits are measured in alternation with each case: reading the
same X and nothing else (from the cache where it fits), and a compute-bound `dsyrk` of the BLAS on
as many threads.  A fraction compares best rounds, because a neighbour's traffic only ever slows a
round down; one above 1 means that the limit was never measured undisturbed.
References are multiples of our time. They are given the weights of the records, ours computes
them; tabmat's `sandwich` is given the curvature, too; scikit-learn's and glum's Hessians come with
their gradients. "float32" is the same gradient of X stored in single precision (below 1: faster).
JAX's functions are compiled before they are timed, in double precision, on arrays that it holds
already; it uses all CPUs in the rows of one thread, too.

With `--only targets` there are ours and the limits alone, on two threads, for machines whose
neighbours leave few quiet moments: give it `--runs 25`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bench import limits
from bench.harness import one_blas_thread, processor
from bench.kernels import references
from bench.study import Block, study
from bench.table import seconds_text
from dpfast.arguments import Array
from dpfast.kernels import records

FULL = [(1_000, 5), (10_000, 10), (100_000, 10), (1_000_000, 10), (1_000_000, 50), (200_000, 200)]
QUICK = [(1_000, 5), (20_000, 50)]
#: float32 storage is worth a row where X is far larger than the cache.
NARROW = {(1_000_000, 10), (1_000_000, 50), (20_000, 50)}
EVERYTHING = records.GRADIENT | records.HESSIAN | records.MEAT
#: Bytes from which X does not fit the last-level cache of this kind of machine.
BEYOND_CACHE = 64_000_000
#: Seconds between calls on several threads, so that none meets another's spinning threads.
REST = 0.1


class Case(NamedTuple):
    """One row: seconds of the best round, and ratios of best rounds."""

    what: str
    n: int
    p: int
    threads: int
    seconds: float
    reading: float  # fraction of the bandwidth at which this X can be read
    gigabytes: float  # that bandwidth
    dsyrk: float  # fraction of a compute-bound dsyrk; NaN for gradients
    gigaflops: float
    ratios: dict[str, float]  # time of each reference over ours

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.p


def data(n: int, p: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng([n, p])
    X = rng.normal(size=(n, p))
    return X, (rng.random(n) < 0.5).astype(np.float64), rng.normal(size=p) / p**0.5


def _ratio(seconds: dict[str, list[float]], other: str, mine: str = "ours") -> float:
    return min(seconds[other]) / min(seconds[mine])


def measure(
    what: str,
    shape: tuple[int, int],
    threads: int,
    call: Callable[[], object],
    others: dict[str, Callable[[], object]],
    read: limits.Limit | None,
    compute: limits.Limit | None,
    *,
    flops: float,
    stored: float,
    rounds: int,
) -> Case:
    """Time the call, its limits and the others in alternation."""
    calls = {"ours": call, **others}
    if read is not None:
        calls["read"] = read.call
    if compute is not None:
        calls["dsyrk"] = compute.call
    seconds = limits.rounds_of(calls, rounds=rounds, rest=REST if threads > 1 else 0.0)
    nan = float("nan")
    reading = gigabytes = dsyrk = gigaflops = nan
    if read is not None:
        reading = stored / read.work * _ratio(seconds, "read")
        gigabytes = read.work / min(seconds["read"]) / 1e9
    if compute is not None:
        dsyrk = flops / compute.work * _ratio(seconds, "dsyrk")
        gigaflops = compute.work / min(seconds["dsyrk"]) / 1e9
    ratios = {name: _ratio(seconds, name) for name in others}
    return Case(
        what, *shape, threads, min(seconds["ours"]), reading, gigabytes, dsyrk, gigaflops, ratios
    )


def cases(
    shape: tuple[int, int], threads: int, rounds: int, *, alone: bool = False
) -> Iterator[Case]:
    """The rows of one size; `alone` without references."""
    n, p = shape
    X, y, theta = data(n, p)
    kernel = records.RecordKernel(3, 1.0, 1.0, 1, references.RADIUS, False)

    def sums(want: int, entries: Any = X) -> Callable[[], object]:
        return lambda: kernel.sums(entries, y, theta, want, float(n), threads)

    read, compute = limits.reading(X, threads), limits.dsyrk()
    options: dict[str, Any] = {"stored": 8.0 * n * (p + 1), "rounds": rounds}
    gradients = {} if alone else references.gradients(X, y, theta, threads)
    if shape in NARROW:
        gradients["float32"] = sums(records.GRADIENT, X.astype(np.float32))
    yield measure(
        "gradient", shape, threads, sums(records.GRADIENT), gradients, read, None,
        flops=0.0, **options,
    )  # fmt: skip
    yield measure(
        "Hessian", shape, threads, sums(records.HESSIAN),
        {} if alone else references.hessians(X, y, theta, threads), read, compute,
        flops=float(n) * p * (p + 1), **options,
    )  # fmt: skip
    separate = {"Hessian alone": sums(records.HESSIAN), "meat alone": sums(records.MEAT)}
    yield measure(
        "all three", shape, threads, sums(EVERYTHING),
        separate if alone else references.everything(X, y, theta) | separate, read, compute,
        flops=2.0 * n * p * (p + 1), **options,
    )  # fmt: skip


def targets(rows: list[Case]) -> Iterator[Block]:
    """What was aimed at with two threads, where, what was reached, and whether that is enough."""

    def told(where: str, aim: str, reached: str, met: bool) -> Block:
        return {"case": where, "target": aim, "reached": reached, "met": "yes" if met else "NO"}

    def share(where: str, what: str, least: float, reached: float) -> Block:
        return told(where, f">= {least:.2f} of {what}", f"{reached:.2f}", reached >= least)

    for row in rows:
        where, large = f"{row.what}, {row.n:,} x {row.p}", 8 * row.n * row.p > BEYOND_CACHE
        if row.threads != 2:
            continue
        if row.what == "gradient":
            if large or row.shape == (100_000, 10):
                yield share(where, "reading", 0.90 if large else 0.50, row.reading)
            if row.shape == (1_000, 5):
                yield told(where, "<= 4 us", seconds_text(row.seconds), row.seconds <= 4e-6)
        if row.what == "Hessian":
            if row.p >= 50:
                yield share(where, "dsyrk", 0.85 if row.p >= 200 else 0.65, row.dsyrk)
            elif large:
                yield share(where, "reading", 0.60, row.reading)
            if "tabmat" in row.ratios:
                ratio = row.ratios["tabmat"]
                yield told(where, "ahead of tabmat", f"{ratio:.1f}x", ratio > 1.0)
        if row.what == "all three" and row.p >= 50:
            cost = 1.0 / (row.ratios["Hessian alone"] + row.ratios["meat alone"])
            yield told(where, "<= 1.10 of two Grams", f"{cost:.2f}", cost <= 1.10)


NAMES = ("NumPy", "scikit-learn", "glum", "tabmat", "JAX", "float32", "Hessian alone", "meat alone")


def cells_of(row: Case) -> dict[str, Any]:
    """Times of references are multiples of ours."""
    return {
        "sum": row.what, "n": row.n, "p": row.p, "threads": row.threads,
        "time": seconds_text(row.seconds), "GB/s limit": row.gigabytes, "of it": row.reading,
        "GF/s limit": row.gigaflops, "of that": row.dsyrk,
        **{name: f"{row.ratios[name]:.2f}" if name in row.ratios else "-" for name in NAMES},
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    references.load()  # so that their threads can be limited from the first case on
    rows: list[Case] = []
    for shape, threads in product(QUICK if asked.quick else FULL, (1, 2)):
        if threads == 1 and asked.only:
            continue
        with one_blas_thread(threads):
            for case in cases(shape, threads, asked.runs, alone=bool(asked.only)):
                rows.append(case)
                yield cells_of(case)
    yield from targets(rows)
    yield (
        f"{processor()}, {os.cpu_count()} CPUs, {' '.join(records._available_isas())}; load "
        f"average {os.getloadavg()[0]:.2f} at the end (the benchmark itself makes up to 2)."
    )


main = study("limits", measured, __doc__, runs=9, quick=3)
