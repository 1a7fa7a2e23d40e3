"""Claims C26 to C28: profiles with unequal scales, and their mixture with a Laplace release."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.release.profiles import (
    gaussian_profile,
    laplace_profile,
    with_discrete_laplace,
    worst_profile,
)

#: Steps of a lattice on which integer noise is about continuous.
FINE = 1 << 14


def density(kind, x, centre, scale):
    u = (x - centre) / scale
    if kind is gaussian_profile:
        return np.exp(-0.5 * u * u) / (scale * math.sqrt(2 * math.pi))
    return 0.5 * np.exp(-np.abs(u)) / scale


def integrated(kind, epsilon, shift, ratio):
    """int max(p - e^epsilon q, 0) on a fine grid: accurate to about 1e-8."""
    x = np.linspace(-60, 60 + shift, 2_000_001)
    gap = density(kind, x, 0, 1) - math.exp(epsilon) * density(kind, x, shift, ratio)
    return float(np.trapezoid(np.maximum(gap, 0.0), x))


CASES = [
    (epsilon, shift, ratio)
    for epsilon in (-2.0, -0.1, 0.0, 0.4, 3.0)
    for shift, ratio in ((0.3, 1.0), (0.3, 0.9), (0.3, 1.1), (1.5, 0.7), (1.5, 1.6), (0.0, 1.05))
]


@pytest.mark.parametrize("kind", [gaussian_profile, laplace_profile])
@pytest.mark.parametrize(("epsilon", "shift", "ratio"), CASES)
@pytest.mark.one_in(3)
def test_c26_c27_profiles_are_the_integrals(kind, epsilon, shift, ratio):
    ours = float(np.ravel(kind(np.array([epsilon]), shift, ratio))[0])
    exact = integrated(kind, epsilon, shift, ratio)
    assert ours == pytest.approx(exact, abs=2e-8)


def test_equal_scales_are_gaussian_dp():
    for mu, epsilon in ((0.5, 0.2), (1.0, 3.0), (2.0, 0.0)):
        ours = float(gaussian_profile(np.array([epsilon]), mu, 1.0)[0])
        assert ours == pytest.approx(gdp_delta(mu, epsilon), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("kind", [gaussian_profile, laplace_profile])
def test_c26_c27_the_worst_case_is_at_an_end(kind):
    """Random shifts and ratios inside never exceed the largest shift and the two end ratios."""
    rng = np.random.default_rng(0)
    epsilon = np.linspace(-4, 6, 41)
    for _ in range(400):
        shift = 10 ** rng.uniform(-2, 0.7)
        low, high = 1 - rng.uniform(0, 0.5), 1 + rng.uniform(0, 0.8)
        worst = worst_profile(kind, shift, low, high)(epsilon)
        inside = kind(epsilon, shift * rng.random(), rng.uniform(low, high))
        assert (inside <= worst + 1e-12).all()


@pytest.mark.parametrize("kind", [gaussian_profile, laplace_profile])
@pytest.mark.parametrize("laplace_epsilon", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.pairs
def test_c28_mixture_is_the_integral_and_never_below_it(kind, laplace_epsilon, epsilon):
    profile = worst_profile(kind, 0.4, 0.95, 1.05)
    e1 = laplace_epsilon

    def value(e):
        return float(np.ravel(profile(np.array([e])))[0])

    # Gauss's rule on pieces so short that a corner of the profile in one of them is nothing
    nodes, weights = np.polynomial.legendre.leggauss(4)
    half = e1 / 20_000
    t = (np.arange(-19_999, 20_000, 2)[:, None] + nodes) * half
    inside = 0.25 * np.exp((t - e1) / 2) * profile((epsilon - t).ravel()).reshape(t.shape)
    inner = half * float((inside @ weights).sum())
    exact = 0.5 * value(epsilon - e1) + 0.5 * math.exp(-e1) * value(epsilon + e1) + inner
    # a fine lattice tends to the continuous release, from above
    ours = with_discrete_laplace(profile, e1, FINE, epsilon)
    assert exact * (1 - 1e-9) - 1e-13 <= ours <= exact * (1 + 1e-3) + 1e-12


def test_c28_discrete_mixture_against_enumeration():
    profile = worst_profile(gaussian_profile, 0.4, 0.95, 1.05)
    e1, size, epsilon = 0.7, 5, 1.0
    a = e1 / size
    j = np.arange(-4000, 4001)
    p = np.exp(-a * np.abs(j))
    p /= p.sum()
    loss = a * (np.abs(j - size) - np.abs(j))
    exact = float((p * profile(epsilon - loss)).sum())
    assert with_discrete_laplace(profile, e1, size, epsilon) == pytest.approx(exact, rel=1e-9)


def test_against_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    e1, mu, epsilon = 0.5, 0.4, 1.0
    theirs = pld.from_laplace_mechanism(1 / e1, value_discretization_interval=1e-4).compose(
        pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4)
    )
    ours = with_discrete_laplace(lambda e: gaussian_profile(e, mu, 1.0), e1, FINE, epsilon)
    assert ours == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=2e-3)


@pytest.mark.parametrize(
    ("kind", "tolerance", "expected"),
    [
        (gaussian_profile, 0.0, 5.53),
        (gaussian_profile, 0.02, 10.5),
        (laplace_profile, 0.02, 2.48),
        (laplace_profile, 0.05, 5.58),
    ],
)
def test_calibrations_of_the_design_page(kind, tolerance, expected):
    """Standard deviation at total epsilon 1, of which 0.25 Laplace, and delta 5e-7."""

    def excess(scale):
        profile = worst_profile(kind, 1 / scale, 1 - tolerance, 1 + tolerance)
        return with_discrete_laplace(profile, 0.25, FINE, 1.0) - 5e-7

    scale = brentq(excess, 0.5, 60.0, xtol=1e-6)
    deviation = scale * (math.sqrt(2.0) if kind is laplace_profile else 1.0)
    assert deviation == pytest.approx(expected, rel=5e-3)
