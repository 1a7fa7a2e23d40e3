"""What this machine can do at best, to be measured in alternation with the cases held against it.

Neighbours on the same memory controller move the read bandwidth by a factor of two within
seconds, so a limit measured once at the start says little.  Each case therefore times its limit
next to itself, and the fraction compares the best round of each.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

Call = Callable[[], object]
SOURCE = Path(__file__).with_name("kernels") / "stream_read.c"


class Timing(NamedTuple):
    """Seconds of one call."""

    median: float
    best: float


def rounds_of(
    calls: dict[str, Call], *, rounds: int, budget: float = 2e-3, rest: float = 0.0
) -> dict[str, list[float]]:
    """Seconds of each call in each round, in alternation.

    A call shorter than `budget` is repeated within a round.  With a `rest` (seconds) every call has
    the machine to itself: the threads of a BLAS go on spinning after its last call (OpenBLAS's were
    found to take a core from whatever came within 40 ms, and no longer within 100).
    """
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(budget / max(time.perf_counter() - start, 1e-9)))
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            if rest:
                time.sleep(rest)
                call()  # wakes its threads
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            seconds[name].append((time.perf_counter() - start) / repeats[name])
    return seconds


def timings(calls: dict[str, Call], *, rounds: int, budget: float = 2e-3) -> dict[str, Timing]:
    """Medians and best rounds of the calls, timed in alternation."""
    seconds = rounds_of(calls, rounds=rounds, budget=budget)
    return {name: Timing(median(values), min(values)) for name, values in seconds.items()}


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    """Compile the reading loop; None on a machine without a C compiler."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    folder = tempfile.mkdtemp(prefix="dpfast-bench-")
    target = Path(folder) / "stream_read.so"
    command = [*shlex.split(compiler), "-O3", "-march=native", "-shared", "-fPIC", "-pthread"]
    try:
        subprocess.run([*command, str(SOURCE), "-o", str(target)], check=True, capture_output=True)
        library = ctypes.CDLL(str(target))
    except (OSError, subprocess.CalledProcessError):
        return None
    library.stream_read.restype = ctypes.c_double
    library.stream_read.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_size_t,
    ]
    return library


class Limit(NamedTuple):
    """Something the machine does as fast as it can, and how much of it one call does."""

    call: Call
    work: float


def reading(array: NDArray[np.float64], threads: int, passes: int | None = None) -> Limit | None:
    """Reading a C-contiguous array and nothing else; work in bytes.

    A small array is read again and again from the cache, so that starting the threads costs
    nothing, unless `passes` says how often.
    """
    library = _library()
    if library is None:
        return None
    address = array.ctypes.data
    skipped = (-address) % 64
    count = array.size - skipped // 8
    passes = passes or max(1, 32_000_000 // (8 * count))
    return Limit(
        lambda: library.stream_read(address + skipped, count, threads, passes),
        8.0 * count * passes,
    )


@lru_cache(maxsize=1)
def _square() -> NDArray[np.float64]:
    return np.asfortranarray(np.random.default_rng(0).normal(size=(900, 900)))


def dsyrk() -> Limit:
    """A compute-bound symmetric product of the BLAS, with as many threads as it likes.

    Work in floating-point operations, two for each entry of the lower triangle.
    """
    square = _square()
    n = len(square)
    return Limit(lambda: blas.dsyrk(1.0, square), float(n) * n * (n + 1))
