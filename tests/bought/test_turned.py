"""Logistic regression of raw columns: rows are whitened, and the weights' radius is bought."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dpfast
from dpfast.curator.answers import Answer, Receipt
from dpfast.data.bought.units import Turned
from dpfast.optimize.least_squares.histogram import Lengths, tops_of_cells
from dpfast.optimize.least_squares.leverage import (
    budgets,
    composed,
    even_radius,
    foreseen_radius,
    most_share,
    on_coefficients,
    turn,
)

RNG = np.random.default_rng(8)
MIXED = RNG.normal(size=(4, 4))
Z = RNG.standard_t(6, size=(4000, 4)) @ MIXED + [3.0, 0.0, -1.0, 0.2]


def design(X, intercept=True):
    return np.column_stack([np.ones(len(X)), X]) if intercept else X


def exact(X, intercept):
    rows = design(X, intercept)
    return Answer(rows.T @ rows / len(rows), 1e-9, Receipt("gram", "C14", 1.0, 1.0, 1e-9))


@pytest.mark.parametrize("intercept", [True, False])
def test_turned_rows_have_the_identity_for_a_gram(intercept):
    matrix = turn(exact(Z, intercept), intercept)
    rows, y = Turned(matrix, intercept).coded(Z, np.zeros(len(Z)))
    whole = design(rows, intercept)
    np.testing.assert_allclose(whole.T @ whole / len(Z), np.eye(whole.shape[1]), atol=1e-6)
    assert not y.any()


@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_of_turned_rows_predict_as_those_of_the_rows(intercept):
    q = 4 + intercept
    first, then = RNG.normal(size=(2, q, 4))
    one, nothing = Turned(composed(first, then, intercept), intercept), np.zeros(len(Z))
    rows = Turned(then, intercept).coded(Turned(first, intercept).coded(Z, nothing)[0], nothing)[0]
    np.testing.assert_allclose(one.coded(Z, nothing)[0], rows, rtol=1e-9)
    theta = RNG.normal(size=q)
    back = on_coefficients(one.matrix, intercept) @ theta
    np.testing.assert_allclose(
        design(rows, intercept) @ theta, design(Z, intercept) @ back, rtol=1e-6
    )


def test_hidden_directions_stay_finite():
    """The noise of a Gram, where there is nothing else, and one that is all zeros."""
    noise = RNG.normal(size=(5, 5))
    for value in (noise + noise.T, np.zeros((5, 5))):
        gram = Answer(value, 1.0, Receipt("gram", "C14", 1.0, 1.0, 1.0))
        assert np.isfinite(turn(gram, True)).all()


def test_the_radius_reaches_all_rows_that_are_seen_as_n_mu_grows():
    """And never less than the root of p; a mass of long rows does not pull it to themselves."""
    tops = tops_of_cells(2)
    shares = np.exp(-0.5 * (tops / 2.0) ** 2)
    lengths = Lengths(shares / shares.sum(), tops, tops * 2.0**-0.25, 0.0)
    seen = tops[shares / shares.sum() > 1e-9][-1]
    found = [even_radius(lengths, n, 4, 1.0) for n in (100, 10**4, 10**6, 10**8, 10**11)]
    assert found[0] == 2.0 and found == sorted(found) and found[-1] >= seen * 2.0**-0.25
    apart = Lengths(np.array([0.995, 0.005]), np.array([4.0, 64.0]), np.array([3.4, 54.0]), 0.0)
    assert even_radius(apart, 50_000, 9, 1.0) < 10.0


def test_the_radius_is_that_of_scores_where_these_are_known():
    """Long rows that are foreseen have short scores; rows that are not seen bound those that are.

    With many records the radius is that of the longest row, as long as any score is cut below it.
    """
    tops = tops_of_cells(1)
    middles = tops * 2.0**-0.5

    def scores(share, length):
        shares = np.where(tops == 1.0, 0.9, np.where(tops == 2.0, 0.1, 0.0))
        shares = shares + share * (tops == length)
        seen = shares > 0.0
        return Lengths(shares[seen], tops[seen], middles[seen], 0.0)

    short, missed = foreseen_radius(scores(0.0, 64.0), 64.0, 50_000, 9, 1.0)
    assert short < 6.0 and missed < 0.01
    long, missed = foreseen_radius(scores(0.005, 64.0), 64.0, 50_000, 9, 1.0)
    assert long > 30.0
    beyond = scores(0.005, 64.0)
    found = [foreseen_radius(beyond, 64.0, n, 9, 1.0)[0] for n in (10, 10**5, 10**9)]
    assert found == sorted(found) and found[0] < 16.0 and 58.0 < found[-1] <= 64.0


def test_prices_are_public_and_a_small_part():
    assert most_share(10**6, 9, 1.0) == pytest.approx(0.145, abs=0.001)
    assert most_share(1000, 9, 1.0) == pytest.approx(0.11, abs=0.001)
    assert budgets(1000, 9, 1.0).turned == budgets(1000, 9, 1.0).lengths == 0.0
    for mu in (1e-90, 1.0, 1e90):
        assert 0.0 < most_share(5000, 4, mu) < 0.2


def test_a_replaced_record_is_one_replaced_record_under_a_map():
    """To the last bit, in blocks of any length; a record that is not finite is one of no response,
    whatever its product with the map is."""
    for n in (1, 5, 64, 1001):
        X, y = Z[:n], np.arange(n) % 2.0
        for dtype in (np.float64, np.float32):
            turned = Turned(RNG.normal(size=(5, 4)), True)
            turned.matrix[1:, 2] = 0.0
            before = turned.coded(X.astype(dtype), y)
            for row in ([np.inf, 0.0, 0.0, 0.0], [np.nan] * 4, [1e30, -1e30, 0.0, 0.0]):
                other = X.astype(dtype)
                other[n // 2] = row
                after = turned.coded(other, y)
                same = np.arange(n) != n // 2
                for a, b in zip(before, after, strict=True):
                    assert np.array_equal(a[same], b[same])
                assert np.isfinite(after[1][n // 2]) == np.isfinite(row).all()


def raw(n, seed):
    """Correlated raw columns, one of them heavy-tailed; a tenth are ones."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n) * 1.0
    years = 0.4 * age + rng.normal(size=n) * 3.0
    dollars = np.exp(9.0 + rng.normal(size=n))
    X = np.column_stack([age, years, dollars])
    odds = -3.0 + 0.05 * (age - 54.0) - 0.06 * (years - 21.6) + 3e-5 * dollars
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-odds))) * 1.0
    return X, y


