"""Too few records for p: the private mean, shrunk slopes, predictions within what was seen."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.audit import replay
from dpfast.errors import InferenceUnavailable, InvalidBudget, InvalidInput
from dpfast.regression.shrinkage import shrinkage_factor
from tests.loops import each

UNITS, PLACES = np.array([12.0, 1e5, 1e-3, 40.0, 2.0]), np.array([40.0, 2e5, 0.0, -900.0, 3.0])


def records(n, seed, slope=0.35, q=5):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, q))
    y = Z @ np.full(q, slope) + rng.standard_t(5, size=n)
    return PLACES[:q] + UNITS[:q] * Z, 700.0 + 250.0 * y


def private(X, y, loss="least-squares", privacy=1.0, seed=0, **options):
    return dpfast.fit(X, y, loss, privacy=privacy, noise=dpfast.SeededNoise(seed), **options)


COUNTS = dpfast.Poisson(4.0)


@each("loss", ["least-squares", "log-cosh", "huber", "logistic", "poisson", "gamma", COUNTS])
def test_few_records_are_answered_with_the_mean_of_the_response(loss):
    X, y = records(100, 1)
    if loss == "logistic":
        y = (y > 500.0) * 1.0
    if loss in (COUNTS, "poisson", "gamma"):
        y = np.clip(np.round(y / 300.0), 0.0, 8.0)  # from twice the largest mean on they are cut
    ledger = dpfast.Ledger(1.0)
    fit = private(X, y, loss, ledger=ledger, standardize=True)
    assert np.isnan(fit.params[1:6]).all() and np.isfinite(fit.params[0])
    assert "mean of the response alone" in fit.model
    assert "Estimand: The mean of the response" in fit.methods_text()
    assert fit.predict(X) == pytest.approx(np.full(100, y.mean()), abs=0.6 * y.std())
    assert "not estimated" in fit.warnings[0] and "not estimated" in fit.summary()
    with pytest.raises(InferenceUnavailable, match="standard errors"):
        fit.conf_int()
    assert fit.natural is fit and fit.coding is None
    if loss in ("log-cosh", "huber"):
        assert 0.3 * y.std() < fit.scale < 2.0 * y.std()
    assert [entry.spend.mu for entry in ledger.entries] == [1.0]
    assert 0.8 < sum(mu**2 for _, mu in fit.privacy.entries) <= 1.0 + 1e-12


def scarce(n, seed, q, loss):
    """Columns in units of their own, about zero, and a response with an R^2 of .5."""
    rng = np.random.default_rng([seed, n])
    units = 10.0 ** rng.uniform(-3.0, 5.0, q)
    X = units * (rng.normal(size=(n, q)) + rng.uniform(-2.0, 2.0, q))
    signal = X / units @ np.full(q, q**-0.5)
    signal -= signal.mean()
    y = 700.0 + 250.0 * (signal + rng.normal(size=n))
    if loss == "logistic":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * signal))) * 1.0
    return X, y


@each("loss", ["least-squares", "log-cosh", "logistic", "probit"])
@each("names", ["arrays", "names"])
def test_predictions_from_few_records_have_shrunk_slopes(loss, names):
    """20 seeded fits at n mu = 220, eight columns: nearer to the response than its mean is.

    Correlations of predictions and responses are .53 on average (.71 by the truth); of the mean 0.
    """
    found = []
    for seed in range(20):
        X, y = scarce(220, seed, 8, "logistic" if loss == "probit" else loss)
        ledger = dpfast.Ledger(1.0)
        told = [f"c{j}" for j in range(8)] if names == "names" else None
        fit = private(dpfast.records(X, y, names=told), None, loss, seed=seed, ledger=ledger)
        assert np.isnan(fit.params).all() and "predictions by shrunk slopes" in fit.model
        assert "no intervals" in fit.warnings[-1]
        assert "Estimand: Predictions of the response" in fit.methods_text()
        with pytest.raises(InferenceUnavailable, match="shrunk towards the mean"):
            fit.conf_int()
        predicted = np.asarray(fit.predict(X))
        assert np.isfinite(predicted).all()
        if loss in ("logistic", "probit"):
            assert predicted.min() >= 0.0 and predicted.max() <= 1.0
        found.append(np.mean((y - predicted) ** 2) / np.var(y))
        assert [entry.spend.mu for entry in ledger.entries] == [1.0]
        assert 0.999 < sum(mu**2 for _, mu in fit.privacy.entries) <= 1.0 + 1e-12
    assert np.median(found) < 0.9 and max(found) < 1.15


def test_columns_without_a_scale_leave_the_intercept():
    """All covariates are zero: predictions are one number, near the mean of the response."""
    y = np.random.default_rng(0).normal(700.0, 250.0, 300)
    fit = private(np.zeros((300, 9)), y)
    assert np.ptp(fit.predict(np.zeros((5, 9)))) == 0.0
    assert fit.predict(np.zeros((1, 9)))[0] == pytest.approx(700.0, abs=150.0)


@pytest.mark.parametrize("row", [[1e300] * 9, [np.nan] * 9, [0.0, -np.inf] + [0.0] * 7])
def test_shrunk_slopes_pass_record_and_replay(row):
    rows = np.column_stack(scarce(250, 3, 8, "least-squares"))

    def call(rows):
        return dpfast.fit(rows[:, :8], rows[:, 8], "least-squares", privacy=1.0).predict(rows[:3])

    other = rows.copy()
    other[7] = row
    replay(lambda rows: call(rows)[:0], rows, other, budget=1.0).raise_on_leak()


def test_what_is_refused_is_refused_before_the_charge():
    X, y = records(150, 1)
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput):
        private(X, y, ledger=ledger, progress=3)
    with pytest.raises(InvalidInput):
        private(dpfast.records(X, y, names=["a"]), None, ledger=ledger)
    with pytest.raises(InvalidInput, match="method"):
        private(X, y, dpfast.Objective("log-cosh", scale=1.0), ledger=ledger, method="newtonian")
    with pytest.raises(
        InvalidBudget, match="too few to find the scales"
    ):  # a method asks for slopes
        private(X, y, "log-cosh", ledger=ledger, method="newton")
    with pytest.raises(InvalidBudget, match="response alone"):
        private(X[:35], y[:35], ledger=ledger)
    through = dpfast.Objective("least-squares", fit_intercept=False)
    with pytest.raises(InvalidBudget, match="too few to find the scales"):
        private(X[:35], y[:35], through, ledger=ledger)
    assert not ledger.entries


def test_a_scale_that_was_given_is_none_of_the_mean():
    X, y = records(100, 1)
    known = private(X, y, dpfast.Objective("log-cosh", scale=250.0), standardize=True)
    assert known.names[-1] == "x5" and np.isnan(known.params[1:]).all()


def test_persons_are_protected_with_all_their_rows():
    X, y = records(300, 2)
    fit = private(dpfast.records(X, y, group=np.arange(300) // 3, group_size=3), None)
    assert np.isnan(fit.params[1:]).all()
    assert 0.8 < sum(mu**2 for _, mu in fit.privacy.entries) <= 1.0 + 1e-12


@pytest.mark.parametrize("row", [[1e300] * 6, [np.nan] * 6, [0.0, -np.inf, 0.0, 0.0, 0.0, 1.0]])
def test_the_mean_passes_record_and_replay(row):
    rows = np.column_stack(records(100, 3))

    def call(rows):
        return dpfast.fit(rows[:, :5], rows[:, 5], "least-squares", privacy=1.0).params

    other = rows.copy()
    other[7] = row
    replay(call, rows, other, budget=1.0).raise_on_leak()


def test_slopes_that_are_clear_are_kept_whatever_spreads_were_found():
    """A spread of one record in twenty is found too narrow; by chance none of these is."""
    x = (np.arange(5000) % 20 == 0) * 1.0
    y = 10.0 * x + 0.3 * np.random.default_rng(0).normal(size=5000)
    fits = [private(x[:, None], y, seed=seed) for seed in range(10)]  # a cap of 1.3: six of ten
    for fit in fits:
        assert fit.predict([[1.0]]) == pytest.approx(fit.params.sum(), rel=1e-9)


def test_clear_slopes_of_responses_with_long_tails_are_kept():
    """Cauchy errors, whose spread slopes of 1 are small beside; a large budget, and one of 1."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 3))
    y = X.sum(axis=1) + rng.standard_cauchy(3000)
    for mu in (1.0, 50.0):
        fit = dpfast.fit(X, y, "log-cosh", privacy=mu, noise=dpfast.SeededNoise(0))
        assert "Predictions keep" not in fit.method


