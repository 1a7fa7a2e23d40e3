"""Weights and offsets in the record kernels: against the twin, and the bounds the proofs need.

Claims C70 and C71.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpfast.kernels import records
from tests.kernels.test_records import (
    BOUNDED,
    CLIP,
    HUBER,
    LOG_COSH,
    LOGISTIC,
    MALLOWS,
    MALLOWS_LINEAR,
    OSTROVSKII_BACH,
    PAIRS,
    bounds,
    draw,
    model,
    wanted,
    wants,
)
from tests.kernels.test_records_scale import model as model_of_scale
from tests.loops import each
from tests.twins import records as reference
from tests.twins.records import GRADIENT, HESSIAN, MAJORIZER, MEAT

LARGEST = 2.5


pytestmark = pytest.mark.one_source


@pytest.fixture(params=records._available_isas(), autouse=True)
def isa(request):
    records._set_isa(request.param)
    yield request.param
    records._set_isa("")


def beside(y, seed=0, ones=False):
    """Responses with weights of every kind, the clipped ones included, and offsets."""
    rng = np.random.default_rng([seed, len(y)])
    weights = rng.choice([0.0, 0.3, 1.0, 2.5, 7.0, -1.0, np.nan, np.inf, -np.inf], size=len(y))
    weights += np.where(weights == 1.0, rng.random(len(y)), 0.0)
    offsets = np.where(rng.random(len(y)) < 0.1, np.inf, rng.normal(size=len(y)))
    return np.column_stack([y, np.ones(len(y)) if ones else weights, offsets])


def close(ours, twin, bound):
    if twin is None:
        assert ours is None
        return
    assert ours.shape == twin.shape and (np.abs(ours - twin) <= 1e-11 * bound).all()


@each(("loss", "weighting"), PAIRS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.values
def test_agrees_with_the_twin(loss, weighting, intercept):
    m = model(loss, weighting, intercept) | {"largest_weight": LARGEST}
    kernel = records.RecordKernel(**m)
    for n, q in [(1, 1), (37, 5), (129, 11), (300, 3), (70, 24), (40, 57)]:
        X, y = draw(n, q, loss)
        X[n // 2] *= 1e230  # rows that are rescaled, and their offsets
        full = beside(y)
        rng = np.random.default_rng(q)
        theta, other = rng.normal(size=(2, q + intercept)) / q**0.5
        theta[-1] = other[-1] = 0.0
        options = {**m, "divisor": float(n)}
        twins = [  # the sums do not depend on which others are wanted
            reference.record_sums(X, full, theta, want=GRADIENT | MEAT | curvature, **options)
            for curvature in (HESSIAN, MAJORIZER)
        ]
        for want in wants(weighting):
            ours = kernel.sums(X, full, theta, want, float(n))
            twin = wanted(twins[want & MAJORIZER == MAJORIZER], want)
            for part, expected, bound in zip(ours, twin, bounds(m), strict=True):
                close(part, expected, bound * LARGEST**2)
        score = bounds(m)[0] * LARGEST
        change = kernel.gradient_change(X, full, other, theta, 0.7, float(n))
        close(change, reference.gradient_change(X, full, other, theta, limit=0.7, **options), score)
        if weighting != CLIP:
            keep = np.abs(X).max(axis=1) < 1e100
            value = kernel.loss(X[keep], full[keep], theta, float(n))
            twin = reference.mean_loss(X[keep], full[keep], theta, **options)
            assert value == pytest.approx(twin, rel=1e-10, abs=1e-12)
            value = kernel.loss_difference(X[keep], full[keep], other, theta, float(n))
            twin = reference.loss_difference(X[keep], full[keep], other, theta, **options)
            assert value == pytest.approx(twin, rel=1e-9, abs=1e-9)


@each(("loss", "weighting"), PAIRS)
def test_weight_one_and_no_offset_give_the_same_bits(loss, weighting):
    kernel = records.RecordKernel(**model(loss, weighting, True))
    for n, q in [(1, 1), (130, 3), (90, 30)]:
        X, y = draw(n, q, loss)
        theta = np.linspace(-0.5, 0.5, q + 1)
        full = np.column_stack([y, np.ones(n), np.zeros(n)])
        for want in wants(weighting):
            alone = kernel.sums(X, y, theta, want, float(n))
            for part, same in zip(kernel.sums(X, full, theta, want, float(n)), alone, strict=True):
                np.testing.assert_array_equal(part, same)


@each("weighting", [BOUNDED, MALLOWS])
@each("intercept", [False, True])
@each("loss", [HUBER, LOG_COSH])
def test_free_scale_is_weighted_record_by_record(loss, weighting, intercept):
    m = model_of_scale(loss, weighting, intercept)
    kernel = records.RecordKernel(*m.values(), largest_weight=LARGEST)
    alone = records.RecordKernel(*m.values())
    X, y = draw(23, 4, loss)
    X[5] *= 1e210
    full = beside(y)
    weight = np.clip(np.nan_to_num(full[:, 1], nan=0.0, posinf=np.inf), 0.0, LARGEST)
    y = np.where(np.isfinite(full[:, 2]), y - full[:, 2], np.nan)
    theta = np.append(np.zeros(4 + intercept), 2.2)
    theta[0] = 0.3
    X[5, 0] = 0.0
    for want in (1, 2, 4, 7, 39):
        ours = kernel.sums(X, full, theta, want, 1.0)
        for k, power in enumerate((1, 1, 2)):
            if ours[k] is None:
                continue
            expected = sum(
                weight[i] ** power * alone.sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0)[k]
                for i in range(len(y))
            )
            np.testing.assert_allclose(ours[k], expected, rtol=1e-9, atol=1e-9)


ANY = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -2.5, 5e-324, 1e-200, 1e160, 1e308, -1e308, np.inf, np.nan]),
    st.floats(),
)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY, ANY, ANY), min_size=1, max_size=10),
    theta=st.lists(st.sampled_from([0.0, 1.0, -0.5, 1e-3, 1e10]), min_size=3, max_size=3),
    pair=st.sampled_from(PAIRS),
    intercept=st.booleans(),
    largest=st.sampled_from([1e-3, 1.0, 40.0]),
)
def test_hostile_weights_and_offsets_keep_the_bounds(rows, theta, pair, intercept, largest):
    loss, weighting = pair
    m = model(loss, weighting, intercept, 1.5)
    kernel = records.RecordKernel(**m, largest_weight=largest)
    data = np.array(rows)
    X, full = data[:, :2], data[:, 2:]
    theta = np.array(theta[: 2 + intercept])
    want = 5 if weighting in (CLIP, MALLOWS_LINEAR) else 7
    factors = largest, largest, largest**2
    for i in range(len(full)):
        single = kernel.sums(X[i : i + 1], full[i : i + 1], theta, want, 1.0)
        usable = np.isfinite(data[i, [0, 1, 2, 4]]).all() and full[i, 1] > 0.0
        for part, bound, factor in zip(single, bounds(m), factors, strict=True):
            if part is not None:
                assert np.linalg.norm(part) <= factor * bound * (1 + 1e-12)
                assert usable or not part.any()
        change = kernel.gradient_change(X[i : i + 1], full[i : i + 1], theta, -theta, 0.3, 1.0)
        assert np.linalg.norm(change) <= largest * 0.3 * (1 + 1e-12)
        if weighting != CLIP:
            difference = kernel.loss_difference(
                X[i : i + 1], full[i : i + 1], theta, np.zeros_like(theta), 1.0
            )
            assert abs(difference) <= largest * bounds(m)[0] * np.linalg.norm(theta) * (1 + 1e-12)
    X_clean, y_clean = draw(20, 2, loss)
    clean = beside(y_clean)
    whole = kernel.sums(np.vstack([X, X_clean]), np.vstack([full, clean]), theta, want, 1.0)
    apart = kernel.sums(X, full, theta, want, 1.0), kernel.sums(X_clean, clean, theta, want, 1.0)
    for part, a, b, bound, factor in zip(whole, *apart, bounds(m), factors, strict=True):
        if part is not None:
            room = (1e-12 * bound * len(rows) + 1e-11) * max(factor, 1.0)
            np.testing.assert_allclose(part, a + b, rtol=0, atol=room)


def test_an_offset_is_a_coefficient_that_is_known():
    """Of a column of its own: losses of a residual or of the predictor, projected rows too."""
    rng = np.random.default_rng(3)
    X, o = rng.normal(size=(400, 2)), rng.normal(size=400)
    for loss, weighting in itertools.product([LOGISTIC, LOG_COSH, OSTROVSKII_BACH], [0, 1, 2]):
        y = (rng.random(400) < 0.5).astype(float)
        theta = np.array([0.3, -0.2, 0.8])
        kernel = records.RecordKernel(**model(loss, weighting, True, radius=60.0))
        full = np.column_stack([y, np.ones(400), o])
        ours = kernel.sums(X, full, theta, 1, 400.0)[0]
        wider = kernel.sums(np.column_stack([X, o]), y, np.append(theta, 1.0), 1, 400.0)[0]
        np.testing.assert_allclose(ours, wider[:3], rtol=1e-12, atol=1e-14)


def test_columns_beside_a_response_may_have_any_strides():
    X, y = draw(500, 3, LOG_COSH)
    kernel = records.RecordKernel(**model(LOG_COSH, MALLOWS, True), largest_weight=LARGEST)
    full, theta = beside(y), np.linspace(-1.0, 1.0, 4)
    expected = kernel.sums(X, full, theta, 7, 500.0)
    wide = np.repeat(full, 2, axis=0)[::2]
    for other in (np.asfortranarray(full), wide, full[::-1].copy()[::-1]):
        for part, same in zip(kernel.sums(X, other, theta, 7, 500.0), expected, strict=True):
            np.testing.assert_array_equal(part, same)
    with pytest.raises(ValueError, match="three columns"):
        kernel.sums(X, full[:, :2], theta, 7, 500.0)
    for largest in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="largest_weight"):
            records.RecordKernel(**model(LOG_COSH, MALLOWS, True), largest_weight=largest)


@each("columns", [1, 3], ids=["responses", "with weights and offsets"])
def test_scores_of_runs_are_those_of_each_run_alone(columns):
    """Bit for bit, whatever stands beside a run: one far longer than a block among them."""
    rng = np.random.default_rng(21)
    lengths = np.array([1, 3, 1000, 2, 1, 70_000, 5])
    n = int(lengths.sum())
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    if columns == 3:
        y = np.column_stack([y, rng.random(n), rng.normal(size=n)])
    kernel = records.RecordKernel(0, 1.345, 1.0, 1, 1.5, True)
    theta, ends = rng.normal(size=4), np.cumsum(lengths).astype(np.intp)
    found = kernel.scores_of_runs(X, y, theta, ends)
    for score, first, end in zip(found, ends - lengths, ends, strict=True):
        alone, _, _ = kernel.sums(X[first:end], y[first:end], theta, records.GRADIENT, 1.0)
        assert (score == alone).all()
    for wrong in ([3, 2], [0, 4], [n + 1]):
        with pytest.raises(ValueError, match="ends must increase"):
            kernel.scores_of_runs(X, y, theta, np.array(wrong, dtype=np.intp))
    with pytest.raises(TypeError, match="vector of intp"):
        kernel.scores_of_runs(X, y, theta, [1, 2])
