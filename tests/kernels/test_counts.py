"""The loss of counts in the record kernels: against the twin, its formulas, and hostile records."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from dpfast.kernels import records
from tests.loops import each
from tests.twins import records as reference
from tests.twins.losses import POISSON

BOUNDED, MALLOWS, CLIP, SCHWEPPE, MALLOWS_LINEAR = range(5)
WEIGHTS = (BOUNDED, MALLOWS, CLIP, MALLOWS_LINEAR)
CAPS = [(4.0, 3.0), (4.0, 10.0), (0.3, 1.5), (50.0, 20.0)]  # largest mean, largest residual


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def model(weighting, caps=CAPS[0], intercept=True, radius=1.7, **more):
    return {
        "loss": POISSON, "c": caps[1], "h": caps[0], "scale": 1.0, "weighting": weighting,
        "radius": radius, "intercept": intercept, **more,
    }  # fmt: skip


def bounds(m):
    """Of one record's gradient, Hessian and meat."""
    score = m["radius"] if m["weighting"] == CLIP else m["c"] * m["radius"]
    return score, m["h"] * m["radius"] ** 2, score**2


def draw(n, q, caps=CAPS[0], seed=0):
    """Counts of every size beside the caps, some fractional, negative or missing."""
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))
    y = rng.poisson(caps[0] * rng.choice([0.1, 1.0, 3.0], size=n)).astype(float)
    y += rng.choice([0.0, 0.0, 0.0, 0.5, -4.0, np.nan], size=n)
    return X, y


