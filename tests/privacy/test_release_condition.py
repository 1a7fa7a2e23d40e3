"""Claims R28 and R29: the largest eigenvalue, and noise in proportion to Delta."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpfast.errors import InvalidInput
from dpfast.models import Ball, Box
from dpfast.privacy.release.sensitivity import (
    LogScale,
    eigenvalue_step,
    hessian_ratio,
    largest_bound,
    largest_count,
    log_scale,
    proportional_factors,
    psi_over_delta,
)
from tests.privacy.test_release_theory import hessian, minimise, one_sided, smooth_absolute

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
@pytest.mark.one_in(2)
def test_r28_r29_optimised_pairs_stay_inside(domain):
    """Random search over two covariates, both records, responses and directions, three goals."""
    rng, d, n = np.random.default_rng(7), 2, 300
    domain = domain.bind(d)
    most = np.zeros(3)
    for goal in (0, 1, 2):
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
