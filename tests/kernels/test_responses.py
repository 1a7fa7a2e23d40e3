"""Losses of a predictor whose scores nobody bounds: kernels against twins, formulas, and records.

Their classes have no constant; the kernels hold scores to c all the same (claim C93).
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from dpfast.models import Gamma, Probit
from tests.twins import losses as twins, records as reference

BOUNDED, MALLOWS, CLIP, SCHWEPPE, MALLOWS_LINEAR = range(5)
WEIGHTS = (BOUNDED, MALLOWS, CLIP, MALLOWS_LINEAR)
KINDS = (Gamma, Probit)
HELD = (0.4, 3.0, 1e60)  # the last is what their classes have

pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request):
    return request.param


def model(kind, c, weighting=BOUNDED, intercept=False, radius=1.7, **more):
    return {
        "loss": kind.code, "c": c, "h": 1.0, "scale": 1.0, "weighting": weighting,
        "radius": radius, "intercept": intercept, **more,
    }  # fmt: skip


def bounds(kind, m):
    """Of one record's gradient, Hessian and meat."""
    loss = twins.loss_of(kind.code, m["c"], 1.0)
    score = m["radius"] if m["weighting"] == CLIP else loss.psi_bound * m["radius"]
    return score, loss.psi_prime_bound * m["radius"] ** 2, score**2


def draw(kind, n, q, seed=0):
    """Responses of every size, and some that the loss cannot have."""
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))
    y = rng.gamma(1.0, size=n) * rng.choice([0.0, 1.0, 30.0], size=n)
    y = (y > 0.5) * 1.0 if kind.binary_response else y
    return X, y + rng.choice([0.0, 0.0, 0.0, -0.5, np.nan], size=n)


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("c", HELD)
@pytest.mark.values
def test_agrees_with_the_twin(kind, weighting, c):
    """Sums, losses, their differences and changes of gradients; with weights and offsets, too."""
    wants = [
        want for want in (1, 2, 3, 4, 7, 34, 39) if weighting in (BOUNDED, MALLOWS) or not want & 2
    ]
    for (n, q), intercept in [((1, 1), True), ((37, 5), False), ((129, 11), True)]:
        m = model(kind, c, weighting, intercept, largest_weight=2.5)
        kernel = records.RecordKernel(**m)
        X, y = draw(kind, n, q)
        rng = np.random.default_rng(q)
        theta, other = 0.3 * rng.normal(size=(2, q + intercept)) / q**0.5
        full = np.column_stack([y, rng.choice([0.0, 0.3, 1.0, 7.0], n), rng.normal(size=n)])
        for responses in (y, full):
            for want in wants:
                ours = kernel.sums(X, responses, theta, want, float(n))
                twin = reference.record_sums(X, responses, theta, want=want, divisor=float(n), **m)
                for part, expected in zip(ours, twin, strict=True):
                    assert (part is None) == (expected is None)
                    if part is not None:
                        size = np.abs(expected).max(initial=1e-300)
                        np.testing.assert_allclose(part, expected, rtol=0, atol=1e-11 * size)
            options = {**m, "divisor": float(n)}
            change = kernel.gradient_change(X, responses, other, theta, 0.7, float(n))
            twin = reference.gradient_change(X, responses, other, theta, limit=0.7, **options)
            np.testing.assert_allclose(change, twin, rtol=0, atol=1e-11)
            if weighting != CLIP:
                value = kernel.loss(X, responses, theta, float(n))
                twin = reference.mean_loss(X, responses, theta, **options)
                assert value == pytest.approx(twin, rel=1e-11, abs=1e-11)
                value = kernel.loss_difference(X, responses, other, theta, float(n))
                twin = reference.loss_difference(X, responses, other, theta, **options)
                assert value == pytest.approx(twin, rel=1e-9, abs=1e-11)


def exact(kind, t, y, c):
    """Score, curvature and loss in many digits."""
    t, y = mpmath.mpf(t), mpmath.mpf(y)
    if kind is Probit:
        sign = 2 * y - 1
        held = max(sign * t, -mpmath.mpf(c))
        below = mpmath.erfc(-held / mpmath.sqrt(2)) / 2
        hazard = mpmath.npdf(held) / below
        bend = hazard * (hazard + held) if sign * t >= -c else mpmath.mpf(0)
        return sign * hazard, bend, -mpmath.log(below) + (held - sign * t) * hazard
    ratio, most = max(y, mpmath.mpf(0)) * mpmath.exp(-t), mpmath.mpf(1) + mpmath.mpf(c)
    if ratio <= most:
        return ratio - 1, ratio, ratio + t
    bend = mpmath.log(y / most)
    return mpmath.mpf(c), mpmath.mpf(0), most + bend - c * (t - bend)


