"""The record kernels against the limits of this machine, on one thread and on two.

    python -m bench limits               print the table
    python -m bench limits --store       and write it to bench/results/kernels.md
    python -m bench limits --targets     ours and the limits alone, two threads, many rounds: for a
                                         machine whose neighbours leave it few quiet moments

Every case is measured in alternation with its limit and with the references, on the same data:
logistic loss, Mallows weights.  Ratios compare the best round of each: a neighbour's traffic only
ever slows a round down.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench import limits
from bench.harness import processor
from bench.kernels import references
from bench.stored import keep
from bench.table import seconds_text
from dpfast.kernels import records

Array = NDArray[np.float64]
STORED = Path(__file__).with_name("results") / "kernels.md"

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


def targets(rows: list[Case]) -> Iterator[tuple[str, str, str, bool]]:
    """What was aimed at with two threads, where, what was reached, and whether that is enough."""
    for row in rows:
        if row.threads != 2:
            continue
        where = f"{row.what}, {row.n:,} x {row.p}"
        if row.what == "gradient":
            if 8 * row.n * row.p > BEYOND_CACHE:
                yield where, ">= 0.90 of reading", f"{row.reading:.2f}", row.reading >= 0.90
            if row.shape == (100_000, 10):
                yield where, ">= 0.50 of reading", f"{row.reading:.2f}", row.reading >= 0.50
            if row.shape == (1_000, 5):
                yield where, "<= 4 us", seconds_text(row.seconds), row.seconds <= 4e-6
        if row.what == "Hessian":
            if row.p >= 50:
                aim = 0.85 if row.p >= 200 else 0.65
                yield where, f">= {aim:.2f} of dsyrk", f"{row.dsyrk:.2f}", row.dsyrk >= aim
            elif 8 * row.n * row.p > BEYOND_CACHE:
                yield where, ">= 0.60 of reading", f"{row.reading:.2f}", row.reading >= 0.60
            if "tabmat" in row.ratios:
                ratio = row.ratios["tabmat"]
                yield where, "ahead of tabmat", f"{ratio:.1f}x", ratio > 1.0
        if row.what == "all three" and row.p >= 50:
            cost = 1.0 / (row.ratios["Hessian alone"] + row.ratios["meat alone"])
            yield where, "<= 1.10 of two Grams", f"{cost:.2f}", cost <= 1.10


def _number(value: float, digits: str) -> str:
    return "-" if value != value else format(value, digits)


def table(rows: list[Case]) -> str:
    """Markdown; times of references are multiples of ours."""
    names = ["NumPy", "scikit-learn", "glum", "tabmat", "JAX", "float32"]
    names += ["Hessian alone", "meat alone"]
    head = ["sum", "n", "p", "threads", "time", "GB/s limit", "of it", "GF/s limit", "of it"]
    head += names
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for row in rows:
        cells = [
            row.what, f"{row.n:,}", str(row.p), str(row.threads), seconds_text(row.seconds),
            _number(row.gigabytes, ".0f"), _number(row.reading, ".2f"),
            _number(row.gigaflops, ".0f"), _number(row.dsyrk, ".2f"),
        ]  # fmt: skip
        cells += [f"{row.ratios[name]:.2f}" if name in row.ratios else "-" for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def target_table(rows: list[Case]) -> str:
    lines = ["| case | target | reached | met |", "|---|---|--:|---|"]
    lines += [
        f"| {where} | {aim} | {reached} | {'yes' if met else 'NO'} |"
        for where, aim, reached, met in targets(rows)
    ]
    return "\n".join(lines)


def page(rows: list[Case], loads: tuple[float, float]) -> str:
    return f"""# Kernels at the machine's limit

`python -m bench limits --store`. Logistic loss, Mallows weights, best rounds; {processor()},
{os.cpu_count()} CPUs, {" ".join(records._available_isas())}; load average {loads[0]:.2f} before and
{loads[1]:.2f} after (the benchmark itself makes up to 2).

The limits are measured in alternation with each case: reading the same X and nothing else (from
the cache where it fits), and a compute-bound `dsyrk` of the BLAS on as many threads. A fraction
compares best rounds; one above 1 means that the limit was never measured undisturbed.
References are multiples of our time. They are given the weights of the records, ours computes
them; tabmat's `sandwich` is given the curvature, too; scikit-learn's and glum's Hessians come with
their gradients. "float32" is the same gradient of X stored in single precision (below 1: faster).
JAX's functions are compiled before they are timed, in double precision, on arrays that it holds
already; it uses all CPUs in the rows of one thread, too.

## Targets (two threads)

{target_table(rows)}

## Measured

{table(rows)}
"""


def _blas_threads(threads: int) -> AbstractContextManager[object]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limiter: AbstractContextManager[object] = threadpool_limits(limits=threads)
    return limiter


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench limits", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--store", action="store_true", help=f"write {STORED.name}")
    parser.add_argument("--targets", action="store_true", help="ours and the limits alone")
    parser.add_argument("--rounds", type=int, help="default 9; with --targets 25, with --quick 3")
    arguments = parser.parse_args(argv)
    usual = 3 if arguments.quick else 25 if arguments.targets else 9
    rounds = usual if arguments.rounds is None else arguments.rounds
    if arguments.targets and arguments.store:
        parser.error("--store keeps the whole table: leave out --targets.")
    references.load()  # so that their threads can be limited from the first case on
    before = os.getloadavg()[0]
    rows: list[Case] = []
    for shape in QUICK if arguments.quick else FULL:
        for threads in (2,) if arguments.targets else (1, 2):
            with _blas_threads(threads):
                for case in cases(shape, threads, rounds, alone=arguments.targets):
                    rows.append(case)
                    print(table([case]).splitlines()[-1], flush=True)
    if arguments.targets:
        print(target_table(rows))
        return 0
    text = page(rows, (before, os.getloadavg()[0]))
    print(text)
    if arguments.store:
        keep(STORED, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
