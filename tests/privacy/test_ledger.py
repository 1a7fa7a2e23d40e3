"""The ledger in memory: claims C9 (composition) and C10 (exact arithmetic, copies) of PROOFS.md."""

from __future__ import annotations

import copy
import math
import os
import pickle
import signal
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.errors import (
    BudgetExceeded,
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    UnsupportedConversion,
)
from dpfast.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.privacy.budget import amount
from dpfast.privacy.ledger import ONE
from tests.loops import each

positive = st.floats(min_value=5e-324, max_value=1e150, allow_nan=False)


def written(x):
    """What a number of a budget stands for."""
    return Fraction(repr(float(x)))


# ---- exact arithmetic ---------------------------------------------------------------------------


@given(st.lists(positive, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_charges_add_up_exactly(mus):
    ledger = Ledger(GDP(1e200))
    for mu in mus:
        ledger.charge(GDP(mu), "x")
    exact = sum(written(mu) ** 2 for mu in mus)
    assert Fraction(ledger._spent[0], ONE) == exact
    spent = written(ledger.spent.mu)
    assert spent**2 >= exact
    assert written(math.nextafter(ledger.spent.mu, 0.0)) ** 2 < exact
    left = written(1e200) ** 2 - exact
    assert written(ledger.remaining.mu) ** 2 <= left


@given(positive)
@settings(max_examples=100, deadline=None)
def test_the_whole_total_can_be_spent_once_and_nothing_more(mu):
    ledger = Ledger(GDP(mu))
    ledger.charge(GDP(mu), "all")
    assert ledger.remaining.mu == 0.0
    assert ledger.spent == GDP(mu)
    with pytest.raises(BudgetExceeded):
        ledger.charge(GDP(5e-324), "one more quantum")
    assert len(ledger.entries) == 1


@given(positive, st.floats(min_value=1e-300, max_value=0.5))
@settings(max_examples=100, deadline=None)
def test_neither_part_of_a_pair_can_be_exceeded_by_a_quantum(epsilon, delta):
    ledger = Ledger(ApproxDP(epsilon, delta))
    ledger.charge(ApproxDP(epsilon, delta / 2), "all of epsilon")
    for more in (amount(ApproxDP, 5e-324, 0.0), amount(ApproxDP, 0.0, math.nextafter(delta, 1.0))):
        with pytest.raises(BudgetExceeded):
            ledger.charge(more, "one more quantum")
    ledger.charge(amount(ApproxDP, 0.0, ledger.remaining.delta), "the rest of delta")
    with pytest.raises(BudgetExceeded):
        ledger.charge(amount(ApproxDP, 0.0, 2.0 * math.ulp(delta)), "more than rounding left")
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("shape", ["uniform", "geometric", "mixed", "random"])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 7, 10, 100, 1000])
@pytest.mark.values
def test_many_schedules_stay_within_their_total(shape, n_steps):
    """Shares as the optimisers make them, with and without the margin that absorbs rounding."""
    rng = np.random.default_rng(n_steps)
    for total in (0.1, 1.0, 1 / 3, 8.0, *10 ** rng.uniform(-4, 2, 6)):
        if shape == "uniform":
            weights = np.ones(n_steps)
        elif shape == "geometric":
            weights = 3.0 ** -np.arange(n_steps)[::-1]
        elif shape == "mixed":
            weights = 0.2 / n_steps + 0.8 * 0.5 ** np.arange(n_steps)[::-1]
        else:
            weights = rng.exponential(size=n_steps)
        shares = weights / weights.sum()
        mus = [total * (1 - 2.0**-30) * share**0.5 for share in shares.tolist()]
        ledger = Ledger(GDP(total))
        for mu in mus:
            if mu > 0:
                ledger.charge(GDP(mu), "step")
        assert sum(written(mu) ** 2 for mu in mus) <= written(total) ** 2
        # without the margin the floating-point shares may exceed the total; then the ledger,
        # unlike a sum of doubles, refuses exactly when the exact sum does
        ledger, exact, limit = Ledger(GDP(total)), Fraction(0), written(total) ** 2
        for share in shares.tolist():
            mu = total * share**0.5
            if mu == 0:
                continue
            fits = exact + written(mu) ** 2 <= limit
            if not fits:
                with pytest.raises(BudgetExceeded):
                    ledger.charge(GDP(mu), "step")
                break
            ledger.charge(GDP(mu), "step")
            exact += written(mu) ** 2


