"""Attacks on the constants of private black-box optimisation, through the code that is shipped."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import differential_evolution

import dpfast
from dpfast.audit import replay
from dpfast.bayesopt.tuning import tune
from dpfast.curator.blackbox.vectors import BLOCK, RecordValues
from dpfast.errors import BudgetExceeded, InvalidBudget, InvalidInput
from dpfast.privacy.blackbox.sensitivity import clipped_mean, mean_loss
from tests.twins.searches import settled

HUGE, TINY = 1e308, 5e-324
HOSTILE = [0.0, -0.0, 1.0, -3.0, HUGE, -HUGE, TINY, -TINY, 1e200, 1e-200, np.inf, -np.inf, np.nan]


def keeper(n, mu=10.0):
    return RecordValues(n, dpfast.Ledger(mu), dpfast.SeededNoise(0))


def exact_mean(values, weights, bound):
    """What :meth:`RecordValues.mean` adds noise to."""
    room = keeper(values.shape[1])
    room.append(values, len(values))
    return room._clipped_mean(np.asarray(weights, dtype=float), bound)


def filled(values):
    """What failed counts as the largest finite value in its own column."""
    found = np.array(values, dtype=float)
    for column in found.T:
        own = [value for value in column if np.isfinite(value)]
        for j, value in enumerate(column):
            if not np.isfinite(value):
                column[j] = max(own) if own else np.nan
    return found


def by_rows(values, weights, bound):
    """The same one record at a time in extended precision."""
    total = np.zeros(weights.shape[1], dtype=np.longdouble)
    with np.errstate(all="ignore"):
        for column in values.T:
            vector = (weights.T @ column).astype(np.longdouble)
            if not np.isfinite(vector).all():
                continue
            length = np.sqrt(np.sum(vector**2))
            if length > bound:
                vector = vector * (bound / length)
            total += vector
    return (total / values.shape[1]).astype(float)


@pytest.mark.parametrize(("n", "d", "points"), [(1, 1, 1), (3, 2, 2), (7, 4, 3), (5000, 2, 3)])
@pytest.mark.one_in(2)
def test_g1_two_records_chosen_by_optimisation(n, d, points):
    """Sound for every pair tried, and attained to 1%."""
    rng = np.random.default_rng([n, d])
    weights = rng.normal(size=(points, d))
    bound = 0.7
    others = rng.normal(size=(points, n))
    allowed = clipped_mean(bound, n, d, depth=keeper(n).depth())
    worst = 0.0

    def distance(pair):
        nonlocal worst
        sides = []
        for record in np.split(pair, 2):
            values = others.copy()
            values[:, 0] = record
            sides.append(exact_mean(values, weights, bound))
        found = float(np.linalg.norm(sides[0] - sides[1]))
        worst = max(worst, found)
        return -found

    differential_evolution(
        distance, [(-9.0, 9.0)] * (2 * points), seed=1, maxiter=25, popsize=6, polish=False
    )
    assert worst <= allowed
    assert worst >= 0.99 * allowed


@given(
    values=arrays(
        np.float64,
        (3, 6),
        elements=st.one_of(st.sampled_from(HOSTILE), st.floats(width=64)),
    ),
    other=arrays(np.float64, 3, elements=st.one_of(st.sampled_from(HOSTILE), st.floats(width=64))),
    weights=arrays(np.float64, (3, 2), elements=st.sampled_from([0.0, 1.0, -2.5, 1e150, 1e-150])),
)
@settings(max_examples=100, deadline=None)
def test_g1_hostile_values_stay_within_the_bound(values, other, weights):
    bound = 1.3
    neighbour = values.copy()
    neighbour[:, 2] = other
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = exact_mean(values, weights, bound)
        second = exact_mean(neighbour, weights, bound)
    assert np.isfinite(first).all() and np.isfinite(second).all()
    assert np.linalg.norm(first) <= bound * (1.0 + 1e-12)
    allowed = clipped_mean(bound, 6, 2, depth=keeper(6).depth())
    assert np.linalg.norm(first - second) <= allowed


@given(
    values=arrays(np.float64, (3, 6), elements=st.one_of(st.sampled_from(HOSTILE), st.floats())),
    weights=arrays(np.float64, (3, 2), elements=st.floats(-100.0, 100.0)),
)
@settings(max_examples=60, deadline=None)
def test_g1_against_row_by_row_arithmetic(values, weights):
    """The twin: plain loops in extended precision, to 1e-12 of the bound (cancellation aside)."""
    # sums that cancel are a matter of rounding in the product, which the claim allows for
    with np.errstate(all="ignore"):
        told = filled(values)
        size = np.abs(weights).T @ np.abs(np.where(np.isfinite(told), told, 0.0))
        vectors = weights.T @ told
    cancels = np.abs(vectors) < 1e-3 * size
    keep = ~(cancels & np.isfinite(vectors) & (size > 0.0)).any(axis=0)
    keep &= ~((size > 1e307) & np.isfinite(vectors)).any(axis=0)
    if not keep.any():
        return
    values = values[:, keep]
    found = exact_mean(values, weights, 2.0)
    np.testing.assert_allclose(found, by_rows(filled(values), weights, 2.0), atol=2e-12, rtol=0.0)


def test_g1_blocks_add_up():
    rng = np.random.default_rng(0)
    n = 2 * BLOCK + 37
    values, weights = rng.normal(size=(4, n)), rng.normal(size=(4, 3))
    values[2, BLOCK + 5] = np.nan
    found = exact_mean(values, weights, 1.5)
    np.testing.assert_allclose(found, by_rows(filled(values), weights, 1.5), atol=1e-13)
    assert keeper(n).depth() == BLOCK + 3 + 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_g1_values_that_are_not_finite_count_as_their_records_largest(bad):
    values = np.full((2, 4), 5.0)
    values[0, 1] = bad
    found = exact_mean(values, np.eye(2), 3.0)
    np.testing.assert_allclose(found, 3.0 / np.sqrt(2.0) * np.ones(2), rtol=1e-15)
    values[:, 1] = bad  # no value of its own to stand for it
    found = exact_mean(values, np.eye(2), 3.0)
    np.testing.assert_allclose(found, 0.75 * 3.0 / np.sqrt(2.0) * np.ones(2), rtol=1e-15)
    assert exact_mean(np.full((2, 1), bad), np.eye(2), 3.0).tolist() == [0.0, 0.0]
    # products of finite numbers that overflow count as not finite, too
    assert exact_mean(np.full((1, 1), 1e308), np.array([[1e10]]), 3.0).tolist() == [0.0]


def test_g1_what_stands_for_a_value_is_the_records_own():
    """Attack: one record's values become anything where all others' trainings failed."""
    n, bound = 20, 3.0
    rng = np.random.default_rng(6)
    values, weights = rng.normal(size=(4, n)), rng.normal(size=(4, 2))
    values[rng.random(values.shape) < 0.5] = np.nan
    allowed = clipped_mean(bound, n, 2, depth=keeper(n).depth())
    means = []
    for size in (0.0, 1.0, -1.0, 1e6, -1e6, 1e300, np.nan, -np.inf):
        changed = values.copy()
        changed[:, 0] = [size, np.nan, size, size]
        means.append(exact_mean(changed, weights, bound))
    worst = max(float(np.linalg.norm(a - b)) for a in means for b in means)
    assert 0.99 * allowed <= worst <= allowed


def test_g1_lengths_that_overflow_or_vanish_are_clipped_like_others():
    for size in (1e308, 1e200, 1e-200, 1e-310):
        found = exact_mean(np.full((2, 1), size), np.eye(2), 1e-100 if size < 1 else 1.0)
        expected = min(size * np.sqrt(2.0), 1e-100) if size < 1 else 1.0
        np.testing.assert_allclose(found, expected * np.sqrt(0.5), rtol=1e-12)


def test_g1_one_record_changes_nothing_about_another():
    """Contributions of the others are bitwise the same, whatever record 0 is."""
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=(17, 300)), rng.normal(size=(17, 5))
    vectors = weights.T @ values
    for bad in HOSTILE:
        changed = values.copy()
        changed[:, 0] = bad
        with np.errstate(all="ignore"):
            assert np.array_equal((weights.T @ changed)[:, 1:], vectors[:, 1:])


def steep(slope):
    """Losses of three records; the first a plane of this slope in every coordinate."""

    def losses(theta):
        return np.array([slope * float(np.sum(theta)), 0.1, -2.0])

    return losses


def search(losses, **options):
    chosen = {
        "bounds": [(-1.0, 1.0)] * 3,
        "privacy": 0.8,
        "n_records": 3,
        "steps": 4,
        "clip": 0.5,
        "noise": dpfast.SeededNoise(1),
    }
    return tune(losses, **settled(chosen | options))


@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_g2_a_whole_search_costs_what_it_claims(mean):
    """Opposite planes: the sum of squared distances in units of noise is mu^2, to 1%."""
    report = replay(lambda slope: search(steep(slope[0]), mean=mean), [1e6], [-1e6], budget=0.8)
    assert report.passed, report
    assert report.n_answers == 5  # the last is the share that failed
    assert 0.99 <= report.worst["clipped mean"].ratio <= 1.0
    assert 0.99 <= report.worst_joint <= 1.0
    assert 0.99 * 0.8 <= report.mu <= 0.8


def test_g2_points_are_functions_of_released_gradients():
    """Different data, the same noisy answers: the same points, bit for bit (see replay)."""
    for pair in ([[1.0], [np.nan]], [[1e308], [-1e308]], [[0.0], [np.inf]]):
        report = replay(lambda slope: search(steep(slope[0]), threshold=0.2), *pair, budget=0.8)
        assert report.passed, report


def test_g2_rounded_points_are_functions_of_released_gradients():
    """The same with whole numbers and choices, which are rounded before they are evaluated."""
    space = {
        "a": dpfast.bayesopt.Integer(-2, 3),
        "b": dpfast.bayesopt.Categorical(["x", "y", "z"]),
        "c": dpfast.bayesopt.Real(0.1, 9.0, log=True),
    }

    def found(slope):
        values = np.zeros(12)
        values[0] = slope[0]
        result = dpfast.tune(
            lambda p: values * (p["a"] + (p["b"] == "y") - p["c"]), space, privacy=0.8,
            n_records=12, clip=0.5, steps=4,
        )  # fmt: skip
        return result.points, result.parameters, result.gradients

    for pair in ([[1.0], [np.nan]], [[1e308], [-1e308]], [[0.0], [np.inf]]):
        report = replay(found, *pair, budget=0.8)
        assert report.passed, report


def test_g2_the_budget_is_kept_by_every_schedule():
    for schedule in (None, "uniform", dpfast.optimize.Geometric(3.0, 0.01)):
        found = search(steep(1.0), schedule=schedule, steps=7)
        total = sum(mu**2 for _, mu in found.privacy.entries)
        assert 0.999 * 0.8**2 <= total <= 0.8**2
        assert len(found.privacy.entries) == 7 + 1


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (-3.0, 5.0), (2.0, 2.001)])
@pytest.mark.parametrize("n", [1, 11])
def test_g4_mean_loss(lower, upper, n):
    rng = np.random.default_rng(n)
    room = keeper(n)
    allowed = mean_loss(lower, upper, n, depth=room.depth())
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    worst = 0.0
    for first in [*HOSTILE, lower, upper]:
        for second in [*HOSTILE, lower, upper]:
            means = []
            for value in (first, second):
                values = rng.normal(size=n) if n == 1 else np.linspace(lower, upper, n)
                values[0] = value
                told = keeper(n)
                told.append(values)
                means.append(told._mean_loss(0, middle, half))
            assert np.isfinite(means).all()
            worst = max(worst, abs(means[0] - means[1]))
    assert 0.99 * allowed <= worst <= allowed


def test_g4_one_record_moves_the_share_that_failed_by_itself_and_no_more():
    n, points, shares = 11, 3, {}
    allowed = mean_loss(0.0, 1.0, n, depth=keeper(n).depth())
    for failed in range(points + 1):
        room = RecordValues(n, dpfast.Ledger(1e6), dpfast.SeededNoise(0))
        values = np.ones((points, n))
        values[0, 5] = np.inf
        values[:failed, 0] = np.nan
        room.append(values[0])
        room.append(values[1:], points - 1)
        shares[failed] = room.failed(1e4)
    assert shares[0] == pytest.approx(1.0 / (n * points), abs=1e-4)
    assert 0.99 * allowed <= shares[points] - shares[0] <= allowed + 1e-4


def test_released_means_have_the_announced_noise():
    """Chi-squared test at false-failure rate 1e-6; a tenth more or less is noticed (.9999)."""
    n, d, draws = 50, 4, 1200
    room = RecordValues(n, dpfast.Ledger(1e6), dpfast.SeededNoise(5))
    room.append(np.random.default_rng(0).normal(size=(2, n)), 2)
    weights = np.random.default_rng(1).normal(size=(2, d))
    exact = room._clipped_mean(weights, 1.0)
    answers = [room.mean(weights, 1.0, 0.5) for _ in range(draws)]
    energy = sum(np.sum(((a.value - exact) / a.noise_scale) ** 2) for a in answers)
    assert abs(energy / (draws * d) - 1.0) < 4.9 * np.sqrt(2.0 / (draws * d))
    scale = answers[0].noise_scale
    assert 2.0 / n / 0.5 <= scale <= 2.0 / n / 0.5 * (1.0 + 1e-4)


# ---- what is refused, and when -------------------------------------------------------------------


def test_the_ledger_is_charged_before_the_values_are_touched():
    room = keeper(4, mu=0.5)
    room.append(np.ones(4))
    room.mean(np.ones((1, 2)), 1.0, 0.5)
    touched = []
    room._clipped_mean = lambda *arguments: touched.append(1)
    with pytest.raises(BudgetExceeded):
        room.mean(np.ones((1, 2)), 1.0, 0.1)
    assert not touched


def test_cells_of_objects_have_no_type_and_are_read_one_by_one():
    room = keeper(3)
    room.append(np.array([1.0, None, "fail"], dtype=object))
    room.append([1.0, 2**2000, 1j])
    assert room.n_points == 2


def test_shapes_and_dtypes_raise_and_values_do_not():
    room = keeper(3)
    for wrong in (np.ones(4), np.ones((1, 3)), 1.0, np.ones(3) * 1j, np.array(["a", "b", "c"])):
        with pytest.raises(InvalidInput):
            room.append(wrong)
    room.append(np.array([1, 2, 3]))
    room.append([True, False, True])
    room.append(np.array([1.0, np.nan, np.inf], dtype=np.float32))
    assert room.n_points == 3
    with pytest.raises(InvalidInput, match="weights"):
        room.mean(np.ones((2, 2)), 1.0, 0.1)
    with pytest.raises(InvalidInput, match="clipping norm"):
        room.mean(np.ones((3, 2)), np.inf, 0.1)
    with pytest.raises(InvalidBudget):
        room.mean(np.ones((3, 2)), 1.0, 1e-9)
    assert room.ledger.entries == ()


def test_values_are_copied():
    room = keeper(2)
    mine = np.ones(2)
    room.append(mine)
    mine[:] = 7.0
    assert room._mean_loss(0, 0.0, 9.0) == 1.0


def test_too_many_coordinates_are_refused():
    with pytest.raises(InvalidInput, match="8000"):
        clipped_mean(1.0, 10, 8001)
    assert clipped_mean(1.0, 10, 8000) >= 0.2
