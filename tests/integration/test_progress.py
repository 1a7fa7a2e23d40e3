"""progress=True shows a bar: of tqdm where it is installed, else a plain line; it costs nothing."""

from __future__ import annotations

import sys
import types
from typing import ClassVar

import numpy as np
import pytest

import dpfast
from tests.loops import each

X = np.random.default_rng(0).normal(size=(2000, 1))
TABLE = {"x": X[:, 0], "y": X[:, 0]}
DOORS = {
    "fit": lambda **o: dpfast.fit(X, X[:, 0], "least-squares", privacy=1.0, **o),
    "fit, formula": lambda **o: dpfast.fit("y ~ x", TABLE, privacy=1.0, **o),
    "fit_quantiles": lambda **o: dpfast.fit_quantiles(X, X[:, 0], [0.4, 0.6], privacy=4.0, **o),
    "tune": lambda **o: dpfast.tune(
        lambda at: (X[:, 0] - at[0]) ** 2, [(-1.0, 1.0)], privacy=1.0, n_records=2000, steps=3, **o
    ),
}  # fmt: skip


class Bar:
    """What is used of tqdm's."""

    made: ClassVar[list] = []

    def __init__(self, total, **options):
        self.total, self.n, self.closed, self.options = total, 0, False, options
        self.made.append(self)

    def update(self, steps):
        assert steps >= 0 and not self.closed
        self.n += steps

    def close(self):
        self.closed = True


@each("door", DOORS)
def test_a_plain_line_where_tqdm_is_not_installed(door, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    DOORS[door](progress=True)
    shown = capsys.readouterr()
    assert shown.out == "" and "dpfast [" in shown.err
    assert shown.err.endswith("\r\033[K")  # no trace is left
    DOORS[door](progress=False)
    assert capsys.readouterr().err == ""


@each("door", DOORS)
def test_a_bar_of_tqdm_is_filled_and_closed(door, monkeypatch):
    Bar.made = []
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    fake = types.ModuleType("tqdm.auto")
    fake.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", fake)
    DOORS[door](progress=True)
    (bar,) = Bar.made
    assert bar.closed and bar.n == bar.total > 0


def test_a_bar_that_breaks_costs_no_result(monkeypatch):
    def broken(self, steps):
        if self.n or steps:
            raise OSError("a pipe that was closed")

    monkeypatch.setattr(Bar, "update", broken)
    test_with = types.ModuleType("tqdm.auto")
    test_with.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", test_with)
    ledger = dpfast.Ledger(1.0)
    fit = DOORS["fit"](progress=True, ledger=ledger)
    assert np.isfinite(fit.bse).all() and len(ledger.entries) >= 1


@pytest.mark.parametrize("wrong", ["yes", 1, 0.5])
def test_other_values_are_refused_before_the_charge(wrong):
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(dpfast.InvalidInput, match="progress must be True for a bar"):
        DOORS["fit"](progress=wrong, ledger=ledger)
    assert ledger.entries == ()
