"""What a run reserved and did not use is returned: claim C95 of PROOFS.md, and its attacks."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

import dpfast
from dpfast.errors import (
    BudgetExceeded,
    InvalidInput,
    LedgerClosed,
    LedgerCorrupted,
    UnsupportedConversion,
)
from dpfast.inference.composition import lines_of, replay
from dpfast.privacy import GDP, ZCDP, ApproxDP, Ledger, PureDP
from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.ledger import ONE
from dpfast.privacy.ledger.reservation import Reservation
from tests.loops import each
from tests.privacy.test_ledger_moments import assert_nothing_is_held, interrupted

fcntl = pytest.importorskip("fcntl")

ROOT = Path(__file__).resolve().parents[2]
positive = st.floats(min_value=1e-150, max_value=1e100, allow_nan=False)


def written(x):
    return Fraction(repr(float(x)))


def reserved(ledger, mu, *charges, label="a run"):
    """A run that reserves mu, spends these charges and ends by itself; its reservation."""
    session = Ledger(GDP(mu))
    with Reservation(ledger, GDP(mu), label, session) as run:
        for charge in charges:
            session.charge(charge, "a query")
    return run


# ---- the sums ------------------------------------------------------------------------------------


@given(positive, st.lists(st.floats(0.0, 1.0), min_size=0, max_size=6))
@settings(max_examples=120, deadline=None)
def test_what_is_returned_is_the_exact_rest_rounded_down(mu, parts):
    """The ledger counts at least what was drawn, and less than one rounding more."""
    ledger, session, drawn = Ledger(GDP(1e101)), Ledger(GDP(mu)), Fraction(0)
    with Reservation(ledger, GDP(mu), "a run", session) as run:
        for part in parts:
            try:
                session.charge(GDP(max(mu * math.sqrt(part), 1e-200)), "a query")
            except BudgetExceeded:
                continue
            drawn = sum((written(entry.spend.mu) ** 2 for entry in session.entries), Fraction(0))
    counted, rest = Fraction(ledger._spent[0], ONE), written(mu) ** 2 - drawn
    assert drawn <= counted <= written(mu) ** 2
    if run.returned is None:
        assert rest <= written(mu) ** 2 / 1000
        assert counted == written(mu) ** 2
    else:
        assert counted == written(mu) ** 2 - written(run.returned.mu) ** 2
        assert written(math.nextafter(run.returned.mu, math.inf)) ** 2 > rest
    (entry,) = ledger.entries
    assert entry.returned == run.returned
    assert written(entry.paid.mu) ** 2 >= counted


def test_receipts_add_up_to_what_the_ledger_counts():
    ledger = Ledger(1.0)
    reserved(ledger, 0.8, 0.1, 0.2)
    reserved(ledger, 0.9)
    ledger.charge(0.4, "a charge")
    counted = sum(
        written(entry.charged.mu) ** 2 - (written(entry.returned.mu) ** 2 if entry.returned else 0)
        for entry in ledger.entries
    )
    assert Fraction(ledger._spent[0], ONE) == counted
    assert written(0.4) ** 2 + written(0.1) ** 2 + written(0.2) ** 2 <= counted
    assert float(counted) == pytest.approx(0.16 + 0.01 + 0.04, rel=1e-12)
    assert ledger.remaining.mu == pytest.approx(math.sqrt(1.0 - 0.21), rel=1e-12)


def test_rows_of_persons_count_in_full():
    """A session of one row pays 3 times the mu for a person with three rows (claim C47)."""
    ledger, session = Ledger(1.0), Ledger(0.29)
    with Reservation(ledger, GDP(0.9), "a run", session, 3):
        session.charge(0.1, "a query")
    assert ledger.spent.mu == pytest.approx(0.3, rel=1e-12)
    assert Fraction(ledger._spent[0], ONE) >= 9 * written(0.1) ** 2
    with pytest.raises(InvalidInput, match="may spend more"):
        Reservation(Ledger(1.0), GDP(0.9), "a run", Ledger(0.31), 3)


def test_parts_of_a_session_count_in_full():
    """A child, or a reservation that is not over, may still draw: neither is looked into."""
    ledger, session = Ledger(1.0), Ledger(1.0)
    with Reservation(ledger, GDP(1.0), "a run", session):
        child = session.child(0.6, "a part")
        open_run = Reservation(session, GDP(0.5), "another part", Ledger(0.5))
    assert ledger.spent.mu == pytest.approx(math.hypot(0.6, 0.5), rel=1e-12)
    child.charge(0.6, "drawn later, and counted")
    with open_run:
        pass
    assert open_run.returned is None  # the session is closed


def test_a_reservation_inside_a_session_returns_to_it():
    ledger, session = Ledger(1.0), Ledger(1.0)
    with Reservation(ledger, GDP(1.0), "a run", session):
        reserved(session, 0.5, 0.3)
        assert session.spent.mu == pytest.approx(0.3, rel=1e-12)
    assert ledger.spent.mu == pytest.approx(0.3, rel=1e-12)


# ---- what returns nothing ------------------------------------------------------------------------


@each(
    "error",
    [KeyboardInterrupt, SystemExit, MemoryError, ValueError, GeneratorExit, BudgetExceeded,
     FloatingPointError, TimeoutError],
)  # fmt: skip
def test_an_exception_returns_nothing(error):
    """Values of records, or a clock, may have caused it: each first read would be free."""
    ledger, session = Ledger(1.0), Ledger(0.9)
    run = Reservation(ledger, GDP(0.9), "a run", session)
    with pytest.raises(error), run:
        raise error("a value was read")
    assert ledger.spent == GDP(0.9)
    assert run.returned is None
    with run:  # nor does a second end of the same run
        pass
    assert ledger.spent == GDP(0.9)


@each(
    ("total", "spend"),
    [
        (ZCDP(1.0), ZCDP(0.5)), (ZCDP(1.0), GDP(0.5)), (PureDP(1.0), PureDP(0.5)),
        (ApproxDP(1.0, 1e-5), ApproxDP(0.5, 1e-6)), (ApproxDP(1.0, 1e-5), PureDP(0.5)),
        (GDP(1.0), PureDP(0.5)),
    ],
    ids=repr,
)  # fmt: skip
def test_only_mu_squared_is_returned(total, spend):
    ledger = Ledger(total)
    before = Ledger(total)
    before.charge(spend, "a run")
    with Reservation(ledger, spend, "a run", Ledger(0.1)) as run:
        pass
    assert run.returned is None
    assert (ledger.spent, ledger.entries) == (before.spent, before.entries)


def test_a_child_returns_nothing_to_its_parent():
    """Of a GDP ledger, and of a pair whose child divides a pair of its own."""
    for parent, part in ((Ledger(1.0), GDP(0.9)), (Ledger((2.0, 1e-5)), (1.0, 1e-6))):
        child = parent.child(part, "for the colleagues")
        spent = parent.spent
        reserved(child, 0.1)
        assert child.entries[0].returned is not None
        assert parent.spent == spent


def test_a_ledger_that_counts_in_its_own_way_is_given_back_at_most_what_was_reserved():
    class Doubled(Ledger):
        def charge(self, spend, label):
            super().charge(GDP(2.0 * spend.mu), label)

    class Free(Ledger):
        def charge(self, spend, label):
            pass

    class Elsewhere(Ledger):
        def charge(self, spend, label):
            super().charge(0.01, "no reservation")
            super().charge(GDP(spend.mu), label)

    ledger = Doubled(1.0)
    assert reserved(ledger, 0.4, 0.1).returned.mu == pytest.approx(math.sqrt(0.15), rel=1e-12)
    assert ledger.spent.mu == pytest.approx(math.sqrt(0.64 - 0.15), rel=1e-12)
    assert reserved(Free(1.0), 0.4, 0.1).returned is None
    ledger = Elsewhere(1.0)
    assert reserved(ledger, 0.4, 0.1).returned.mu == pytest.approx(math.sqrt(0.15), rel=1e-12)
    assert [entry.returned is None for entry in ledger.entries] == [True, False]
    assert ledger.spent.mu == pytest.approx(math.hypot(0.01, 0.1), rel=1e-12)


def test_a_rest_that_is_rounding_is_no_line():
    ledger = Ledger(1.0)
    assert reserved(ledger, 0.5, 0.4999).returned is None
    assert ledger.spent == GDP(0.5)


# ---- the division of a pair is never reopened (claim C87) ----------------------------------------


def test_a_returned_budget_does_not_reopen_the_division():
    """The counterexample of claim C87, with a reservation that is given back."""
    total = (1.0, gdp_delta(0.25, 1.0))
    ledger = Ledger(total)
    whole = ledger.total_in_gdp
    run = reserved(ledger, whole.mu)
    assert run.returned == whole
    assert ledger.remaining == whole
    for pair in (ApproxDP(1e-12, 0.5 * total[1]), ApproxDP(0.5, 1e-3 * total[1]), PureDP(0.5)):
        with pytest.raises(BudgetExceeded):
            ledger.charge(pair, "everything, perhaps")
    # nor does what is apart change, before or after
    ledger = Ledger((2.0, 1e-6), apart=(0.5, 2e-7))
    ledger.charge((0.2, 1e-7), "before")
    mu = ledger.total_in_gdp.mu
    reserved(ledger, mu, 0.01)
    assert ledger.total_in_gdp.mu == mu
    ledger.charge((0.3, 1e-7), "the rest of what is kept")
    with pytest.raises(BudgetExceeded, match="apart"):
        ledger.charge((1e-9, 1e-12), "more")
    assert math.hypot(ledger.remaining.mu, 0.01) == pytest.approx(mu, rel=1e-12)


def test_a_run_that_is_not_in_mu_cannot_be_priced_as_a_pair_when_it_ends_early():
    ledger = Ledger((2.0, 1e-6))
    session = Ledger(0.2)
    with Reservation(ledger, GDP(0.2), "a run", session) as run:
        session.charge(0.1, "a look")
    assert type(run.returned) is GDP
    assert ledger.entries[0].paid.mu == pytest.approx(0.1, rel=1e-12)
    with pytest.raises(UnsupportedConversion):
        Ledger(ZCDP(1.0)).charge(ApproxDP(0.1, 1e-7), "no pair in another currency")


# ---- once, by the reserving process, after the session is closed ---------------------------------


def test_a_closed_session_grants_nothing():
    ledger, session = Ledger(1.0), Ledger(0.9)
    with Reservation(ledger, GDP(0.9), "a run", session):
        session.charge(0.1, "a query")
    for late in (
        lambda: session.charge(0.1, "late"),
        lambda: session.child(0.1, "late"),
        lambda: reserved(session, 0.1),
        lambda: pickle.loads(pickle.dumps(session)).charge(0.1, "late"),
        lambda: copy.deepcopy(session).charge(0.1, "late"),
    ):
        with pytest.raises((LedgerClosed, BudgetExceeded)):
            late()
    with pytest.raises(InvalidInput, match="a ledger of its own"):
        Reservation(ledger, GDP(0.1), "another run", session)


@each("kind", ["memory", "file", "pair"])
def test_the_session_is_closed_before_the_line_is_written(kind, tmp_path, monkeypatch):
    ledger = {
        "memory": lambda: Ledger(1.0),
        "file": lambda: Ledger.open(tmp_path / "book", GDP(1.0)),
        "pair": lambda: Ledger((4.0, 1e-6)),
    }[kind]()
    session, seen = Ledger(0.4), []
    settle = type(ledger)._settle

    def watching(self, charges, once=""):
        if self is ledger and seen:
            with pytest.raises(LedgerClosed):
                session.charge(0.1, "while the line is written")
            seen.append(session.spent.mu)
        settle(self, charges, once)

    with Reservation(ledger, GDP(0.4), "a run", session) as run:
        seen.append("reserved")
        monkeypatch.setattr(type(ledger), "_settle", watching)
    assert seen == ["reserved", 0.0]
    assert run.returned == GDP(0.4)


def test_threads_that_end_one_run_return_it_once():
    for _ in range(20):
        ledger, session = Ledger(1.0), Ledger(0.9)
        run, barrier = Reservation(ledger, GDP(0.9), "a run", session), threading.Barrier(8)
        granted = []

        def end(run=run, session=session, barrier=barrier, granted=granted):
            barrier.wait()
            try:
                session.charge(0.1, "a late query")
                granted.append(0.1)
            except LedgerClosed:
                pass
            run.__exit__(None, None, None)

        threads = [threading.Thread(target=end) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        drawn = sum((written(mu) ** 2 for mu in granted), Fraction(0))
        assert drawn <= Fraction(ledger._spent[0], ONE)
        assert len(lines_of(ledger)) == 2


def test_copies_and_forks_return_nothing(tmp_path):
    for ledger in (Ledger(1.0), Ledger.open(tmp_path / "book", GDP(1.0))):
        session = Ledger(0.9)
        run = Reservation(ledger, GDP(0.9), "a run", session)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(LedgerClosed):
                copied(run)
        child = os.fork()
        if child == 0:
            run.__exit__(None, None, None)
            os._exit(0 if run.returned is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert ledger.spent == GDP(0.9)
        session.charge(0.5, "the parent goes on")
        run.__exit__(None, None, None)
        assert ledger.spent.mu == pytest.approx(0.5, rel=1e-12)
        child = os.fork()  # after the end, from both sides
        if child == 0:
            run.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        run.__exit__(None, None, None)
        assert ledger.spent.mu == pytest.approx(0.5, rel=1e-12)


def test_a_return_that_cannot_be_written_is_lost_and_the_run_goes_on(tmp_path):
    ledger = Ledger.open(tmp_path / "book", GDP(1.0))
    with Reservation(ledger, GDP(0.9), "a run", Ledger(0.9)) as run:
        (tmp_path / "book").unlink()
    assert run.returned is None


def test_an_interrupt_of_the_return_loses_it(monkeypatch):
    for at in ("_close", "_give_back", "_settle"):
        ledger, session = Ledger(1.0), Ledger(0.9)
        run = Reservation(ledger, GDP(0.9), "a run", session)
        with monkeypatch.context() as patch:

            def stop(*_):
                raise KeyboardInterrupt

            patch.setattr(Ledger, at, stop)
            with pytest.raises(KeyboardInterrupt):
                run.__exit__(None, None, None)
        run.__exit__(None, None, None)
        assert ledger.spent == GDP(0.9)


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_interrupt_at_any_moment_of_a_return_undercounts_nothing(tmp_path, monkeypatch, kind):
    """The rest is returned or lost, and nothing is held; one in 23 instructions of the ledger."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    drawn, seen = written(0.3) ** 2, set()
    for moment in range(1, 20_000, 23):
        path = tmp_path / f"{moment}"
        ledger = Ledger(1.0) if kind == "memory" else Ledger.open(path, GDP(1.0))
        session = Ledger(0.9)
        run = Reservation(ledger, GDP(0.9), "a run", session)
        session.charge(0.3, "a query")
        stopped = interrupted(lambda run=run: run.__exit__(None, None, None), moment)
        assert Fraction(ledger._current()[0][0], ONE) >= drawn
        run.__exit__(None, None, None)
        for reader in [ledger] if kind == "memory" else [ledger, Ledger.open(path)]:
            counted = Fraction(reader._current()[0][0], ONE)
            assert counted >= drawn
            assert float(counted) in (0.81, pytest.approx(0.09, rel=1e-12))
            with pytest.raises((BudgetExceeded, LedgerClosed)):  # its lock may stay held
                reader.charge(math.sqrt(1.0 - float(counted)) * 1.001, "more than is left")
        seen.add(round(float(counted), 3))
        if kind == "file":
            assert_nothing_is_held(path)
        if not stopped:
            break
    assert seen == {0.81, 0.09}
    assert moment > 500