@pytest.mark.parametrize("c", HELD)
@pytest.mark.values
def test_accurate_on_the_whole_range(kind, c):
    mpmath.mp.dps = 60
    kernel = records.RecordKernel(**model(kind, c, radius=1.0))
    one = np.ones((1, 1))
    responses = (0.0, 1.0) if kind.binary_response else (0.0, 1e-9, 0.5, 1.0, 30.0, 1e6, -2.0)
    for y in responses:
        for t in np.r_[-300.0, -37.0, np.linspace(-8.0, 8.0, 41), 40.0, 300.0]:
            gradient, hessian, _ = kernel.sums(one, np.array([y]), np.array([t]), 7, 1.0)
            score, curvature, loss = exact(kind, t, y, c)
            assert abs(-gradient[0] - score) <= 3e-15 * (1 + abs(score))
            cancels = 1e-15 * max(0.0, -t * (2 * y - 1)) ** 2 if kind is Probit else 0.0
            assert abs(hessian[0, 0] - curvature) <= (1e-14 + cancels) * curvature + 1e-300
            ours = kernel.loss(one, np.array([y]), np.array([t]), 1.0)
            assert abs(ours - loss) <= 1e-14 * (1 + abs(loss) + c * (abs(t) > 30))


def test_the_gradient_is_the_derivative_of_the_loss(kind):
    for weighting in (BOUNDED, MALLOWS, MALLOWS_LINEAR):
        kernel = records.RecordKernel(**model(kind, 3.0, weighting, True))
        X, y = draw(kind, 300, 3)
        theta = np.array([0.1, -0.2, 0.3, 0.05])
        gradient = kernel.sums(X, y, theta, 1, 300.0)[0]
        for j in range(4):
            h = 1e-6 * np.eye(4)[j]
            numeric = kernel.loss_difference(X, y, theta + h, theta - h, 300.0) / 2e-6
            assert numeric == pytest.approx(gradient[j], abs=1e-7)


def test_parabolas_with_the_majorising_curvature_lie_above(kind):
    loss = twins.loss_of(kind.code, 3.0, 1.0)
    there = np.linspace(-30.0, 30.0, 6001)
    for t in (-9.0, -1.0, 0.3, 9.0):
        for y in (0.0, 1.0) if kind.binary_response else (0.0, 1.0, 30.0):
            step = there - t
            above = loss.loss(t, y) + loss.psi(t, y) * step + 0.5 * loss.majorizer(t, y) * step**2
            assert (loss.loss(there, y) <= above + 1e-9).all()


ANY = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -2.5, 5e-324, 1e-200, 1e160, 1e308, -1e308, np.inf, np.nan]),
    st.floats(),
)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY, ANY, ANY), min_size=1, max_size=8),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10]), min_size=3, max_size=3),
    weighting=st.sampled_from(WEIGHTS),
    intercept=st.booleans(),
    kind=st.sampled_from(KINDS),
    c=st.sampled_from([*HELD, 1e-20]),
    beside=st.booleans(),
)
def test_hostile_records_keep_their_bounds(rows, theta, weighting, intercept, kind, c, beside):
    m = model(kind, c, weighting, intercept, 1.5, largest_weight=2.0)
    kernel = records.RecordKernel(**m)
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2:] if beside else data[:, 2]
    theta = np.array(theta[: 2 + intercept])
    want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
    factors = (2.0, 2.0, 4.0) if beside else (1.0, 1.0, 1.0)
    for i in range(len(y)):
        single = kernel.sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0)
        usable = np.isfinite(data[i, [0, 1, 2, 4] if beside else [0, 1, 2]]).all()
        usable &= not kind.binary_response or data[i, 2] in (0.0, 1.0)
        for part, bound, factor in zip(single, bounds(kind, m), factors, strict=True):
            if part is not None:
                assert np.linalg.norm(part / bound) <= factor * (1 + 1e-12)
                assert usable or not part.any()
        if weighting != CLIP:
            zero = np.zeros_like(theta)
            difference = kernel.loss_difference(X[i : i + 1], y[i : i + 1], theta, zero, 1.0)
            limit = factors[0] * bounds(kind, m)[0] * np.linalg.norm(theta)
            assert abs(difference) <= limit * (1 + 1e-12)


def test_they_are_no_losses_of_a_residual(kind):
    with pytest.raises(ValueError, match="residual"):
        records.RecordKernel(**model(kind, 3.0, SCHWEPPE))
