"""Poisson regression: against statsmodels, from start to result, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import dpfast
from dpfast.errors import InvalidInput
from tests.loops import each

WIDE = dpfast.Mallows(1e3)  # every row has full weight


def draw(n, rng, mean=1.0, slopes=(0.5, -0.3), dispersion=0.0):
    """Counts with log-linear means of covariates in [-1, 1]; alpha of negative binomials."""
    X = rng.uniform(-1.0, 1.0, (n, len(slopes)))
    means = mean * np.exp(X @ np.array(slopes))
    if dispersion:
        means = means * rng.gamma(1.0 / dispersion, dispersion, n)
    return X, rng.poisson(means).astype(float)


@each("dispersion", [0.0, 0.5])
@each("mean", [0.1, 2.0, 30.0])
def test_without_clipping_it_is_the_generalised_linear_model(mean, dispersion):
    """Coefficients, and standard errors with HC0, which are right for any dispersion."""
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = draw(1500, np.random.default_rng(2), mean, dispersion=dispersion)
    y[:20] += 0.5  # fractional responses are responses
    model = statsmodels.GLM(y, statsmodels.add_constant(X), family=statsmodels.families.Poisson())
    exact = model.fit(cov_type="HC0", tol=1e-12)
    loss = dpfast.Poisson(largest_mean=1e3, largest_residual=1e4)
    found = dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=WIDE))
    np.testing.assert_allclose(found.params, exact.params, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.bse, exact.bse, rtol=1e-6)


def test_exposure_is_an_offset():
    """Rates, as the generalised linear model has them; the unit of exposure moves the intercept."""
    statsmodels = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(11)
    X, exposure = rng.uniform(-1.0, 1.0, (4000, 2)), rng.uniform(0.3, 3.0, 4000)
    y = rng.poisson(exposure * np.exp(0.2 + X @ [0.5, -0.3])).astype(float)
    family, offset = statsmodels.families.Poisson(), np.log(exposure)
    model = statsmodels.GLM(y, statsmodels.add_constant(X), family=family, offset=offset)
    exact = model.fit(cov_type="HC0", tol=1e-12)
    wide = dpfast.Poisson(largest_mean=1e3, largest_residual=1e4)
    found = dpfast.nonprivate_fit(
        dpfast.records(X, y, offset=offset), None, dpfast.Objective(wide, weights=WIDE)
    )
    np.testing.assert_allclose(found.params, exact.params, rtol=0, atol=1e-7)
    np.testing.assert_allclose(found.bse, exact.bse, rtol=1e-6)
    loss = dpfast.Poisson(largest_mean=8.0)
    for shift in (-6.0, 0.0, 5.0):  # exposures in other units
        noise = dpfast.SeededNoise(1)
        fit = dpfast.fit(
            dpfast.records(X, y, offset=offset + shift), None, loss, privacy=1.0, noise=noise
        )
        moved = np.array([shift, 0.0, 0.0])
        assert (np.abs(fit.params + moved - exact.params) <= 6.0 * fit.bse).all()
        assert not fit.warnings
    bad = offset.copy()
    bad[:50] = -np.inf  # no exposure
    fewer = dpfast.nonprivate_fit(
        dpfast.records(X[50:], y[50:], offset=offset[50:]),
        None,
        dpfast.Objective(wide, weights=WIDE),
    )
    found = dpfast.nonprivate_fit(
        dpfast.records(X, y, offset=bad), None, dpfast.Objective(wide, weights=WIDE)
    )
    np.testing.assert_allclose(found.params, fewer.params, atol=1e-8)


def test_the_exact_fit_finds_the_minimum_with_tight_caps():
    """Where means are capped and residuals clipped, and from a start above every mean."""
    for mean, loss in [(3.0, dpfast.Poisson(4.0, 2.0)), (0.02, dpfast.Poisson(500.0))]:
        X, y = draw(2000, np.random.default_rng(4), mean)
        found = dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, weights=WIDE))
        design = np.column_stack([np.ones(len(y)), X])
        scores = loss.psi(design @ found.params, y)
        assert np.abs(design.T @ scores / len(y)).max() < 1e-8 * loss.largest_mean


def test_bad_counts_are_clipped_in_silence(recwarn):
    X, y = draw(600, np.random.default_rng(1))
    loss = dpfast.Poisson(3.0, 4.0)
    changed = y.copy()
    changed[0], changed[1], changed[2] = -7.0, 1e300, np.nan
    kept = np.arange(600) != 2
    clipped = y.copy()
    clipped[0], clipped[1] = 0.0, 1e9
    found = dpfast.nonprivate_fit(X, changed, loss).params
    expected = dpfast.nonprivate_fit(X[kept], clipped[kept], loss).params
    np.testing.assert_allclose(found, expected, atol=1e-9)
    bad = np.array([np.nan, np.inf, -np.inf, -3.0, 1e308, 0.5] * 100)
    assert np.isfinite(dpfast.fit(X, bad, loss, privacy=1.0).params).all()
    # what released numbers say of the fit is in the fit, too
    assert [w for w in recwarn if not issubclass(w.category, dpfast.errors.ResultWarning)] == []


@pytest.mark.parametrize(
    ("mean", "cap", "slopes"),
    [(1.0, 4.0, (0.5, -0.3)), (0.3, 1.0, (0.5, 0.5)), (30.0, 100.0, (0.3, 0.3)),
     (2.0, 30.0, (1.5, -1.0)), (200.0, 2000.0, (0.5, -0.3)), (0.5, 8.0, ())],
)  # fmt: skip
@pytest.mark.parametrize("method", ["auto", "newton"])
@pytest.mark.one_in(2)
def test_fits_arrive_or_warn(mean, cap, slopes, method):
    """Far starts, wide caps, steep slopes: errors of 4 fits within 6 standard errors of the exact.

    An error that large has probability below 1e-6 for a right standard error that varies by a
    quarter; a fit that warns is let off, two of them at most.
    """
    warned = 0
    for seed in range(4):
        X, y = draw(4000, np.random.default_rng(seed), mean, slopes)
        loss = dpfast.Poisson(largest_mean=cap)
        exact = dpfast.nonprivate_fit(X, y, loss)
        noise = dpfast.SeededNoise(seed)
        found = dpfast.fit(X, y, loss, privacy=2.0, method=method, noise=noise)
        warned += bool(found.warnings)
        if not found.warnings:
            assert (np.abs(found.params - exact.params) <= 6.0 * found.bse).all()
    assert warned <= (2 if method == "auto" else 4)


def test_dispersion_that_the_clipping_hides_is_warned_of():
    """And not where residuals may be as large as five standard deviations of the largest mean."""
    X, y = draw(6000, np.random.default_rng(5), 10.0, dispersion=0.5)
    options = {"privacy": 1.0, "noise": dpfast.SeededNoise(2), "method": "newton"}
    clipped = dpfast.fit(X, y, dpfast.Poisson(largest_mean=40.0), **options)
    assert any("vary by much more" in text for text in clipped.warnings)
    wide = dpfast.fit(X, y, dpfast.Poisson(40.0, largest_residual=70.0), **options)
    assert not wide.warnings
    X, y = draw(6000, np.random.default_rng(6), 10.0)
    assert not dpfast.fit(X, y, dpfast.Poisson(largest_mean=40.0), **options).warnings


def test_predictions_are_mean_counts():
    X, y = draw(5000, np.random.default_rng(3), 2.0)
    found = dpfast.fit(X, y, dpfast.Poisson(largest_mean=6.0), privacy=3.0)
    rows = np.array([[0.0, 0.0], [1.0, -1.0], [50.0, 0.0]])
    line = found.params[0] + rows @ found.params[1:]
    expected = np.minimum(np.exp(line), 6.0)
    np.testing.assert_allclose(found.predict(rows), expected, rtol=1e-12)
    low, high = found.predict_interval(rows).T
    assert (low[:2] < expected[:2]).all()
    assert (expected[:2] < high[:2]).all()
    assert high.max() == 6.0
    step = 1e-6
    slope = (np.exp(line[:2] + step) - np.exp(line[:2] - step)) / (2 * step)
    first, second = found._mean_slopes(line[:2])
    np.testing.assert_allclose(first, slope, rtol=1e-6)
    np.testing.assert_allclose(second, slope, rtol=1e-6)


def test_everything_that_takes_a_loss_takes_it():
    X, y = draw(3000, np.random.default_rng(7), 1.5)
    loss, noise = dpfast.Poisson(largest_mean=5.0), dpfast.SeededNoise(0)
    target = np.array([math.log(1.5), 0.5, -0.3])
    for terms, options in (
        ({}, {"method": "gradient-descent"}),
        ({"weights": dpfast.Bounded(1.8)}, {"method": "newton"}),
        ({"weights": dpfast.models.Clip(2.0)}, {"inference": False}),
        ({"weights": dpfast.models.MallowsLinear(1.8)}, {"inference": False}),
        ({"ridge": 0.01}, {}),
    ):
        objective = dpfast.Objective(loss, **terms)
        found = dpfast.fit(X, y, objective, privacy=3.0, noise=noise, **options)
        assert np.abs(found.params - target).max() < 0.5, (terms, options)
    whole = dpfast.fit(X, y, dpfast.Objective(loss, ridge=0.01), privacy=3.0, noise=noise)
    assert np.abs(whole.params - target).max() < 0.3
    found = dpfast.minimize(X, y, loss, privacy=3.0, noise=noise)
    assert np.isfinite(found.params).all()
    one = dpfast.fit(X[:, :1], y, loss, privacy=3.0, noise=noise)
    forecast = dpfast.plan(3000, 2, loss, privacy=3.0, rate=0.3)
    widths = np.asarray(one.conf_int(0.95)) @ [-1.0, 1.0]
    assert (np.abs(np.log(forecast.widths / widths)) < 1.0).all()


def test_refusals_come_before_the_charge():
    X, y = draw(200, np.random.default_rng(0))
    ledger = dpfast.Ledger(dpfast.GDP(9.0))
    loss = dpfast.Poisson(largest_mean=4.0)
    schema = dpfast.Schema({"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(0, 50)})
    coded = schema.encode({"x": X[:, 0], "y": y}, response="y")
    for match, data, given, terms in (
        ("largest_mean must be given", (X, y), "poisson", {"weights": dpfast.Mallows(2.0)}),
        ("not a parameter of the poisson", (X, y), loss, {"scale": 1.0}),
        ("not a parameter of the poisson", (X, y), "poisson", {"scale": 1.0}),
        ("not a function of a residual", (X, y), loss, {"weights": dpfast.models.Schweppe(1.0)}),
        (r"Numeric\(0, high, centre=0, unit=1\)", (coded, None), loss, {}),
    ):
        with pytest.raises(InvalidInput, match=match):
            dpfast.fit(*data, dpfast.Objective(given, **terms), privacy=1.0, ledger=ledger)
    assert not ledger.entries
    raw = {"x": dpfast.Numeric(-1, 1), "y": dpfast.Numeric(0, 50, centre=0, unit=1)}
    design = dpfast.Schema(raw).encode({"x": X[:, 0], "y": y}, response="y")
    assert dpfast.fit(design, None, loss, privacy=1.0, ledger=ledger).names == ("intercept", "x")


@each("bad", [0.0, -1.0, math.inf, math.nan, "many", True])
def test_senseless_caps_are_refused(bad):
    with pytest.raises(InvalidInput, match="largest_mean"):
        dpfast.Poisson(bad)
    with pytest.raises(InvalidInput, match="largest_residual"):
        dpfast.Poisson(1.0, bad)


def test_caps():
    assert dpfast.Poisson(4.0).largest_residual == pytest.approx(7.0)
    assert dpfast.Poisson(4.0, 7) == dpfast.Poisson(4.0, largest_residual=7.0)
    assert dpfast.Poisson(4.0) != dpfast.Poisson(4.0, 9.0)
    assert dpfast.Poisson() != dpfast.Poisson(4.0)
    with pytest.raises(InvalidInput, match="largest_mean must be given"):
        dpfast.Objective(dpfast.Poisson()).bind(1)


@pytest.mark.slow
@pytest.mark.parametrize("dispersion", [0.0, 0.5])
def test_intervals_cover(dispersion):
    """95% intervals of 300 fits, n = 3,000, for the target of the clipped loss.

    At a coverage of 0.92 or more the test fails falsely with probability 1e-6 a coefficient.
    Power: standard errors of the Poisson likelihood, 25% too short with dispersion, cover 86%.
    """
    runs, loss = 300, dpfast.Poisson(largest_mean=8.0)
    X, y = draw(400_000, np.random.default_rng(0), 2.0, dispersion=dispersion)
    target = dpfast.nonprivate_fit(X, y, loss).params
    covered = np.zeros(3)
    for run in range(runs):
        X, y = draw(3000, np.random.default_rng(run + 1), 2.0, dispersion=dispersion)
        found = dpfast.fit(X, y, loss, privacy=1.0, noise=dpfast.SeededNoise(run))
        low, high = np.asarray(found.conf_int(0.95)).T
        covered += (low <= target) & (target <= high)
    assert (covered >= binom.ppf(1e-6, runs, 0.92)).all(), covered / runs


@each(
    ("loss", "wrong", "told"),
    [
        ("poisson", -3.0, "a response below 0"),
        (dpfast.Objective(dpfast.Poisson(20.0), weights=dpfast.Mallows(3.0)), -1.0, "below 0"),
        ("gamma", 0.0, "a response of 0 or below"),
    ],
)
def test_responses_that_a_model_has_not_are_told(loss, wrong, told):
    """A fifth of them, at twelve standard deviations of the count's noise; none at four: 1e-4."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=8000)
    y = 1.0 + rng.poisson(np.exp(0.5 + 0.4 * x))
    asked = {"privacy": 1.0, "standardize": True, "noise": dpfast.SeededNoise(1)}
    assert not any("response" in said for said in dpfast.fit(x[:, None], y, loss, **asked).warnings)
    ledger = dpfast.Ledger(1.0)
    other = np.where(rng.random(8000) < 0.2, wrong, y)
    found = dpfast.fit(x[:, None], other, loss, ledger=ledger, **asked)
    assert any(told in said for said in found.warnings)
    assert ledger.spent.mu <= 1.0 and sum(mu**2 for _, mu in found.privacy.entries) <= 1.0


