"""The ledger: claims C9 (composition) and C10 (exact arithmetic, crashes, copies) of PROOFS.md."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.errors import (
    BudgetExceeded,
    InvalidBudget,
    InvalidInput,
    LedgerClosed,
    LedgerCorrupted,
    UnsupportedConversion,
)
from dpfast.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.privacy.budget import amount
from dpfast.privacy.ledger import QUANTUM_BITS

ROOT = Path(__file__).resolve().parents[2]
positive = st.floats(min_value=5e-324, max_value=1e150, allow_nan=False)


# ---- exact arithmetic ---------------------------------------------------------------------------


@given(st.lists(positive, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_charges_add_up_exactly(mus):
    ledger = Ledger(GDP(1e200))
    for mu in mus:
        ledger.charge(GDP(mu), "x")
    exact = sum(Fraction(mu) ** 2 for mu in mus)
    assert Fraction(ledger._spent[0], 2**QUANTUM_BITS) == exact
    spent = Fraction(ledger.spent.mu)
    assert spent**2 >= exact
    assert Fraction(math.nextafter(ledger.spent.mu, 0.0)) ** 2 < exact
    left = Fraction(1e200) ** 2 - exact
    assert Fraction(ledger.remaining.mu) ** 2 <= left


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
        ledger.charge(amount(ApproxDP, 0.0, 5e-324), "one more quantum")
    assert len(ledger.entries) == 2


@pytest.mark.parametrize("shape", ["uniform", "geometric", "mixed", "random"])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 7, 10, 100, 1000])
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
        assert sum(Fraction(mu) ** 2 for mu in mus) <= Fraction(total) ** 2
        # without the margin the floating-point shares may exceed the total; then the ledger,
        # unlike a sum of doubles, refuses exactly when the exact sum does
        ledger, exact, limit = Ledger(GDP(total)), Fraction(0), Fraction(total) ** 2
        for share in shares.tolist():
            mu = total * share**0.5
            if mu == 0:
                continue
            fits = exact + Fraction(mu) ** 2 <= limit
            if not fits:
                with pytest.raises(BudgetExceeded):
                    ledger.charge(GDP(mu), "step")
                break
            ledger.charge(GDP(mu), "step")
            exact += Fraction(mu) ** 2


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


@pytest.mark.parametrize(
    ("total", "spend"),
    [
        (GDP(1), ZCDP(0.1)), (GDP(1), ApproxDP(0.1, 1e-9)), (ZCDP(1), ApproxDP(0.1, 1e-9)),
        (PureDP(1), GDP(0.1)), (PureDP(1), ZCDP(0.1)), (PureDP(1), ApproxDP(0.1, 1e-9)),
        (ApproxDP(1, 1e-5), GDP(0.1)), (ApproxDP(1, 1e-5), ZCDP(0.1)),
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
        with pytest.raises(InvalidBudget, match="negative"):
            ledger.charge(amount(currency, -0.25), "refund")
        for value in (math.nan, math.inf):
            with pytest.raises((ValueError, OverflowError)):
                ledger.charge(amount(currency, value), "x")
        assert ledger.spent == spent


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
    with pytest.raises(BudgetExceeded):  # 0.6^2 + 0.8^2 exceeds 1 as doubles, by 7e-17
        parent.child(0.8, "second fit")
    left = parent.remaining
    assert parent.child(left, "second fit").total == left
    assert parent.remaining.mu < 1e-7


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

    def _after(self, cost, entry):
        after = super()._after(cost, entry)
        time.sleep(1e-4)
        return after


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
    fit = int(1 / Fraction(0.1) ** 2)
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


# ---- a ledger in a file -------------------------------------------------------------------------

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.jsonl"


def test_file_ledger_is_shared_by_everyone_who_opens_it(path):
    first = Ledger.open(path, GDP(1.0))
    second = Ledger.open(str(path))
    first.charge(0.6, "a")
    assert second.spent == GDP(0.6)
    with pytest.raises(BudgetExceeded):
        second.charge(0.9, "b")
    second.charge(0.75, "b")
    assert Fraction(first.spent.mu) ** 2 >= Fraction(0.6) ** 2 + Fraction(0.75) ** 2
    assert [entry.label for entry in first.entries] == ["a", "b"]
    again = Ledger.open(path, 1.0)
    assert again.entries == first.entries
    with pytest.raises(BudgetExceeded):
        again.charge(0.3, "c")


def test_file_ledger_children_pickles_and_modes(path):
    ledger = Ledger.open(path, ZCDP(1.0))
    child = ledger.child(GDP(1.0), "fit")
    child.charge(0.5, "step")
    twin = pickle.loads(pickle.dumps(ledger))
    assert twin.spent == ZCDP(0.5)
    twin.charge(ZCDP(0.5), "rest")
    assert ledger.remaining.rho == 0.0
    assert path.stat().st_mode & 0o077 == 0


def test_file_ledger_needs_and_checks_a_total(path):
    with pytest.raises(InvalidBudget, match="needs a total"):
        Ledger.open(path)
    Ledger.open(path, GDP(1.0))
    for other in (GDP(2.0), ZCDP(1.0), GDP(0.5)):
        with pytest.raises(InvalidBudget, match="not "):
            Ledger.open(path, other)


def test_awkward_labels_survive_the_file(path):
    labels = ["", "a\nb", 'quote " and \\', "λ…🎲", "x" * 5000, "\u2028\x85\x0b"]
    ledger = Ledger.open(path, GDP(1.0))
    for label in labels:
        ledger.charge(1e-3, label)
    assert [entry.label for entry in Ledger.open(path).entries] == labels


@pytest.mark.parametrize("keep", [1, 10, 60, -1])
def test_a_torn_last_line_belongs_to_a_charge_that_never_returned(path, keep):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.5, "a")
    whole = path.read_bytes()
    ledger.charge(0.5, "interrupted")
    torn = path.read_bytes()[len(whole) :][:keep]
    assert b"\n" not in torn
    path.write_bytes(whole + torn)
    survivor = Ledger.open(path)
    assert survivor.spent == GDP(0.5)
    survivor.charge(0.5, "b")
    assert path.read_bytes().startswith(whole)
    assert [entry.label for entry in Ledger.open(path).entries] == ["a", "b"]


def test_a_torn_header_is_a_new_ledger(path):
    path.write_bytes(b'{"dpfast led')
    assert Ledger.open(path, GDP(1.0)).spent.mu == 0.0


@pytest.mark.parametrize(
    "damage",
    [b"garbage\n", b"{}\n", b'{"label": "x", "spend": ["GDP"], "charged": ["GDP"]}\n',
     b'{"label": "x", "spend": ["GDP","0x1p-1"], "charged": ["ZCDP","0x1p-1"]}\n',
     b'{"label": "x", "spend": ["ZCDP","-0x1p-1"], "charged": ["ZCDP","-0x1p-1"]}\n',
     b'{"label": "x", "spend": ["GDP","nan"], "charged": ["GDP","nan"]}\n',
     b'{"label": "x", "spend": ["GDP","inf"], "charged": ["GDP","inf"]}\n', b"\n", b"[]\n"],
)  # fmt: skip
def test_a_damaged_file_spends_nothing(path, damage):
    total = ZCDP(1.0) if b"ZCDP" in damage and b"-0x" in damage else GDP(1.0)
    ledger = Ledger.open(path, total)
    with path.open("ab") as file:
        file.write(damage)
    with pytest.raises(LedgerCorrupted):
        ledger.charge(total, "x")
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path)


def test_a_file_that_is_not_a_ledger_is_left_alone(path):
    path.write_text("my thesis\n")
    with pytest.raises(LedgerCorrupted, match="header"):
        Ledger.open(path, GDP(1.0))
    assert path.read_text() == "my thesis\n"


def test_a_file_that_shrank_was_replaced_or_is_gone_spends_nothing(path):
    ledger = Ledger.open(path, GDP(1.0))
    empty = path.read_bytes()
    ledger.charge(0.5, "a")
    path.write_bytes(empty)
    with pytest.raises(LedgerCorrupted, match="shorter"):
        ledger.charge(0.5, "b")

    path.unlink()
    with pytest.raises(LedgerCorrupted, match="gone"):
        ledger.charge(0.5, "b")
    other = Ledger.open(path, GDP(1.0))
    with pytest.raises(LedgerCorrupted, match="replaced"):
        ledger.charge(0.5, "b")
    other.charge(0.5, "b")


def test_a_failed_sync_does_not_refund(path, monkeypatch):
    ledger = Ledger.open(path, GDP(1.0))

    def failing(descriptor):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="disk full"):
        ledger.charge(0.6, "a")  # no noise was drawn, and yet
    monkeypatch.undo()
    with pytest.raises(BudgetExceeded):
        ledger.charge(0.9, "b")
    assert ledger.spent == GDP(0.6)


SPENDER = """
import sys, time
from dpfast.privacy import GDP, Ledger
from dpfast.errors import BudgetExceeded
ledger = Ledger.open(sys.argv[1], GDP(1.0))
print("ready", flush=True)
sys.stdin.readline()
count = 0
try:
    while True:
        ledger.charge(GDP(0.0625), sys.argv[2])
        count += 1
        print(count, flush=True)
