"""Random calls on random hostile neighbours: nothing but paid answers may differ."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from tests.audit.calls import examples

HOSTILE = (
    np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -1e-310, 0.0, -0.0, 1e154, 1e-154, 2.0**53,
    3.0, -7.5, 1.0, 0.5,
)  # fmt: skip

#: Rows of persons are read label by label, for as long as there are some.
PER_LABEL = re.compile(r"after (numbering|means)\.py")


def hostile(rng, *columns, rows):
    """Copies with some entries of these rows replaced."""
    found = [column.copy() for column in columns]
    for column in found:
        for row in rows:
            entries = column[row : row + 1].reshape(-1)
            chosen = rng.random(len(entries)) < 0.5
            entries[chosen] = rng.choice(HOSTILE, int(chosen.sum()))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_registered_calls_on_random_neighbours(seed):
    rng = np.random.default_rng(seed)
    calls = examples()
    for _ in range(250):
        call = calls[rng.integers(len(calls))]
        X, y = rng.normal(size=(12, 2)) * rng.choice([1.0, 50.0]), rng.normal(size=12)
        if call.binary:
            y = (y > 0.0) * 1.0
        i = int(rng.integers(12))
        first, second = (hostile(rng, X, y, rows=[i]) for _ in range(2))
        second[0][i, 0] = 0.25  # at least this entry is another one
        first[0][i, 0] = 0.75
        report = replay(call.call, tuple(first), tuple(second), budget=call.budget)
        assert report.passed, (call.name, call.label, report.leaks)


LOSSES = ("log-cosh", "huber", "logistic", "smoothed-huber", dpfast.Quantile(0.3, 0.3), "poisson")
METHODS = ("auto", "newton", "gradient-descent")


@pytest.mark.slow
@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_fits_with_weights_offsets_and_persons_on_random_neighbours(seed, persons):
    """A record, or a person who may get up to 60 rows more, with hostile cells of every kind."""
    rng = np.random.default_rng(100 + seed)
    for _ in range(60):
        n = int(rng.integers(12, 40))
        loss = LOSSES[rng.integers(len(LOSSES))]
        y = rng.normal(size=n)
        table = [
            rng.normal(size=(n, 2)), (y > 0.0) * 1.0 if loss == "logistic" else y,
            rng.uniform(0.0, 2.0, n), rng.normal(size=n), rng.integers(0, n // 3, n) * 1.0,
        ]  # fmt: skip
        i = int(rng.integers(n))
        who = table[4][i]
        rows = np.flatnonzero(table[4] == who).tolist() if persons else [i]
        other = [*hostile(rng, *table[:4], rows=rows), table[4].copy()]
        if persons:
            m = int(rng.integers(1, 60))
            more = [rng.normal(size=(m, 2)), np.zeros(m), np.ones(m), np.zeros(m)]
            if rng.random() < 0.5:  # of all of them the same cell, where usable rows would hide it
                more[rng.choice([0, 1, 3])][:] = rng.choice(HOSTILE)
                more = [*more, np.full(m, who)]
            else:
                more = [*hostile(rng, *more, rows=range(m)), np.full(m, who)]
            other = [np.concatenate(pair) for pair in zip(other, more, strict=True)]
        tables = table, other
        options = {
            "method": METHODS[rng.integers(len(METHODS))],
            "inference": bool(rng.random() < 0.5),
            "privacy": float(rng.choice([0.3, 2.0, 8.0])),
        }
        kind = dpfast.Poisson(5.0) if loss == "poisson" else loss
        if loss not in ("logistic", "poisson"):
            kind = dpfast.Objective(loss, scale=float(rng.choice([0.1, 1.0, 30.0])))

        def call(number, tables=tables, kind=kind, options=options):
            X, y, weights, offsets, group = tables[int(number[0][0])]
            own = {"group": group, "each": "person"} if persons else {
                "sample_weight": weights, "largest_weight": 1.5
            }  # fmt: skip
            rows = dpfast.records(X, y, offset=offsets, **own)
            found = dpfast.fit(rows, None, kind, **options)
            return found, found.summary(), found.to_dict(), found.warnings

        report = replay(call, (np.zeros(1),), (np.ones(1),), budget=options["privacy"])
        leaks = [leak for leak in report.leaks if not PER_LABEL.search(leak)]
        assert not leaks, (kind, options, leaks)
