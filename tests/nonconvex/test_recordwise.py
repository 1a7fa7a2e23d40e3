"""Claim K6: whatever a user's function does, a record moves the sums by its declared bounds."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpfast
from dpfast.curator.gradients import GradientCurator
from dpfast.curator.recordwise import RecordGradients
from dpfast.data import as_records
from dpfast.models.nonconvex import PerRecordObjective, one_hidden_layer, phase_retrieval

HOSTILE = [0.0, 1.0, 5e-324, 1e-200, 1e200, -1e308, np.inf, np.nan]
ANY = st.one_of(st.sampled_from(HOSTILE), st.floats())


def rows_of(function, X, y, **options):
    settings_ = {"dimension": 2, "lipschitz": 0.7, "smoothness": 2.0} | options
    objective = PerRecordObjective(function, **settings_)
    return RecordGradients(objective, as_records(X, y))


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.tuples(ANY, ANY, ANY), min_size=1, max_size=6),
    limit=st.sampled_from([1e-200, 1e-6, 0.7, 1e300]),
)
def test_k6_no_function_exceeds_its_declared_bounds(rows, limit):
    data = np.array(rows)
    X, y = data[:, :2], data[:, 2]

    def gradients(theta, X, y):
        return X * theta

    whole = rows_of(gradients, X, y)
    new, old = np.array([3.0, -1e10]), np.array([1.0, 1e150])
    for i in range(len(y)):
        single = rows_of(gradients, X[i : i + 1], y[i : i + 1])
        gradient = single.gradient(new, 1.0)
        assert np.linalg.norm(gradient) <= 0.7 * (1 + 1e-12)
        change = single.gradient_change(new, old, limit, 1.0)
        assert np.linalg.norm(change / limit) <= 1 + 1e-12
    assert np.isfinite(whole.gradient(new, 1.0)).all()


def test_k6_what_the_function_raises_on_one_record_does_not_show():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [0.5, 0.5]])
    y = np.zeros(4)

    def moody(theta, X, y):
        if (X > 1.5).any():
            raise ValueError("a record I do not like")
        return 0.1 * X

    def shapeless(theta, X, y):
        return np.zeros(3) if (X > 1.5).any() else 0.1 * X

    def stringy(theta, X, y):
        return "no" if (X > 1.5).any() else 0.1 * X

    def quiet(theta, X, y):
        return np.where((X > 1.5).any(axis=1)[:, None], np.nan, 0.1 * X)

    expected = 0.1 * X[[0, 1, 3]].sum(axis=0)
    for function in (moody, shapeless, stringy, quiet):
        for options in ({}, {"vectorized": False}, {"block_rows": 3}):
            rows = rows_of(function, X, y, **options)
            np.testing.assert_allclose(rows.gradient(np.zeros(2), 1.0), expected, rtol=1e-15)
            assert not rows.gradient_change(np.ones(2), np.zeros(2), 1.0, 1.0).any()


def test_k6_rows_of_records_that_are_not_finite_are_zero():
    X = np.array([[np.nan, 1.0], [1.0, 1.0], [np.inf, 0.0], [1.0, 1.0]])
    y = np.array([0.0, np.nan, 0.0, 0.0])

    def constant(theta, X, y):
        return np.full((len(X), 2), 0.3)

    rows = rows_of(constant, X, y)
    np.testing.assert_allclose(rows.gradient(np.zeros(2), 1.0), [0.3, 0.3], rtol=1e-15)


def test_k6_sums_stay_within_their_depth():
    """C11 with the depth announced, against exact sums."""
    from fractions import Fraction

    rng = np.random.default_rng(0)
    n = 3000
    X, y = rng.normal(size=(n, 2)), np.zeros(n)

    def gradients(theta, X, y):
        return 0.1 * X

    for block in (1, 7, 4096):
        rows = rows_of(gradients, X, y, block_rows=block)
        assert rows.depth() == min(block, n) + -(-n // block) + 8
        contributions = np.array(
            [
                rows_of(gradients, X[i : i + 1], y[i : i + 1]).gradient(np.zeros(2), 1.0)
                for i in range(200)
            ]
        )
        part = rows_of(gradients, X[:200], y[:200], block_rows=block)
        computed = part.gradient(np.zeros(2), 1.0)
        exact = [sum(Fraction(v) for v in column) for column in contributions.T]
        gamma = Fraction(part.depth(), 2**53)
        for a, b, column in zip(computed, exact, contributions.T, strict=True):
            assert abs(Fraction(a) - b) <= 2 * gamma * sum(abs(Fraction(v)) for v in column)


def test_functions_cannot_change_the_records_or_warn():
    X, y = np.ones((5, 2)), np.ones(5)

    def vandal(theta, X, y):
        theta[:] = 7.0
        X[:] = np.nan
        y[:] = 7.0
        return np.ones((len(y), 2)) / 0.0 * 0.0 + np.array(1e308) * 10.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows_of(vandal, X, y).gradient(np.zeros(2), 1.0)
    assert (X == 1.0).all()
    assert (y == 1.0).all()


def test_mistakes_are_found_on_made_up_records_before_anything_is_spent():
    ledger = dpfast.Ledger(1.0)
    X, y = np.ones((10, 2)), np.ones(10)

    def wrong_shape(theta, X, y):
        return np.zeros((2, len(y)))

    def broken(theta, X, y):
        return undefined_name  # noqa: F821

    options = {"privacy": 1.0, "ledger": ledger}
    for function, error in ((wrong_shape, dpfast.InvalidInput), (broken, NameError)):
        objective = PerRecordObjective(function, dimension=3, lipschitz=1.0, smoothness=1.0)
        with pytest.raises(error):
            dpfast.minimize(X, y, objective, **options)
    for wrong in (
        {"lipschitz": 0.0},
        {"smoothness": np.nan},
        {"dimension": 0},
        {"block_rows": 1.5},
    ):
        good = {"dimension": 2, "lipschitz": 1.0, "smoothness": 1.0}
        with pytest.raises(dpfast.InvalidInput):
            PerRecordObjective(wrong_shape, **(good | wrong))
    assert not ledger.entries


@pytest.mark.parametrize(
    "objective",
    [
        phase_retrieval(3, radius=2.0, lipschitz=1e3),
        one_hidden_layer(3, 2, radius=2.0, lipschitz=3.0, smoothness=5.0),
    ],
    ids=lambda objective: objective.name,
)
def test_gradients_of_the_examples_are_derivatives(objective):
    rng = np.random.default_rng(1)
    X, y = 2.0 * rng.normal(size=(30, 3)), rng.normal(size=30)
    X[0] = 1e308
    room = GradientCurator(as_records(X, y), objective, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    theta = 0.5 * rng.normal(size=objective.dimension)
    gradient = room.nonprivate_gradient(theta)
    h = 1e-6
    for j in range(objective.dimension):
        e = h * np.eye(objective.dimension)[j]
        slope = (room.nonprivate_loss(theta + e) - room.nonprivate_loss(theta - e)) / (2 * h)
        assert slope == pytest.approx(gradient[j], abs=2e-8)


def test_constants_of_phase_retrieval_hold_on_the_unit_ball():
    objective = phase_retrieval(3, radius=2.0)
    rng = np.random.default_rng(0)
    X, y = 3.0 * rng.normal(size=(400, 3)), 3.0 * rng.normal(size=400)
    for _ in range(50):
        a, b = rng.normal(size=(2, 3))
        a, b = a / max(1.0, np.linalg.norm(a)), b / max(1.0, np.linalg.norm(b))
        first, second = objective.gradients(a, X, y), objective.gradients(b, X, y)
        assert np.linalg.norm(first, axis=1).max() <= objective.lipschitz
        change = np.linalg.norm(first - second, axis=1).max()
        assert change <= objective.smoothness * np.linalg.norm(a - b)
