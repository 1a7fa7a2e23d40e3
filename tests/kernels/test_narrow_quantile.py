"""Claim C73, compiled: the score of one bandwidth beside the curvature of another.

Two kernels of the plain smoothed quantile are its twins, one for each bandwidth.
"""

from __future__ import annotations

import numpy as np
import pytest

from dpfast.kernels import records
from dpfast.models.quantile import BANDWIDTH_RATIO, NarrowQuantile, Quantile
from tests.loops import each

WEIGHTS = [0, 1, 3]
TAUS = [0.9, 0.3]


def kernel(loss, weighting):
    return records.RecordKernel(loss.code, loss.c, 1.3, weighting, 1.7, True, h=loss.h)


def draw(n, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), rng.standard_t(1.5, size=n)
    X[::17] *= 1e6
    y[::13] *= 1e300
    y[3], y[5], y[7] = np.nan, np.inf, -np.inf
    return X, y, np.array([0.1, -0.4, 0.7])


@each("weighting", WEIGHTS)
@each("tau", TAUS)
def test_c73_scores_are_narrow_and_curvatures_wide(tau, weighting):
    loss = NarrowQuantile(tau, 0.6)
    score, curvature = Quantile(tau, 0.6 / BANDWIDTH_RATIO), Quantile(tau, 0.6)
    X, y, theta = draw(1000, 1)
    own, narrow, wide = (kernel(each, weighting) for each in (loss, score, curvature))
    for want in (1, 3, 5, 7):
        found = own.sums(X, y, theta, want, 1.0, 1)
        expected = narrow.sums(X, y, theta, want, 1.0, 1)
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-11)
        if want & 4:
            np.testing.assert_allclose(found[2], expected[2], rtol=0, atol=1e-11)
        if want & 2:
            hessian = wide.sums(X, y, theta, want, 1.0, 1)[1]
            np.testing.assert_allclose(found[1], hessian, rtol=1e-13, atol=0)
            assert np.abs(found[1] - expected[1]).max() > 1.0
    for part, same in zip(
        own.sums(X, y, theta, 39, 1.0, 1), wide.sums(X, y, theta, 39, 1.0, 1), strict=True
    ):
        np.testing.assert_array_equal(part, same)  # of majorising steps both are wide
    new = theta + 0.01
    assert own.loss(X[8:], y[8:] % 1e3, theta, 1.0) == pytest.approx(
        narrow.loss(X[8:], y[8:] % 1e3, theta, 1.0), rel=1e-13
    )
    assert own.loss_difference(X, y, new, theta, 1.0) == pytest.approx(
        narrow.loss_difference(X, y, new, theta, 1.0), rel=1e-11
    )


@pytest.mark.parametrize("tau", TAUS)
def test_c73_no_record_passes_the_bounds(tau):
    """Scores up to their bounds on either side, curvatures up to that of the wide bandwidth."""
    loss, one = NarrowQuantile(tau, 0.6), np.zeros((1, 0))
    model = records.RecordKernel(loss.code, loss.c, 1.0, 0, 1.7, True, h=loss.h)
    grid = np.concatenate([np.linspace(-9.0, 9.0, 2001), [-1e307, 1e307, 0.0, 5e-324]])
    parts = [model.sums(one, np.array([y]), np.zeros(1), 3, 1.0, 1)[:2] for y in grid]
    scores, bends = np.array([-p[0][0] for p in parts]), np.array([p[1][0, 0] for p in parts])
    assert scores.min() == -(1.0 - tau)
    assert scores.max() == pytest.approx(tau, abs=0)
    assert bends.max() == loss.psi_prime_bound == 0.25 / 0.6
    assert bends.min() >= 0.0
    np.testing.assert_allclose(scores, loss.psi(grid), rtol=0, atol=1e-14)
    np.testing.assert_allclose(bends, loss.psi_prime(grid), rtol=0, atol=1e-14)
    slopes = np.diff(loss.psi(grid[:2001])) / np.diff(grid[:2001])
    assert 0.99 < slopes.max() / (loss.score_slope * loss.psi_prime_bound) <= 1.0