# ---- in a file -----------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book.jsonl"


def test_a_file_keeps_what_was_returned(path):
    ledger, other = Ledger.open(path, GDP(1.0)), Ledger.open(path)
    reserved(ledger, 0.9, 0.3)
    other.charge(0.8, "what the return made room for")
    for reader in (ledger, other, Ledger.open(path), pickle.loads(pickle.dumps(ledger))):
        assert reader.spent.mu == pytest.approx(math.hypot(0.3, 0.8), rel=1e-12)
        assert [entry.label for entry in reader.entries] == [
            "a run",
            "what the return made room for",
        ]
        assert reader.entries == ledger.entries
        assert reader.entries[0].returned.mu == pytest.approx(math.sqrt(0.72), rel=1e-12)
    text = path.read_text().splitlines()
    reservation, line = json.loads(text[1]), json.loads(text[2])
    assert set(line) == {"returned", "reservation", "check"}
    assert line["reservation"] == reservation["reservation"]


@pytest.mark.one_in(2)
def test_a_return_that_stops_at_any_byte_is_lost_or_whole(path):
    """A crash between the draws and the line, or within it: never more than once."""
    ledger = Ledger.open(path, GDP(1.0))
    session = Ledger(0.9)
    run = Reservation(ledger, GDP(0.9), "a run", session)
    session.charge(0.3, "a query")
    before = path.read_bytes()
    with run:
        pass
    after = path.read_bytes()
    for stop in range(len(before), len(after) + 1):
        path.write_bytes(after[:stop])
        reader = Ledger.open(path)
        whole = stop >= len(after) - 1
        expected = 0.3 if whole else 0.9
        assert reader.spent.mu == pytest.approx(expected, rel=1e-12)
        assert path.read_bytes() == after[:stop]
        reader.charge(0.4, "next")
        again = Ledger.open(path)
        assert again.entries == reader.entries
        assert again.spent.mu == pytest.approx(math.hypot(expected, 0.4), rel=1e-12)