def test_refusal_names_everything_and_changes_nothing():
    ledger = Ledger(1.0)
    ledger.charge(0.9, "first look")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(0.5, "second look")
    message = str(refusal.value)
    for part in (
        "second look",
        "total GDP(mu=1.0)",
        "spent GDP(mu=0.9)",
        "requested GDP(mu=0.5)",
        "remaining GDP(mu=0.43588",
        "Nothing was spent",
        "Ask for at most",
    ):
        assert part in message
    assert [entry.label for entry in ledger.entries] == ["first look"]
    ledger.charge(ledger.remaining, "the rest")


def test_an_exception_after_a_charge_does_not_refund():
    ledger = Ledger(1.0)

    def release():
        ledger.charge(0.8, "release")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        release()
    assert ledger.spent == GDP(0.8)


def test_currencies():
    ledger = Ledger(ZCDP(1.0))
    ledger.charge(GDP(1.0), "gaussian")
    ledger.charge(PureDP(0.5), "laplace")
    ledger.charge(ZCDP(0.25), "other")
    assert ledger.spent == ZCDP(0.875)
    assert [type(entry.spend) for entry in ledger.entries] == [GDP, PureDP, ZCDP]
    assert {type(entry.charged) for entry in ledger.entries} == {ZCDP}

    ledger = Ledger(GDP(2.0))
    ledger.charge(PureDP(1.0), "laplace")
    assert ledger.entries[0].charged == PureDP(1.0).as_gdp()

    ledger = Ledger(ApproxDP(2.0, 1e-5))
    ledger.charge(ApproxDP(0.5, 5e-6), "a")
    ledger.charge(PureDP(0.5), "b")
    assert (ledger.spent.epsilon, ledger.spent.delta) == (1.0, 5e-6)
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproxDP(0.5, 6e-6), "delta does not fit")

    ledger = Ledger(PureDP(1.0))
    ledger.charge(PureDP(0.25), "a")
    assert ledger.remaining == PureDP(0.75)


@each(
    ("total", "spend"),
    [
        (GDP(1), ZCDP(0.1)), (GDP(1), ApproxDP(0.1, 1e-9)), (ZCDP(1), ApproxDP(0.1, 1e-9)),
        (PureDP(1), GDP(0.1)), (PureDP(1), ZCDP(0.1)), (PureDP(1), ApproxDP(0.1, 1e-9)),
        (ApproxDP(1, 1e-5), ZCDP(0.1)),
    ],
    ids=repr,
)  # fmt: skip
def test_currencies_that_cannot_pay_are_refused(total, spend):
    ledger = Ledger(total)
    with pytest.raises(UnsupportedConversion):
        ledger.charge(spend, "x")
    with pytest.raises(UnsupportedConversion):
        ledger.child(spend, "x")
    assert ledger.entries == ()


def test_bad_input():
    with pytest.raises(InvalidBudget):
        Ledger(0)
    with pytest.raises(InvalidBudget):
        Ledger("1")
    ledger = Ledger(1)
    for bad in (0, -1.0, math.nan, math.inf, "1", None, True):
        with pytest.raises(InvalidBudget):
            ledger.charge(bad, "x")
    with pytest.raises(InvalidInput):
        ledger.charge(0.1, 7)
    assert ledger.entries == ()


