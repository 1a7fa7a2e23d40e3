"""Claims R1, R3 and R6: constants of the losses, the logistic step, and evaluation errors."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpfast.errors import InvalidInput
from dpfast.models import Huber, LogCosh, Logistic, PseudoHuber, release_constants
from dpfast.privacy.release.sensitivity import eigenvalue_step, evaluation_error


@pytest.mark.parametrize("loss", [Logistic(), LogCosh(0.7), PseudoHuber(2.0)], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_r1_constants_are_suprema(loss, scale):
    """Difference quotients of the curvature never exceed the bounds, and come within 1%."""
    scale = scale if loss.needs_scale else 1.0
    k = release_constants(loss, scale)
    t = np.linspace(-30.0, 30.0, 600_001) * scale
    step = t[1] - t[0]
    slope = loss.psi(t / scale) - (0.0 if loss.needs_scale else np.where(t > 0, 0.0, 1.0))
    curvature = loss.psi_prime(t / scale) / scale
    third = np.abs(np.diff(curvature)) / step
    ratio = np.abs(np.diff(np.log(curvature))) / step
    for value, bound in (
        (np.abs(slope).max(), k.slope),
        (curvature.max(), k.curvature),
        (third.max(), k.third),
        (ratio.max(), k.concordance),
    ):
        assert 0.99 * bound <= value <= bound * (1 + 1e-6)
    room = k.concordance * (k.slope - np.abs(slope)) - curvature
    assert room.min() >= -1e-9 or not loss.needs_scale
    if not loss.needs_scale:  # for either response
        for y in (0.0, 1.0):
            room = k.concordance * (1.0 - np.abs(loss.psi(t) - y)) - curvature
            assert room.min() >= -1e-12
    assert k.third <= k.concordance * k.curvature * (1 + 1e-12)
    with pytest.raises(InvalidInput, match="self-concordant"):
        release_constants(Huber())


def test_r3_logistic_attains_half_in_one_dimension():
    """One covariate, margin m: curvature proportional to the misclassified share e^-m."""
    best = 0.0
    for k in (20, 200, 2000):
        n = 1000 * k
        for moved in (1, -1):
            curvatures = [p * (1 - p) for p in (k / n, (k + moved) / n)]
            best = max(best, abs(curvatures[1] - curvatures[0]) / eigenvalue_step(1, 1, 1, n))
    assert 0.49 <= best <= 0.5


def test_r6_a_cholesky_solution_is_within_its_bound():
    """Errors of x'H^-1 w relative to sqrt(x'H^-1 x) ||H^-1/2 w||, against 40 digits."""
    rng = np.random.default_rng(0)
    for d, condition in ((3, 1e2), (3, 1e7), (8, 1e5)):
        basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
        H = (basis * np.geomspace(1 / condition, 1.0, d)) @ basis.T
        H = (H + H.T) / 2
        w, x = rng.normal(size=d), rng.normal(size=d)
        p = np.linalg.solve(H, w)
        with mpmath.workdps(40):
            exact_p = mpmath.lu_solve(mpmath.matrix(H.tolist()), mpmath.matrix(w.tolist()))
            exact_x = mpmath.lu_solve(mpmath.matrix(H.tolist()), mpmath.matrix(x.tolist()))
            difference = sum(mpmath.mpf(a) * (mpmath.mpf(b) - c)
                             for a, b, c in zip(x, p, exact_p, strict=True))  # fmt: skip
            size = mpmath.sqrt(
                sum(mpmath.mpf(a) * b for a, b in zip(x, exact_x, strict=True))
                * sum(mpmath.mpf(a) * b for a, b in zip(w, exact_p, strict=True))
            )
        bound = evaluation_error(d, float(np.linalg.eigvalsh(H)[-1]), 1 / condition)
        assert abs(float(difference / size)) <= bound
        assert bound < 1e-3 and math.isfinite(bound)
