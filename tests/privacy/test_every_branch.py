"""Branches of `privacy` and `curator` that no other test takes: refusals, limits and lost races."""

import fcntl
import math
import os
from io import FileIO
from types import SimpleNamespace

import numpy as np
import pytest

import dpfast
from dpfast.curator.blackbox.vectors import RecordValues
from dpfast.curator.preconditioned import Linearization, compiled
from dpfast.curator.rotated import rotate
from dpfast.curator.scaling.columns import Columns
from dpfast.curator.tables import cells, levels, weighted
from dpfast.data import as_records
from dpfast.data.cell_records import CellRecords
from dpfast.data.scaling.maps import TransformedView
from dpfast.errors import BudgetExceeded, InvalidInput, LedgerClosed, LedgerCorrupted
from dpfast.models import LeastSquares
from dpfast.privacy.blackbox.sensitivity import choice_exponent
from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
from dpfast.privacy.decimals import ratio_to_float
from dpfast.privacy.ledger import file as ledger_file
from dpfast.privacy.ledger.book import Reserved
from dpfast.privacy.ledger.paid import ChargedAnswers
from dpfast.privacy.tradeoff import attack_advantage
from tests.loops import each

X, Y = np.linspace(-1.0, 1.0, 12)[:, None], np.linspace(0.0, 1.0, 12)


def spent(total, *spends):
    ledger = dpfast.Ledger(total)
    for spend in spends:
        ledger.charge(spend, "a charge")
    return ledger


def values(n=3):
    return RecordValues(n, dpfast.Ledger(1.0), dpfast.SeededNoise(0))


# ---- budgets and numbers -------------------------------------------------------------------------


def test_a_budget_is_itself_in_its_own_currency():
    assert GDP(0.3).as_gdp() == GDP(0.3)
    assert ZCDP(0.3).as_zcdp() == ZCDP(0.3)
    assert 0.0 < ZCDP(0.1).delta(1.0) < 1.0
    assert spent(ZCDP(1.0)).spent.delta(1.0) == 0.0


def test_nothing_spent_gives_no_attack_an_advantage():
    assert attack_advantage(spent(1.0).spent) == 0.0


def test_ratios_beyond_all_doubles_are_on_the_safe_side():
    assert ratio_to_float(10**400, 1, up=True) == math.inf
    assert ratio_to_float(10**400, 1, up=False) == np.finfo(float).max


@each("mu", [0.0, -1.0, math.inf, math.nan])
def test_a_choice_has_a_positive_budget(mu):
    with pytest.raises(InvalidInput, match="positive and finite"):
        choice_exponent(mu)


# ---- ledgers -------------------------------------------------------------------------------------


def test_a_ledger_in_a_notebook_shows_its_charges_and_escapes_their_labels():
    page = spent(1.0, GDP(0.25))._repr_html_()
    assert "Charges, in order" in page and "a charge" in page
    assert "Charges, in order" not in dpfast.Ledger(1.0)._repr_html_()
    ledger = dpfast.Ledger(1.0)
    ledger.charge(GDP(0.5), "<script>&")
    assert "&lt;script&gt;&amp;" in ledger._repr_html_()


def test_what_is_charged_once_is_charged_once(tmp_path):
    for ledger in (dpfast.Ledger(1.0), dpfast.Ledger.open(tmp_path / "ledger", 1.0)):
        with pytest.raises(InvalidInput, match="once must be a string"):
            ledger.charge(GDP(0.1), "a fit", once=7)
        ledger.charge(GDP(0.1), "a fit", once=" [first]")
        with pytest.raises(BudgetExceeded, match="granted before"):
            ledger.charge(GDP(0.1), "a fit", once=" [first]")
        assert len(ledger.entries) == 1


def test_the_largest_total_in_gdp_can_be_spent_and_shown():
    ledger = dpfast.Ledger(ApproxDP(1e9, 1e-6))
    ledger.charge(ledger.total_in_gdp, "all of it")
    assert 4e7 < ledger.spent.epsilon < 1e9


def lines(path, *entries):
    """Append lines with their checks, as somebody could who knows the format."""
    content = path.read_bytes()
    check = ledger_file._check_of(content[:-1], b"")
    for entry in entries:
        line, check = ledger_file._line(ledger_file._fields(entry), check)
        content += line
    path.write_bytes(content)


def test_lines_that_no_ledger_writes_are_damage(tmp_path):
    charge = ("a fit", GDP(0.1), GDP(0.1))
    for name, entry in {
        "currency": ("a fit", PureDP(0.1), PureDP(0.1)),
        "reservation": Reserved("a fit", ZCDP(0.1), ZCDP(0.1), "mark"),
    }.items():
        path, total = tmp_path / name, GDP(1.0) if name == "currency" else ZCDP(1.0)
        dpfast.Ledger.open(path, total)
        lines(path, *([charge] if name == "currency" else []), entry)
        with pytest.raises(LedgerCorrupted, match="is not a charge as it was written"):
            dpfast.Ledger.open(path)


