"""The record kernels with a free scale: against the twin, and the bounds the proofs need."""

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from tests.loops import each
from tests.twins import records as reference, scale as reference_scale
from tests.twins.records import GRADIENT, HESSIAN, MAJORIZER, MEAT

LOSSES = HUBER, LOG_COSH, PSEUDO_HUBER = range(3)
BOUNDED, MALLOWS = range(2)
FACTOR, KAPPA = 0.6, 0.65

#: sup chi / c^2, sup psi' r^2 / c^2
CHI = {HUBER: 0.5, LOG_COSH: math.log(2.0), PSEUDO_HUBER: 1.0}
CORNER = {HUBER: 1.0, LOG_COSH: 0.4392288, PSEUDO_HUBER: 2.0 / 3.0**1.5}


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def model(loss, weighting, intercept, radius=1.7, c=1.345, factor=FACTOR, kappa=KAPPA):
    return {
        "loss": loss,
        "c": c,
        "scale": 1.0,
        "weighting": weighting,
        "radius": radius,
        "intercept": intercept,
        "scale_factor": factor,
        "kappa": kappa,
    }


def draw(n, q, seed=0):
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))
    return X, 3.0 * rng.normal(size=n)


@functools.cache
def comparison(loss, weighting, intercept, n, q, majorize):
    """A model, data, parameter, and sums of the twin's absolute contributions, record by record.

    The contributions to one sum do not depend on which others are wanted, nor on the kernel's
    instruction set: they are computed once for all of these.
    """
    m = model(loss, weighting, intercept)
    X, y = draw(n, q)
    theta = np.append(np.random.default_rng(q).normal(size=q + intercept) / q**0.5, 2.2)
    options = {"want": GRADIENT | (MAJORIZER if majorize else HESSIAN) | MEAT, "divisor": float(n)}
    singles = [
        reference_scale.record_sums(X[i : i + 1], y[i : i + 1], theta, **options, **m)
        for i in range(n)
    ]
    return m, X, y, theta, [sum(map(np.abs, parts)) for parts in zip(*singles, strict=True)]


def assert_agree(m, X, y, theta, absolute, want):
    """To 1e-12 of the mean absolute contribution, plus the rounding of the linear predictor."""
    kernel = records.RecordKernel(*m.values())
    n, q = len(y), X.shape[1]
    sigma = m["scale_factor"] * theta[-1]
    ours = kernel.sums(X, y, theta, want, float(n), 1)
    twin = reference_scale.record_sums(X, y, theta, want=want, divisor=float(n), **m)
    with np.errstate(all="ignore"):
        beta = theta[:-1]
        size = np.where(np.isfinite(X).all(axis=1), np.abs(X) @ np.abs(beta[-q:] if q else []), 0)
        size = np.nan_to_num(size + np.abs(theta[0]), posinf=0.0)
    predictor = 2.0 * (q + 3) * 2.0**-53 * float(size.max(initial=0.0)) / min(1.0, sigma)
    reach = m["radius"] + m["scale_factor"] * m["c"]
    bounds = (m["c"] * reach, reach**2 / sigma, (m["c"] * reach) ** 2)
    for k, (part, other, bound) in enumerate(zip(ours, twin, bounds, strict=True)):
        if part is None:
            assert not want & (1, 2, 4)[k]
            continue
        assert part.shape == other.shape
        # kappa/2 - chi cancels: to 1e-12 of its two terms
        floor = 1e-15 * bound if k != 1 else 0.0
        allowed = 1e-12 * absolute[k] + 8.0 * bound * predictor + floor + 1e-300
        assert (np.abs(part - other) <= allowed).all()
        if k:
            np.testing.assert_array_equal(part, part.T)


@each("loss", LOSSES)
@pytest.mark.parametrize("weighting", [BOUNDED, MALLOWS])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.values
def test_agrees_with_the_twin(loss, weighting, intercept):
    for (n, q), want in itertools.product(
        [(1, 1), (2, 3), (37, 5), (129, 11), (30, 24), (20, 57)], [1, 2, 4, 7, 39]
    ):
        majorize = want & MAJORIZER == MAJORIZER
        assert_agree(*comparison(loss, weighting, intercept, n, q, majorize), want)


HOSTILE = st.sampled_from(
    [0.0, -0.0, 1.0, -2.5, 5e-324, -1e-310, 1e-200, 1e150, -1e160, 1e200, 1e308, np.inf]
)
ANY = st.one_of(HOSTILE, st.floats())