def wants(weighting):
    every = [1, 2, 3, 4, 5, 6, 7, 34, 35, 39]
    return [want for want in every if weighting not in (CLIP, MALLOWS_LINEAR) or not want & 2]


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.values
def test_agrees_with_the_twin(weighting, caps):
    """Sums, losses, their differences and changes of gradients; with weights and offsets, too."""
    for (n, q), intercept in [
        ((1, 1), True),
        ((37, 5), False),
        ((129, 11), True),
        ((40, 57), True),
    ]:
        m = model(weighting, caps, intercept, largest_weight=2.5)
        kernel = records.RecordKernel(**m)
        X, y = draw(n, q, caps)
        rng = np.random.default_rng(q)
        theta, other = rng.normal(size=(2, q + intercept)) / q**0.5
        full = np.column_stack([y, rng.choice([0.0, 0.3, 1.0, 7.0], n), rng.normal(size=n)])
        for responses in (y, full):
            for want in wants(weighting):
                ours = kernel.sums(X, responses, theta, want, float(n))
                twin = reference.record_sums(X, responses, theta, want=want, divisor=float(n), **m)
                for part, expected, bound in zip(ours, twin, bounds(m), strict=True):
                    assert (part is None) == (expected is None)
                    if part is not None:
                        np.testing.assert_allclose(part, expected, rtol=0, atol=1e-11 * bound)
            options = {**m, "divisor": float(n)}
            change = kernel.gradient_change(X, responses, other, theta, 0.7, float(n))
            twin = reference.gradient_change(X, responses, other, theta, limit=0.7, **options)
            np.testing.assert_allclose(change, twin, rtol=0, atol=1e-11)
            if weighting == CLIP:
                continue
            value = kernel.loss(X, responses, theta, float(n))
            twin = reference.mean_loss(X, responses, theta, **options)
            assert value == pytest.approx(twin, rel=1e-11, abs=1e-11)
            value = kernel.loss_difference(X, responses, other, theta, float(n))
            twin = reference.loss_difference(X, responses, other, theta, **options)
            assert value == pytest.approx(twin, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("caps", CAPS)
@pytest.mark.values
def test_accurate_on_the_whole_range(caps):
    """Score, curvature and loss of one record against their formulas in many digits."""
    mpmath.mp.dps = 40
    most, clip = (mpmath.mpf(cap) for cap in caps)
    kernel = records.RecordKernel(**model(BOUNDED, caps, False, radius=1.0))
    one = np.ones((1, 1))
    for y in (0.0, 1.0, 0.5, -3.0, caps[0], caps[1], 2.0 * caps[1], 1e3, 1e300):
        count = mpmath.mpf(max(y, 0.0))
        held = min(count, most + clip)
        ends = [max(held - clip, 0), min(held + clip, most)]
        for t in np.r_[-1e4, -700.0, -30.0, np.linspace(-8.0, 8.0, 60), 300.0, 1e4]:
            mean = min(mpmath.exp(mpmath.mpf(t)), most)
            score = min(max(mean - count, -clip), clip)
            gradient, hessian, _ = kernel.sums(one, np.array([y]), np.array([t]), 7, 1.0)
            assert abs(gradient[0] - score) <= 4e-16 * (mean + abs(score)) + 1e-300
            bends = mean < most and abs(mean - count) <= clip
            assert hessian[0, 0] == pytest.approx(
                float(mean) if bends else 0.0, rel=1e-15, abs=1e-300
            )
            s = mpmath.mpf(t)
            if ends[0] > 0 and mean < ends[0]:
                s = mpmath.log(ends[0])
            if mean > ends[1] or mean == most:
                s = min(s, mpmath.log(ends[1]))
            loss = mpmath.exp(s) - held * s + (mpmath.exp(s) - held) * (t - s)
            ours = kernel.loss(one, np.array([y]), np.array([t]), 1.0)
            size = abs(held * s) + abs(loss) + most
            assert abs(ours - loss) <= 1e-14 * size


def test_the_gradient_is_the_derivative_of_the_loss():
    for weighting in (BOUNDED, MALLOWS, MALLOWS_LINEAR):
        kernel = records.RecordKernel(**model(weighting))
        X, y = draw(300, 3)
        theta = np.array([0.1, -0.2, 0.3, 0.05])
        gradient = kernel.sums(X, y, theta, 1, 300.0)[0]
        for j in range(4):
            h = 1e-6 * np.eye(4)[j]
            numeric = kernel.loss_difference(X, y, theta + h, theta - h, 300.0) / 2e-6
            assert numeric == pytest.approx(gradient[j], abs=1e-7)


@each("t", [-40.0, -1.0, 0.3, 1.2, 9.0])
@each("y", [0.0, 1.0, 7.0, 30.0])
def test_parabolas_with_the_majorising_curvature_lie_above(t, y):
    loss = dpfast.Poisson(largest_mean=4.0, largest_residual=3.0)
    there = np.linspace(-50.0, 50.0, 20_001)
    step = there - t
    above = loss.loss(t, y) + loss.psi(t, y) * step + 0.5 * loss.majorizer(t, y) * step**2
    assert (loss.loss(there, y) <= above + 1e-9).all()


ANY = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -2.5, 5e-324, 1e-200, 1e160, 1e308, -1e308, np.inf, np.nan]),
    st.floats(),
)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY, ANY, ANY), min_size=1, max_size=10),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10]), min_size=3, max_size=3),
    weighting=st.sampled_from(WEIGHTS),
    intercept=st.booleans(),
    caps=st.sampled_from([*CAPS, (1e100, 1.0), (1e-100, 1.0), (1.0, 1e30), (1e-3, 1e-20)]),
    beside=st.booleans(),
)
def test_hostile_records_keep_their_bounds(rows, theta, weighting, intercept, caps, beside):
    m = model(weighting, caps, intercept, 1.5, largest_weight=2.0)
    kernel = records.RecordKernel(**m)
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2:] if beside else data[:, 2]
    theta = np.array(theta[: 2 + intercept])
    want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
    factors = (2.0, 2.0, 4.0) if beside else (1.0, 1.0, 1.0)
    for i in range(len(y)):
        single = kernel.sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0)
        usable = np.isfinite(data[i, [0, 1, 2, 4] if beside else [0, 1, 2]]).all()
        for part, bound, factor in zip(single, bounds(m), factors, strict=True):
            if part is not None:
                assert np.linalg.norm(part / bound) <= factor * (1 + 1e-12)
                assert usable or not part.any()
        limit = max(0.3, 1e-130 * caps[1])
        change = kernel.gradient_change(X[i : i + 1], y[i : i + 1], theta, -theta, limit, 1.0)
        assert np.linalg.norm(change) <= factors[0] * limit * (1 + 1e-12)
        if weighting != CLIP:
            zero = np.zeros_like(theta)
            difference = kernel.loss_difference(X[i : i + 1], y[i : i + 1], theta, zero, 1.0)
            limit = factors[0] * bounds(m)[0] * np.linalg.norm(theta)
            assert abs(difference) <= limit * (1 + 1e-12)
    # a bad record must not spoil its block
    X_clean, y_clean = draw(20, 2, CAPS[0])
    if beside:
        y_clean = np.column_stack([y_clean, np.ones(20), np.zeros(20)])
    together = np.vstack([X, X_clean]), np.concatenate([y, y_clean])
    whole = kernel.sums(*together, theta, want, 1.0)
    apart = kernel.sums(X, y, theta, want, 1.0), kernel.sums(X_clean, y_clean, theta, want, 1.0)
    for part, a, b, bound in zip(whole, *apart, bounds(m), strict=True):
        if part is not None:
            np.testing.assert_allclose(part / bound, a / bound + b / bound, rtol=0, atol=1e-10)


def test_an_offset_is_a_coefficient_that_is_known():
    rng = np.random.default_rng(3)
    X, o = rng.normal(size=(400, 2)), rng.normal(size=400)
    theta, y = np.array([0.3, -0.2, 0.8]), rng.poisson(1.0, 400).astype(float)
    for weighting in (BOUNDED, MALLOWS, CLIP):
        kernel = records.RecordKernel(**model(weighting, radius=60.0))
        full = np.column_stack([y, np.ones(400), o])
        ours = kernel.sums(X, full, theta, 1, 400.0)[0]
        wider = kernel.sums(np.column_stack([X, o]), y, np.append(theta, 1.0), 1, 400.0)[0]
        np.testing.assert_allclose(ours, wider[:3], rtol=1e-12, atol=1e-14)


def test_it_is_no_loss_of_a_residual():
    with pytest.raises(ValueError, match="no residual"):
        records.RecordKernel(**model(SCHWEPPE))
    scaled = records.RecordKernel(**model(MALLOWS) | {"scale": 7.0})
    assert scaled.scale == 1.0
