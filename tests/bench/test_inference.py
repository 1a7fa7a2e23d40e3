"""The private bootstraps of the bench: their noise, and the estimand of their intervals."""

from __future__ import annotations

import math

import numpy as np

from bench.rivals import inference as rivals


def test_moments_have_the_noise_of_their_sensitivity():
    """Two clipped rows: their outer products differ by sqrt(2) LENGTH^2 at most, and attain it."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5)) * 100.0
    rows *= (rivals.LENGTH / np.linalg.norm(rows, axis=1))[:, None]
    rows[:2] = rivals.LENGTH * np.eye(5)[:2]
    outer = rows[:, :, None] * rows[:, None, :]
    far = max(float(np.linalg.norm(outer[k] - outer[:k], axis=(1, 2)).max()) for k in range(1, 400))
    limit = math.sqrt(2.0) * rivals.LENGTH**2
    assert 0.999 * limit < far <= limit * (1.0 + 1e-12)
    X, y = rivals.sample("normal", 500, rng)
    released = np.array([rivals.noisy_moments(X, y, 0.5, rng) for _ in range(2000)])
    noise = released.std(axis=0) * 500 * 0.5 / limit
    np.testing.assert_allclose(np.diag(noise), 1.0, atol=0.1)
    np.testing.assert_allclose(noise[np.triu_indices(5, 1)], 0.5**0.5, atol=0.08)


def test_the_bootstraps_are_right_where_noise_is_small():
    """At a large mu: centres within a few standard errors, widths near those without privacy."""
    rng = np.random.default_rng(1)
    X, y = rivals.sample("normal", 4000, rng)
    low, high = rivals.dp_bootstrap(y, 200.0, rng)
    assert low < y.mean() < high
    assert 0.7 < (high - low) / (2.0 * rivals.Z * y.std() / 4000**0.5) < 1.3
    for debiased in (False, True):
        low, high = rivals.parametric_bootstrap(X, y, 200.0, rng, debiased)
        assert abs(0.5 * (low + high) - rivals.TRUTH[1]) < 0.08
        assert 0.02 < high - low < 0.12


def test_debiasing_moves_the_slope_towards_the_truth_where_rows_are_clipped():
    """Responses of three times the length: clipping shrinks the slope, the correction does less."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 3))
    y = X @ [3.0, 0.0, 0.0] + 2.0 * rng.normal(size=3000)
    centres = [
        0.5 * sum(rivals.parametric_bootstrap(X, y, 50.0, np.random.default_rng(3), debiased))
        for debiased in (False, True)
    ]
    assert abs(centres[1] - 3.0) < abs(centres[0] - 3.0)