def line_of(content, before):
    """A line as the file's own code writes it, with its check."""
    from dpfast.privacy.ledger import file

    return file._line(content, before)[0]


def test_a_return_that_no_run_made_is_damage(path):
    ledger = Ledger.open(path, GDP(1.0))
    ledger.charge(0.1, "a charge")
    run = reserved(ledger, 0.5, 0.3)
    content = path.read_bytes()
    last = json.loads(content.splitlines()[-1])
    check, mark = last["check"].encode(), last["reservation"]
    reserved(ledger, 0.6, 0.59)
    path.write_bytes(content)
    more = math.nextafter(run.returned.mu, 1.0)
    lies = [
        {"returned": last["returned"], "reservation": mark},  # again
        {"returned": ["GDP", (0.1).hex()], "reservation": "0" * 32},  # of nobody
        {"returned": ["GDP", (0.1).hex()], "reservation": ""},  # of a charge
        {"returned": ["GDP", (0.1).hex()]},
        {"returned": ["ZCDP", (0.1).hex()], "reservation": mark},
        {"returned": ["GDP", (-0.1).hex()], "reservation": mark},
    ]
    for lie in lies:
        path.write_bytes(content + line_of(lie, check))
        with pytest.raises(LedgerCorrupted, match="line 5"):
            Ledger.open(path)
    first = b"".join(content.splitlines(keepends=True)[:-1])
    before = json.loads(first.splitlines()[-1])["check"].encode()
    for amount, refused in ((more, False), (0.5, False), (math.nextafter(0.5, 1.0), True)):
        lie = {"returned": ["GDP", amount.hex()], "reservation": mark}
        path.write_bytes(first + line_of(lie, before))
        if refused:  # more than was reserved; how much was drawn is not in the file
            with pytest.raises(LedgerCorrupted, match="line 4"):
                Ledger.open(path)
        else:
            assert Ledger.open(path).spent.mu <= 0.51