def test_slopes_are_shrunk_where_noise_is_a_large_part_of_them():
    assert shrinkage_factor(0.5, 0.01) == 1.0 and shrinkage_factor(0.5, 0.4) == 0.0
    assert shrinkage_factor(0.1, 0.05) == 0.0 and 0.0 < shrinkage_factor(0.2, 0.05) < 0.6
    assert shrinkage_factor(0.1, np.nan) == shrinkage_factor(np.nan, 0.1) == 0.0
    X, y = records(600, 4, slope=0.0)
    fits = [private(X, y, seed=seed) for seed in range(8)]
    told = [fit for fit in fits if "Predictions keep" in fit.method]
    assert len(told) >= 6
    fit = told[0]
    line = fit.params[0] + X @ fit.params[1:]
    assert np.var(fit.predict(X)) < 0.5 * np.var(line)
    assert np.isfinite(fit.bse).all() and fit.coded.predict(X) == pytest.approx(fit.predict(X))


def test_slopes_are_estimated_wherever_units_are_found():
    """Twelve coefficients at n mu = 9.6 p^1.5; seeded, 12 runs: intervals hold 132 slopes."""
    held, distances = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 11))
        slopes = np.where(np.arange(11) < 4, 0.6, 0.0)
        fit = private(X, X @ slopes + rng.normal(size=400), seed=seed)
        low, high = np.asarray(fit.conf_int())[1:].T
        held.append((low <= slopes) & (slopes <= high))
        new = rng.normal(size=(1000, 11))
        distances.append(np.mean((fit.predict(new) - new @ slopes) ** 2) / np.var(new @ slopes))
        assert "mostly noise" in " ".join(fit.warnings)
    assert np.mean(held) > 0.9 and np.median(distances) < 0.4


