"""Steps that are scaled parameter by parameter, and the average that is the answer."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.nonconvex import PerRecordObjective
from dpfast.optimize import Adaptive
from dpfast.optimize.nonconvex.adaptive import _average
from dpfast.optimize.nonconvex.steps import FIRST_LENGTH, Steps
from tests.nonconvex.test_clipping import own

RNG = np.random.default_rng(8)


def test_no_parameter_moves_by_more_than_the_length():
    steps = Steps(0.5, 0.2, 3)
    sizes = []
    for _ in range(300):
        step = steps(RNG.standard_t(2, size=3), 0.0, 2.0, 0.5)
        sizes.append(np.abs(step).max() / (0.5 * steps.length))
    assert 0.8 < max(sizes) <= 1.0 + 1e-12


def test_columns_of_unequal_units_move_alike_and_first_by_a_part_of_a_plain_step():
    step = Steps(0.5, 0.2, 3)(np.array([2.0, -1e-6, 0.0]), 0.0, 2.0, 1.0)
    np.testing.assert_allclose(step, [-FIRST_LENGTH, FIRST_LENGTH, 0.0])


def test_steps_are_longer_while_gradients_agree_and_shorter_where_they_turn():
    length = {}
    for sign in (1.0, -1.0):
        steps, gradient = Steps(1.0, 0.2, 2), np.array([1.0, 0.0])
        for _ in range(20):
            step = steps(gradient, 0.0, 1.0, 1.0)
            gradient = np.array([-sign * np.sign(step[0]), 0.0])
        length[sign] = steps.length
    assert length[1.0] > 10.0 * FIRST_LENGTH
    assert length[-1.0] < 0.1 * FIRST_LENGTH


def test_noise_turns_no_screw():
    """400 gradients that are noise, in each of 20 runs; without the shrinkage it is 10 times."""
    for seed in range(20):
        rng, steps = np.random.default_rng(seed), Steps(1.0, 0.2, 10)
        for _ in range(400):
            steps(rng.normal(size=10), 1.0, 1.0, 1.0)
        assert FIRST_LENGTH / 2.5 < steps.length < 2.5 * FIRST_LENGTH


def test_a_rate_of_zero_is_the_papers_step():
    steps = Steps(0.25, 0.0, 2)
    np.testing.assert_array_equal(steps(np.array([4.0, 1.0]), 1.0, 1.0, 0.1), [-1.0, -0.25])
    assert steps.length == 0.25


def test_no_gradient_is_read_with_more_noise_than_it_can_be_long():
    """``2 d / n^2`` pays for noise as long as the bound: .0004 here, and 50 times are bought."""
    X = 0.1 * RNG.normal(size=(100, 2))
    for rho, most in ((0.02, 60), (1e-3, 4), (1e-6, 1)):
        run = dpfast.minimize(
            X, X[:, 0], own(vectorized=True), privacy=dpfast.ZCDP(rho), noise=dpfast.SeededNoise(0)
        )
        assert 1 <= run.rounds[-1]["steps"] <= most


def test_the_first_step_is_that_of_a_clip_and_not_of_a_bound_that_is_far_too_large():
    X = 0.1 * RNG.normal(size=(500, 2))
    run = dpfast.minimize(
        X, X[:, 0], own(vectorized=True, lipschitz=1e4), privacy=3.0, noise=dpfast.SeededNoise(0)
    )
    assert np.abs(np.diff(run.iterates[:2], axis=0)).max() < 1.0


@pytest.mark.filterwarnings("error")
def test_gradients_beyond_floating_point_are_quiet():
    steps = Steps(1.0, 0.2, 2)
    for gradient in ([1e300, 1.0], [np.inf, 0.0], [np.nan, 0.0], [5e-324, 0.0]):
        steps(np.array(gradient), 1.0, 1.0, 1.0)
    far = [np.array([1e308, np.inf])] * 5
    _average(far, [1.0] * 5, 0.5)


def test_the_answer_is_an_average_of_the_end_by_what_was_paid():
    points = [np.array([float(k), 0.0]) for k in range(8)]
    assert _average(points, [1.0] * 8, 0.5)[0] == pytest.approx(5.5)
    assert _average(points, [1.0] * 8, 0.25)[0] == pytest.approx(6.5)
    assert _average(points, [1.0] * 8, 0.0)[0] == 7.0
    noises = [1e6] * 6 + [1.0, 0.5]
    assert _average(points, noises, 0.9)[0] == pytest.approx((6.0 + 4.0 * 7.0) / 5.0)


def test_average_zero_is_the_last_iterate():
    X = 0.1 * RNG.normal(size=(300, 2))
    run = dpfast.minimize(
        X, X[:, 0], own(vectorized=True), privacy=1.0, method=Adaptive(average=0.0),
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    np.testing.assert_array_equal(run.params, run.iterates[-1])


def test_columns_of_unequal_units_cost_little():
    """Least squares of condition 100: steps of one length leave the fourth coefficient behind."""

    def slope(theta, X, y):
        return (X @ theta - y)[:, None] * X

    objective = PerRecordObjective(
        slope, dimension=4, lipschitz=20.0, smoothness=8.0, vectorized=True
    )
    excesses = []
    for seed in range(1):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2000, 4)) * np.geomspace(1.0, 0.1, 4)
        y = X @ np.geomspace(1.0, 10.0, 4) + 0.3 * rng.normal(size=2000)
        best = np.linalg.lstsq(X, y, rcond=None)[0]
        found = [
            dpfast.minimize(
                X, y, objective, privacy=6.0, method=method, noise=dpfast.SeededNoise(seed)
            ).params
            for method in (Adaptive(), Adaptive(step_rate=0.0))
        ]
        excesses.append([0.5 * np.mean((X @ (theta - best)) ** 2) for theta in found])
    scaled, plain = np.mean(excesses, axis=0)
    assert scaled < 0.1 * plain
    assert scaled < 1e-3


def test_a_path_that_ran_out_of_steps_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = X @ [1.0, -1.0] + rng.normal(size=500)

    def told(**options):
        method = dpfast.optimize.Adaptive(**options)
        objective = dpfast.Objective("cauchy", scale=1.0)
        found = dpfast.minimize(
            X, y, objective, privacy=1.0, method=method, noise=dpfast.SeededNoise(0)
        )
        return [warning for warning in found.warnings if "max_steps" in warning]

    (warning,) = told(max_steps=3)
    assert "after max_steps=3 steps" in warning and "of the budget was left" in warning
    assert told() == []