@each("version", [2, 3])
def test_nothing_is_returned_to_ledgers_of_older_formats(path, version):
    """The versions that write them could not read it; a lost return is safe."""
    from dpfast.privacy.ledger import file

    header = {"dpfast ledger": version, "total": ["GDP", (1.0).hex()], "created": 1, "id": "a"}
    check = None if version == 2 else b""
    path.write_bytes(file._line(header, check)[0])
    ledger = Ledger.open(path)
    assert reserved(ledger, 0.9, 0.3).returned is None
    assert b"reservation" not in path.read_bytes()
    assert Ledger.open(path).spent == GDP(0.9)
    path.write_bytes(path.read_bytes() + file._line({"returned": ["GDP", "0x1p-1"],
                     "reservation": "0" * 32}, None)[0])  # fmt: skip
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path)


def test_processes_that_reserve_and_return_stay_within_the_total(path):
    """Each of three reserves most of what is there, uses a little, and returns the rest."""
    Ledger.open(path, GDP(1.0))
    code = (
        "import sys; from dpfast.privacy import GDP, Ledger;"
        "from dpfast.errors import BudgetExceeded;"
        "from dpfast.privacy.ledger.reservation import Reservation\n"
        "ledger = Ledger.open(sys.argv[1]); done = 0\n"
        "while done < 12:\n"
        "    session = Ledger(0.7)\n"
        "    try: run = Reservation(ledger, GDP(0.7), sys.argv[2], session)\n"
        "    except BudgetExceeded: continue\n"
        "    with run: session.charge(0.1, 'a query')\n"
        "    done += 1\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(k)], cwd=ROOT)
        for k in range(3)
    ]
    assert [process.wait(100) for process in processes] == [0, 0, 0]
    ledger = Ledger.open(path)
    assert len(ledger.entries) == 36
    assert Fraction(ledger._current()[0][0], ONE) >= 36 * written(0.1) ** 2
    assert ledger.spent.mu == pytest.approx(0.6, rel=1e-12)
    total = Fraction(0)  # at every line, in the order of the file
    for label, spend, *of in lines_of(ledger):
        total += written(spend.mu) ** 2 * (-1 if of else 1)
        assert 0 <= total <= 1, label


