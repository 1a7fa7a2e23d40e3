"""The pool's threads: where they run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from dpfast.kernels import records

TASKS = Path("/proc/self/task")
pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone has affinities"),
    pytest.mark.skipif(not TASKS.exists(), reason="needs /proc"),
]


@pytest.fixture
def allowed():
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("needs two CPUs")
    yield before
    os.sched_setaffinity(0, before)


def helpers_masks():
    """CPUs that each of the pool's threads may run on, after a job that had to wake them."""
    X, y = np.zeros((100_000, 4)), np.zeros(100_000)
    time.sleep(0.02)  # they spin a little before they sleep
    records.RecordKernel(0, 1.0, 1.0, 1, 2.0, False).sums(X, y, np.zeros(4), 3, 1.0, 2)
    tasks = [task for task in TASKS.iterdir() if (task / "comm").read_text().strip() == "dpfast"]
    return [os.sched_getaffinity(int(task.name)) for task in tasks]


def settled(expected):
    """Some job found all of them asleep: on a loaded machine not the first."""
    for _ in range(200):
        masks = helpers_masks()
        if masks and all(expected(mask) for mask in masks):
            return True
    return False


def test_helpers_keep_off_the_callers_cpu(allowed):
    assert settled(lambda mask: mask < allowed and len(mask) == len(allowed) - 1)


def test_helpers_follow_the_caller(allowed):
    for cpus in ({min(allowed)}, {max(allowed)}):
        os.sched_setaffinity(0, cpus)
        assert settled(lambda mask, cpus=cpus: mask == cpus)
    os.sched_setaffinity(0, allowed)
    assert settled(lambda mask: mask < allowed)
