"""The smoothed quantile loss: against its definition, quantile regression, and as a target."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom

import dpfast
from dpfast.errors import InvalidInput
from dpfast.models.quantile import NarrowQuantile
from tests.loops import each

NORMAL = NormalDist()


def check_loss(r, tau):
    return (tau - (r < 0.0)) * r


@pytest.mark.parametrize(("tau", "bandwidth"), [(0.5, 0.2), (0.9, 0.05), (0.1, 3.0)])
def test_it_is_the_check_loss_convolved_with_a_logistic_kernel(tau, bandwidth):
    loss = dpfast.Quantile(tau, bandwidth)

    def density(s):
        return (0.5 / math.cosh(0.5 * s / bandwidth)) ** 2 / bandwidth

    for r in bandwidth * np.array([-20.0, -3.0, -0.4, 0.0, 1.0, 8.0]):
        ends = {"points": sorted({0.0, float(r)}), "limit": 500, "epsabs": 1e-13}
        reach = 60.0 * bandwidth

        def average(s, r=r):
            return check_loss(r - s, tau) * density(s)

        assert loss.loss(r) == pytest.approx(quad(average, -reach, reach, **ends)[0], rel=1e-9)
        step = 1e-5 * bandwidth
        slope = (loss.loss(r + step) - loss.loss(r - step)) / (2 * step)
        assert loss.psi(r) == pytest.approx(slope, abs=1e-9)
        bend = (loss.psi(r + step) - loss.psi(r - step)) / (2 * step)
        assert loss.psi_prime(r) == pytest.approx(bend, abs=1e-9 / bandwidth)


def draw(n, rng, errors="normal"):
    X = rng.uniform(-1.0, 1.0, (n, 1))
    noise = rng.normal(size=n) if errors == "normal" else rng.chisquare(3, n) / 6**0.5
    return X, 1.0 + 2.0 * X[:, 0] + noise


@each("tau", [0.1, 0.5, 0.75, 0.9])
@each("errors", ["normal", "skewed"])
def test_a_narrow_bandwidth_is_quantile_regression(tau, errors):
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = draw(2000, np.random.default_rng(3), errors)
    model = statsmodels.QuantReg(y, statsmodels.add_constant(X))
    exact = model.fit(q=tau, max_iter=5000, p_tol=1e-8).params
    distances = []
    for bandwidth in (0.3, 0.003):
        found = dpfast.nonprivate_fit(
            X,
            y,
            dpfast.Objective(
                dpfast.Quantile(tau, bandwidth), weights=dpfast.Bounded(3.0), scale=1.0
            ),
        )
        distances.append(np.abs(found.params - exact).max())
    assert distances[1] < 0.01
    assert distances[1] < distances[0]


def test_levels_mirror_each_other():
    X, y = draw(500, np.random.default_rng(5), "skewed")

    def fitted(tau, y):
        weights = dpfast.models.Schweppe(2.0)
        loss = dpfast.Objective(dpfast.Quantile(tau, 0.2), weights, scale=0.7)
        return dpfast.nonprivate_fit(X, y, loss)

    high, low = fitted(0.9, y), fitted(0.1, -y)
    np.testing.assert_allclose(high.params, -low.params, rtol=0, atol=1e-9)


def test_the_median_is_half_of_log_cosh():
    """``b log(2 cosh(r/2b))`` is log-cosh with corner 2b over 4b."""
    quantile, other = dpfast.Quantile(0.5, 0.3), dpfast.LogCosh(0.6)
    r = np.linspace(-5.0, 5.0, 1001)
    np.testing.assert_allclose(quantile.psi(r), other.psi(r) / 1.2, rtol=0, atol=1e-15)
    assert dpfast.models.resolve_loss("quantile") == dpfast.Quantile()


@each("tau", [0.0, 1.0, 1.5, -0.2, math.nan, "0.5", True])
def test_levels_outside_are_refused(tau):
    with pytest.raises(InvalidInput, match="tau"):
        dpfast.Quantile(tau, 0.1)


@each("bandwidth", [0.0, -1.0, math.inf, "narrow"])
def test_bandwidths_that_are_none_are_refused(bandwidth):
    with pytest.raises(InvalidInput, match="bandwidth"):
        dpfast.Quantile(0.5, bandwidth)


@each(
    ("tau", "n", "p", "mu", "bandwidth"),
    [
        (0.5, 1000, 2, 1.0, 0.08343),  # sqrt(3)/pi (8.908/1000)^.4
        (0.5, 10_000, 2, None, 0.03643),
        (0.9, 1000, 2, 1.0, 0.12434),  # 2 * 2 * 3 / (1000 * .55 * .1755)
        (0.1, 1000, 2, 1.0, 0.12434),
        (0.9, 1000, 2, 10.0, 0.08343),
        (0.99, 300, 5, 0.1, 0.3),
        (0.5, 1, 1, None, 0.55133),
    ],
)
def test_the_bandwidth_follows_from_public_numbers(tau, n, p, mu, bandwidth):
    loss = dpfast.Quantile(tau).for_records(n, p, mu)
    assert loss.bandwidth == pytest.approx(bandwidth, abs=2e-5)
    given = dpfast.Quantile(tau, 0.1)
    assert given.for_records(n, p, mu) is given
    assert dpfast.Quantile(tau).bandwidth is None


def model_of(tau, n, **options):
    X, y = draw(n, np.random.default_rng(1))
    rest = {"privacy": 1.0, "method": "newton", "noise": dpfast.SeededNoise(0)}
    rest |= options
    return dpfast.fit(X, y, dpfast.Objective(dpfast.Quantile(tau), scale=1.0), **rest).model


def test_the_score_is_narrow_where_a_wide_one_would_move_the_intercept():
    """And only there, only with Newton's own steps, and only where the bandwidth is chosen."""
    assert (
        "Quantile(0.9, 0.06202), Mallows(radius=1.41421), scale=1, dimension=2); smoothed target, "
        "bandwidth 0.06202 scales = 0.06202, curvature with 0.1861"
    ) in model_of(0.9, 1000)
    wide = "smoothed target, bandwidth 0.1243 scales = 0.1243"
    for method in ("gradient-descent", dpfast.optimize.Newton(newton_steps=1)):
        assert model_of(0.9, 1000, method=method).endswith(wide)
    assert "curvature with" not in model_of(0.5, 1000)
    assert "curvature with" not in model_of(0.9, 20_000)
    X, y = draw(1000, np.random.default_rng(1))
    own = dpfast.Objective(dpfast.Quantile(0.9, 0.1243), scale=1.0)
    given = dpfast.fit(X, y, own, privacy=1.0, method="newton")
    assert given.model.endswith(wide)