def test_lines_are_replayed_by_a_ledger_of_the_same_total(tmp_path):
    ledger = Ledger((4.0, 1e-6), apart=(1.0, 1e-7))
    ledger.charge((0.5, 1e-8), "a pair")
    reserved(ledger, 0.5, 0.1)
    ledger.charge(0.2, "a charge")
    reserved(ledger, 0.4)
    again = Ledger((4.0, 1e-6), apart=(1.0, 1e-7))
    replay(again, lines_of(ledger))
    assert again._spent == ledger._spent
    assert again.entries == ledger.entries
    for lie in ([("", GDP(0.1), 0)], [("a", GDP(0.5)), ("", GDP(0.6), 0)],
                [("a", GDP(0.5)), ("", GDP(0.1), 0), ("", GDP(0.1), 0)]):  # fmt: skip
        with pytest.raises((BudgetExceeded, IndexError)):
            replay(Ledger(1.0), lie)
    for ledger in (Ledger(1.0), Ledger.open(tmp_path / "book", GDP(1.0))):
        ledger.charge(0.5, "a charge, of which nothing is returned")
        for mark in ("", "0" * 32):
            with pytest.raises(BudgetExceeded, match="Nothing was returned"):
                ledger._give_back(mark, ledger._current()[0][0])
        assert ledger.spent == GDP(0.5)