def test_a_negative_charge_is_no_refund():
    """Not even with a value made behind the constructor's back."""
    for currency in (GDP, ZCDP, PureDP):
        ledger = Ledger(currency(1.0))
        ledger.charge(currency(0.5), "a")
        spent = ledger.spent
        for value in (-0.25, math.nan, math.inf, -math.inf):
            with pytest.raises(InvalidBudget, match="not negative"):
                ledger.charge(amount(currency, value), "refund")
            with pytest.raises(InvalidBudget, match="not negative"):
                Ledger(amount(currency, value))
        with pytest.raises(InvalidBudget, match="not negative"):  # its square would be a charge
            Ledger(ZCDP(1.0)).charge(amount(GDP, -0.25), "converted")
        assert ledger.spent == spent


class Cheap(float):
    """Equal to the number it stands for, until it is added up."""

    def as_integer_ratio(self):
        return 0, 1

    def __eq__(self, other):
        return float(self) == other

    def __hash__(self):
        return hash(float(self))


class CheapGDP(GDP):
    """A subclass that converts itself as it likes."""

    def values(self):
        return (1e-9,)

    def as_gdp(self):
        return GDP(1e-9)

    def as_zcdp(self):
        return ZCDP(1e-9)


class CheapPure(PureDP):
    def as_gdp(self):
        return GDP(1e-9)


class LookAlike:
    mu, fields = 1e-9, ("mu",)
    values, as_gdp, as_zcdp = CheapGDP.values, CheapGDP.as_gdp, CheapGDP.as_zcdp


@each("currency", [GDP, ZCDP, ApproxDP])
@each("kind", [CheapGDP, CheapPure, LookAlike])
def test_only_the_four_guarantees_themselves_are_taken(currency, kind):
    ledger = Ledger(currency(1.0, 1e-6) if currency is ApproxDP else currency(1.0))
    spend = LookAlike() if kind is LookAlike else kind(0.5)
    for attempt in (ledger.charge, ledger.child):
        with pytest.raises(InvalidBudget, match="subclass"):
            attempt(spend, "x")
    with pytest.raises(InvalidBudget, match="subclass"):
        Ledger(spend)
    assert ledger.entries == ()


def test_numbers_that_only_look_like_floats_are_refused():
    """Also where the number they equal was charged before, and its cost is remembered."""
    for value in (Cheap(0.5), 1, True, np.float64(0.5), "0.5", None, Fraction(1, 2)):
        ledger = Ledger(GDP(1.0))
        ledger.charge(0.5, "an honest one")
        Ledger(GDP(2.0)).charge(1.0, "another")
        spend = GDP(0.5)
        object.__setattr__(spend, "mu", value)
        with pytest.raises(InvalidBudget, match="finite and not negative"):
            ledger.charge(spend, "x")
        with pytest.raises(InvalidBudget):
            Ledger(ZCDP(1.0)).charge(spend, "converted")
        assert ledger.spent == GDP(0.5)
    with pytest.raises((AttributeError, InvalidBudget)):  # no number at all
        Ledger(GDP(1.0)).charge(object.__new__(GDP), "x")


# ---- children -----------------------------------------------------------------------------------


def test_a_child_costs_its_parent_everything_at_once_and_refunds_nothing():
    parent = Ledger(GDP(1.0))
    child = parent.child(0.6, "fit")
    assert parent.spent == GDP(0.6)
    child.charge(0.3, "step")
    assert parent.spent == GDP(0.6)
    with pytest.raises(BudgetExceeded):
        child.charge(0.6, "too much")
    del child
    with pytest.raises(BudgetExceeded):
        parent.child(0.9, "second fit")
    left = parent.remaining
    assert left == GDP(0.8)  # as written; as doubles 0.6^2 + 0.8^2 exceeds 1, by 7e-17
    assert parent.child(left, "second fit").total == left
    assert parent.remaining.mu == 0.0


