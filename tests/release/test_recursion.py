"""The recursive certificate end to end: its counts, lower bounds and where it begins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpfast.curator.release.recursion import RecursiveCertificate, linear_slope
from dpfast.errors import InvalidInput
from dpfast.privacy.release.sensitivity import (
    eigenvalue_step,
    lower_bound_from_release,
    scaled_count,
    tail_count,
)


def test_the_slope_is_that_of_the_paper():
    assert linear_slope(1.0, 0.5) == pytest.approx(1.2332, abs=1e-4)
    for c, rho in ((1.0, 0.5), (2.0, 0.3), (0.7, 0.9)):
        alpha = linear_slope(c, rho)
        t = np.linspace(0, (1 - rho) / alpha, 100)
        assert (np.expm1(c * t) <= alpha * t * (1 + 1e-12)).all()
    with pytest.raises(InvalidInput):
        linear_slope(1.0, 1.0)


@pytest.mark.parametrize("lreg", [0.0, 0.02])
def test_lower_bounds_hold_and_are_not_idle(lreg):
    n, d, M = 20_000, 5, 1024
    certificate = RecursiveCertificate.linear_model(1, 1, 0.5, math.sqrt(d), n, lreg, eta=1e-10)
    k = tail_count(1.0, 1e-6, M)
    for lam in (0.0, lreg, 0.001 + lreg, 0.05 + lreg, 0.1288 + lreg, 0.3 + lreg):
        count = certificate.count(lam, M)
        for noise in (k, k - 1, 0, -k):
            assert lreg <= certificate.lower_bound(count + noise, k, M) <= max(lam, lreg)
        if lam > 0.1:
            assert certificate.lower_bound(count + k, k, M) >= lam - 3 * 2.5 * d / n


def test_the_noise_is_in_the_units_of_the_count():
    """With the same noise the paper's certificate is lower than that of theorem A."""
    n, d, lam = 10_000, 5, 0.1288
    r, M = math.sqrt(d), 1024
    k = tail_count(1.0, 1e-6, M)
    s = eigenvalue_step(1, 1, r, n)
    ours = lower_bound_from_release(scaled_count(lam, s, 0.0, M), k, s, 0.0, M)
    certificate = RecursiveCertificate.linear_model(1, 1, 0.5, r, n)
    papers = certificate.lower_bound(certificate.count(lam, M), k, M)
    assert 0.0 < papers < ours < lam


def test_where_certification_begins():
    """Records per parameter until the median lower bound is positive: paper 436, theorem A 204."""
    lam, d = 0.1288, 5
    k = tail_count(1.0, 1e-6, 1024)

    def begins(positive):
        low, high = 50, 4000
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if positive(middle * d) else (middle, high)
        return high

    def theorem_a(n):
        s = eigenvalue_step(1, 1, math.sqrt(d), n)
        return lower_bound_from_release(scaled_count(lam, s, 0.0), k, s, 0.0) > 0

    def recursive(n):
        certificate = RecursiveCertificate.linear_model(1, 1, 0.5, math.sqrt(d), n)
        return certificate.lower_bound(certificate.count(lam), k) > 0

    assert begins(theorem_a) == pytest.approx(220, abs=20)
    assert begins(recursive) == pytest.approx(436, abs=40)


def test_smooth_losses():
    certificate = RecursiveCertificate.smooth_loss(1.0, 0.5, 0.2, 5000, 0.01, eta=1e-10)
    k = tail_count(1.0, 1e-6)
    for lam in (0.01, 0.2, 0.45):
        count = certificate.count(lam)
        assert certificate.lower_bound(count + k, k) <= lam
    assert certificate.lower_bound(certificate.count(0.45), k) > 0.4