def test_shrunken_odds_keep_the_mean_response():
    """A rare response: shrunken slopes about one half, or about rare ones, would be far from it."""
    from dpfast.models import Logistic
    from dpfast.regression.shrinkage import _mean_predictor, _mean_response

    for level, spread, factor in ((-3.0, 2.0, 0.3), (0.0, 1.0, 0.5), (1.5, 2.5, 0.0)):
        shrunken = _mean_predictor(level, spread, factor, Logistic())
        before = _mean_response(level, spread, Logistic())
        after = _mean_response(shrunken, factor * spread, Logistic())
        assert after == pytest.approx(before, rel=0.02)


def test_strong_slopes_of_correlated_columns_are_kept():
    """Log odds may vary by any amount, and noise is that of predictions, not of coefficients."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20_000, 3))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    odds = 4.0 * (X[:, 0] - 10.0 * (X[:, 1] - X[:, 0])) + X[:, 2]
    y = (rng.random(len(X)) < 1.0 / (1.0 + np.exp(-odds))) * 1.0
    fit = private(X, y, "logistic")
    assert "Predictions keep" not in fit.method
    inside = 1.0 / (1.0 + np.exp(-(fit.params[0] + X @ fit.params[1:])))
    assert np.median(np.abs(fit.predict(X) - inside)) < 1e-9


def test_predictions_of_odds_without_slopes_are_the_share_of_ones():
    """Not one half.  Seeded; strong slopes, of which n mu = 600 tells nothing: 40 runs."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 8))
    X[:, 7] = np.where(rng.random(600) < 0.01, 1e5, X[:, 7])
    y = (rng.random(600) < 1.0 / (1.0 + np.exp(4.0 - 2.0 * X[:, 0]))) * 1.0
    fits = [private(X, y, "logistic", seed=seed) for seed in range(40)]
    worse = [np.mean((fit.predict(X) - y) ** 2) / np.var(y) - 1.0 for fit in fits]
    assert np.mean(worse) < 0.05


