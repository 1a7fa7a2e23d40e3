"""``records(..., effects="person")``: persons' own means, a function of their rows."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.data.persons.means import within_persons
from dpfast.data.records import Records
from dpfast.errors import InvalidInput
from tests.loops import each
from tests.stops import stopped

SLOPES = np.array([1.0, -0.5])


def panel(persons, seed=0):
    """What a person is moves covariates and response; rows come in any order."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(persons), rng.integers(1, 8, persons))
    rng.shuffle(group)
    own = rng.normal(size=persons)[group]
    X = np.column_stack([own + rng.normal(size=len(group)), rng.normal(size=len(group))])
    return X, X @ SLOPES + 2.0 * own + rng.normal(size=len(group)), group


def by_hand(X, y, group):
    """Weights one over the number of rows, standard errors of clusters."""
    rows = np.bincount(group)[group]
    X, y = [v - (np.bincount(group, v) / np.bincount(group))[group] for v in X.T], y
    X = np.column_stack(X)
    y = y - (np.bincount(group, y) / np.bincount(group))[group]
    weighted = X / rows[:, None]
    bread = np.linalg.inv(weighted.T @ X)
    params = bread @ weighted.T @ y
    scores = weighted * (y - X @ params)[:, None]
    sums = np.column_stack([np.bincount(group, v) for v in scores.T])
    return params, np.sqrt(np.diag(bread @ sums.T @ sums @ bread))


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh"])
def test_slopes_are_those_within_persons(loss):
    """Widths are medians of eleven seeded fits, beside the loss's own errors without noise.

    One width varies by 5% at mu = 1, and a median by 2%: the first bound is two of these above the
    8% that noise adds.  Log-cosh has errors 4% to 8% above those of least squares.
    """
    X, y, group = panel(4000)
    params, errors = by_hand(X, y, group)
    rows = dpfast.records(
        X, y, group=group, each="person", effects="person", names=["pay", "hours"]
    )
    exact = dpfast.fit(rows, loss=loss, privacy=200.0, noise=dpfast.SeededNoise(0))
    np.testing.assert_allclose(exact.params, params, atol=0.3 * errors.max())
    np.testing.assert_allclose(exact.bse, errors, rtol=0.06 if loss == "least-squares" else 0.1)
    for budget, most in ((1.0, 1.12), ((1.0, 1e-6), 1.7)):
        widths = []
        for seed in range(11):
            found = dpfast.fit(rows, loss=loss, privacy=budget, noise=dpfast.SeededNoise(seed))
            assert found.names == ("pay", "hours")
            assert (np.abs(found.params - SLOPES) < 4.5 * found.bse).all()
            assert "less their own means" in found.model
            widths.append(found.bse / exact.bse)
        assert (np.median(widths, axis=0) < most).all(), np.median(widths, axis=0)


def test_without_them_slopes_are_others():
    X, y, group = panel(4000)
    rows = dpfast.records(X, y, group=group, each="person")
    found = dpfast.fit(rows, loss="least-squares", privacy=1.0, noise=dpfast.SeededNoise(0))
    assert found.params[1] > 1.5


def test_c81_a_person_changes_their_own_rows_alone_and_to_the_bit():
    X, y, group = panel(40, 3)
    before = within_persons(Records(X, y, None), group)
    mine = np.flatnonzero(group == 7)
    for value in (1e308, -np.inf, np.nan, 5.0):
        Z, z = X.copy(), y.copy()
        Z[mine[0], 0], z[mine[-1]] = value, -value
        after = within_persons(Records(Z, z, None), group)
        others = np.delete(np.arange(len(y)), mine)
        assert before.X[others].tobytes() == after.X[others].tobytes()
        assert before.y[others].tobytes() == after.y[others].tobytes()
    # nor do a person's further rows, wherever they stand
    more = within_persons(
        Records(np.vstack([X[mine], X]), np.append(y[mine], y), None), np.append(group[mine], group)
    )
    assert before.X[others].tobytes() == more.X[len(mine) :][others].tobytes()


def test_missing_rows_are_not_in_the_means():
    X = np.array([[1.0], [3.0], [np.nan], [7.0]])
    found = within_persons(Records(X, np.array([0.0, 4.0, 1.0, np.nan]), None), [0, 0, 0, 1])
    np.testing.assert_array_equal(found.X[:, 0], [-1.0, 1.0, np.nan, np.nan])
    np.testing.assert_array_equal(found.y, [-2.0, 2.0, np.nan, np.nan])


@each(
    "wrong",
    [
        {"each": "row", "group": None}, {"each": "row", "group_size": 5}, {"effects": "year"},
        {"effects": 1}, {"sample_weight": np.ones(2), "largest_weight": 1.0},
    ],
    ids=repr,
)  # fmt: skip
def test_what_they_do_not_go_with_is_refused_first(wrong):
    X, y, group = panel(500)
    ledger = dpfast.Ledger(9.0)
    given = {"group": group, "each": "person", "effects": "person"} | wrong
    with pytest.raises(InvalidInput):
        dpfast.fit(dpfast.records(X, y, **given), privacy=1.0, ledger=ledger)
    assert ledger.spent.mu == 0.0


def test_losses_with_a_link_and_other_analyses_are_refused_first():
    X, y, group = panel(500)
    ledger = dpfast.Ledger(9.0)
    rows = dpfast.records(X, (y > 0) * 1.0, group=group, each="person", effects="person")
    with pytest.raises(InvalidInput, match="differences"):
        dpfast.fit(rows, loss="logistic", privacy=1.0, ledger=ledger)
    with pytest.raises(InvalidInput, match="effects"):
        dpfast.effects.treatment_effect(rows, group, privacy=1.0, ledger=ledger)
    assert ledger.spent.mu == 0.0


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh"])
@pytest.mark.parametrize("usable", [0, 1, 3, 500])
def test_c81_however_many_rows_are_usable_nothing_raises(usable, loss):
    """Whether nobody has a usable row is a fact of values, which the counts have to pay for."""
    X, y, group = panel(500)
    X[group >= usable] = np.nan
    ledger = dpfast.Ledger(1.0)
    rows = dpfast.records(X, y, group=group, each="person", effects="person")
    found = dpfast.fit(rows, loss=loss, privacy=1.0, ledger=ledger, noise=dpfast.SeededNoise(0))
    assert found.n_records == 500
    assert stopped(found, ledger) == (usable < 500)
    assert (ledger.remaining.mu == 0.0) == (usable == 500)
