"""Claims R28 to R30: the largest eigenvalue, noise in proportion to Delta, and their total cost."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from dpfast.errors import InvalidInput
from dpfast.models import Ball, Box
from dpfast.privacy.release.calibration import calibrate_functionals
from dpfast.privacy.release.condition import (
    LogScale,
    largest_bound,
    largest_count,
    log_scale,
    proportional_factors,
    psi_over_delta,
)
from dpfast.privacy.release.profiles import (
    composed_profile,
    gaussian_profile,
    laplace_profile,
    worst_profile,
)
from dpfast.privacy.release.profiles_student import student_profile, student_worst_profile
from dpfast.privacy.release.sensitivity import (
    eigenvalue_step,
    hessian_ratio,
)
from tests.privacy.test_release_theory import hessian, minimise, one_sided, smooth_absolute

KINDS = {"laplace": laplace_profile, "gaussian": gaussian_profile, "student": student_profile}


# ---- R28: the largest eigenvalue -----------------------------------------------------------------


def test_r28_counts_of_neighbours_differ_by_at_most_their_sensitivity():
    """Computed eigenvalues a factor exp(v) apart, each off by exp(e), at the edges of a count."""
    rng = np.random.default_rng(0)
    largest = 0
    for _ in range(1000):
        v, e, M = (
            10 ** rng.uniform(-5, -0.2),
            10 ** rng.uniform(-12, -2),
            int(rng.choice([1, 1024])),
        )
        scale = log_scale(v, e, 1e-4, 3.0)
        assert v + 2 * e <= scale.step <= (v + 2 * e) * (1 + 1e-12) + 1e-13
        # one at the edge of a count, the other as far away as a neighbour can be computed
        edge = 3.0 * math.exp(-scale.step * int(rng.integers(1, 5000)) / M)
        edge *= 1.0 + float(rng.integers(-3, 4)) * 2.0**-52
        other = edge * math.exp(-(v + 2 * e))
        difference = largest_count(other, scale, M) - largest_count(edge, scale, M)
        assert 0 <= difference <= M
        largest = max(largest, difference - M)
    assert largest == 0  # attained
    assert largest_count(math.nan, scale, 8) == largest_count(1e9, scale, 8) == 0
    assert largest_count(0.0, scale, 8) == largest_count(1e-4, scale, 8)
    with pytest.raises(InvalidInput, match="low < high"):
        log_scale(0.1, 0.0, 2.0, 1.0)


def test_r28_the_bound_holds_unless_the_noise_exceeds_its_tail():
    rng = np.random.default_rng(1)
    for _ in range(1000):
        v, e, M, k = 10 ** rng.uniform(-5, -0.2), 10 ** rng.uniform(-12, -2), 1024, 200
        scale = log_scale(v, e, 1e-4, 3.0)
        true = 3.0 * 10 ** rng.uniform(-4, 0)
        computed = true * math.exp(rng.choice([-1.0, 0.0, 1.0]) * e)
        count = largest_count(computed, scale, M)
        worst = largest_bound(count + k, k, scale, M)
        assert worst >= true
        # not idle: a grid step and both errors from the truth
        assert worst <= true * math.exp(2.1 * scale.error + 1.1 * scale.step / M)
        assert largest_bound(count - k, k, scale, M) >= worst
        assert largest_bound(k, k, scale, M) == 3.0
    assert largest_bound(10**9, k, scale, M) == 1e-4


def test_r28_the_count_is_exact():
    scale = LogScale(1e-3, 2.0, 0.0, 0.37)
    for lam in (0.9, 0.0031, 1.7):
        exact = Fraction(math.log(2.0 / lam)) * 1024 / Fraction(0.37)
        assert largest_count(lam, scale) == math.floor(exact)


# ---- R28 and R29: attacks ------------------------------------------------------------------------


def deltas(H, H2, w, domain):
    return [domain.support(np.linalg.solve(matrix, w)) for matrix in (H, H2)]


@pytest.mark.parametrize("multiple", [8.0, 60.0])
def test_r28_r29_are_attained(multiple):
    """One covariate: 0.99 of v, of the factor, and of the change of Delta."""
    loss, n = smooth_absolute(), 60_000
    X, y, s = one_sided(30_000, multiple, n)
    theta, _ = minimise(loss, X, y, 0.0, 1.0, found=1e-6)
    y2 = y.copy()
    y2[0, -1] = -1e4
    theta2, _ = minimise(loss, X, y2, 0.0, 1.0, start=theta, found=1e-6)
    lam, lam2 = (hessian(loss, X, b, t, 0.0)[0, 0, 0] for b, t in ((y, theta), (y2, theta2)))
    v = hessian_ratio(s, lam)
    assert 0.99 * v <= abs(math.log(lam2 / lam)) <= v
    spread = psi_over_delta(1.0, Ball(1.0).inner_radius, lam, lam)
    assert spread == pytest.approx(1.0, rel=1e-9)
    found = proportional_factors(v, spread)
    delta, delta2 = 2.0 / (n * lam), 2.0 / (n * lam2)
    shift = abs(float(theta2[0, 0] - theta[0, 0]))
    assert 0.99 * found.factor * delta <= shift <= found.factor * delta
    change = delta2 / delta - 1.0
    exact = math.cosh(v) - 1.0 + math.sinh(v)
    assert 0.99 * exact <= change <= exact
    assert exact <= found.tau <= exact * (1.0 + 2.0**-2) + 1e-6


def pair_excess(x, y, new, domain, w):
    """Fractions of R28's v, R29's factor and R29's tolerance that one pair attains."""
    loss, radius, (n, d) = smooth_absolute(), domain.radius, x.shape
    X, Y = x[None], y[None]
    X2, Y2 = X.copy(), Y.copy()
    X2[0, 0], Y2[0, 0] = new[:d], new[d]
    theta, found = minimise(loss, X, Y, 0.0, radius, found=1e-8)
    theta2, found2 = minimise(loss, X2, Y2, 0.0, radius, start=theta, found=1e-8)
    if not (found.all() and found2.all()):
        return None
    H, H2 = hessian(loss, X, Y, theta, 0.0)[0], hessian(loss, X2, Y2, theta2, 0.0)[0]
    values, values2 = np.linalg.eigvalsh(H), np.linalg.eigvalsh(H2)
    s = eigenvalue_step(1.0, 1.0, radius, n)
    if not values[0] > 2.0 * s:
        return None
    v = hessian_ratio(s, values[0])
    terms = proportional_factors(
        v, psi_over_delta(radius, domain.inner_radius, values[0], values[-1])
    )
    delta, delta2 = (2.0 / n * value for value in deltas(H, H2, w, domain))
    eigen = abs(math.log(values2[-1] / values[-1])) / v
    if terms is None:
        return eigen, 0.0, 0.0
    shift = abs(float(w @ (theta2 - theta)[0])) / (terms.factor * delta)
    return eigen, shift, abs(delta2 / delta - 1.0) / terms.tau