def test_what_a_narrow_score_is_not():
    """No loss has its gradient and its Hessian: constants of such a loss are not offered."""
    loss, plain = NarrowQuantile(0.9, 0.3), dpfast.Quantile(0.9, 0.3)
    assert loss != plain
    assert loss.self_concordance == loss.psi_second_bound == math.inf
    narrow, wide = (dpfast.Objective(each, n_covariates=1, scale=2.0) for each in (loss, plain))
    assert narrow.curvature_bound == wide.curvature_bound
    assert narrow.score_smoothness == pytest.approx(3.0 * wide.score_smoothness, rel=1e-15)
    assert NarrowQuantile(0.5, 0.3).coupling == "narrow-logistic"


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.1, 0.9])
def test_intervals_cover_the_quantile_itself(tau):
    """With default weights, two covariates and 1,000 records, where a wide score covered in .37.

    A coverage of .85 or more passes but in 1e-6 of the runs; one of .75 or less fails but in 1e-5.
    """
    covered, fits = 0, 1000
    for seed in range(fits):
        rng = np.random.default_rng([seed, 11])
        X = rng.normal(size=(1000, 2))
        y = 1.0 + X @ [0.5, -0.3] + rng.normal(size=1000)
        fit = dpfast.fit(
            X,
            y,
            dpfast.Objective(dpfast.Quantile(tau), scale=1.0),
            privacy=1.0,
            noise=dpfast.SeededNoise(seed),
        )
        low, high = fit.conf_int(0.9)[0]
        covered += low <= 1.0 + NORMAL.inv_cdf(tau) <= high
    assert covered >= binom.ppf(1e-6, fits, 0.85)


