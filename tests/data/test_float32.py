"""float32 covariates: whatever is computed is what the same values in float64 give."""

import warnings

import numpy as np
import pytest

import dpfast
from dpfast.models import Box


def draw(n=400, q=3):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, q)).astype(np.float32)
    return X, X.sum(axis=1) + rng.normal(size=n)


def with_hostile_rows(X):
    X = X.copy()
    X[:4] = [[np.nan, 0, 0], [np.inf, 0, 0], [3.4e38, 1, 1], [1e-45, 0, 0]]
    X.view(np.uint32)[4, 0] = 0x7FA00000  # a signalling NaN
    return X


def of_both_types(function):
    X, y = draw()
    X = with_hostile_rows(X)
    with np.errstate(all="ignore"):
        wide = X.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(X, y), function(wide, y)


@pytest.mark.parametrize("method", ["newton", "gradient-descent"])
def test_fit(method):
    narrow, wide = of_both_types(
        lambda X, y: dpfast.fit(
            X,
            y,
            dpfast.Objective("huber", scale=1.0),
            privacy=3.0,
            method=method,
            noise=dpfast.SeededNoise(1),
        )
    )
    np.testing.assert_array_equal(narrow.params, wide.params)


def test_a_domain_projects_in_float64():
    domain = Box(2.0).bind(3)
    narrow, wide = of_both_types(lambda X, y: domain.project(X))
    assert narrow.dtype == np.float64
    np.testing.assert_array_equal(narrow, wide)


def test_users_own_gradients_see_float64():
    seen = set()

    def gradients(theta, X, y):
        seen.add(X.dtype)
        return (X @ theta - y)[:, None] * X

    def run(X, y):
        objective = dpfast.nonconvex.PerRecordObjective(
            gradients, dimension=3, lipschitz=1.0, smoothness=1.0
        )
        return dpfast.minimize(
            X, y, objective, privacy=2.0, noise=dpfast.SeededNoise(1),
            method=dpfast.optimize.Adaptive(last_share=0.2),
        )  # fmt: skip

    narrow, wide = of_both_types(run)
    assert seen == {np.dtype(np.float64)}
    np.testing.assert_array_equal(narrow.params, wide.params)