@settings(max_examples=25, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=12),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10]), min_size=3, max_size=3),
    z=st.sampled_from([2.2, 1e-90, 1e-5, 1e6, 1e90]),
    loss=st.sampled_from(LOSSES),
    weighting=st.sampled_from([BOUNDED, MALLOWS]),
    intercept=st.booleans(),
    radius=st.sampled_from([1.5, 40.0]),
    majorize=st.booleans(),
)
def test_hostile_records_keep_their_bounds(
    rows, theta, z, loss, weighting, intercept, radius, majorize
):
    """Each part within its own bound to 1e-12, zero for records that do not count."""
    m = model(loss, weighting, intercept, radius)
    kernel = records.RecordKernel(*m.values())
    c, s = m["c"], m["scale_factor"]
    sigma = s * z
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2]
    theta = np.append(theta[: 2 + intercept], z)
    up = 1 + 1e-12
    corner = KAPPA if majorize else CORNER[loss] * c * c
    cross = (0.0 if majorize else corner**0.5) * radius
    score_z = s * max(KAPPA / 2, CHI[loss] * c * c - KAPPA / 2)
    for i in range(len(y)):
        parts = kernel.sums(X[i : i + 1], y[i : i + 1], theta, 39 if majorize else 7, 1.0)
        gradient, hessian, meat = parts
        assert all(np.isfinite(part).all() for part in parts)
        usable = np.isfinite(X[i]).all() and np.isfinite(y[i])
        assert usable or not any(part.any() for part in parts)
        assert np.linalg.norm(gradient[:-1]) <= c * radius * up
        assert abs(gradient[-1]) <= score_z * up
        assert np.linalg.norm(hessian[:-1, :-1]) <= radius**2 / sigma * up
        assert np.linalg.norm(hessian[-1, :-1]) <= s * cross / sigma * up
        assert 0.0 <= hessian[-1, -1] <= s * s * corner / sigma * up
        atol = 1e-12 * ((c * radius) ** 2 + score_z**2)
        np.testing.assert_allclose(meat, np.outer(gradient, gradient), rtol=0, atol=atol)
        rank_two = hessian[-1, -1] * np.trace(hessian[:-1, :-1]) - (hessian[-1, :-1] ** 2).sum()
        if not majorize:
            assert abs(rank_two) <= 1e-12 * (radius * s * c / sigma) ** 2
    # together with ordinary neighbours: a bad record must not spoil its block
    X_clean, y_clean = draw(20, 2)
    whole = kernel.sums(np.vstack([X, X_clean]), np.r_[y, y_clean], theta, 7, 1.0)
    apart = kernel.sums(X, y, theta, 7, 1.0), kernel.sums(X_clean, y_clean, theta, 7, 1.0)
    for part, a, b in zip(whole, *apart, strict=True):
        total = np.abs(a).max() + np.abs(b).max()
        np.testing.assert_allclose(part, a + b, rtol=0, atol=1e-12 * len(rows) * total + 1e-300)


@each("loss", LOSSES)
@each("c", [0.01, 1.345, 1e6])
def test_the_scales_score_keeps_its_digits(loss, c):
    """chi against 50 digits, over the whole range of residuals."""
    mpmath = pytest.importorskip("mpmath")
    r = np.concatenate([[1e-8, 1e-3, 0.1, 0.3, 0.54, 0.55, 0.56, 0.9, 1.1, 3.0, 20.0, 300.0]]) * c
    kernel = records.RecordKernel(loss, c, 1.0, BOUNDED, 1.0, False, 1.0, 0.0)
    for value in r:
        score, _, _ = kernel.sums(np.zeros((1, 1)), np.array([value]), np.array([0.0, 1.0]), 1, 1.0)
        with mpmath.workdps(50):
            v = mpmath.mpf(float(value)) / mpmath.mpf(c)
            exact = {
                HUBER: lambda v: min(v, mpmath.mpf(1)) ** 2 / 2,
                LOG_COSH: lambda v: v * mpmath.tanh(v) - mpmath.log(mpmath.cosh(v)),
                PSEUDO_HUBER: lambda v: 1 - 1 / mpmath.sqrt(1 + v * v),
            }[loss](v) * mpmath.mpf(c) ** 2
            assert abs(float(-score[1] / exact) - 1.0) < 2e-14