def test_without_the_number_of_records_only_the_median_has_a_bandwidth():
    objective = dpfast.Objective("quantile", scale=1.0)
    assert objective.bind(2).loss == dpfast.Quantile(0.5, 0.2)
    assert objective.loss == dpfast.Quantile()
    with pytest.raises(InvalidInput, match="bandwidth must be given"):
        dpfast.Objective(dpfast.Quantile(0.9), scale=1.0).bind(2)


DOMAIN = dpfast.models.Box(-1.0, 1.0, intercept=True)


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_every_function_that_knows_n_chooses_the_bandwidth(tau):
    X, y = draw(2000, np.random.default_rng(1))
    rest = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    loss, both = dpfast.Quantile(tau), {}
    objective = dpfast.Objective(loss, scale=1.0)
    both["fit"] = dpfast.fit(X, y, objective, **rest)
    both["nonprivate"] = dpfast.nonprivate_fit(X, y, objective)
    both["minimize"] = dpfast.minimize(X, y, objective, **rest)
    chosen = f"Quantile({tau:g}, {loss.for_records(2000, 2).bandwidth:.4g})"
    for name, result in both.items():
        found = f"Quantile({tau:g}, {loss.for_records(2000, 2, 1.0).bandwidth:.4g})"
        expected = found if name == "fit" else chosen
        assert expected in result.model, name
    private = dpfast.release_parameter(
        X, y, dpfast.Objective(loss, scale=1.0, ridge=0.1), privacy=dpfast.ApproxDP(1.0, 1e-6),
        domain=DOMAIN, noise=rest["noise"],
    )  # fmt: skip
    assert len(private.params) == 2
    words = " ".join(both["fit"].explain().split())
    width = loss.for_records(2000, 2, 1.0).bandwidth
    assert f"smoothed target, bandwidth {width:.4g} scales = {width:.4g}" in words
    assert np.isfinite(dpfast.plan(200_000, 2, objective, privacy=1.0).widths).all()
    assert dpfast.plan(p=2, loss=objective, privacy=1.0, width=0.02).n > 10


def raw(n, seed=0, q=1, size=2e4):
    rng = np.random.default_rng(seed)
    X = 1000.0 + 50.0 * rng.normal(size=(n, q))
    return X, 7e5 + 200.0 * X[:, 0] + size * rng.normal(size=n)


def test_the_scale_of_a_quantile_by_a_method_is_not_bought():
    X, y = raw(4000, size=5e3)
    ledger = dpfast.Ledger(1.0)
    weighted = dpfast.Objective("quantile", dpfast.Mallows(2.0))
    for loss, options in (("quantile", {"method": "newton"}), (weighted, {"standardize": True})):
        with pytest.raises(InvalidInput, match="scale"):
            dpfast.fit(X, y, loss, privacy=1.0, ledger=ledger, **options)
    assert not ledger.entries


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_raw_columns_buy_units_scale_and_start_within_the_total(tau):
    X, y = raw(4000, size=5e3)
    ledger = dpfast.Ledger(1.0)
    result = dpfast.fit(
        X, y, dpfast.Quantile(tau), privacy=1.0, ledger=ledger, noise=dpfast.SeededNoise(1)
    )
    assert len(ledger.entries) == 1
    assert result.privacy.total == dpfast.GDP(1.0)
    spent = result.privacy.spent_share()[0]
    assert 1 - 1e-6 < spent <= 1  # units, pilot and steps are in one account
    z = np.abs(result.params - [7e5 + 5e3 * NORMAL.inv_cdf(tau), 200.0]) / result.bse
    assert (z < 5.0).all()
    assert 0.8 < result.scale / 5e3 < 1.3  # of the residuals, a third of the response's spread


