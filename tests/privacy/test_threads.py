"""Many threads at once, with the GIL and without: no overspending, no noise used twice.

What a lock prevents is made certain to happen without it: the other threads get their turn in the
middle of what has to be one step.  Threads that share a ledger in memory, the bytes of a sampler or
a kernel are in `test_ledger.py`, `test_noise.py` and `kernels/test_records.py`.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator, StepBudget
from dpfast.data import as_records
from dpfast.errors import BudgetExceeded
from dpfast.kernels import acquisition, certificates, keys, linalg, records, sampler
from dpfast.models import LogCosh, Mallows, Objective

pytestmark = pytest.mark.serial

THREADS = 8
gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)


def at_once(work):
    """The results of `work(i)` in as many threads, started together."""
    barrier, results, failures = threading.Barrier(THREADS), [None] * THREADS, []

    def run(i):
        barrier.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return results


@pytest.fixture
def slow_arithmetic(monkeypatch):
    """Between what a ledger computes and what it writes down, everybody else has a turn."""
    compute = dpfast.Ledger._after

    def after(self, spent, charges):
        result = compute(self, spent, charges)
        time.sleep(1e-4)
        return result

    monkeypatch.setattr(dpfast.Ledger, "_after", after)


def test_a_ledger_in_a_file_never_overspends(slow_arithmetic, tmp_path):
    """100 charges fit, and 100 succeed; every other thread has opened the file for itself."""
    shared = dpfast.Ledger.open(tmp_path / "ledger", dpfast.ZCDP(100.0))

    def spend(i):
        ledger = dpfast.Ledger.open(tmp_path / "ledger") if i % 2 else shared
        for count in range(1000):
            try:
                ledger.charge(dpfast.ZCDP(1.0), f"thread {i}")
            except BudgetExceeded:
                return count
        raise AssertionError("no end")

    assert sum(at_once(spend)) == 100
    assert shared.spent == shared.total
    assert len(shared.entries) == 100


def test_a_curator_answers_as_often_as_the_budget_allows(slow_arithmetic):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    objective = Objective(LogCosh(), Mallows(2.0), 2, scale=1.0)
    ledger = dpfast.Ledger(dpfast.GDP(8.01))  # 64 answers at mu = 1, and no more
    curator = Curator(
        as_records(x, x.sum(axis=1)), objective, ledger, dpfast.privacy.EntropyNoise()
    )
    theta, answers = np.zeros(3), []

    def ask(i):
        while True:
            try:
                answers.append(curator.joint(theta, StepBudget(1.0)).gradient.value.tobytes())
            except BudgetExceeded:
                return

    at_once(ask)
    assert len(answers) == len(ledger.entries) == 64
    assert len(set(answers)) == 64  # noise of its own for everyone


def test_random_bytes_are_used_once():
    """Draws that are long enough to overlap where there is no GIL.

    A sampler that lets two threads in hands out bytes that the other has used and erased, which
    it takes for a failure of the entropy source.  Two equal draws have probability below 2^-10000.
    """
    source = dpfast.privacy.EntropyNoise()
    drawn = at_once(lambda i: [source.normals(2000, 44).tobytes() for _ in range(50)])
    assert len({row for rows in drawn for row in rows}) == 50 * THREADS


def test_random_bytes_are_used_once_while_they_run_out():
    """The supplier lets others go ahead, so that several threads refill at once.

    Two equal draws of 400 normals to 44 bits have probability below 2^-10000.
    """

    def supply(count):
        time.sleep(1e-4)
        return os.urandom(count)

    shared = sampler.ExactSampler(supply)
    drawn = at_once(lambda i: [shared.normals(400, 44).tobytes() for _ in range(20)])
    assert len({row for rows in drawn for row in rows}) == 20 * THREADS


def test_fits_in_threads_are_those_of_one_thread():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    y = x.sum(axis=1) + rng.normal(size=500)

    def fit(i):
        noise = dpfast.SeededNoise(i)
        found = dpfast.fit(x, y, dpfast.Objective("log-cosh", scale=1.0), privacy=1.0, noise=noise)
        return found.params.tobytes() + found.bse.tobytes()

    assert at_once(fit) == [fit(i) for i in range(THREADS)]


@pytest.mark.skipif(gil_enabled(), reason="this interpreter has a GIL, and it is on")
def test_the_extensions_leave_the_gil_off():
    assert [acquisition, certificates, keys, linalg, records, sampler]
    assert not gil_enabled()