@each("end", [b"", b"\0", b"\0\0\0"])
def test_a_whole_line_without_its_end_counts_and_the_next_one_follows(end, tmp_path):
    """The power may leave zeros for what was not synchronised, and be it the newline alone."""
    path = tmp_path / f"ledger {len(end)}"
    dpfast.Ledger.open(path, 1.0).charge(GDP(0.3), "the first")
    path.write_bytes(path.read_bytes()[:-1] + end)
    ledger = dpfast.Ledger.open(path)
    assert [entry.label for entry in ledger.entries] == ["the first"]
    ledger.charge(GDP(0.4), "the second")
    for known in (ledger, dpfast.Ledger.open(path)):
        assert [entry.label for entry in known.entries] == ["the first", "the second"]
    assert b"\0" not in path.read_bytes()


def test_who_comes_second_writes_no_second_header(tmp_path):
    path = tmp_path / "ledger"
    dpfast.Ledger.open(path, 1.0)
    before = path.read_bytes()
    with FileIO(path, "r+b") as file:
        ledger_file._begin(b"another header\n", file)
    assert path.read_bytes() == before


def test_a_handler_within_a_use_of_a_ledger_may_not_use_one(tmp_path):
    ledger = dpfast.Ledger.open(tmp_path / "ledger", 1.0)
    with ledger_file._while_open, pytest.raises(LedgerClosed, match="signal handler"):
        ledger.charge(GDP(0.1), "inside")
    assert not ledger.entries


class Forked:
    """What a child sees whose parent was forked while the file was open."""

    def __init__(self, monkeypatch, error=None):
        self.tokens, self.error = [object()], error
        self.flock = fcntl.flock
        monkeypatch.setattr(ledger_file, "this_process", lambda: self.tokens[-1])
        double = SimpleNamespace(**{k: v for k, v in vars(fcntl).items() if k[0] != "_"})
        double.flock = self.fork
        monkeypatch.setattr(ledger_file, "fcntl", double)

    def fork(self, *arguments):
        self.tokens.append(object())
        if self.error is not None:
            raise self.error
        return self.flock(*arguments)


@each("error", [None, ValueError("the file is closed")])
def test_a_child_of_a_fork_within_a_charge_is_told_that_its_parent_has_the_answer(error, tmp_path):
    ledger = dpfast.Ledger.open(tmp_path / f"{error is None}", 1.0)
    with pytest.MonkeyPatch.context() as patch:
        Forked(patch, error)
        with pytest.raises(LedgerClosed, match="forked while the ledger's file was open"):
            ledger.charge(GDP(0.1), "a fit")
    with FileIO(os.devnull) as file:
        ledger_file._register(file, object())  # as a child does before it locks
        assert file.closed


def test_answers_that_a_child_inherits_are_refused_before_the_lock():
    paid = ChargedAnswers(["an answer"], "it was given.")
    paid._process = object()
    with pytest.raises(LedgerClosed, match="inherited through fork"):
        paid._take("an answer")


# ---- values that a caller computed ---------------------------------------------------------------


def test_values_are_numbers_and_weights_have_a_row_for_each_point():
    held = values()
    with pytest.raises(InvalidInput, match="real numbers"):
        held.append(np.array(["a", "b", "c"]))
    held.append(np.ones(3))
    with pytest.raises(InvalidInput, match="weights must have shape"):
        held.mean(np.ones((2, 1)), 1.0, 0.1)
    assert not held.ledger.entries


def test_a_cell_that_is_no_number_stops_no_other():
    class Raises:
        def __array__(self, *a, **k):
            raise RuntimeError("a secret")

    held = values(4)
    held.append([math.nan, Raises(), np.array([2.0]), "text"])
    assert np.array_equal(held._chunks[0], [[math.nan, math.nan, 2.0, math.nan]], equal_nan=True)


# ---- limits of public sizes ----------------------------------------------------------------------


def test_tables_have_fewer_records_than_whole_numbers_hold(monkeypatch):
    huge = SimpleNamespace(block_sizes=(2**40,), n=2**40, n_covariates=1)
    given = dpfast.Ledger(1.0), dpfast.SeededNoise(0)
    with pytest.raises(InvalidInput, match="fewer than"):
        Columns(huge, *given)
    with pytest.raises(InvalidInput, match="fewer than"):
        cells.Cells(huge, 2, (True,), *given)
    monkeypatch.setattr(weighted, "MAX_RECORDS", 12)
    monkeypatch.setattr(levels, "MAX_RECORDS", 12)
    codes = np.zeros(12, dtype=np.intp)
    with pytest.raises(InvalidInput, match="fewer than"):
        weighted.WeightedCells(CellRecords(X, codes, None, None, None, None, 12), 2, *given)
    with pytest.raises(InvalidInput, match="fewer than"):
        levels.Levels(as_records(X, Y), codes, 2, *given, 1)


# ---- maps and scales that are not finite ---------------------------------------------------------


def test_a_map_that_is_not_finite_rotates_nothing():
    assert rotate(np.array([[math.nan, 0.0], [0.0, 1.0]]), as_records(X, Y), None) is None


@each("scale", [0.0, 1e-200, 1e200, math.inf])
def test_scales_of_a_loss_are_kept_where_squares_exist(scale):
    at = Linearization(np.zeros(2), LeastSquares(), scale=scale)
    view = TransformedView(np.eye(2), True, "residual", at)
    edges = np.array([0.5, 2.0])
    counts = as_records(X, Y).total(compiled(view, None).counts, edges, 1)
    assert counts.sum() <= len(Y)
