"""Raw tables on a cluster, and of persons with several rows each: nothing is declared."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.errors import InvalidBudget

N = 12_000
CALLS = {
    "least-squares": {},
    "log-cosh": {},
    "logistic": {"standardize": True},
}


def table(seed):
    rng = np.random.default_rng(seed)
    age, dollars = rng.integers(18, 90, N) * 1.0, 1e4 * rng.exponential(size=N)
    X = np.column_stack([age, dollars])
    X[5, 0], X[6, 1] = np.nan, np.inf
    return X, 1e3 + 20.0 * age + 0.01 * dollars + 300.0 * rng.standard_normal(N)


def private(loss, X, y, seed=3, privacy=1.0, persons=None, **options):
    if loss == "logistic":
        y = (y > 2000.0) * 1.0
    if persons:
        X, y = dpfast.records(X, y, **persons), None
    noise = dpfast.SeededNoise(seed)
    return dpfast.fit(X, y, loss, privacy=privacy, noise=noise, **CALLS[loss], **options)


@pytest.mark.parametrize("loss", CALLS)
def test_a_raw_table_on_a_cluster_is_bought_and_fitted_as_arrays_are(loss):
    """Five seeds.  What is bought are whole numbers, the same to the last bit; then sums are added
    up in another order.

    Where a round gives two directions the same least curvature, their eigenvectors depend on the
    last bit, and its noise is turned among them.  Later rounds forget that: it is told in standard
    errors, and most seeds have no such round.
    """
    dask = pytest.importorskip("dask.array")
    X, y = table(1)
    apart = []
    for seed in range(3, 8):
        there = private(
            loss, dask.from_array(X, chunks=(5000, 2)), dask.from_array(y, chunks=5000), seed
        )
        here = private(loss, X, y, seed)
        assert there.released_units() == here.released_units() != []
        assert there.privacy.entries == here.privacy.entries
        assert (np.abs(there.params - here.params) < 0.01 * here.bse).all()
        np.testing.assert_allclose(there.bse, here.bse, rtol=0.01)
        pairs = [(f.params, f.bse, f.predict(X[:4])) for f in (there, here)]
        ratios = [np.abs(a / b - 1.0).max() for a, b in zip(*pairs, strict=True)]
        apart.append(max(ratios))
    assert np.median(apart) < 1e-6


def test_too_few_records_on_a_cluster_are_answered_with_their_mean():
    dask = pytest.importorskip("dask.array")
    X, y = table(2)
    X, y = X[7:107], y[7:107]
    there = private("log-cosh", dask.from_array(X, chunks=(40, 2)), dask.from_array(y, chunks=40))
    here = private("log-cosh", X, y)
    assert "mean of the response" in there.model
    np.testing.assert_array_equal(there.params, here.params)


@pytest.mark.parametrize("loss", CALLS)
def test_persons_pay_for_all_of_their_rows(loss):
    """Seeded.  A person's two rows are half of a contribution each, and the total is the person's:
    noise is that of n / 2 records at mu, so as large as that of n records at half of it."""
    X, y = table(3)
    person = np.arange(N) // 2
    ledger = dpfast.Ledger(1.0)
    grouped = private(loss, X, y, persons={"group": person, "group_size": 2}, ledger=ledger)
    alone = private(loss, X, y, privacy=0.5)
    assert [entry.spend.mu for entry in ledger.entries] == [1.0]
    assert "person" in str(grouped.privacy.relation)
    assert sum(mu**2 for _, mu in grouped.privacy.entries) <= 1.0 + 1e-12
    spent = [mu for _, mu in grouped.privacy.entries]
    assert sum(mu**2 for mu in spent) > 0.99
    assert len(spent) == pytest.approx(len(alone.privacy.entries), abs=8)
    for (name, found), (_, expected) in zip(
        grouped.released_units(), alone.released_units(), strict=True
    ):
        assert found == pytest.approx(expected, rel=0.5), name
    assert (np.abs(grouped.params - alone.params) < 4.0 * np.hypot(grouped.bse, alone.bse)).all()


@pytest.mark.parametrize("loss", CALLS)
@pytest.mark.parametrize("row", [[1e300, -1e300, 0.0], [np.nan, 1.0, 1.0], [3.0, 0.0, np.inf]])
@pytest.mark.one_in(2)
def test_all_rows_of_one_person_move_what_their_total_pays_for(loss, row):
    X, y = table(4)
    rows = np.column_stack([X, y])[:600]

    def call(persons):  # a record of the audit is a person with three rows
        rows = persons.reshape(600, 3)
        y = rows[:, 2] if loss != "logistic" else (rows[:, 2] > 2000.0) * 1.0
        return dpfast.fit(
            dpfast.records(rows[:, :2], y, group=np.arange(600) // 3, group_size=3), None, loss,
            privacy=4.0, **CALLS[loss],
        ).params  # fmt: skip

    persons = rows.reshape(200, 9)
    other = persons.copy()
    other[7] = row * 3
    report = replay(call, persons, other, budget=4.0)
    # receipts are about rows: three of them move an answer by up to three times as much, and a
    # third of the person's mu was charged for each
    assert 0.5 < report.worst_joint <= 3.0 * (1.0 + 1e-9)


def test_persons_are_refused_by_what_is_left_for_one_row():
    X, y = table(5)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidBudget, match="too few"):
        private(
            "least-squares", X[:100], y[:100], ledger=ledger,
            persons={"group": np.arange(100) // 5, "group_size": 5},
        )  # fmt: skip
    assert not ledger.entries