@pytest.mark.parametrize("domain", [Ball(1.0), Box(1.0)], ids=repr)
def test_r28_r29_optimised_pairs_stay_inside(domain):
    """Random search over two covariates, both records, responses and directions, three goals."""
    rng, d, n = np.random.default_rng(7), 2, 300
    domain = domain.bind(d)
    most = np.zeros(3)
    for goal in (0, 1, 2, 0, 1, 2):
        x = domain.project(rng.normal(size=(n, d)))
        y = 3.0 * rng.normal(size=n)
        new = np.append(domain.project(rng.normal(size=(1, d)))[0], 1e3)
        w, best = rng.normal(size=d), -1.0
        for step in range(70):
            size = 0.3 if step < 40 else 0.05
            moved = rng.random(n) < 0.1
            trial = domain.project(x + size * rng.normal(size=(n, d)) * moved[:, None])
            level = np.where(moved & (rng.random(n) < 0.3), rng.choice([-1e3, 1e3, 2.0], n), y)
            level[0] = -1e3 * np.sign(new[d])
            other = np.append(domain.project(new[None, :d] + size * rng.normal(size=(1, d)))[0],
                              new[d] * rng.choice([1.0, -1.0]))  # fmt: skip
            angle = w + size * rng.normal(size=d)
            found = pair_excess(trial, level, other, domain, angle)
            if found is None:
                continue
            assert max(found) <= 1.0 + 1e-7
            most = np.maximum(most, found)
            if found[goal] > best:
                best, x, y, new, w = found[goal], trial, level, other, angle
    assert most[0] > 0.04 and most[1] > 0.6 and most[2] > 0.03, most


def test_r29_the_error_of_the_solver_is_in_the_factors():
    """Equal Hessians: the solvers alone move the functional, and each matrix may be off by e."""
    e, spread = 0.004, 1.7
    found = proportional_factors(1e-9, spread, e)
    assert found.factor >= 1.0 + e * (2.0 + 1e-9) * spread
    assert found.factor <= 1.0 + 1.02 * 3.0 * e * spread + e
    assert found.tau >= math.cosh(2 * e) - 1.0 + math.sinh(2 * e) * math.exp(e / 2) * spread
    assert proportional_factors(0.5, 10.0) is None
    assert proportional_factors(math.inf, 1.0) is None
    assert proportional_factors(0.01, math.inf) is None
    assert psi_over_delta(1.0, 0.0, 0.1, 0.2) == math.inf
    assert psi_over_delta(2.0, 1.0, 0.1, 0.4, 0.01) == pytest.approx(4.0 * math.exp(0.005))


