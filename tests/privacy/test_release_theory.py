"""Claims R1 to R4 and R6: neighbouring minimisers, Hessians and functionals, attacked.

Random and extreme pairs of tiny data sets, solved together; any pair outside of a bound is a
counterexample.  The constants are attained by explicit instances.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from dpfast.models import Ball, Box, LogCosh, Logistic, PseudoHuber, release_constants
from dpfast.privacy.release.sensitivity import (
    eigenvalue_step,
    hessian_ratio,
    parameter_shift,
    proportional_factors,
    psi_over_delta,
    public_scale,
)


class Slopes(NamedTuple):
    """First two derivatives of a record's loss in its linear predictor, and their constants."""

    name: str
    first: object
    second: object
    B1: float
    c: float
    B2: float


def logistic():
    k = release_constants(Logistic())
    loss = Logistic()
    return Slopes(
        "logistic", lambda t, y: loss.psi(t) - y, lambda t, y: loss.psi_prime(t), k.slope,
        k.concordance, k.curvature,
    )  # fmt: skip


def robust(loss, scale=1.0):
    k = release_constants(loss, scale)
    return Slopes(
        repr(loss),
        lambda t, y: -loss.psi((y - t) / scale),
        lambda t, y: loss.psi_prime((y - t) / scale) / scale,
        k.slope, k.concordance, k.curvature,
    )  # fmt: skip


def smooth_absolute():
    """``log(1+e^t) + log(1+e^-t)``: B1 = 1, B2 = 1/2, c = 1."""
    return Slopes(
        "smooth absolute",
        lambda t, y: np.tanh((t - y) / 2),
        lambda t, y: 0.5 / np.cosh(np.clip((t - y) / 2, -300, 300)) ** 2,
        1.0, 1.0, 0.5,
    )  # fmt: skip


LOSSES = [logistic(), smooth_absolute(), robust(LogCosh(0.8), 1.5), robust(PseudoHuber(1.0))]


# ---- many tiny problems at once ------------------------------------------------------------------


def gradient(loss, X, y, theta, lreg):
    t = np.einsum("bij,bj->bi", X, theta)
    return np.einsum("bi,bij->bj", loss.first(t, y), X) / X.shape[1] + lreg * theta


def hessian(loss, X, y, theta, lreg):
    t = np.einsum("bij,bj->bi", X, theta)
    H = np.einsum("bi,bij,bik->bjk", loss.second(t, y), X, X) / X.shape[1]
    return H + lreg * np.eye(X.shape[2])


def minimise(loss, X, y, lreg, radius, start=None, steps=120, found=1e-9):
    """Damped Newton steps for a batch: minimisers, and which of them were found."""
    theta = np.zeros((len(X), X.shape[2])) if start is None else start.copy()
    tiny = 1e-14 * np.eye(X.shape[2])
    for _ in range(steps):
        g, H = gradient(loss, X, y, theta, lreg), hessian(loss, X, y, theta, lreg)
        step = np.linalg.solve(H + tiny, g[..., None])[..., 0]
        size = loss.c * radius * np.linalg.norm(step, axis=1)
        theta = theta - step / np.maximum(1.0, size)[:, None]
        if size.max() < 1e-12:
            break
    values = np.linalg.eigvalsh(hessian(loss, X, y, theta, lreg))[:, 0]
    return theta, (size < found) & (values > 1e-8)


def random_pairs(loss, domain, size, n, d, rng):
    """Neighbouring data sets: rows inside or at the boundary, ordinary or extreme responses."""

    def rows(*shape):
        raw = rng.normal(size=(*shape, d)) * 10 ** rng.choice([-1.0, 0.0, 3.0], size=(*shape, 1))
        return domain.project(raw.reshape(-1, d)).reshape(*shape, d)

    X = rows(size, n)
    truth = rng.normal(size=(size, 1, d)) * rng.choice([0.3, 2.0], size=(size, 1, 1))
    t = (X * truth).sum(axis=2)
    if loss.name == "logistic":
        y = (rng.random((size, n)) < 1 / (1 + np.exp(-t))).astype(float)
        new = rng.integers(0, 2, size).astype(float)
    else:
        y = t + rng.standard_cauchy((size, n)) * rng.choice([0.1, 1.0], size=(size, 1))
        new = rng.choice([-1e6, 1e6, 0.0], size=size) + rng.normal(size=size)
    # the record replaced: sometimes the one that matters most
    X2, y2 = X.copy(), y.copy()
    X2[:, 0], y2[:, 0] = rows(size), new
    opposite = rng.random(size) < 0.5
    X2[opposite, 0] = -X[opposite, 0]
    return X, y, X2, y2


