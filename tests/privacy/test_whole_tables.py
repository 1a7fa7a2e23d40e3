"""What a default door does with a whole table of odd values: it pays, and a result arrives.

One record may decide whether any is usable, so that raising would be an answer that nobody paid.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpfast
from tests.loops import each

N = 600
PERSONS = np.repeat(np.arange(N // 3), 3)
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(N, 3))
Y = X @ [1.0, 0.5, 0.0] + DRAWN.normal(size=N)
ONE = np.where(np.arange(N) == 5, 1.0, np.nan)
TREATED = (X[::3, 0] > 0.0).repeat(3) * 1.0

TABLES = {
    "no row is usable": (X * np.nan, Y),
    "no response is usable": (X, Y * np.nan),
    "a column is infinite": (np.column_stack([X[:, 0] * 0.0 + np.inf, X[:, 1:]]), Y),
    "one row is usable": (X * ONE[:, None], Y),
    "sums overflow": (X * 1e307, Y * 1e307),
    "nothing varies": (X * 0.0, Y * 0.0),
    "denormal": (X * 5e-324, Y * 5e-324),
}

LOSSES = ["least-squares", "log-cosh", "huber", dpfast.Quantile(0.3)]
LINKED = {
    "logistic": lambda y: np.where(np.isnan(y), np.nan, y > 0.0),
    "probit": lambda y: np.where(np.isnan(y), np.nan, y > 0.0),
    "poisson": np.abs,
    "gamma": np.abs,
}


def doors():
    for loss in [*LOSSES, *LINKED]:
        of = LINKED.get(str(loss), np.asarray)

        def fit(X, y, loss=loss, of=of, **of_records):
            return {"X": dpfast.records(X, of(y), **of_records), "loss": loss}

        yield f"{loss}", dpfast.fit, fit
        yield (
            f"{loss}, persons",
            dpfast.fit,
            lambda X, y, fit=fit: fit(X, y, group=PERSONS, each="person"),
        )
        if loss in LOSSES:
            yield (
                f"{loss}, within persons",
                dpfast.fit,
                lambda X, y, fit=fit: fit(X, y, group=PERSONS, each="person", effects="person"),
            )
        else:
            yield f"{loss}, offset", dpfast.fit, lambda X, y, fit=fit: fit(X, y, offset=X[:, 1])
    yield (
        "sampling weights",
        dpfast.fit,
        lambda X, y: {"X": dpfast.records(X, y, sample_weight=np.abs(X[:, 0]))},
    )
    yield "quantiles", dpfast.fit_quantiles, lambda X, y: {"X": X, "y": y, "taus": [0.25, 0.5]}
    for name, of_records in (("", {}), (", persons", {"group": PERSONS, "each": "person"})):
        yield (
            f"effect{name}",
            dpfast.effects.treatment_effect,
            lambda X, y, some=of_records: {
                "X": dpfast.records(X, y, **some),
                "treatment": TREATED,
            },
        )


DOORS = {name: call for name, *call in doors()}


@pytest.mark.parametrize("door", DOORS)
@each("table", TABLES)
def test_whatever_a_whole_table_holds_it_is_paid_for_and_a_result_arrives(door, table):
    function, arguments = DOORS[door]
    ledger = dpfast.Ledger(1.0)
    given = {"privacy": 1.0, "ledger": ledger, "noise": dpfast.SeededNoise(0)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning about values would be an answer, too
        found = function(**arguments(*TABLES[table]), **given)
    assert found is not None and ledger.remaining.mu == 0.0