def test_a_page_that_returns_more_than_was_left_is_noticed():
    from dpfast.inference.guarantees import Guarantee
    from dpfast.inference.rendering.transcript import adds_up

    noise = dpfast.privacy.EntropyNoise()
    for returned, said in ((0.8, True), (0.5, True), (math.nextafter(0.8, 1.0), False),
                           (0.9, False)):  # fmt: skip
        told = Guarantee.of(GDP(1.0), noise, 100, [("a", 0.6)], returned=GDP(returned))
        assert adds_up({"privacy": told.to_dict()}, "") is said
        assert f"returned mu = {returned:.4f}" in str(told)
        assert written(told.charged.mu) ** 2 >= 1 - written(returned) ** 2
    assert Guarantee.of(GDP(1.0), noise, 100).charged == GDP(1.0)


# ---- adaptive stops, replayed --------------------------------------------------------------------

PATHS, TOTAL = 100_000, 1.0


def stop_early(loss, drawn, rng):
    """End a run as soon as the evidence points one way."""
    return np.abs(loss) > 0.4


def stop_late(loss, drawn, rng):
    """End a run while the evidence is weak, to ask again with what is returned."""
    return np.abs(loss) < 0.2


def play(rule, hypothesis, returned, rng, runs=6, steps=5):
    """Log-likelihood ratios after runs that each reserve all that is left, and end by a rule.

    ``returned(reserved, asked)`` is the mu^2 given back of a run that asked so much.
    """
    loss, left = np.zeros(PATHS), np.full(PATHS, TOTAL**2)
    for _ in range(runs):
        reserved, asked = left.copy(), np.zeros(PATHS)
        going = reserved > 1e-9
        for _ in range(steps):
            square = np.where(going, reserved / steps, 0.0)
            mu = np.sqrt(square)
            loss = loss + mu * (rng.standard_normal(PATHS) + hypothesis * mu) - square / 2
            asked = asked + square
            going = going & ~rule(loss, asked, rng)
        left = left - reserved + returned(reserved, asked)
    return loss


