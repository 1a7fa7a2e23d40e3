"""Steps scaled by coordinate: free, and of use where coordinates have unequal scales."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.nonconvex import PerRecordObjective
from dpfast.optimize import Adaptive
from dpfast.optimize.nonconvex.adaptive import _scaled
from tests.nonconvex.test_runaway import excess, indicators


def quadratic(condition, d=6, n=1000):
    """Records in opposite pairs: the mean loss is quadratic, its eigenvalues 1 to 1/condition."""
    values = np.geomspace(1.0, 1.0 / condition, d)
    half = np.random.default_rng(0).normal(size=(n // 2, d))
    half *= 0.2 / np.linalg.norm(half, axis=1)[:, None]
    target = PerRecordObjective(
        lambda theta, X, y: X + values * theta,
        dimension=d, lipschitz=3.0, smoothness=1.0, vectorized=True,
    )  # fmt: skip
    return np.vstack([half, -half]), target, values


def mean_excess(condition, scaling):
    X, target, values = quadratic(condition)
    found = []
    for seed in range(4):
        result = dpfast.minimize(
            X,
            np.zeros(len(X)),
            target,
            privacy=dpfast.ZCDP(5.0),
            method=Adaptive(scaling=scaling),
            start=[1.0] * 6,
            noise=dpfast.SeededNoise(seed),
        )
        found.append(0.5 * float(values @ result.params**2))
        assert result.privacy.total.rho == 5.0
    return np.mean(found)


@pytest.mark.slow
def test_it_pays_where_coordinates_are_unequal():
    assert mean_excess(100.0, "coordinates") < 0.7 * mean_excess(100.0, None)


def test_a_scaled_vector_keeps_its_length_and_signs():
    gradient = np.array([3.0, -0.1, 0.0, 1e-200])
    found = _scaled(gradient, gradient**2)
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(gradient))
    np.testing.assert_array_equal(np.sign(found), np.sign(gradient))
    assert found[0] == pytest.approx(-found[1])
    for odd in (np.zeros(3), np.array([np.inf, 1.0, 1.0]), np.array([np.nan, 1.0, 1.0])):
        np.testing.assert_array_equal(_scaled(odd, odd**2), odd)


def test_other_scalings_are_refused_by_name():
    with pytest.raises(InvalidInput, match="coordinates"):
        Adaptive(scaling="rows")
    assert "scaling='coordinates'" in repr(Adaptive(scaling="coordinates"))


@pytest.mark.slow
def test_a_clip_that_fell_out_of_sight_is_said():
    """Rare labels at a small budget: the lengths cannot say that the long gradients are gone."""
    rng = np.random.default_rng(5)
    X = np.column_stack([np.ones(2000), rng.normal(size=(2000, 4))])
    rare = (rng.random(2000) < 1.0 / (1.0 + np.exp(3.5 - X[:, 1:].sum(axis=1) / 2.0))).astype(float)
    told = 0
    for seed in range(4):
        worse, result = excess((X, rare), 0.7, seed)
        told += any("the private clip fell" in text for text in result.warnings)
        assert worse < 0.1 or result.warnings
    assert told > 0
    assert not any(
        "the private clip fell" in text
        for seed in range(3)
        for text in excess(indicators(10_000, seed), 3.0, seed)[1].warnings
    )
