"""Claim C48: what was paid for as a whole is answered once, by threads, copies and forks."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dpfast
from dpfast.curator import Curator
from dpfast.curator.release.kinds import Kind
from dpfast.curator.release.projection import projected
from dpfast.curator.release.releases import CertifiedRelease
from dpfast.curator.release.terms import Terms
from dpfast.data import as_records
from dpfast.errors import LedgerClosed
from dpfast.models import Bounded, Box, LogCosh, Objective
from dpfast.privacy.ledger.paid import ChargedAnswers

BUDGET = dpfast.ApproxDP(2.0, 1e-6)


def records(n=60):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(n, 2))
    return as_records(X, X @ [1.0, -0.5] + rng.laplace(size=n))


def certified():
    """One certificate, and how it is asked for."""
    domain = Box(1.0).bind(2)
    objective = Objective(
        LogCosh(2.0), Bounded(domain.radius * (1 + 1e-12)), 2, fit_intercept=False, scale=1.0
    )
    terms = Terms("parameter", 4.0, 1e-6, 1.0, 4e-7)
    keeper = Curator(
        projected(records(), domain),
        objective,
        dpfast.Ledger(terms.budget),
        dpfast.SeededNoise(0),
    )
    kind = Kind(keeper, domain)
    return CertifiedRelease(keeper, terms, kind), lambda paid: paid.certificate()


def by_itself():
    """The mechanism without a curator."""
    return ChargedAnswers(["answer"], "one was paid for."), lambda paid: paid._take("answer")


KINDS = pytest.mark.parametrize("make", [by_itself, certified])


@KINDS
def test_c48_an_answer_is_given_once(make):
    paid, ask = make()
    ask(paid)
    with pytest.raises(dpfast.BudgetExceeded, match="Nothing was spent"):
        ask(paid)


@KINDS
@pytest.mark.parametrize("asked", [False, True])
def test_c48_a_copy_never_answers(make, asked):
    """Whether the original answered before or not."""
    paid, ask = make()
    if asked:
        ask(paid)
    for twin in (
        lambda: copy.copy(paid),
        lambda: copy.deepcopy(paid),
        lambda: copy.deepcopy([paid])[0],
        lambda: pickle.loads(pickle.dumps(paid)),
        lambda: pickle.loads(pickle.dumps(paid, protocol=0)),
    ):
        with pytest.raises(LedgerClosed, match="copied or pickled"):
            ask(twin())
    if not asked:
        ask(paid)  # the original can, still


@pytest.mark.serial
@KINDS
def test_c48_a_forked_child_never_answers(make):
    paid, ask = make()
    with paid._answering:  # a lock that a thread of the parent holds must not stop the child
        child = os.fork()
        if child == 0:
            signal.alarm(120)  # ends a child that waits for the lock
            code = 1
            try:
                ask(paid)
            except LedgerClosed:
                code = 0
            finally:
                os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ask(paid)


class Slow(Counter):
    """Gives other threads time between the question and the mark."""

    def __getitem__(self, key):
        found = super().__getitem__(key)
        time.sleep(0.02)
        return found


@pytest.mark.serial
@KINDS
def test_c48_threads_get_one_answer_together(make):
    paid, ask = make()
    paid._left = Slow(paid._left)

    def attempt(_):
        try:
            ask(paid)
        except dpfast.BudgetExceeded:
            return 0
        return 1

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(4))) == 1


def test_c48_what_could_not_be_paid_for_answers_nothing():
    """An object whose opening was refused: not even through the back door."""
    opened, ask = certified()
    opened._curator.ledger.charge(opened._curator.ledger.remaining, "the rest")
    paid = CertifiedRelease.__new__(CertifiedRelease)
    with pytest.raises(dpfast.BudgetExceeded):
        paid.__init__(opened._curator, opened.terms, opened.kind)
    with pytest.raises(AttributeError):
        ask(paid)