def gain(rule, returned):
    """Largest excess of power over that of 1-GDP, in standard errors of the simulation."""
    rng = np.random.default_rng(5)
    null, other = (play(rule, hypothesis, returned, rng) for hypothesis in (0, 1))
    worst = -math.inf
    for cut in np.quantile(other, np.linspace(0.05, 0.95, 19)):
        level, power = np.mean(null > cut), np.mean(other > cut)
        if not 0.001 < level < 0.99:
            continue
        ceiling = special.ndtr(special.ndtri(level) + TOTAL)
        slope = math.exp(-TOTAL * special.ndtri(level) - TOTAL**2 / 2)
        error = math.sqrt(power * (1 - power) + slope**2 * level * (1 - level)) / math.sqrt(PATHS)
        worst = max(worst, (power - ceiling) / error)
    return worst


@pytest.mark.parametrize("rule", [stop_early, stop_late])
def test_adaptive_stops_gain_nothing_however_often_they_are_replayed(rule):
    assert gain(rule, lambda reserved, asked: reserved - asked) < 5.0


def test_a_return_of_what_was_drawn_is_what_the_attack_would_see():
    """A fifth of what was drawn, or of what was not, is returned beside it."""
    assert gain(stop_early, lambda r, asked: np.maximum(r - asked, 0.0) + 0.2 * asked) > 8.0
    assert gain(stop_late, lambda r, asked: np.minimum(r, 1.2 * (r - asked))) > 8.0


def test_every_stop_rule_sees_released_values_alone():
    """The classes that return what they did not use are engines of ours, which see no record.

    Nothing else can: there is no public call that returns, and no amount to pass.
    """
    where = {
        "returns_unused = True": {
            "regression/default_fit.py", "effects/treatment.py", "effects/hazards.py",
            "effects/instrumental.py",
            "tables/absorbed.py", "tables/small_areas.py", "tables/subgroups.py",
        },
        "Reservation(": {"fit_requests/account.py", "privacy/ledger/reservation.py"},
        "._give_back(": {
            "privacy/ledger/reservation.py", "inference/composition.py", "studies/study.py",
        },
    }  # fmt: skip
    package = Path(dpfast.__file__).parent
    for words, files in where.items():
        found = {path for path in package.rglob("*.py") if words in path.read_text("utf-8")}
        assert {str(path.relative_to(package)) for path in found} == files
    returning = {name for name in dir(Ledger) if "return" in name or "back" in name}
    assert all(name.startswith("_") for name in returning)
    from dpfast.fit_requests.planned_run import Analysis
    from dpfast.regression.default_fit import DefaultFit
    from dpfast.regression.method_fit import MethodFits

    assert not Analysis.returns_unused
    assert DefaultFit.returns_unused
    assert not MethodFits.returns_unused  # a method may be the caller's own


# ---- through a fit -------------------------------------------------------------------------------


def test_an_interrupted_fit_returns_nothing():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=3000)

    def stop(step, of):
        if step:
            raise KeyboardInterrupt

    ledger = Ledger(2.0)
    with pytest.raises(KeyboardInterrupt) as stopped:
        dpfast.fit(X, y, privacy=1.0, ledger=ledger, progress=stop, noise=dpfast.SeededNoise(1))
    assert ledger.spent == GDP(1.0)
    assert ledger.entries[0].returned is None
    assert stopped.value.partial_result.privacy.returned is None
    assert stopped.value.partial_result.privacy.unspent.mu > 0.5