def largest(matrices):
    return np.linalg.eigvalsh(matrices)[:, -1]


def supremum(domain, inverses, d):
    if isinstance(domain, Ball):
        return domain.radius**2 * np.linalg.eigvalsh(inverses)[:, -1]
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=d)))
    return np.einsum("vi,bij,vj->bv", signs, inverses, signs).max(axis=1)


def inverse_root(H):
    values, vectors = np.linalg.eigh(H)
    return np.einsum("bij,bj,bkj->bik", vectors, values**-0.5, vectors)


def violations(loss, domain, n, d, lreg, size, rng):
    """Largest excess of every bound over the pairs of one batch, and how many were tested."""
    radius = domain.bind(d).radius
    X, y, X2, y2 = random_pairs(loss, domain, size, n, d, rng)
    theta, found = minimise(loss, X, y, lreg, radius)
    theta2, found2 = minimise(loss, X2, y2, lreg, radius, start=theta)
    lone = found & ~found2
    if lone.any():
        theta2[lone], found2[lone] = minimise(
            loss, X2[lone], y2[lone], lreg, radius, start=theta[lone], steps=2000
        )
    H = hessian(loss, X, y, theta, lreg)
    least = np.where(found, np.linalg.eigvalsh(H)[:, 0], 0.0)
    s = eigenvalue_step(loss.c, loss.B1, radius, n)
    assert not ((least > s) & ~found2).any(), "a minimiser that theorem A promises was not found"
    both = found & found2
    theta, theta2, H, least = theta[both], theta2[both], H[both], least[both]
    X, y, X2, y2 = X[both], y[both], X2[both], y2[both]
    H2 = hessian(loss, X2, y2, theta2, lreg)
    least2 = np.linalg.eigvalsh(H2)[:, 0]
    excess = {"A1": np.abs(least2 - least).max() / s}
    L = supremum(domain, np.linalg.inv(H), d)
    q = 2 * loss.c * loss.B1 * L / n
    v = theta2 - theta
    ok = q < 1
    if not ok.any():
        return excess, int(both.sum()), 0
    u = -np.log1p(-q[ok])
    tau = loss.c * np.sqrt(L[ok] * np.einsum("bi,bij,bj->b", v, H, v)[ok])
    root = inverse_root(H[ok])
    spectrum = np.linalg.eigvalsh(root @ H2[ok] @ root)
    certain = least[ok] > s  # R28: with the eigenvalue itself as its lower bound
    if certain.any():
        moved = np.abs(np.log(largest(H2[ok][certain]) / largest(H[ok][certain])))
        excess["R28"] = (moved / -np.log1p(-s / least[ok][certain])).max()
    excess["A(i)"] = (tau / u).max()
    excess["A(ii) low"] = (-np.log(spectrum[:, 0]) / u).max()
    excess["A(ii) high"] = (np.log(spectrum[:, -1]) / u).max()
    L2 = supremum(domain, np.linalg.inv(H2[ok]), d)
    excess["A1, any functional"] = (np.abs(1 / L[ok] - 1 / L2) / (2 * loss.c * loss.B1 / n)).max()
    for index in np.flatnonzero(ok)[:4]:
        length = float(np.linalg.norm(v[index]))
        bound = parameter_shift(float(least[index]), lreg, loss.c, loss.B1, radius, n)
        excess["R4"] = max(excess.get("R4", 0.0), length / bound)
        least_one, w = float(np.linalg.eigvalsh(H[index])[0]), rng.normal(size=d)
        bound = domain.bind(d)
        proportional(loss, bound, radius, n, H[index], H2[index], v[index], w, least_one, excess)
    return excess, int(both.sum()), int(ok.sum())


