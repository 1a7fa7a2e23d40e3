"""What a fit buys is in whatever units: nothing that was paid for is lost to them."""

import warnings

import numpy as np
import pytest

import dpfast

SCALES = (1.0, 1e-90, 1e90, dpfast.FreeScale(1e-3, 1e3), dpfast.FreeScale(1e90, 1e92), None)


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize(
    ("power_x", "power_y"), [(0, 0), (-300, 0), (0, -300), (0, 300), (200, 200)]
)
@pytest.mark.values
def test_no_released_unit_makes_a_fit_raise_or_warn(scale, power_x, power_y):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=3000)
    ledger = dpfast.Ledger(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dpfast.fit(
            X * 10.0**power_x,
            y * 10.0**power_y,
            dpfast.Objective("log-cosh", scale=scale),
            privacy=1.0,
            standardize=True,
            ledger=ledger,
            noise=dpfast.SeededNoise(2),
        )
        assert repr(fit) and np.array_equal(fit.coded.natural.params, fit.params)
    assert np.isfinite(fit.coded.params).all()


def test_a_constant_response_of_zero_is_no_reason_to_refuse():
    X = np.random.default_rng(2).normal(size=(3000, 2))
    options = {"privacy": 1.0, "standardize": True, "noise": dpfast.SeededNoise(3)}
    for scale in (1e-100, 1e100):
        fit = dpfast.fit(X, np.zeros(3000), dpfast.Objective("log-cosh", scale=scale), **options)
        assert np.isfinite(fit.coded.params).all()


def test_a_scale_that_is_too_wide_is_refused_before_the_charge():
    X, ledger = np.random.default_rng(3).normal(size=(3000, 2)), dpfast.Ledger(1.0)
    scale = dpfast.FreeScale(1e-100, 1e100)
    with pytest.raises(dpfast.InvalidInput):
        dpfast.fit(
            X,
            X[:, 0],
            dpfast.Objective("log-cosh", scale=scale),
            standardize=True,
            privacy=1.0,
            ledger=ledger,
        )
    assert ledger.spent.mu == 0.0


@pytest.mark.parametrize("standardize", [True, False])
def test_least_squares_refuses_a_budget_before_the_charge_or_not_at_all(standardize):
    X = np.random.default_rng(6).normal(size=(200, 1))
    for mu in 10.0 ** np.arange(4.0, 9.0, 0.05):
        ledger = dpfast.Ledger(1e9)
        options = {"standardize": standardize, "ledger": ledger, "noise": dpfast.SeededNoise(1)}
        try:
            dpfast.fit(X, X[:, 0], "least-squares", privacy=mu, **options)
        except dpfast.errors.InvalidBudget:
            assert ledger.spent.mu == 0.0
