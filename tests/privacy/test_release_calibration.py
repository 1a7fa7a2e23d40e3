"""Claims R5, R8 to R10 and R35: counts, tails, calibrations, Student noise, perturbation."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import stdtr

from dpfast.errors import InvalidBudget
from dpfast.privacy.conversions import gdp_delta
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import (
    calibrate_functionals,
    calibrate_parameter,
    objective_perturbation_delta,
    objective_perturbation_scale,
)
from dpfast.privacy.release.profiles import gaussian_profile, laplace_profile, worst_profile
from dpfast.privacy.release.profiles_student import student_profile, student_worst_profile
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


# ---- R9: Student noise ---------------------------------------------------------------------------


def density(x, centre, scale):
    u = (x - centre) / scale
    return 2.0 / (math.pi * math.sqrt(3.0) * scale * (1.0 + u * u / 3.0) ** 2)


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.05, 0.7, 2.0])
@pytest.mark.parametrize(("shift", "ratio"), [(0.0, 1.1), (0.4, 1.0), (0.4, 0.9), (1.5, 1.3)])
def test_r9_the_profile_is_the_integral(epsilon, shift, ratio):
    x = np.concatenate([-np.geomspace(3e5, 1e-6, 400_000), np.geomspace(1e-6, 3e5, 400_000)])
    gap = density(x, 0, 1) - math.exp(epsilon) * density(x, shift, ratio)
    exact = float(np.trapezoid(np.maximum(gap, 0.0), x))
    assert float(student_profile(np.array([epsilon]), shift, ratio)[0]) == pytest.approx(
        exact, abs=1e-8
    )


def test_r9_tails_are_those_of_t3():
    from dpfast.privacy.release.profiles_student import _upper_tail

    t = np.geomspace(1e-3, 1e6, 400)
    np.testing.assert_allclose(_upper_tail(t), stdtr(3, -t), rtol=1e-9)


def test_r9_the_worst_case_is_at_an_end_where_that_is_proved():
    rng = np.random.default_rng(2)
    attained = 0
    for _ in range(600):
        shift = 10 ** rng.uniform(-2, 0.7)
        low, high = 1 - rng.uniform(0, 0.5), 1 + rng.uniform(0, 0.8)
        start = -1.5 * math.log1p(shift**2 / 3)
        epsilon = np.concatenate([[start * 0.999], np.linspace(max(start, -1.0) * 0.99, 4, 40)])
        worst = worst_profile(student_profile, shift, low, high)(epsilon)
        inside = student_profile(epsilon, shift * rng.random(), rng.uniform(low, high))
        at_shift = student_profile(epsilon, shift, rng.uniform(low, high))
        assert (np.maximum(inside, at_shift) <= worst + 1e-12).all()
        attained += bool((inside > 0.5 * worst).any())
    assert attained > 100


def test_r9_no_pair_exceeds_the_bound_for_any_epsilon():
    rng = np.random.default_rng(5)
    epsilon = np.linspace(-4, 3, 57)
    closest = math.inf
    for _ in range(150):
        shift, low, high = (
            10 ** rng.uniform(-2, 0.5),
            1 - rng.uniform(0, 0.4),
            1 + rng.uniform(0, 0.5),
        )
        bound = student_worst_profile(shift, low, high)(epsilon)
        inside = student_profile(epsilon, shift * rng.random(), rng.uniform(low, high))
        ends = [student_profile(epsilon, shift, ratio) for ratio in (low, high)]
        assert (np.maximum(inside, np.maximum(*ends)) <= bound + 1e-12).all()
        closest = min(closest, float((bound - np.maximum(*ends)).max()))
    assert closest < 0.01


def test_r9_the_loss_of_student_noise_is_bounded():
    """Pure: beyond the largest loss the profile is zero."""
    profile = worst_profile(student_profile, 1 / 0.389, 0.9, 1.1)
    assert float(profile(np.array([2.99]))[0]) < 1e-13
    assert float(profile(np.array([2.9]))[0]) > 1e-6


# ---- R8: calibrations ----------------------------------------------------------------------------

KINDS = {"laplace": laplace_profile, "gaussian": gaussian_profile, "student": student_profile}


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


@pytest.mark.parametrize(("epsilon", "epsilon1"), [(1.0, 0.25), (4.0, 1.0), (0.2, 0.05)])
def test_r8_the_multiplier_is_enough_and_less_is_not(epsilon, epsilon1):
    delta, delta1 = 1e-6, 5e-7
    b = calibrate_parameter(epsilon, delta, epsilon1, delta1)
    loss, mass = of_integers(epsilon1)
    total = [
        delta1 + float(mass @ gaussian_profile(epsilon - loss, 1 / noise, 1.0))
        for noise in (b, 0.999 * b)
    ]
    assert total[0] <= delta < total[1]
    assert calibrate_parameter(epsilon, delta, epsilon1, delta1) == b  # from the cache


def test_r8_multipliers_of_the_design_page():
    assert calibrate_parameter(1.0, 1e-6, 0.25, 5e-7) == pytest.approx(5.53, rel=1e-2)
    b = [calibrate_parameter(1.0, d, 0.25, 5e-8) for d in (1e-7, 1e-6, 1e-5)]
    assert b == sorted(b, reverse=True)
    for wrong in ((1.0, 1e-6, 1.0, 5e-7), (1.0, 1e-6, 0.25, 1e-6)):
        with pytest.raises(InvalidBudget):
            calibrate_parameter(*wrong)


# ---- R35: functionals beside a certificate -------------------------------------------------------

CHOICES = tuple(
    (law, tau)
    for law in ("laplace", "student", "gaussian")
    for tau in (0.0025, 0.01, 0.03, 0.065, 0.14)
)


def worst(choice, b, epsilon):
    """Largest delta of one functional at epsilon, over the ratios that the tolerance allows."""
    law, tau = choice
    ratios = np.linspace(1.0 - tau, 1.0 + tau, 21)
    return float(KINDS[law](np.array([epsilon]), 1.0 / b, ratios).max())


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.05, 1e-4), (0.75, 1e-8), (0.75, 5e-7), (8.0, 1e-5)]
)
def test_r35_each_multiplier_is_enough_and_less_is_not(epsilon, delta):
    found = calibrate_functionals(epsilon, delta, CHOICES, other_delta=delta / 64)
    for choice, b in zip(CHOICES, found, strict=True):
        if b < math.inf:
            assert worst(choice, b, epsilon) <= delta * (1 - 1 / 64)
            assert worst(choice, b * (1 - 1e-3), epsilon) > delta * (1 - 1 / 64)
        else:  # the ratio alone tells too much
            assert worst(choice, 1e11, epsilon) > delta * (1 - 1 / 64)
    assert sum(b < math.inf for b in found) >= 2
    # choices do not touch each other, and no order is asked for
    assert (
        calibrate_functionals(epsilon, delta, CHOICES[::-1], other_delta=delta / 64)
        == (found[::-1])
    )


@pytest.mark.parametrize(("epsilon", "share"), [(0.2, 0.25), (1.0, 0.05), (1.0, 0.25), (8.0, 0.5)])
def test_r35_a_choice_by_the_certificate_is_covered(epsilon, share):
    """The largest delta over all rules that choose by the integer, summed over the integers."""
    delta, delta1, epsilon1 = 1e-6, 5e-7, epsilon * share
    found = calibrate_functionals(epsilon - epsilon1, delta - delta1, CHOICES)
    loss, mass = of_integers(epsilon1)
    profiles = [
        KINDS[law](epsilon - loss, 1 / b, ratio)
        for (law, tau), b in zip(CHOICES, found, strict=True)
        if b < math.inf
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
    """Of functionals alone, so below those of the page, which pays for the certificate, too."""
    root = {"laplace": math.sqrt(2), "gaussian": 1.0, "student": math.sqrt(3)}
    for epsilon, tau, noise, expected in (
        (0.75, 0.02, "laplace", 2.48), (0.75, 0.05, "student", 2.97), (0.75, 0.1, "student", 3.46),
        (3.0, 0.02, "laplace", 0.51), (3.0, 0.1, "student", 0.67),
    ):  # fmt: skip
        (b,) = calibrate_functionals(epsilon, 5e-7, ((noise, tau),))
        assert b * root[noise] == pytest.approx(expected, rel=0.03)
    assert calibrate_functionals(0.75, 5e-7, (("gaussian", 0.05),)) == (math.inf,)
    for choice, match in ((("uniform", 0.1), "noise"), (("laplace", 1.0), "tau")):
        with pytest.raises(InvalidBudget, match=match):
            calibrate_functionals(0.75, 5e-7, (choice,))
    with pytest.raises(InvalidBudget, match="epsilon"):
        calibrate_functionals(0.0, 5e-7, CHOICES)


def test_r35_more_budget_never_needs_more_noise():
    for law in KINDS:
        b = [calibrate_functionals(0.75, d, ((law, 0.005),))[0] for d in (1e-8, 1e-6, 1e-4)]
        assert b == sorted(b, reverse=True)
        b = [calibrate_functionals(e, 1e-6, ((law, 0.005),))[0] for e in (0.3, 1.0, 4.0)]
        assert b == sorted(b, reverse=True)


# ---- R10: objective perturbation -----------------------------------------------------------------


def exact_delta(epsilon, S, n, lreg, first, second, first2, second2):
    """One covariate: densities of the perturbed minimisers by the change of variables."""
    theta = np.linspace(-40, 40, 400_001) * S / lreg

    def density(d1, d2):
        slope = d1(theta) / n + lreg * theta
        return np.exp(-0.5 * (slope / S) ** 2) / math.sqrt(2 * math.pi) / S * (d2(theta) / n + lreg)

    p, q = density(first, second), density(first2, second2)
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0.0), theta))


@pytest.mark.parametrize(
    ("n", "epsilon", "factor"), [(10, 1.0, 4.0), (1000, 0.5, 2.0), (200, 2, 9)]
)
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
    for offset in (-3.0, 0.0, 3.0):
        for y in (-30.0, 0.0, 30.0):
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
