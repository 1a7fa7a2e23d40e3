"""Covariance functions against the twin, finite differences and high-precision derivatives."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dpfast.bayesopt import RBF, Matern52, Matern72, Polynomial2
from dpfast.errors import InvalidInput
from tests.loops import each
from tests.twins import acquisition as reference

LENGTHS = np.array([0.5, 1.0, 2.5])
COVARIANCES = [
    RBF(LENGTHS, 1.3),
    Matern52(LENGTHS, 0.7),
    Matern72(LENGTHS, 2.0),
    Polynomial2(LENGTHS, 1.1, offset=0.6),
]
IDS = [type(covariance).__name__ for covariance in COVARIANCES]
every = pytest.mark.parametrize("covariance", COVARIANCES, ids=IDS)


def prior_of(covariance, d: int = 3, noise_variance: float = 0.0) -> reference.Prior:
    return reference.Prior(
        covariance.family,
        covariance.length_scales(d),
        covariance.output_scale,
        covariance.offset,
        noise_variance,
    )


def high_precision(covariance, x, z):
    """The defining formula of the field, at 50 digits (Matern through the Bessel function)."""
    lengths = [mpmath.mpf(float(v)) for v in covariance.length_scales(len(x))]
    s2 = mpmath.mpf(covariance.output_scale) ** 2
    if isinstance(covariance, Polynomial2):
        inner = sum(a * b / v**2 for a, b, v in zip(x, z, lengths, strict=True))
        return s2 * (inner + mpmath.mpf(covariance.offset)) ** 2
    q = sum(((a - b) / v) ** 2 for a, b, v in zip(x, z, lengths, strict=True))
    if isinstance(covariance, RBF):
        return s2 * mpmath.exp(-q / 2)
    nu = mpmath.mpf("2.5") if isinstance(covariance, Matern52) else mpmath.mpf("3.5")
    r = mpmath.sqrt(2 * nu * q)
    if r == 0:
        return s2
    return s2 * 2 ** (1 - nu) / mpmath.gamma(nu) * r**nu * mpmath.besselk(nu, r)


@every
def test_values_match_the_defining_formula(covariance):
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    with mpmath.workdps(50):
        wide = [[[mpmath.mpf(v) for v in row] for row in points] for points in (X, Z)]
        expected = [[float(high_precision(covariance, x, z)) for z in wide[1]] for x in wide[0]]
    np.testing.assert_allclose(covariance.values(X, Z), expected, rtol=3e-14)
    np.testing.assert_allclose(reference.covariance(prior_of(covariance), X, Z), expected, 3e-14)


@every
def test_gradient_matches_high_precision_differences(covariance):
    rng = np.random.default_rng(2)
    theta, Z = rng.normal(size=3), rng.normal(size=(4, 3))
    expected = np.empty((3, 4))
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -20
        for j in range(3):
            for i in range(4):
                at = [[mpmath.mpf(v) for v in theta] for _ in range(2)]
                at[0][j] += step
                at[1][j] -= step
                z = [mpmath.mpf(v) for v in Z[i]]
                up, down = (high_precision(covariance, x, z) for x in at)
                expected[j, i] = float((up - down) / (2 * step))
    got = covariance.gradient(theta, Z)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    twin = reference.covariance_gradient(prior_of(covariance), theta, Z)
    np.testing.assert_allclose(got, twin, rtol=1e-13, atol=1e-15)


@every
def test_prior_gradient_covariance_is_the_mixed_derivative(covariance):
    """Cross difference of k at (theta, theta); nested to order four, so that h = 1e-2 suffices."""
    theta = np.array([0.4, -1.2, 0.3])
    got = covariance.prior_gradient_covariance(theta)
    expected = np.empty((3, 3))
    with mpmath.workdps(60):
        h = mpmath.mpf(10) ** -12
        for i in range(3):
            for j in range(3):
                total = mpmath.mpf(0)
                for a in (-1, 1):
                    for b in (-1, 1):
                        x = [mpmath.mpf(v) + (a * h if k == i else 0) for k, v in enumerate(theta)]
                        z = [mpmath.mpf(v) + (b * h if k == j else 0) for k, v in enumerate(theta)]
                        total += a * b * high_precision(covariance, x, z)
                expected[i, j] = float(total / (4 * h * h))
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        got, reference.prior_gradient_covariance(prior_of(covariance), theta), rtol=1e-14
    )
    assert covariance.prior_trace(theta) == pytest.approx(np.trace(expected), rel=1e-9)


def test_prior_traces_of_the_formulas_page():
    """s^2 sum l^-2 for the RBF, 5/3 of it for Matern-5/2, 7/5 for Matern-7/2."""
    lengths, theta = np.array([0.5, 2.0]), np.array([3.0, -1.0])
    total = 0.25 / 0.25 + 0.25 / 4.0
    assert RBF(lengths, 0.5).prior_trace(theta) == pytest.approx(total, rel=1e-15)
    assert Matern52(lengths, 0.5).prior_trace(theta) == pytest.approx(5 / 3 * total, rel=1e-15)
    assert Matern72(lengths, 0.5).prior_trace(theta) == pytest.approx(7 / 5 * total, rel=1e-15)
    # polynomial of unit scales: 2 d (|theta|^2 + 1) + 2 |theta|^2
    assert Polynomial2().prior_trace(theta) == pytest.approx(2 * 2 * 11 + 2 * 10, rel=1e-15)


@every
def test_extreme_points_stay_finite(covariance):
    Z = np.array([[0.0, 0.0, 0.0], [1e308, -1e308, 5e-324], [1e160, 1e-320, -1e160]])
    for theta in Z:
        assert np.isfinite(covariance.values(Z, Z)).all()
        assert np.isfinite(covariance.gradient(theta, Z)).all()
        assert np.isfinite(covariance.prior_trace(theta))


@every
def test_duplicates_are_exactly_alike(covariance):
    x = np.random.default_rng(3).normal(size=(2, 3))
    K = covariance.values(x, x[[0, 0, 1, 1]])
    assert np.array_equal(K[:, 0], K[:, 1])
    if not isinstance(covariance, Polynomial2):
        assert K[0, 0] == covariance.output_scale**2


@each(
    ("call", "words"),
    [
        (lambda: RBF(0.0), "length_scales"),
        (lambda: RBF([1.0, np.nan]), "length_scales"),
        (lambda: RBF(1.0, [1.0, 2.0]), "one number"),
        (lambda: Matern52("a"), "real numbers"),
        (lambda: Polynomial2(offset=-1.0), "offset"),
        (lambda: RBF([1.0, 2.0]).values(np.ones((1, 3)), np.ones((1, 3))), "2 entries"),
        (lambda: RBF().values(np.ones((1, 3)), np.ones((1, 2))), "others"),
        (lambda: RBF().values(np.ones(3), np.ones((1, 3))), "shape"),
        (lambda: RBF().gradient(np.ones((1, 3)), np.ones((1, 3))), "theta"),
        (lambda: RBF().gradient([np.inf, 0.0], np.ones((1, 2))), "finite"),
    ],
)
def test_bad_arguments_are_named(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
