"""What ``dpfast bench`` prints and writes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from statistics import mean, median, quantiles, stdev
from typing import TYPE_CHECKING, Any

import dpfast

if TYPE_CHECKING:
    from dpfast.cli.bench import Measured, Target

#: One thread for every library; they are read when a library is loaded.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DPFAST_NUM_THREADS"), "1"
)


def in_one_thread(options: list[str]) -> int | None:
    """Run this command again with one thread for each library; None if it has one already."""
    if all(os.environ.get(name) == count for name, count in ONE_THREAD.items()):
        return None
    command = [sys.executable, "-m", "dpfast", "bench", *options]
    return subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode


def time_text(seconds: float) -> str:
    """Write seconds with three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def is_met(found: Measured, target: Target) -> bool | None:
    """Tell whether a target is met; None where its peer is not installed."""
    least = {name: min(seconds) for name, seconds in found.seconds.items()}
    if target.peer and target.peer not in least:
        return None
    limit = target.limit * least[target.peer] if target.peer else target.limit
    return least["dpfast"] <= limit


def target_text(found: Measured, target: Target) -> str:
    """Write a target and whether it is met."""
    what = f"{target.limit:g} x {target.peer}" if target.peer else time_text(target.limit)
    met = {True: "met", False: "NOT met", None: "not installed"}[is_met(found, target)]
    return f"<= {what}: {met}"


def row(found: Measured) -> str:
    """Write one case: our time, the peers' times and the targets."""
    least = {name: min(seconds) for name, seconds in found.seconds.items()}
    ours = least.pop("dpfast")
    peers = ", ".join(f"{name} {time_text(seconds)}" for name, seconds in least.items())
    memory = "" if found.memory is None else f"{found.memory:.2f} X"
    targets = "; ".join(target_text(found, target) for target in found.case.targets)
    return f"{found.case.name:34} {time_text(ours):>9} {memory:>8}  {peers}  [{targets}]"


def last_line(found: list[Measured]) -> str:
    """Count the targets that are met."""
    met = [is_met(one, target) for one in found for target in one.case.targets]
    counted = [one for one in met if one is not None]
    missing = f"; {met.count(None)} need a peer that is not installed" if None in met else ""
    return f"{sum(counted)} of {len(counted)} targets met{missing}"


def statistics(seconds: list[float]) -> dict[str, Any]:
    """Compute the statistics of pytest-benchmark."""
    low, middle, high = quantiles(seconds, n=4)
    return {
        "min": min(seconds),
        "max": max(seconds),
        "mean": mean(seconds),
        "stddev": stdev(seconds),
        "rounds": len(seconds),
        "median": median(seconds),
        "iqr": high - low,
        "q1": low,
        "q3": high,
        "iqr_outliers": 0,
        "stddev_outliers": 0,
        "outliers": "0;0",
        "ld15iqr": min(seconds),
        "hd15iqr": max(seconds),
        "ops": 1.0 / middle,
        "total": sum(seconds),
        "iterations": 1,
        "data": seconds,
    }


def document(found: list[Measured]) -> dict[str, Any]:
    """Make the document that ``pytest-benchmark compare`` reads."""
    rows = [
        {
            "group": one.case.group,
            "name": f"{one.case.name} [{name}]",
            "fullname": f"dpfast bench::{one.case.group}::{one.case.name}[{name}]",
            "params": None,
            "param": name,
            "extra_info": {"memory_over_x": one.memory} if name == "dpfast" else {},
            "options": {"timer": "process_time"},
            "stats": statistics(seconds),
        }
        for one in found
        for name, seconds in one.seconds.items()
    ]
    machine = {"machine": platform.machine(), "processor": platform.processor()}
    versions = {"python_version": platform.python_version(), "dpfast": dpfast.__version__}
    return {
        "machine_info": {**machine, **versions},
        "commit_info": {},
        "benchmarks": rows,
        "datetime": datetime.now(UTC).isoformat(),
        "version": "5.0.0",
    }