def test_a_bandwidth_follows_public_numbers_only():
    """Half of the responses missing: the bandwidth is that of n records."""
    X, y = raw(2000, q=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = (y - y.mean()) / y.std()
    fewer = np.where(np.arange(2000) % 2, np.nan, y)
    same = {"privacy": 1.0, "noise": dpfast.SeededNoise(0)}
    loss = dpfast.Objective("quantile", scale=1.0)
    told = [dpfast.fit(X, response, loss, **same).model for response in (y, fewer)]
    assert told[0] == told[1] and "bandwidth" in told[0]


def test_what_raw_columns_cannot_pay_is_refused_before_the_charge():
    ledger = dpfast.Ledger(5.0)
    X, y = raw(60, q=3)
    with pytest.raises(dpfast.errors.InvalidBudget, match="too small for the quantile loss"):
        dpfast.fit(X, y, "quantile", privacy=1.0, ledger=ledger)
    with pytest.raises(dpfast.errors.InvalidBudget, match="too small for the quantile loss"):
        dpfast.fit(
            X,
            y,
            dpfast.Objective("quantile", scale=2e4),
            privacy=1.0,
            standardize=True,
            ledger=ledger,
        )
    with pytest.raises(InvalidInput, match="needs scale"):
        dpfast.fit(
            X,
            y,
            dpfast.Objective("quantile", weights=dpfast.Mallows(1.0)),
            privacy=1.0,
            ledger=ledger,
        )
    with pytest.raises(InvalidInput, match="needs scale"):
        dpfast.minimize(X, y, "quantile", privacy=1.0, ledger=ledger)
    assert not ledger.entries


def test_far_levels_and_tiny_budgets_stay_finite():
    X, y = raw(300)
    for tau in (1e-100, 1e-6, 1.0 - 1e-16):
        for mu in (1e-3, 1.0, 1e3):
            result = dpfast.fit(
                X / 1000.0, y / 7e5, dpfast.Objective(dpfast.Quantile(tau), scale=1.0), privacy=mu,
                noise=dpfast.SeededNoise(0),
            )  # fmt: skip
            assert np.isfinite(result.params).all()


def test_a_free_scale_is_refused_before_the_charge():
    X, y = draw(100, np.random.default_rng(0))
    ledger = dpfast.Ledger(dpfast.GDP(2.0))
    with pytest.raises(InvalidInput, match="bandwidth is in units of the scale"):
        dpfast.fit(
            X, y, dpfast.Objective(dpfast.Quantile(0.9, 0.1), scale=dpfast.FreeScale(0.1, 10.0)),
            privacy=1.0, ledger=ledger,
        )  # fmt: skip
    assert not ledger.entries


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_everything_that_takes_a_loss_takes_it(tau):
    estimators = pytest.importorskip("dpfast.estimators")
    X, y = draw(4000, np.random.default_rng(7))
    loss, noise = dpfast.Quantile(tau, 0.1), dpfast.SeededNoise(0)
    target = np.array([1.0 + NORMAL.inv_cdf(tau), 2.0])
    fitted = dpfast.fit(X, y, dpfast.Objective(loss, scale=1.0), privacy=1.0, noise=noise)
    assert np.abs(fitted.params - target).max() < 0.2
    for weights, options in (
        (None, {"method": "gradient-descent", "inference": False}),
        (dpfast.models.Schweppe(1.5), {}),
        (dpfast.Bounded(1.5), {"method": "newton"}),
        (dpfast.models.Clip(0.8), {"inference": False, "method": "gradient-descent"}),
    ):
        objective = dpfast.Objective(loss, weights, scale=1.0)
        found = dpfast.fit(X, y, objective, privacy=1.0, noise=noise, **options)
        assert np.isfinite(found.params).all()
    forecast = dpfast.plan(4000, 2, dpfast.Objective(loss, scale=1.0), privacy=1.0)
    widths = np.asarray(fitted.conf_int(0.95)) @ [-1.0, 1.0]
    assert (np.abs(np.log(forecast.widths / widths)) < 1.0).all()
    found = dpfast.minimize(X, y, dpfast.Objective(loss, scale=1.0), privacy=1.0, noise=noise)
    assert np.abs(found.params - target).max() < 0.5
    model = estimators.DPHuberRegressor(1.0, loss=loss, scale=1.0, noise=noise).fit(X, y)
    assert np.abs(np.r_[model.intercept_, model.coef_] - target).max() < 0.2


def smoothed_quantile(tau, bandwidth):
    """Minimiser of the expected smoothed loss of a standard normal."""
    loss = dpfast.Quantile(tau, bandwidth)

    def score(t):
        return quad(lambda e: NORMAL.pdf(e) * float(loss.psi(e - t)), -12.0, 12.0, limit=500)[0]

    return brentq(score, -4.0, 4.0, xtol=1e-12)


@pytest.mark.slow
def test_intervals_cover_the_smoothed_target_and_not_another():
    """95% intervals of 300 fits, n = 2,000.

    At a coverage of 0.93 or more the test fails falsely with probability 1e-6 a coefficient.
    Power: intervals for the true 0.9 quantile, 0.08 standard deviations away, cover less than two
    thirds, which fails with near certainty.
    """
    tau, bandwidth, runs = 0.9, 0.2, 300
    target = np.array([1.0 + smoothed_quantile(tau, bandwidth), 2.0])
    truth = 1.0 + NORMAL.inv_cdf(tau)
    assert target[0] - truth == pytest.approx(math.pi**2 / 6 * bandwidth**2 * 1.2816, rel=0.1)
    covered, covered_truth = np.zeros(2), 0
    for run in range(runs):
        X, y = draw(2000, np.random.default_rng(run))
        result = dpfast.fit(
            X, y, dpfast.Objective(dpfast.Quantile(tau, bandwidth), scale=1.0), privacy=1.0,
            noise=dpfast.SeededNoise(run),
        )  # fmt: skip
        low, high = np.asarray(result.conf_int(0.95)).T
        covered += (low <= target) & (target <= high)
        covered_truth += low[0] <= truth <= high[0]
    least = binom.ppf(1e-6, runs, 0.93)
    assert (covered >= least).all(), covered / runs
    assert covered_truth < least, covered_truth / runs


@pytest.mark.slow
@pytest.mark.parametrize(("n", "widest"), [(1000, 1.15), (10_000, 1.02)])
def test_the_median_is_nearly_as_narrow_as_without_privacy(n, widest):
    """90% intervals of 250 fits with the bandwidth of the rule cover and are narrow.

    At a coverage of 0.88 or more the test fails falsely with probability 1e-6 a coefficient; the
    median ratio of widths has a Monte Carlo error of less than 0.003.
    """
    runs, truth = 250, np.array([1.0, 2.0])
    covered, ratios = np.zeros(2), []
    loss = dpfast.Objective("quantile", dpfast.Bounded(2.0**0.5), scale=1.0)
    for run in range(runs):
        X, y = draw(n, np.random.default_rng([run, 1]))
        noise = dpfast.SeededNoise(run)
        private = np.asarray(dpfast.fit(X, y, loss, privacy=1.0, noise=noise).conf_int(0.9))
        exact = np.asarray(dpfast.nonprivate_fit(X, y, loss).conf_int(0.9))
        covered += (private[:, 0] <= truth) & (truth <= private[:, 1])
        ratios.append((private @ [-1.0, 1.0]) / (exact @ [-1.0, 1.0]))
    assert (covered >= binom.ppf(1e-6, runs, 0.88)).all(), covered / runs
    assert (np.median(ratios, axis=0) <= widest).all(), np.median(ratios, axis=0)