def test_the_score_and_the_hessian_are_derivatives_of_the_loss():
    X, y = draw(200, 3)
    for loss, weighting in itertools.product(LOSSES, [BOUNDED, MALLOWS]):
        kernel = records.RecordKernel(*model(loss, weighting, True).values())
        theta = np.array([0.3, -0.2, 0.5, 0.1, 4.0])
        gradient, hessian, _ = kernel.sums(X, y, theta, 3, 200.0)
        for j, step in enumerate(1e-5 * np.eye(5)):
            change = kernel.loss(X, y, theta + step, 200.0) - kernel.loss(X, y, theta - step, 200.0)
            assert gradient[j] == pytest.approx(change / 2e-5, abs=1e-9)
            if loss != HUBER:
                up, down = (kernel.sums(X, y, theta + d, 1, 200.0)[0] for d in (step, -step))
                np.testing.assert_allclose(hessian[j], (up - down) / 2e-5, atol=1e-8)


@each("loss", LOSSES)
def test_majorizing_steps_decrease_the_loss(loss):
    """One step of beta at a fixed scale, and one of the scale at a fixed beta (claim of newton)."""
    rng = np.random.default_rng(loss)
    for _ in range(100):
        X, y = rng.normal(size=(30, 2)) * 3.0, rng.normal(size=30) * 10.0 ** rng.uniform(-1, 2)
        m = model(loss, MALLOWS, True, kappa=0.7)
        kernel = records.RecordKernel(*m.values())
        theta = np.append(rng.normal(size=3) * 3.0, 10.0 ** rng.uniform(-2, 2))
        gradient, curvature, _ = kernel.sums(X, y, theta, 35, 30.0)
        before = kernel.loss(X, y, theta, 30.0)
        beta = theta.copy()
        beta[:3] -= np.linalg.solve(curvature[:3, :3], gradient[:3])
        assert kernel.loss(X, y, beta, 30.0) <= before * (1 + 1e-12)
        z = theta.copy()
        ratio = gradient[3] / (curvature[3, 3] * theta[3])
        assert ratio < 0.5
        z[3] *= (1.0 - 2.0 * ratio) ** 0.5
        assert kernel.loss(X, y, z, 30.0) <= before * (1 + 1e-12)


def test_threads_and_layouts_give_the_same_bits():
    X, y = draw(30_000, 6)
    kernel = records.RecordKernel(*model(LOG_COSH, MALLOWS, True).values())
    theta = np.append(np.linspace(-0.5, 0.5, 7), 2.0)
    expected = kernel.sums(X, y, theta, 7, 3e4, 1)
    for layout, threads in [(X, 3), (np.asfortranarray(X), 2)]:
        for part, one in zip(kernel.sums(layout, y, theta, 7, 3e4, threads), expected, strict=True):
            np.testing.assert_array_equal(part, one)


@each("weighting", [BOUNDED, MALLOWS])
def test_the_coefficients_sums_are_those_of_a_fixed_scale(weighting):
    X, y = draw(500, 4)
    free = model(PSEUDO_HUBER, weighting, True)
    fixed = {key: free[key] for key in ("loss", "c", "scale", "weighting", "radius", "intercept")}
    beta = np.linspace(-1.0, 1.0, 5)
    ours = records.RecordKernel(*free.values()).sums(X, y, np.append(beta, 2.2), 7, 500.0)
    fixed["scale"] = FACTOR * 2.2
    known = reference.record_sums(X, y, beta, want=7, divisor=500.0, **fixed)
    for part, other in zip(ours, known, strict=True):
        np.testing.assert_allclose(part[..., :5][:5], other, rtol=1e-11, atol=1e-14)


def test_what_has_no_bound_is_refused():
    with pytest.raises(ValueError, match="a free scale needs"):
        records.RecordKernel(3, 1.0, 1.0, MALLOWS, 1.5, True, 1.0, 0.7)
    with pytest.raises(ValueError, match="a free scale needs"):
        records.RecordKernel(0, 1.0, 1.0, 2, 1.5, True, 1.0, 0.7)
    kernel = records.RecordKernel(*model(HUBER, MALLOWS, False).values())
    for z in (0.0, -1.0, np.nan, np.inf, 1e200):
        with pytest.raises(ValueError, match="the scale"):
            kernel.sums(np.zeros((2, 1)), np.zeros(2), np.array([0.0, z]), 1, 1.0)
    with pytest.raises(ValueError, match="differences between"):
        kernel.loss_difference(np.zeros((2, 1)), np.zeros(2), np.ones(2), np.ones(2), 1.0)
    with pytest.raises(ValueError, match="differences between"):
        kernel.gradient_change(np.zeros((2, 1)), np.zeros(2), np.ones(2), np.ones(2), 1.0, 1.0)