except BudgetExceeded:
    pass
"""


def spender(path, name):
    return subprocess.Popen(
        [sys.executable, "-c", SPENDER, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_racing_processes_cannot_overspend(path):
    """256 charges fit; three processes fight for them."""
    processes = [spender(path, f"p{i}") for i in range(3)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    counts = [len(process.communicate(timeout=60)[0].splitlines()) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    assert sum(counts) == 256
    ledger = Ledger.open(path)
    assert ledger.spent == GDP(1.0)
    assert len(ledger.entries) == 256


def test_a_killed_process_refunds_nothing_it_was_granted(path):
    """SIGKILL in the middle of charging: every charge that returned is in the file."""
    for round_number in range(3):
        process = spender(path, f"victim {round_number}")
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(0.003 * round_number)
        process.send_signal(signal.SIGKILL)
        granted = 1 + len(process.communicate(timeout=60)[0].splitlines())
        labels = [entry.label for entry in Ledger.open(path).entries]
        assert labels.count(f"victim {round_number}") >= granted
    ledger = Ledger.open(path)
    before = ledger.spent
    while ledger.remaining.mu > 0:
        ledger.charge(ledger.remaining, "the rest")
    assert ledger.spent == GDP(1.0)
    assert before.mu > 0


def test_the_file_is_readable_by_people(path):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(PureDP(0.5), "eigenvalue")
    header, line = (json.loads(text) for text in path.read_text().splitlines())
    assert header["dpfast ledger"] == 1
    assert header["total"] == ["GDP", (1.0).hex()]
    assert line["label"] == "eigenvalue"
    assert line["spend"] == ["PureDP", (0.5).hex()]
    assert float.fromhex(line["charged"][1]) == PureDP(0.5).as_gdp().mu