def proportional(loss, domain, radius, n, H, H2, v, w, least, excess):
    """R29 and R7 with the eigenvalues themselves, and a solver as wrong as it may be."""
    ratio, e = hessian_ratio(eigenvalue_step(loss.c, loss.B1, radius, n), least), 0.02
    top = float(np.linalg.eigvalsh(H)[-1])
    spread = psi_over_delta(radius, domain.inner_radius, least, top, e)
    found = proportional_factors(ratio, spread, e)
    if found is None:
        return
    push = 2 * loss.B1 * radius / (n * math.sqrt(least))
    omegas, shift = [], abs(float(w @ v))
    for sign, matrix in ((1.0, H), (-1.0, H2)):
        computed = matrix * math.exp(sign * e)
        p = np.linalg.solve(computed, w)
        delta = 2 * loss.B1 / n * domain.support(p)
        omegas.append(found.factor * delta)
        shift += e * push * math.sqrt(w @ np.linalg.solve(matrix, w))
        if sign > 0.0:
            seen = push * math.sqrt(w @ p) / delta
            excess["R29 Psi"] = max(excess.get("R29 Psi", 0.0), seen / spread)
    excess["R29 shift"] = max(excess.get("R29 shift", 0.0), shift / omegas[0])
    change = abs(omegas[1] / omegas[0] - 1.0)
    excess["R29 ratio"] = max(excess.get("R29 ratio", 0.0), change / found.tau)
    high = public_scale(
        found.factor, loss.B1, radius, n, least, float(np.linalg.norm(w)),
        support=domain.support(w), solver_error=e,
    )  # fmt: skip
    excess["R7"] = max(excess.get("R7", 0.0), omegas[0] / high)


CASES = [
    (loss, domain, lreg)
    for loss in LOSSES
    for domain in (Ball(1.3), Box(1.0))
    for lreg in (0.0, 0.02, 0.5)
]


def attack(per_case, seed):
    worst: dict[str, float] = {}
    tested = certified = 0
    for k, (loss, domain, lreg) in enumerate(CASES):
        rng = np.random.default_rng([seed, k])
        for d, n in ((1, 24), (2, 60), (3, 150)):
            excess, pairs, inside = violations(loss, domain, n, d, lreg, per_case, rng)
            tested, certified = tested + pairs, certified + inside
            for name, value in excess.items():
                worst[name] = max(worst.get(name, 0.0), float(value))
    return worst, tested, certified


def test_theorem_a_on_random_and_extreme_pairs():
    worst, tested, certified = attack(40, 1)
    assert tested > 2000
    assert certified > 1500
    for name, value in worst.items():
        assert value <= 1.0 + 1e-7, (name, value)


@pytest.mark.slow
def test_theorem_a_on_fifty_thousand_pairs():
    worst, tested, certified = attack(800, 2)
    assert tested > 50_000
    assert certified > 40_000
    for name, value in worst.items():
        assert value <= 1.0 + 1e-7, (name, value)


# ---- the constants are attained ------------------------------------------------------------------


def one_sided(k, multiple, n):
    """k records on one slope of the smooth absolute loss, the rest far away; one changes sides.

    Curvature is all on one side, so it shrinks at the full rate c along the way: the minimiser's
    Hessian is ``multiple`` steps, neighbours differ by one.  One covariate, radius 1.
    """
    s = eigenvalue_step(1.0, 1.0, 1.0, n)
    # mean curvature (k/(2n))(1 - p^2) = multiple * s, p = tanh(T/2) the slope of the k records
    p = math.sqrt(1.0 - multiple * s * 2.0 * n / k)
    far = n - k
    down = round((far + p * k) / 2)  # the slopes of the far records cancel that of the k
    p = (2 * down - far) / k
    y = np.concatenate([np.full(k, 2.0 * math.atanh(p)), np.full(down, -1e4),
                        np.full(far - down, 1e4)])  # fmt: skip
    X = np.ones((1, n, 1))
    return X, y[None, :], s


