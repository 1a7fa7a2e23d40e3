"""Number of threads of this process, by its environment or its control group's quota."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from dpfast.errors import InvalidInput, described

#: The environment variable that says how many threads a sum takes if its caller does not.
VARIABLE = "DPFAST_NUM_THREADS"

#: Beyond this a number of threads is a mistake, and near it none of C's integers overflows.
MOST_THREADS = 65_536


def asked_threads() -> int:
    """Read the number of threads of the environment variable; 0 if it is not set."""
    text = os.environ.get(VARIABLE, "")
    return int(text) if _well_formed(text) else 0


def refuse_malformed() -> None:
    """Refuse an environment variable that does not give a number of threads."""
    text = os.environ.get(VARIABLE, "")
    if text and not _well_formed(text):
        raise InvalidInput(
            f"the environment variable {VARIABLE} must be a whole number from 1 to {MOST_THREADS}, "
            f"or not set; received {described(text, text=True)}."
        )


def _well_formed(text: str) -> bool:
    digits = text.isascii() and text.isdigit() and len(text) < 9
    return digits and 1 <= int(text) <= MOST_THREADS


def quota_threads(root: str = "/") -> int:
    """Read the CPU quota of this process's control groups, rounded up; 0 without a limit."""
    limits = [limit for folder in _groups(root) if (limit := _limit(folder)) > 0.0]
    return math.ceil(min(limits)) if min(limits, default=math.inf) <= MOST_THREADS else 0


def _groups(root: str) -> Iterator[str]:
    """Yield folders that may hold a limit of this process, innermost first."""
    for line in _text(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        names = path.strip("/").split("/")
        for mount in {controllers, "cpu"} if controllers else {"", "unified"}:
            for depth in range(len(names), -1, -1):
                yield os.path.join(root, "sys/fs/cgroup", mount, *names[:depth])


def _limit(folder: str) -> float:
    """Read the CPU quota of one group; 0 if there is none or it cannot be read."""
    quota, period = (*_text(os.path.join(folder, "cpu.max")).split(), "", "")[:2]
    if not quota:
        quota = _text(os.path.join(folder, "cpu.cfs_quota_us"))
        period = _text(os.path.join(folder, "cpu.cfs_period_us"))
    try:
        return float(quota) / float(period)  # "max", -1: without a limit
    except (ValueError, ZeroDivisionError):
        return 0.0


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
