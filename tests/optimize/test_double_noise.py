"""Double-noise Newton and gradient descent with an estimated step size."""

import math

import numpy as np
import pytest

import dpfast
from dpfast.models import Bounded, Clip, Huber, LogCosh, Logistic, Mallows, Objective
from dpfast.optimize.planning import choose_method
from tests.flat import flat, weighted_fit


def data(n=2000, seed=0, loss="log-cosh"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    t = 0.5 + X @ np.array([1.0, -0.5, 0.5])
    if loss == "logistic":
        return X, (rng.random(n) < 1 / (1 + np.exp(-t))).astype(float)
    return X, t + rng.normal(size=n)


CHANGED = [
    (dpfast.optimize.DoubleNoise, {"newton_steps": 0}),
    (dpfast.optimize.DoubleNoise, {"damping": 0.05, "direction_share": 0.6}),
    (dpfast.optimize.GradientDescent, {"step_size": "estimated"}),
]
METHODS = ["double-noise", *[method(**settings) for method, settings in CHANGED]]
LONG = [
    method(**settings, steps=150)
    for method, settings in [(dpfast.optimize.DoubleNoise, {}), *CHANGED]
]


@pytest.mark.parametrize("method", LONG, ids=repr)
@pytest.mark.parametrize("loss", ["log-cosh", "huber", "logistic"])
def test_large_budget_recovers_the_exact_fit_and_its_errors(method, loss):
    X, y = data(loss=loss)
    scale = None if loss == "logistic" else 1.0
    exact = weighted_fit(X, y, loss, scale)
    fit = dpfast.fit(
        X, y, dpfast.Objective(loss, scale=scale), privacy=1e5, method=method, standardize=False,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    np.testing.assert_allclose(fit.params, exact.params, atol=1e-3)
    np.testing.assert_allclose(fit.bse, exact.bse, rtol=1e-2)
    assert fit.warnings == ()


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("inference", [True, False])
def test_the_total_is_spent_and_not_more(method, inference):
    X, y = data()
    options = {"privacy": 1.0, "scale": 1.0, "method": method, "inference": inference}
    fit = flat(dpfast.fit)(X, y, "huber", noise=dpfast.SeededNoise(0), **options)
    spent = math.fsum(mu**2 for _, mu in fit.privacy.entries)
    assert 1.0 - 1e-6 < spent <= 1.0


def test_majorised_directions_come_home_from_a_far_start():
    X, y = data()
    fit = dpfast.fit(
        X,
        y,
        dpfast.Objective("log-cosh", scale=1.0),
        privacy=2.0,
        method=dpfast.optimize.DoubleNoise(start=[4.0, -2.0, 0.0, 4.0]),
        noise=dpfast.SeededNoise(1),
    )
    exact = weighted_fit(X, y, "log-cosh", 1.0)
    assert np.linalg.norm(fit.params - exact.params) < 0.2


@pytest.mark.slow
def test_privacy_noise_is_in_the_intervals():
    """Errors about the exact fit, in units of the privacy part of the standard error.

    400 fits of 4 coefficients: the mean square is 1 up to a relative standard deviation of 3.5%
    and the error of the linear recursion; outside [0.7, 1.4] with probability below 1e-6.
    """
    X, y = data(n=1500)
    exact = weighted_fit(X, y, "log-cosh", 1.0)
    squares = []
    for seed in range(400):
        fit = dpfast.fit(
            X,
            y,
            dpfast.Objective("log-cosh", scale=1.0),
            privacy=0.5,
            method="double-noise",
            noise=dpfast.SeededNoise(seed),
        )
        squares.append((fit.params - exact.params) ** 2 / (fit.bse**2 - exact.bse**2))
    assert 0.7 < np.median(np.mean(squares, axis=1)) / 0.839 < 1.4  # median of chi2(4)/4


def test_defaults_are_public_and_scale_as_documented():
    objective = Objective(LogCosh(), Mallows(3.0), 3, scale=1.0)
    damping = dpfast.optimize.DoubleNoise().resolve_damping
    assert damping(objective, 10**6, 1.0) == pytest.approx(9.0 * 2.0 / 4.0)
    assert damping(objective, 20, 1.0) == pytest.approx(9.0)
    assert dpfast.optimize.DoubleNoise(damping=0.7).resolve_damping(objective, 20, 1.0) == 0.7
    steps = dpfast.optimize.GradientDescent(step_size="estimated").resolve_step_size
    assert steps(objective, None, 2.0) == 0.5
    assert steps(objective, None, 50.0) == pytest.approx(1.0 / 9.0)  # the public bound is a ceiling


def test_where_the_largest_curvature_is():
    for loss, scale in ((LogCosh(), 1.0), (Huber(), 2.0), (Logistic(), None)):
        assert Objective(loss, Bounded(3.0), 3, scale=scale).curvature_peaks_at_zero
    assert choose_method("auto", Objective(LogCosh(), Mallows(10.0), 99, scale=1.0), 1000, 1.0)[
        0
    ].step_size == ("estimated")


@pytest.mark.parametrize(
    "options",
    [
        {"damping": 0.0},
        {"damping": math.inf},
        {"direction_share": 1.0},
        {"newton_steps": -1},
        {"max_step": math.nan},
    ],
)
def test_bad_settings(options):
    with pytest.raises(dpfast.InvalidInput):
        dpfast.optimize.DoubleNoise(**options)


def test_clipped_scores_have_no_curvature_to_use():
    X, y = data()
    for method in METHODS:
        with pytest.raises(dpfast.InvalidInput, match="no Hessian"):
            dpfast.fit(
                X,
                y,
                dpfast.Objective("huber", weights=Clip(1.0), scale=1.0),
                privacy=1.0,
                inference=False,
                method=method,
            )
    with pytest.raises(dpfast.InvalidInput, match="estimated"):
        dpfast.optimize.GradientDescent(step_size="guessed")