def test_a_pure_child_of_a_gdp_ledger_is_refused():
    """The conversion of a sum is not proved to exceed the sum of conversions there."""
    with pytest.raises(UnsupportedConversion, match="child"):
        Ledger(GDP(1.0)).child(PureDP(0.1), "x")


def test_grandchildren_and_mixed_children_never_exceed_the_root():
    rng = np.random.default_rng(0)
    for _ in range(50):
        root = Ledger(ZCDP(1.0))
        leaves = []

        def grow(ledger, depth, leaves=leaves):
            for _ in range(4):
                size = rng.uniform(0.05, 0.9)
                spend = GDP(size) if rng.random() < 0.5 else ZCDP(size / 3)
                try:
                    if depth and rng.random() < 0.6:
                        grow(ledger.child(spend, "part"), depth - 1)
                    else:
                        ledger.charge(spend, "leaf")
                        leaves.append(spend)
                except (BudgetExceeded, UnsupportedConversion):
                    pass

        grow(root, 3)
        exact = sum(
            Fraction(s.mu) ** 2 / 2 if isinstance(s, GDP) else Fraction(s.rho) for s in leaves
        )
        assert exact <= 1


# ---- threads, copies, forks ---------------------------------------------------------------------


class SlowLedger(Ledger):
    """Hesitates between the test and the update, where another thread could slip in."""

    def _after(self, spent, charges):
        after = super()._after(spent, charges)
        time.sleep(1e-4)
        return after


@pytest.mark.serial
def test_threads_cannot_overspend():
    ledger, successes = SlowLedger(GDP(1.0)), []
    barrier = threading.Barrier(8)

    def spend():
        barrier.wait()
        for _ in range(100):
            try:
                ledger.charge(GDP(0.1), "x")
                successes.append(1)
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fit = 100  # tenths are tenths
    assert len(successes) == len(ledger.entries) == fit


def pickled(ledger):
    return pickle.loads(pickle.dumps(ledger))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickled])
def test_copies_remember_and_cannot_spend(make):
    ledger = Ledger(GDP(1.0))
    ledger.charge(0.5, "a")
    twin = make(ledger)
    assert twin.entries == ledger.entries
    assert twin.spent == ledger.spent
    assert twin.total == ledger.total
    with pytest.raises(LedgerClosed, match="copy"):
        twin.charge(0.1, "b")
    with pytest.raises(LedgerClosed):
        twin.child(0.1, "b")
    with pytest.raises(LedgerClosed):
        make(twin).charge(0.1, "b")
    ledger.charge(0.1, "b")


@pytest.mark.serial
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_cannot_spend_its_parents_budget():
    ledger = Ledger(GDP(1.0))
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(0.5, "x")
        except LedgerClosed:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.serial
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_charges_does_not_hang():
    """The child inherits a lock that nobody will give back; it refuses before it waits for it."""
    ledger = SlowLedger(GDP(1e3))  # nearly always inside `charge`
    stop = threading.Event()

    def spend():
        while not stop.is_set():
            ledger.charge(GDP(1e-3), "x")

    thread = threading.Thread(target=spend)
    thread.start()
    try:
        for _ in range(15):
            child = os.fork()
            if child == 0:
                signal.alarm(120)  # ends a child that waits
                try:
                    ledger.charge(0.5, "x")
                except LedgerClosed:
                    os._exit(7 if ledger.spent.mu < 1e3 else 1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    finally:
        stop.set()
        thread.join()


def test_a_copy_refuses_to_check_what_it_would_refuse_to_charge(tmp_path):
    import pickle

    from dpfast.errors import LedgerClosed

    copy = pickle.loads(pickle.dumps(Ledger(1.0)))
    with pytest.raises(LedgerClosed):
        copy.check(0.5, "x")
    pickle.loads(pickle.dumps(Ledger.open(tmp_path / "ledger", 1.0))).check(0.5, "x")
