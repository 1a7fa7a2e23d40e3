"""Change of gradient in one pass, and the redescending losses: twins, bounds, hostile records."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from dpfast.models import Cauchy, GemanMcClure, TukeyBiweight, Welsch
from tests.loops import each
from tests.twins import losses as twins, records as reference

HUBER, LOGISTIC, TUKEY = 0, 3, 10
REDESCENDING = [TukeyBiweight(1.7), GemanMcClure(1.7), Welsch(1.7), Cauchy(1.7)]
LOSSES = sorted(twins.CLASSES)
BOUNDED, MALLOWS, CLIP, SCHWEPPE, LINEAR = range(5)


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def model(loss, weighting, intercept=False, radius=1.7, c=1.7, scale=1.3):
    logistic = loss == LOGISTIC
    return {
        "loss": loss,
        **twins.typical(loss, c),
        "scale": 1.0 if logistic else scale,
        "weighting": weighting,
        "radius": radius,
        "intercept": intercept,
    }


def draw(n, q, loss, seed=0):
    rng = np.random.default_rng([seed, n, q])
    X = rng.normal(size=(n, q)) * rng.choice([0.3, 1.0, 4.0], size=(n, 1))
    y = (rng.random(n) < 0.5).astype(float) if loss == LOGISTIC else 3.0 * rng.normal(size=n)
    return X, y


@each("loss", LOSSES)
@pytest.mark.parametrize("weighting", [BOUNDED, MALLOWS, CLIP, SCHWEPPE, LINEAR])
@pytest.mark.values
def test_change_of_gradient_agrees_with_its_twin(loss, weighting):
    """To the rounding of psi at two predictors: 1e-13 of the bound of each record."""
    if (loss, weighting) == (LOGISTIC, SCHWEPPE):
        pytest.skip("no residual to scale")
    for intercept, (n, q), limit in itertools.product(
        (False, True), [(1, 1), (70, 11), (40, 24), (30, 57)], (0.1, 10.0)
    ):
        m = model(loss, weighting, intercept)
        X, y = draw(n, q, loss)
        rng = np.random.default_rng(q)
        old = rng.normal(size=q + intercept) / q**0.5
        new = old + 0.1 * rng.normal(size=q + intercept)
        kernel = records.RecordKernel(**m)
        ours = kernel.gradient_change(X, y, new, old, limit, float(n))
        twin = reference.gradient_change(X, y, new, old, limit=limit, divisor=float(n), **m)
        assert np.abs(ours - twin).max() < 1e-13
        if limit > 5.0:  # nothing is clipped
            apart = kernel.sums(X, y, new, 1, float(n))[0] - kernel.sums(X, y, old, 1, float(n))[0]
            assert np.abs(ours - apart).max() < 1e-13


HOSTILE = st.sampled_from(
    [0.0, -0.0, 1.0, -2.5, 5e-324, -1e-310, 1e-200, 1e150, -1e160, 1e200, 1e308, np.inf]
)
ANY = st.one_of(HOSTILE, st.floats())


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=8),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10, 1e300]), min_size=6, max_size=6),
    loss=st.sampled_from(LOSSES),
    weighting=st.sampled_from([BOUNDED, MALLOWS, CLIP, SCHWEPPE, LINEAR]),
    intercept=st.booleans(),
    radius=st.sampled_from([1.5, 40.0]),
    limit=st.sampled_from([1e-120, 1e-6, 0.01, 1.0, 1e60]),
)
def test_no_record_changes_the_sum_by_more_than_the_limit(
    rows, theta, loss, weighting, intercept, radius, limit
):
    if (loss, weighting) == (LOGISTIC, SCHWEPPE):
        return
    m = model(loss, weighting, intercept, radius)
    kernel = records.RecordKernel(**m)
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2]
    p = 2 + intercept
    new, old = np.array(theta[:p]), np.array(theta[3 : 3 + p])
    for i in range(len(y)):
        single = kernel.gradient_change(X[i : i + 1], y[i : i + 1], new, old, limit, 1.0)
        assert np.linalg.norm(single / limit) <= 1 + 1e-12
        twin = reference.gradient_change(
            X[i : i + 1], y[i : i + 1], new, old, limit=limit, divisor=1.0, **m
        )
        # predictors of very large parameters are sums of terms that cancel
        if np.abs(np.r_[new, old]).max() < 1e9:
            np.testing.assert_allclose(single, twin, rtol=1e-9, atol=1e-11 * radius)
        usable = np.isfinite(X[i]).all() and np.isfinite(y[i])
        usable = usable and (loss != LOGISTIC or y[i] in (0.0, 1.0))
        assert usable or not single.any()
        if loss >= TUKEY:
            gradient = kernel.sums(X[i : i + 1], y[i : i + 1], new, 1, 1.0)[0]
            steepest = twins.loss_of(loss, m["c"], m["h"]).psi_bound
            bound = radius if weighting == CLIP else steepest * radius
            assert np.linalg.norm(gradient) <= bound * (1 + 1e-12)
            assert usable or not gradient.any()
    # a bad record must not spoil its block
    X_clean, y_clean = draw(20, 2, loss)
    whole = kernel.gradient_change(np.vstack([X, X_clean]), np.r_[y, y_clean], new, old, limit, 1.0)
    parts = [
        kernel.gradient_change(a, b, new, old, limit, 1.0) for a, b in ((X, y), (X_clean, y_clean))
    ]
    np.testing.assert_allclose(whole / limit, sum(parts) / limit, rtol=0, atol=1e-12 * 30)


@pytest.mark.parametrize("loss", REDESCENDING, ids=lambda loss: loss.name)
@pytest.mark.values
def test_redescending_losses_are_accurate(loss):
    """psi and rho to a few units of rounding over sixty decades, against their formulas."""
    kernel = records.RecordKernel(**model(loss.code, BOUNDED, radius=1.0, scale=1.0))
    one, c = np.ones((1, 1)), mpmath.mpf(1.7)
    with mpmath.workdps(140):
        for t in np.r_[10.0 ** np.linspace(-30, 30, 61), np.linspace(0.05, 8.0, 80)]:
            r = mpmath.mpf(t)
            v = (r / c) ** 2
            exact = {
                "tukey": (r * max(1 - v, 0) ** 2, c**2 / 6 * (1 - max(1 - v, 0) ** 3)),
                "geman-mcclure": (r / (1 + v) ** 2, c**2 * v / (2 * (1 + v))),
                "welsch": (r * mpmath.exp(-v), -(c**2) / 2 * mpmath.expm1(-v)),
                "cauchy": (r / (1 + v), c**2 / 2 * mpmath.log1p(v)),
            }[loss.name]
            ours = kernel.sums(one, np.zeros(1), np.array([t]), 1, 1.0)[0][0]
            value = kernel.loss(one, np.zeros(1), np.array([t]), 1.0)
            plain = loss.psi(t), loss.loss(t)
            for found, twin, truth in zip((ours, value), plain, exact, strict=True):
                # cancellation in 1 - v next to Tukey's corner is bounded by the rounding of v
                slack = 4e-15 * abs(truth) + (4e-15 if abs(1 - v) < 0.1 else 0.0) + 1e-300
                if loss.name == "welsch":
                    slack += 2e-16 * v * abs(truth)  # of the exponent
                assert abs(found - truth) <= slack, t
                assert abs(twin - truth) <= 10 * slack, t


@pytest.mark.parametrize("loss", REDESCENDING, ids=lambda loss: loss.name)
@pytest.mark.values
def test_public_constants_are_suprema(loss):
    """psi_bound and psi_prime_bound are attained and never exceeded."""
    r = np.linspace(-6.0, 6.0, 480_001)
    assert np.abs(loss.psi(r)).max() == pytest.approx(loss.psi_bound, rel=1e-9)
    assert np.abs(loss.psi(r)).max() <= loss.psi_bound * (1 + 1e-15)
    assert np.abs(loss.psi_prime(r)).max() == pytest.approx(loss.psi_prime_bound, rel=1e-12)
    assert loss.psi_prime(r).min() < -0.1
    h = 1e-6
    np.testing.assert_allclose(
        (loss.psi(r + h) - loss.psi(r - h)) / (2 * h), loss.psi_prime(r), atol=3e-6
    )
    np.testing.assert_allclose(
        (loss.loss(r + h) - loss.loss(r - h)) / (2 * h), loss.psi(r), atol=1e-7
    )
    for far in (1e200, -1e308, np.inf):
        assert abs(loss.psi(far)) < 1e-100
        assert abs(loss.psi_prime(far)) < 1e-100


def test_there_is_no_hessian_of_a_redescending_loss():
    kernel = records.RecordKernel(**model(TUKEY, MALLOWS))
    for want in (2, 3, 34):
        with pytest.raises(ValueError, match="redescending"):
            kernel.sums(np.ones((2, 1)), np.ones(2), np.ones(1), want, 1.0)


def test_changes_do_not_depend_on_threads_or_layout():
    for n, q in ((30_000, 4), (9_000, 30)):
        X, y = draw(n, q, TUKEY)
        kernel = records.RecordKernel(**model(TUKEY, MALLOWS, True))
        old = np.linspace(-0.5, 0.5, q + 1)
        expected = kernel.gradient_change(X, y, old + 0.1, old, 0.2, float(n), 1)
        for layout, threads in (
            (X, 2),
            (X, 0),
            (np.asfortranarray(X), 2),
            (X[::-1].copy()[::-1], 1),
        ):
            again = kernel.gradient_change(layout, y, old + 0.1, old, 0.2, float(n), threads)
            np.testing.assert_array_equal(expected, again)


def test_limits_are_checked():
    kernel = records.RecordKernel(**model(TUKEY, MALLOWS))
    for limit in (0.0, -1.0, np.nan, np.inf, 1e-150):
        with pytest.raises(ValueError, match="limit"):
            kernel.gradient_change(np.ones((2, 1)), np.ones(2), np.ones(1), np.ones(1), limit, 1.0)