# ---- R30: several certificates, several releases -------------------------------------------------


DENSITY = {
    "laplace": lambda u: 0.5 * np.exp(-np.abs(u)),
    "gaussian": lambda u: np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi),
    "student": lambda u: 2.0 / (math.pi * math.sqrt(3.0) * (1.0 + u * u / 3.0) ** 2),
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "student"])
def test_r30_composed_profiles_are_above_the_exact_ones_and_close(noise):
    """Two and three releases of each ratio: the profile integrated over the others' losses."""
    shift, reach, f = 0.4, 3.0, DENSITY[noise]
    x = np.linspace(-25, 25, 4001) if noise != "student" else np.sinh(np.linspace(-8, 8, 4001))
    weight = f(x) * np.gradient(x)
    epsilon = np.array([0.0, 0.2, 0.4, 0.7])
    grid = np.linspace(-2, 3, 201)
    worst2, worst3 = np.zeros(4), np.zeros(4)
    for ratio in (0.97, 1.03):
        loss = np.log(f(x)) - np.log(f((x - shift) / ratio) / ratio)
        two = np.array([weight @ KINDS[noise](e - loss, shift, ratio) for e in grid])
        worst2 = np.maximum(worst2, np.interp(epsilon, grid, two))
        three = [weight @ np.interp(e - loss, grid, two) for e in epsilon]
        worst3 = np.maximum(worst3, three)
    worst = student_worst_profile if noise == "student" else partial(worst_profile, KINDS[noise])
    bound = worst(shift, 0.97, 1.03)
    ours2, ours3 = (composed_profile(bound, k, reach)(epsilon) for k in (2, 3))
    assert (ours2 >= worst2 - 1e-3).all() and (ours3 >= worst3 - 2e-3).all()
    # it allows each release the ratio that is worst for each loss
    assert (ours2 <= 1.2 * worst2 + 1e-3).all() and (ours3 <= 1.3 * worst3 + 2e-3).all()


@pytest.mark.parametrize(("noise", "k"), [("laplace", 2), ("gaussian", 2), ("laplace", 3)])
def test_r30_several_releases_cannot_do_with_less(noise, k):
    """The worst pair of equal ratios, convolved exactly on a fine grid of losses rounded down."""
    epsilon, delta, tau = 1.5, 5e-6, 0.004
    (b,) = calibrate_functionals(epsilon, delta, ((noise, tau),), count=k)

    def total(b):
        """A lower bound of delta: every release with one ratio, its losses rounded down."""
        x, f = np.linspace(-30, 30, 30_001), DENSITY[noise]
        ratio, step = 1 - tau, 2e-3
        weight = f(x) * np.gradient(x)
        loss = np.log(f(x)) - np.log(f((x - 1 / b) / ratio) / ratio)
        cell = np.clip(np.floor(loss / step), -4000, 4000).astype(int) + 4000
        one = np.bincount(cell, weight, 8001)
        sums = one
        for _ in range(k - 1):
            sums = np.convolve(sums, one)
        level = step * (np.arange(len(sums)) - 4000 * k)
        kept = sums > 1e-18
        return float(np.maximum(-np.expm1(epsilon - level[kept]), 0.0) @ sums[kept])

    assert total(b) <= delta
    assert total(0.97 * b) > delta


@pytest.mark.parametrize("k", [2, 7])
def test_r30_what_is_returned_was_evaluated(k):
    """Whatever the search guessed: the profile of the returned multiplier is within delta."""
    epsilon, delta, taus = 0.75, 5e-7, (0.001, 0.004, 0.016, 0.064, 0.256)
    for law in ("laplace", "gaussian", "student"):
        found = calibrate_functionals(epsilon, delta, tuple((law, t) for t in taus), count=k)
        worst = student_worst_profile if law == "student" else partial(worst_profile, KINDS[law])
        for tau, b in zip(taus, found, strict=True):
            for noise, enough in ((b, True), (0.999 * b, False)):
                if b < math.inf:
                    bound = worst(1.0 / noise, 1.0 - tau, 1.0 + tau)
                    cost = composed_profile(bound, k, epsilon)(np.array([epsilon]))
                    assert bool(cost[0] <= delta) is enough
        assert found[0] < math.inf and found[-1] == math.inf


def test_r30_several_numbers_need_less_noise_than_shares_of_the_budget():
    epsilon, delta = 0.75, 5e-7
    for k, most in ((2, 0.9), (5, 0.45)):
        (joint,) = calibrate_functionals(epsilon, delta, (("laplace", 0.01),), count=k)
        (share,) = calibrate_functionals(epsilon / k, delta / k, (("laplace", 0.01),))
        (one,) = calibrate_functionals(epsilon, delta, (("laplace", 0.01),))
        assert joint < most * share
        assert joint > k * one * 0.9
