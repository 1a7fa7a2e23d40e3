"""Claims R5, R10 and R35: counts, tails, calibrations, perturbation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import trapezoid

from dpfast.errors import InvalidBudget
from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import (
    functional_multiplier,
    gaussian_profile,
    objective_perturbation_delta,
    objective_perturbation_scale,
)
from dpfast.privacy.release.sensitivity import (
    eigenvalue_step,
    lower_bound_from_release,
    scaled_count,
    tail_count,
)
from tests.loops import each

# ---- R5: the integer behind a certificate --------------------------------------------------------


def test_counts_of_neighbours_differ_by_at_most_their_sensitivity():
    """The worst pair of computed eigenvalues, in floats chosen to sit at the edges of a count."""
    rng = np.random.default_rng(0)
    largest = 0
    for _ in range(4000):
        s, M = 10 ** rng.uniform(-8, 0), int(rng.choice([1, 7, 1024]))
        eta = s * 10 ** rng.uniform(-9, 0)
        exact = Fraction(s) + 2 * Fraction(eta)
        lam = float(Fraction(s) + int(rng.integers(1, 5000)) * exact / M)  # at the edge
        lam = math.nextafter(lam, rng.choice([-math.inf, math.inf]))
        other = Fraction(lam) + exact
        other = float(other)
        while Fraction(other) - Fraction(lam) > exact:
            other = math.nextafter(other, -math.inf)
        difference = scaled_count(other, s, eta, M) - scaled_count(lam, s, eta, M)
        assert 0 <= difference <= M
        largest = max(largest, difference - M)
    assert largest == 0  # attained
    for value in (math.nan, -math.inf, -1.0, 0.0, 0.05):
        assert scaled_count(value, 0.1, 1e-9, 1024) == 0
    assert scaled_count(math.inf, 0.1, 0.0, 8, largest=0.35) == 20 - 1  # 0.35 - 0.1 is below 2.5 s


def test_a_count_in_floating_point_would_break_its_sensitivity():
    """Why the count is exact: floors of rounded quotients can differ by one more."""
    s, eta, M = 0.1, 0.0, 1024
    found = 0
    for j in range(1, 3000):
        lam = 0.1 + j * s / M
        low = math.floor(M * (lam - s) / s)
        high = math.floor(M * ((lam + s) - s) / s)
        if Fraction(lam + s) - Fraction(lam) <= Fraction(s):
            found = max(found, high - low)
            assert scaled_count(lam + s, s, eta, M) - scaled_count(lam, s, eta, M) <= M
    assert found > M


@each("epsilon1", [0.05, 0.25, 1.0, 4.0])
@each("delta1", [1e-9, 5e-7, 0.1])
@each("M", [1, 1024])
def test_the_tail_is_the_smallest_that_is_safe(epsilon1, delta1, M):
    k = tail_count(epsilon1, delta1, M)
    numerator, denominator = laplace_rate(M, epsilon1)
    a = numerator / denominator

    def tail(k):  # P(noise > k)
        return math.exp(-a * (k + 1)) / (1.0 + math.exp(-a))

    assert tail(k) <= delta1
    assert k == 0 or tail(k - 1) > delta1 * (1 - 1e-9)


def test_the_lower_bound_holds_unless_the_noise_exceeds_its_tail():
    rng = np.random.default_rng(1)
    for _ in range(3000):
        s, M, k = 10 ** rng.uniform(-6, 0), 1024, 200
        eta = s * 10 ** rng.uniform(-9, -1)
        true = s * 10 ** rng.uniform(-1, 2)
        computed = float(true + rng.choice([-1, 0, 1]) * eta * 0.999999)
        count = scaled_count(computed, s, eta, M)
        worst = lower_bound_from_release(count + k, k, s, eta, M)
        assert worst <= true
        if computed > 1.1 * s:  # and it is not idle: one grid step and eta from the truth
            assert worst >= true - 3 * eta - 2 * s / M
        assert lower_bound_from_release(k, k, s, eta, M, lreg=0.3) == 0.3


# ---- R35: functionals beside a certificate -------------------------------------------------------

TOLERANCES = (0.0, 0.0003, 0.0025, 0.01, 0.03, 0.14)


def of_integers(epsilon1, M=1024):
    """Losses of an integer of a certificate and their probabilities, integer by integer."""
    numerator, denominator = laplace_rate(M, epsilon1)
    a = numerator / denominator
    inner = np.arange(1, M)
    tail = 1.0 / (1.0 + math.exp(-a))  # of all integers up to 0, whose loss is the largest
    mass = np.concatenate(
        [[tail], np.exp(-a * inner) * math.tanh(a / 2), [math.exp(-a * M) * tail]]
    )
    return a * (M - 2.0 * np.arange(M + 1)), mass


def worst(tau, b, epsilon):
    """Largest delta of one functional at epsilon, over the ratios that the tolerance allows."""
    return max(gaussian_profile(epsilon, 1.0 / b, r) for r in np.linspace(1 - tau, 1 + tau, 21))


@each(("epsilon", "delta"), [(0.05, 1e-4), (0.75, 1e-8), (0.75, 5e-7), (8.0, 1e-5)])
def test_r35_each_multiplier_is_enough_and_less_is_not(epsilon, delta):
    found = [functional_multiplier(epsilon, delta, t, other_delta=delta / 64) for t in TOLERANCES]
    for tau, b in zip(TOLERANCES, found, strict=True):
        if b < math.inf:
            assert worst(tau, b, epsilon) <= delta * (1 - 1 / 64)
            assert worst(tau, b * (1 - 1e-3), epsilon) > delta * (1 - 1 / 64)
        else:  # the ratio alone tells too much
            assert worst(tau, 1e11, epsilon) > delta * (1 - 1 / 64)
    assert sum(b < math.inf for b in found) >= 2
    assert found == sorted(found)


@pytest.mark.parametrize(("epsilon", "share"), [(0.2, 0.25), (1.0, 0.05), (1.0, 0.25), (8.0, 0.5)])
def test_r35_a_choice_by_the_certificate_is_covered(epsilon, share):
    """The largest delta over all rules that choose by the integer, summed over the integers."""
    delta, delta1, epsilon1 = 1e-6, 5e-7, epsilon * share
    loss, mass = of_integers(epsilon1)
    profiles = [
        [gaussian_profile(epsilon - e, 1 / b, ratio) for e in loss]
        for tau in TOLERANCES
        if (b := functional_multiplier(epsilon - epsilon1, delta - delta1, tau)) < math.inf
        for ratio in (1 - tau, 1 + tau)
    ]
    total = delta1 + float(mass @ np.max(profiles, axis=0))
    # what is charged is spent by somebody who goes on after a refusal, not by this pair alone
    assert 0.5 * (delta - delta1) < total - delta1 <= delta - delta1


def test_r35_a_refusal_that_cost_no_delta_would_be_tried_until_a_bound_fails():
    """The attack that (epsilon1, 0) for a refusal allows.

    Neither of two neighbours can be certified; each refused attempt costs epsilon only, and what
    follows the first bound that fails promises nothing.  Both give the same integers.
    """
    epsilon1, delta1, delta2, M = 0.25, 5e-7, 5e-7, 1024
    numerator, denominator = laplace_rate(M, epsilon1)
    a, k = numerator / denominator, tail_count(epsilon1, delta1, M)
    fails = math.exp(-a * (k + 1)) / (1.0 + math.exp(-a))  # P(0 + noise > k)
    assert lower_bound_from_release(k, k, 0.1, 1e-9, M) == 0.0  # refused
    assert lower_bound_from_release(k + 1, k, 0.1, 1e-9, M) > 0.1  # more than there is
    attempts = 8
    told = -math.expm1(attempts * math.log1p(-fails))
    assert told > 3.0 * (delta1 + delta2)  # if only the last one paid for its failure
    assert told <= attempts * delta1  # as R35 charges


def test_r35_multipliers_of_the_design_page():
    """Without a change of scale those of the Gaussian mechanism; with one of 5% there are none."""
    assert gdp_delta(1.0 / functional_multiplier(0.75, 5e-7, 0.0), 0.75) == pytest.approx(5e-7)
    assert functional_multiplier(0.75, 5e-7, 0.05) == math.inf
    with pytest.raises(InvalidBudget, match="tau"):
        functional_multiplier(0.75, 5e-7, 1.0)
    with pytest.raises(InvalidBudget, match="epsilon"):
        functional_multiplier(0.0, 5e-7, 0.1)


def test_r35_more_budget_never_needs_more_noise():
    b = [functional_multiplier(0.75, d, 0.005) for d in (1e-8, 1e-6, 1e-4)]
    assert b == sorted(b, reverse=True)
    b = [functional_multiplier(e, 1e-6, 0.005) for e in (0.3, 1.0, 4.0)]
    assert b == sorted(b, reverse=True)


# ---- R10: objective perturbation -----------------------------------------------------------------


def exact_delta(epsilon, S, n, lreg, first, second, first2, second2):
    """One covariate: densities of the perturbed minimisers by the change of variables."""
    theta = np.linspace(-40, 40, 400_001) * S / lreg

    def density(d1, d2):
        slope = d1(theta) / n + lreg * theta
        return np.exp(-0.5 * (slope / S) ** 2) / math.sqrt(2 * math.pi) / S * (d2(theta) / n + lreg)

    p, q = density(first, second), density(first2, second2)
    return float(trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), theta))


@pytest.mark.parametrize(
    ("n", "epsilon", "factor"), [(10, 1.0, 4.0), (1000, 0.5, 2.0), (200, 2, 9)]
)
@pytest.mark.one_in(2)
def test_r10_against_exact_densities_in_one_dimension(n, epsilon, factor):
    """Linear records attain half of the bound or more; curved ones stay below it."""
    delta, G1 = 1e-5, 0.5
    lreg = factor * G1 / (n * epsilon)
    S = objective_perturbation_scale(epsilon, delta, G1, 1.0, 1.0, n, lreg)
    assert objective_perturbation_delta(epsilon, S, G1, 1.0, 1.0, n, lreg) <= delta
    one, zero = (lambda t: np.ones_like(t)), (lambda t: np.zeros_like(t))
    linear = exact_delta(epsilon, S, n, lreg, one, zero, lambda t: -one(t), zero)
    assert linear <= delta
    worst = linear
    for offset, y in ((0.0, 0.0), (0.0, 30.0), (3.0, -30.0), (-3.0, 30.0)):
        worst = max(
            worst,
            exact_delta(
                epsilon, S, n, lreg,
                lambda t, k=offset: np.tanh((t - k) / 2),
                lambda t, k=offset: 0.5 / np.cosh(np.clip((t - k) / 2, -300, 300)) ** 2,
                lambda t, k=y: np.tanh((t - k) / 2),
                lambda t, k=y: 0.5 / np.cosh(np.clip((t - k) / 2, -300, 300)) ** 2,
            ),
        )  # fmt: skip
    assert worst <= delta
    # with no curvature at all the bound is twice the exact one: both signs are counted
    flat = objective_perturbation_delta(epsilon, S, 1e-12, 1.0, 1.0, n, lreg)
    exact = gdp_delta(2.0 / (n * S), epsilon)
    assert exact == pytest.approx(linear, rel=1e-3)
    assert exact <= flat <= 2.01 * exact


def test_r10_values_of_the_design_page():
    n, epsilon = 10_000, 1.0
    for factor, expected in ((1.2, 20.9), (2, 14.2), (4, 11.05), (8, 9.81), (16, 9.25)):
        S = objective_perturbation_scale(epsilon, 1e-6, 1.0, 1.0, 1.0, n, factor / (n * epsilon))
        assert S * n == pytest.approx(expected, rel=1e-3)
    assert objective_perturbation_scale(0.1, 1e-6, 1.0, 1.0, 1.0, 10, 0.1) == math.inf
    # the printed constant of the literature is a little too small under replacement
    kifer = math.sqrt(8 * math.log(2 / 1e-6) + 4 * epsilon) / (n * epsilon)
    found = objective_perturbation_delta(epsilon, kifer, 1.0, 1.0, 1.0, n, 4 / (n * epsilon))
    assert found == pytest.approx(1.19e-6, rel=0.02)


def test_the_bound_is_the_largest_over_angles():
    """R10: no split of the shift between the two directions exceeds it."""
    from dpfast.privacy.release.calibration import _two_sided

    for e, mu in ((0.3, 0.2), (1.0, 0.4), (0.1, 1.0), (2.0, 3.0)):
        phi = np.linspace(0, math.pi / 2, 20_001)
        split = _two_sided(e, mu * np.cos(phi / 2)) + _two_sided(e, mu * np.sin(phi / 2))
        ours = objective_perturbation_delta(e, 2.0 / mu, 1e-300, 1.0, 1.0, 1, 1.0)
        assert split.max() <= ours <= split.max() * 1.01 + 1e-300 or ours == 1.0


def test_the_step_is_monotone_in_what_it_is_declared():
    assert eigenvalue_step(1, 1, 1, 100) < eigenvalue_step(1, 1, 1.1, 100)