@each("call", ["quantiles", "without privacy", "without privacy, by a formula"])
def test_other_fits_predict_with_the_column_of_their_offset(call):
    """Quantiles and fits without privacy took zero for it, or refused its name."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(6)
    x, shift = rng.normal(size=4000), rng.uniform(0.0, 2.0, 4000)
    y = 0.4 * x + shift + rng.normal(size=4000)
    table = pandas.DataFrame({"x": x, "shift": shift})
    rows = dpfast.records(table, y, offset="shift")
    if call == "quantiles":
        found = dpfast.fit_quantiles(rows, None, [0.3, 0.6], privacy=2.0)
    elif call == "without privacy":
        found = dpfast.nonprivate_fit(rows, None, dpfast.Objective("huber", scale=1.0))
    else:
        pytest.importorskip("formulaic")
        rows = dpfast.records(table.assign(y=y), offset="shift")
        found = dpfast.nonprivate_fit("y ~ x", rows, dpfast.Objective("huber", scale=1.0))
    alone = found.predict(pandas.DataFrame({"x": [0.0, 1.0]})).T
    both = found.predict(pandas.DataFrame({"x": [0.0, 1.0], "shift": [2.0, 0.0]})).T
    for moved in np.atleast_2d(both - alone):
        np.testing.assert_allclose(moved, [2.0, 0.0], atol=1e-12)


@each("formula", [True, False])
def test_an_offset_that_has_a_name_is_in_predictions_of_tables(formula, tmp_path):
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(6)
    x, log_size = rng.normal(size=6000), rng.uniform(0.0, 2.0, 6000)
    y = rng.poisson(np.exp(0.2 + 0.4 * x + log_size))
    if formula:
        rows = dpfast.records({"x": x, "y": y, "size": log_size}, offset="size")
        found = dpfast.fit("y ~ x", rows, "poisson", privacy=2.0)
    else:
        pandas = pytest.importorskip("pandas")
        rows = dpfast.records(pandas.DataFrame({"x": x, "size": log_size}), y, offset="size")
        found = dpfast.fit(rows, None, "poisson", privacy=2.0)
    dpfast.saved.save(found, tmp_path / "fit.json")
    for fit in (found, dpfast.saved.load(tmp_path / "fit.json")):
        alone = fit.predict({"x": [0.0, 1.0]})
        both = fit.predict({"x": [0.0, 1.0], "size": [2.0, 0.0]})
        np.testing.assert_allclose(both, alone * [np.exp(2.0), 1.0], rtol=1e-12)
        low, high = fit.predict_interval({"x": [0.0], "size": [2.0]})[0]
        assert low < both[0] < high and low > alone[0]