def likeliest(X, y):
    scale, centre = X.std(axis=0), X.mean(axis=0)
    rows, theta = design((X - centre) / scale), np.zeros(X.shape[1] + 1)
    for _ in range(30):
        mean = 1.0 / (1.0 + np.exp(-rows @ theta))
        inverse = np.linalg.inv((rows * (mean * (1.0 - mean))[:, None]).T @ rows)
        theta = theta + inverse @ (rows.T @ (y - mean))
    return theta[1:] / scale, np.sqrt(inverse.diagonal()[1:]) / scale


def private(X, y, seed=0, privacy=1.0, **options):
    noise = dpfast.SeededNoise(seed)
    options = {"standardize": True, **options}
    return dpfast.fit(X, y, "logistic", privacy=privacy, noise=noise, **options)


def test_it_is_near_the_maximum_of_the_likelihood():
    """Seeded, 8 tables; weights of rows as they came are 1.3 times as far and more."""
    turned, plain = [], []
    for seed in range(8):
        X, y = raw(20_000, seed)
        slopes, errors = likeliest(X, y)
        for found, options in (turned, {}), (plain, {"weights": dpfast.Mallows(4.3)}):
            fit = private(X, y, seed, **options)
            found.append(np.sqrt(np.mean(((fit.params[1:] - slopes) / errors) ** 2)))
    assert np.median(turned) < 0.7 and np.median(plain) > 1.3 * np.median(turned)


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_intervals_cover(mu):
    """400 tables, 1,200 intervals at 95%: above .91 unless coverage is below .945 (1e-6: 4.75
    standard deviations of .0073, intervals of a table being nearly independent)."""
    covered = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(6000, 3)) @ [[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 2.0]]
        beta = np.array([0.5, -0.5, 0.1])
        y = (rng.random(6000) < 1.0 / (1.0 + np.exp(1.0 - X @ beta))) * 1.0
        interval = private(X, y, seed, mu).conf_int()[1:]
        covered.append((interval[:, 0] <= beta) & (beta <= interval[:, 1]))
    assert np.mean(covered) > 0.91


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"inference": False}])
@pytest.mark.parametrize("mu", [1.0, 8.0])
def test_the_total_pays_for_units_turning_and_fit(options, mu):
    """And for a pilot and the lengths of scores where the budget is large."""
    X, y = raw(6000, 1)
    ledger = dpfast.Ledger(mu)
    fit = private(X, y, privacy=mu, ledger=ledger, **options)
    assert [entry.spend.mu for entry in ledger.entries] == [mu]
    names = [name for name, _ in fit.privacy.entries]
    assert names.count("histogram of lengths") == 2 + (mu > 1.0) and "clipped moments" in names
    spent = math.fsum(part * part for _, part in fit.privacy.entries) / mu**2
    assert 0.98 < spent <= 1.0 + 1e-12
    assert np.isfinite(fit.params).all() and len(fit.params) == 3 + (fit.names[0] == "intercept")


@pytest.mark.parametrize(
    "option",
    [
        {"weights": dpfast.Mallows(3.0)},
        {"ridge": 0.01},
        {"method": dpfast.Newton(start=[0.0] * 4)},
        {"standardize": False},
    ],
)
def test_what_is_of_rows_as_they_are_leaves_them_so(option):
    X, y = raw(6000, 2)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    fit = private(X, y, **option)
    assert "whitened" not in fit.model
    assert "histogram of lengths" not in [name for name, _ in fit.privacy.entries]


def test_weights_and_offsets_stay_beside_turned_rows():
    """Equal weights are none, and a constant offset goes into the intercept."""
    X, y = raw(8000, 3)
    plain = private(X, y)
    same = private(X, y, sample_weight=np.ones(len(y)), largest_weight=1.0)
    np.testing.assert_allclose(same.params, plain.params, rtol=1e-9)
    moved = private(X, y, offset=np.full(len(y), 0.5))
    assert moved.params[0] == pytest.approx(plain.params[0] - 0.5, abs=2.0 * plain.bse[0])
    np.testing.assert_allclose(moved.params[1:], plain.params[1:], atol=1.5 * plain.bse[1:].max())


def test_what_was_released_before_an_interruption_is_in_the_units_of_the_columns():
    X, y = raw(8000, 4)
    slopes, errors = likeliest(X, y)

    def stop(step, of):
        if step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        private(X, y, progress=stop)
    found = caught.value.partial_result
    assert (np.abs(found.params[1:] - slopes) < 12.0 * errors).all()
