"""Directions that noise hides: what is said to be left undone, and intervals as wide as that."""

import numpy as np
import pytest

import dpfast
from dpfast.optimize.adaptive.hidden import FloorOfStep, hidden_directions
from dpfast.optimize.adaptive.start import LEAST_PART, MOST_PART, share_of_location

ONE = (FloorOfStep(2.0, 2.0, 1.0),)


def hidden(values, travelled, floor, early=(), answers=ONE, gradient=0.0):
    p = len(values)
    gradients = [(np.full(p, gradient), 1.0)]
    return hidden_directions((np.diag(values), 0.1), floor, early, answers, travelled, gradients)


def test_what_steps_leave_undone():
    """Curvature 1.2 is at least 1: a step and an answer with floors of 2 leave a quarter.

    Of the way travelled that is a third; the other direction is left nothing of.
    """
    found = hidden([1.2, 9.0], np.array([3.0, 3.0]), 0.5, early=[2.0])
    np.testing.assert_allclose(found.possible, [1.0, 0.0])
    np.testing.assert_allclose(found.plausible, [[1.0, 0.0], [0.0, 0.0]])
    assert found.n_directions == 0
    assert not found.harms(np.eye(2))
    assert found.harms(0.2 * np.eye(2))


def test_answers_are_averaged():
    """Weights 1 and 3: ends with 1/2 and, after a step, 1/4 of the way undone, 5/16 together."""
    found = hidden(
        [1.2],
        np.array([11.0]),
        0.5,
        answers=[FloorOfStep(2.0, 2.0, 1.0), FloorOfStep(2.0, 2.0, 3.0)],
    )
    np.testing.assert_allclose(found.possible, [5.0])


def test_a_curvature_that_may_be_zero():
    """Nearly all may be undone; plausibly 1 - .006/2 of it, which is 332 times what was gone."""
    found = hidden([0.0, 9.0], np.array([0.01, 3.0]), 0.5)
    assert found.possible[0] == pytest.approx(1e9 * 0.01, rel=1e-3)
    assert found.plausible[0, 0] ** 0.5 == pytest.approx(0.01 * (1.0 - 0.003) / 0.003)
    assert found.harms(np.eye(2))
    assert not found.stuck
    assert hidden([0.0, 9.0], np.zeros(2), 0.5, gradient=2.6).stuck
    assert not hidden([0.6, 9.0], np.zeros(2), 0.5, gradient=2.6).stuck


def test_slopes_of_rare_dummies_are_covered():
    """2% in two of seven columns: .55 of their slopes were covered, all are now.

    Of 80 slopes, in pairs, fewer than 68 with probability 1e-6 at .95.
    """
    covered, wide = [], []
    for seed in range(40):
        rng = np.random.default_rng([seed, 31])
        X = rng.normal(size=(1_500, 7))
        X[:, :2] = rng.random((1_500, 2)) < 0.02
        truth = np.array([1.0, -1.0, 0.5, 0.0, 1.0, -0.5, 0.0])
        y = X @ truth + rng.normal(size=1_500)
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1), None, dpfast.Objective("huber", scale=1.0),
            privacy=1.0, noise=dpfast.SeededNoise(seed), standardize=False,
        )  # fmt: skip
        interval = fit.conf_int()[1:]
        covered.append((interval[:2, 0] <= truth[:2]) & (truth[:2] <= interval[:2, 1]))
        wide.append(np.diff(interval)[:, 0])
        assert any("hidden" in text and "'x" in text for text in fit.warnings)
    assert np.mean(covered) >= 0.85
    wide = np.median(wide, axis=0)
    assert wide[2:].max() < 0.5 * wide[:2].min()  # noise mixes some of it into the others


def test_the_start_takes_what_it_needs():
    assert share_of_location(1e9) == 4 * LEAST_PART
    assert share_of_location(300.0) == pytest.approx(4 * 0.01)
    assert share_of_location(1.0) == share_of_location(1e-300) == 4 * MOST_PART


def test_far_responses_are_found_with_few_records():
    """n mu = 200, 500 scales away: 56% were lost, 1% now; more than 15 of 60 below 1e-6."""
    lost = 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 32])
        X = rng.normal(size=(400, 1))
        y = 500.0 + X[:, 0] + rng.normal(size=400)
        fit = dpfast.fit(
            dpfast.records(X, y, threads=1),
            None,
            dpfast.Objective("huber", scale=1.0),
            privacy=0.5,
            noise=dpfast.SeededNoise(seed),
        )
        lost += abs(fit.params[0] - 500.0) > 5.0
    assert lost <= 15