@pytest.mark.parametrize("multiple", [2.0, 4.0, 30.0])
@pytest.mark.one_in(2)
def test_the_step_and_the_shift_are_attained(multiple):
    """R3, R2 (i) and R4: at least 99% of each constant, by an instance through the same solver."""
    loss, n, k = smooth_absolute(), 60_000, 30_000
    X, y, s = one_sided(k, multiple, n)
    theta, found = minimise(loss, X, y, 0.0, 1.0, found=1e-6)
    assert found.all()
    lam = hessian(loss, X, y, theta, 0.0)[0, 0, 0]
    y2 = y.copy()
    y2[0, -1] = -1e4  # a far record changes sides: the k move further out on their slope
    theta2, found = minimise(loss, X, y2, 0.0, 1.0, start=theta, found=1e-6)
    assert found.all()
    lam2 = hessian(loss, X, y2, theta2, 0.0)[0, 0, 0]
    assert 0.99 * s <= abs(lam2 - lam) <= s
    shift = abs(float(theta2[0, 0] - theta[0, 0]))
    bound = parameter_shift(lam, 0.0, 1.0, 1.0, 1.0, n)
    assert 0.99 * bound <= shift <= bound * (1 + 1e-6)
    assert hessian_ratio(s, lam) >= abs(math.log(lam2 / lam)) >= 0.99 * hessian_ratio(s, lam)


@pytest.mark.parametrize("lreg", [1e-4, 1e-3, 1.0])
@pytest.mark.one_in(2)
def test_the_shift_with_a_ridge_is_attained(lreg):
    loss, n, k = smooth_absolute(), 60_000, 30_000
    X, y, _ = one_sided(k, 4.0, n)
    theta, _ = minimise(loss, X, y, lreg, 1.0)
    lower = hessian(loss, X, y, theta, lreg)[0, 0, 0]
    y2 = y.copy()
    y2[0, -1] = -1e4
    theta2, found = minimise(loss, X, y2, lreg, 1.0, start=theta)
    assert found.all()
    shift = abs(float(theta2[0, 0] - theta[0, 0]))
    bound = parameter_shift(lower, lreg, 1.0, 1.0, 1.0, n)
    assert 0.99 * bound <= shift <= bound * (1 + 1e-6)


# ---- the functions of public numbers -------------------------------------------------------------


def test_steps_ratios_and_shifts_against_their_formulas():
    rng = np.random.default_rng(0)
    for _ in range(300):
        c, B1, r, lreg = (10.0 ** rng.uniform(-3, 3) for _ in range(4))
        n = int(10 ** rng.uniform(0, 8))
        s = eigenvalue_step(c, B1, r, n)
        assert 2 * c * B1 * r * r / n <= s <= 2 * c * B1 * r * r / n * (1 + 1e-9)
        l0 = s * (1 + 10 ** rng.uniform(-6, 6))
        v = hessian_ratio(s, l0)
        assert -math.expm1(-v) * l0 >= s * (1 - 1e-15)
        assert v <= -math.log1p(-s / l0) * (1 + 1e-6)
        for ridge in (0.0, lreg):
            t = parameter_shift(l0 + ridge, ridge, c, B1, r, n)
            reached = l0 * -math.expm1(-c * r * t) / (c * r) + ridge * t
            assert 2 * B1 * r / n <= reached * (1 + 1e-13)
            tighter = t * (1 - 1e-6)
            below = l0 * -math.expm1(-c * r * tighter) / (c * r) + ridge * tighter
            assert below <= 2 * B1 * r / n * (1 + 1e-9) or t > 1e4 / (c * r)
    assert hessian_ratio(0.1, 0.1) == hessian_ratio(0.1, math.nan) == math.inf
    assert parameter_shift(0.1, 0.0, 1.0, 1.0, 1.0, 20) == math.inf
    assert parameter_shift(math.nan, 0.0, 1.0, 1.0, 1.0, 20) == math.inf
    assert parameter_shift(0.0, 0.5, 1.0, 1.0, 1.0, 20) == pytest.approx(0.2, rel=1e-9)


def test_the_solver_margin_of_the_design_page_is_not_enough():
    """R6: v + 2 tau in place of v covers the ratio of Hessians but not the spectrum of the shift.

    With f(u) = u/(1 - exp(-u)), exp(tau) f(u) <= f(u + 2 tau) would need a slope of log f of 1/2,
    which it has at zero only.
    """
    u, tau = 0.6, 0.05

    def f(x):
        return x / -math.expm1(-x)

    assert math.exp(tau) * f(u) > f(u + 2 * tau)