def test_predictions_stay_within_what_was_seen():
    X, y = records(20_000, 5, q=2)
    for loss in ("least-squares", "log-cosh"):
        fit = private(X, y, loss)
        inside = fit.params[0] + X @ fit.params[1:3]
        assert fit.predict(X) == pytest.approx(inside, rel=1e-9)
        beyond = np.array([[1e9, 1e12], [PLACES[0] + 200.0 * UNITS[0], PLACES[1]]])
        found = fit.predict(beyond)
        assert abs(found[0] - y.mean()) < 6.0 * y.std()
        assert abs(found[1] - fit.predict([[PLACES[0] + 5.0 * UNITS[0], PLACES[1]]])[0]) < y.std()
        assert np.isnan(fit.predict([[np.nan, 0.0]])).all()


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh"])
@pytest.mark.parametrize("strength", [100, 200, 400, 800])
@pytest.mark.parametrize("slope", [0.0, 0.35])
@pytest.mark.pairs
def test_predictions_are_hardly_worse_than_the_private_mean(loss, strength, slope):
    """Seeded, 6 runs; one covariate is zero but for a mass far out (adult's capital gains)."""
    Z, v = records(5000, 6, slope)
    Z[:, 2] = np.where(np.arange(5000) % 20 == 0, 99_999.0, 0.0) * UNITS[2]
    v = v + np.where(Z[:, 2] > 0.0, 250.0 * slope, 0.0)
    losses, alone = [], []
    for seed in range(6):
        some = np.random.default_rng(seed).integers(0, len(Z), strength)
        fit = private(Z[some], v[some], loss, seed=seed)
        mean = dpfast.standardize(
            v[some][:, None], v[some], response=False, privacy=1.0,
            noise=dpfast.SeededNoise(seed + 100),
        ).centres[0]  # fmt: skip
        losses.append(np.mean((v - fit.predict(Z)) ** 2) / v.var())
        alone.append(np.mean((v - mean) ** 2) / v.var())
    assert np.mean(losses) - np.mean(alone) < 0.05
    if loss == "least-squares" and slope and strength == 800:
        assert np.median(losses) < 0.8  # ordinary least squares: about .73


@pytest.mark.parametrize("strength", [200, 800, 3000])
@pytest.mark.parametrize("share", [0.5, 0.05])
@pytest.mark.parametrize("slope", [0.0, 0.8])
@pytest.mark.one_in(3)
def test_predicted_shares_are_hardly_worse_than_that_of_all_records(share, strength, slope):
    """Seeded, 8 runs; one covariate tells who is a one by itself, so that its curvature fades."""
    rng = np.random.default_rng(8)
    Z = rng.normal(size=(6000, 5))
    Z[:, 2] = rng.random(6000) < 0.04
    line = np.log(share / (1.0 - share)) + Z @ [slope, -slope, 0.0, slope, 0.0] + 9.0 * Z[:, 2]
    y = (rng.random(6000) < 1.0 / (1.0 + np.exp(-line))).astype(float)
    y = np.where(Z[:, 2] > 0.0, 1.0, y) if slope else (rng.random(6000) < share) * 1.0
    X, losses = PLACES + UNITS * Z, []
    for seed in range(8):
        some = np.random.default_rng(seed).integers(0, len(X), strength)
        fit = private(X[some], y[some], "logistic", seed=seed)
        losses.append(np.mean((y - fit.predict(X)) ** 2) / y.var())
    assert np.mean(losses) < 1.05 and max(losses) < 1.15
    if slope and strength == 3000:
        assert np.mean(losses) < (0.8 if share == 0.5 else 0.93)
