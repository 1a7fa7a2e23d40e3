"""What the cases share: interleaved comparison, and one row of the table per case.

Timings on a shared machine drift by more than the differences of interest.  A function and its
reference are therefore measured in alternation, in one process, and only their ratio is quoted.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

Call = Callable[[], object]


def is_quick() -> bool:
    """Whether ``python -m bench --quick`` asked for small sizes."""
    return os.environ.get("DPFAST_BENCH_QUICK") == "1"


def processor() -> str:
    """Architecture and, where the system tells, the name of the processor."""
    try:
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    name = next((line for line in told.splitlines() if line.startswith("model name")), "")
    return f"{platform.machine()}, {name.partition(':')[2].strip() or 'unknown'}"


def one_blas_thread(threads: int = 1) -> AbstractContextManager[object]:
    """Limit the threads of BLAS and OpenMP, where threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limiter: AbstractContextManager[object] = threadpool_limits(limits=threads)
    return limiter


def interleaved(
    calls: dict[str, Call],
    *,
    rounds: int = 7,
    budget: float = 2e-3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each call, measured in alternation.

    Parameters
    ----------
    calls : dict of str to callable
    rounds : int
        How often each is measured.
    budget : float
        A call shorter than this is repeated within one measurement until it takes that long.
    clock : callable
        ``time.process_time`` for cases on one thread: other programs then cost nothing.
    """
    repeats = {}
    for name, call in calls.items():
        start = clock()
        call()  # warm: imports, caches, lazily created thread pools
        seconds = clock() - start
        if seconds < 100 * budget:  # short: the first call says little
            start = clock()
            call()
            seconds = clock() - start
        repeats[name] = max(1, int(budget / max(seconds, 1e-9)))
    measured: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            times = range(repeats[name])
            start = clock()
            for _ in times:
                call()
            measured[name].append((clock() - start) / repeats[name])
    return {name: median(values) for name, values in measured.items()}


def compare(
    benchmark: Any,
    function: Call,
    *,
    case: str,
    n: int | None = None,
    p: int | None = None,
    reference: Call | None = None,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
    **extra: object,
) -> dict[str, float]:
    """Measure `function`, against `reference` if there is one, and fill the row of the table.

    `extra` may hold the remaining columns: ``limit``, ``fraction``, ``accuracy``.
    """
    calls = {"function": function}
    if reference is not None:
        calls["reference"] = reference
    medians = interleaved(calls, rounds=rounds, clock=clock)
    # pytest-benchmark keeps its own rounds of the function, for `pytest-benchmark compare`.
    iterations = max(1, int(2e-3 / max(medians["function"], 1e-9)))
    benchmark.pedantic(function, rounds=rounds, iterations=iterations)
    info = {"case": case, "n": n, "p": p, "seconds": medians["function"], **extra}
    if reference is not None:
        info["reference_seconds"] = medians["reference"]
        info["speedup"] = medians["reference"] / medians["function"]
    benchmark.extra_info.update({key: value for key, value in info.items() if value is not None})
    return medians
