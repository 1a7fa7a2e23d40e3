"""Errata of paper 3 (PROOFS-release.md), each with its counterexample."""

from __future__ import annotations

import math

import pytest
from scipy.special import ndtri

from dpfast.privacy.conversions import gdp_delta


def equation_10(lam, *, n, r, B1, G1, lreg, alpha=1.2332, rho=0.5):
    """The recursion as printed, with phi(t) = e^t - 1."""
    G0 = B1 * r
    if lam + lreg / rho < 4 * G0 * alpha * r / (rho * (1 - rho) * n) + G1 / (rho * n):
        return 0.0
    total = lam + lreg
    t = (1 - math.sqrt(1 - 8 * alpha * r * G0 / (total * n))) / (2 * alpha * r)
    return lam * max(0.0, 1 - math.expm1(r * t)) - G1 / n


def test_equation_10_runs_past_zero():
    r = math.sqrt(5)
    lam, seen = 0.01, []
    for _ in range(50):
        lam = equation_10(lam, n=2000, r=r, B1=1.0, G1=r * r / 2, lreg=0.5)
        seen.append(lam)
    assert min(seen) < -0.01
    assert 0.0 not in seen


def test_lemma_6_2_does_not_accelerate_with_a_ridge():
    a, b, l0 = 0.1, 0.405, 1.0

    def step(lam):
        return lam - lam * (2 - math.exp(b * (1 - math.sqrt(1 - a / (lam + l0)))))

    assert step(0.5) == pytest.approx(0.0069, abs=1e-4)
    assert step(1.0) == pytest.approx(0.0103, abs=1e-4)
    assert step(0.5) < step(1.0)


def test_algorithm_2_must_round_down():
    """P(ceil(N_hat - k) >= N), N_hat = N + Lap(1)/epsilon, k = log(1/(2 delta))/epsilon."""
    epsilon, delta = 1.0, 1e-6
    k = math.log(1 / (2 * delta)) / epsilon
    failure = 0.5 * math.exp(-epsilon * (k - 1))
    assert failure == pytest.approx(math.exp(epsilon) * delta)
    assert failure > 2.7 * delta


def test_equation_15_is_not_private_as_printed():
    n, epsilon, delta, r = 10, 0.01, 1e-6, 1.0
    log = math.log(4 / delta)
    variance = 2 * r / (n * epsilon) * math.sqrt(2 * log) + math.sqrt(2 * epsilon + 2 * log)
    # two records with slopes -1 and +1 and no curvature: a normal shift by 2 r/n
    assert gdp_delta(2 * r / (n * math.sqrt(variance)), epsilon) > 1000 * delta


def test_the_normal_quantile_bound_needs_a_factor_of_two():
    delta = 1e-6
    assert ndtri(1 - delta) ** 2 > 1.6 * math.log(1 / delta)
    assert ndtri(1 - delta) ** 2 <= 2 * math.log(1 / delta)
