"""Which instruction set the record kernels should take on this processor

Gigabytes of X a second of CPU time, one thread, logistic loss, Mallows weights.  Each sum is of a
piece of 4 MB of a table far larger than the last cache.  The instruction sets and a probe that
reads the same and nothing else take turns on pieces far from one another.  Short calls, so that
programs beside it cost little; the best twentieth is told.  "Fastest" names the instruction set,
and the last column its share of the probe.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from bench import limits
from bench.harness import processor
from bench.kernel_limits import data
from bench.kernels import references
from bench.study import Block, study
from dpfast.kernels import records

SHAPES = [(1_000_000, 10), (1_000_000, 20), (600_000, 50), (200_000, 200)]
SUMS = {"gradient": records.GRADIENT, "Hessian": records.HESSIAN}
PIECE = 4_000_000
PROBE = "read"
Piece = Callable[[slice], object]


def pieces(n: int, p: int) -> list[slice]:
    """Rows of each piece, in whole blocks of any plan."""
    rows = max(128, PIECE // (8 * p) // 128 * 128)
    return [slice(first, first + rows) for first in range(0, n - rows + 1, rows)]


def best_seconds(calls: dict[str, Piece], parts: list[slice], rounds: int) -> dict[str, float]:
    """Return the twentieth quantile of the CPU seconds of a piece, for each call in turn."""
    seconds: dict[str, list[int]] = {name: [] for name in calls}
    apart = len(parts) // len(calls)
    for first in range(rounds * len(parts)):
        for turn, (name, call) in enumerate(calls.items()):
            part = parts[(first + turn * apart) % len(parts)]
            start = time.thread_time_ns()
            call(part)
            seconds[name].append(time.thread_time_ns() - start)
    return {name: float(np.quantile(found, 0.05)) / 1e9 for name, found in seconds.items()}


def measured(shape: tuple[int, int], rounds: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Name each sum of one size, with the gigabytes a second of every instruction set."""
    X, y, theta = data(*shape)
    kernel = records.RecordKernel(3, 1.0, 1.0, 1, references.RADIUS, False)

    def read(part: slice) -> object:
        return probes[part.start]()

    def sums(isa: str, want: int) -> Piece:
        def call(part: slice) -> object:
            records._set_isa(isa)
            return kernel.sums(X[part], y[part], theta, want, float(part.stop - part.start), 1)

        return call

    parts = pieces(*shape)
    probes = {part.start: probe.call for part in parts if (probe := limits.reading(X[part], 1, 1))}
    if not probes:
        raise SystemExit("the probe needs a C compiler: set CC")
    for what, want in SUMS.items():
        calls: dict[str, Piece] = {isa: sums(isa, want) for isa in records._available_isas()}
        found = best_seconds({**calls, PROBE: read}, parts, rounds)
        yield what, {name: X[parts[0]].nbytes / value / 1e9 for name, value in found.items()}
    records._set_isa("")


def compared(asked: argparse.Namespace) -> Iterator[Block]:
    yield f"{processor()}. The library takes the first one of the columns."
    for n, p in SHAPES[: 1 if asked.quick else None]:
        for what, found in measured((n, p), asked.runs):
            best = max(records._available_isas(), key=lambda isa: found[isa])
            rates = {name: f"{rate:.1f}" for name, rate in found.items()}
            yield {"sum": what, "n": n, "p": p, **rates, "fastest": best,
                   "of reading": f"{found[best] / found[PROBE]:.2f}"}  # fmt: skip


main = study("kernels-zen4", compared, __doc__, runs=3)
