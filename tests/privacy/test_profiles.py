"""Claim C26: the profile of normal noise of unequal scales."""

import math

import numpy as np
import pytest
from scipy.integrate import trapezoid

from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.release.calibration import gaussian_profile


def density(x, centre, scale):
    u = (x - centre) / scale
    return np.exp(-0.5 * u * u) / (scale * math.sqrt(2 * math.pi))


def integrated(epsilon, shift, ratio):
    """int max(p - e^epsilon q, 0) on a fine grid: accurate to about 1e-8."""
    x = np.linspace(-60, 60 + shift, 2_000_001)
    gap = density(x, 0, 1) - math.exp(epsilon) * density(x, shift, ratio)
    return float(trapezoid(np.maximum(gap, 0.0), x))


CASES = [
    (epsilon, shift, ratio)
    for epsilon in (-2.0, -0.1, 0.0, 0.4, 3.0)
    for shift, ratio in ((0.3, 1.0), (0.3, 0.9), (0.3, 1.1), (1.5, 0.7), (1.5, 1.6), (0.0, 1.05))
]


@pytest.mark.parametrize(("epsilon", "shift", "ratio"), CASES)
@pytest.mark.one_in(6)
def test_c26_profiles_are_the_integrals(epsilon, shift, ratio):
    exact = integrated(epsilon, shift, ratio)
    assert gaussian_profile(epsilon, shift, ratio) == pytest.approx(exact, abs=2e-8)


def test_equal_scales_are_gaussian_dp():
    for mu, epsilon in ((0.5, 0.2), (1.0, 3.0), (2.0, 0.0)):
        ours = gaussian_profile(epsilon, mu, 1.0)
        assert ours == pytest.approx(gdp_delta(mu, epsilon), rel=1e-9, abs=1e-14)
    assert gaussian_profile(0.3, 0.0, 1.0) < 1e-14  # twice the same
    assert gaussian_profile(-0.3, 0.0, 1.0) == pytest.approx(-math.expm1(-0.3), rel=1e-12)


def test_c26_the_worst_case_is_at_an_end():
    """Random shifts and ratios inside never exceed the largest shift and the two end ratios."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        shift = 10 ** rng.uniform(-2, 0.7)
        low, high = 1 - rng.uniform(0, 0.5), 1 + rng.uniform(0, 0.8)
        less, ratio = shift * rng.random(), rng.uniform(low, high)
        for e in np.linspace(-4, 6, 41):
            worst = max(gaussian_profile(e, shift, low), gaussian_profile(e, shift, high))
            assert gaussian_profile(e, less, ratio) <= worst + 1e-12
