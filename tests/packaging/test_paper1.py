"""The paper's algorithms as printed, which the comparisons and figures of paper 1 rest on."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from bench import printed
from bench.figures.paper1 import designs, real_data
from bench.figures.runner import Run

RADIUS = 2.0**0.5


def problems():
    rng = np.random.default_rng(0)
    X, y = designs.linear(rng, 400)
    A, b = designs.logistic(rng, 400)
    return {
        "linear": (printed.linear(X, y, 2.0, RADIUS), X, y, "huber", {"scale": 2.0}),
        "logistic": (printed.logistic(A, b, RADIUS), A, b, "logistic", {}),
    }


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_without_noise_they_find_the_exact_fit(name):
    problem, X, y, loss, options = problems()[name]
    weighted = dpfast.Objective(loss, dpfast.Mallows(RADIUS), **options)
    exact = dpfast.nonprivate_fit(X, y, weighted)
    rng, start = np.random.default_rng(1), exact.params + 0.05
    newton = printed.newton(problem, 1e9, 10, rng, start)
    step = 1.0 / problem.curvature_bound
    descent = printed.gradient_descent(problem, 1e9, 400, step, rng, start)
    for estimate in (newton, descent):
        np.testing.assert_allclose(estimate.theta, exact.params, atol=1e-6)
        np.testing.assert_allclose(estimate.corrected, exact.bse, rtol=1e-5)


def test_the_joint_score_is_a_gradient():
    rng = np.random.default_rng(2)
    problem = printed.joint(*designs.linear(rng, 50))
    theta = np.array([0.9, 1.1, 1.0, 0.8, 1.7])
    step = 1e-6
    rows = [
        (problem.gradient(theta + step * e) - problem.gradient(theta - step * e)) / (2.0 * step)
        for e in np.eye(5)
    ]
    np.testing.assert_allclose(problem.hessian(theta), rows, atol=1e-5)


def test_bounds_hold_for_every_record():
    for problem, *_ in problems().values():
        for theta in (np.zeros(4), 5.0 * np.ones(4)):
            largest = np.linalg.norm(problem.scores(theta), axis=1).max()
            assert largest <= problem.diameter / 2.0 * (1.0 + 1e-12)


def test_noise_has_the_printed_scale():
    """2,000 draws of a diagonal entry: relative standard deviation 1.6%, band 8% (5 sigma)."""
    problem = problems()["linear"][0]
    rng = np.random.default_rng(3)
    draws = np.array([printed._triangle(2.0, 0.5, problem, rng) for _ in range(2000)])
    np.testing.assert_array_equal(draws, draws.transpose(0, 2, 1))
    assert draws[:, 0, 0].std() == pytest.approx(2.0 * 2.0 / (0.5 * 400), rel=0.08)
    assert draws[:, 0, 1].std() == pytest.approx(2.0 * 2.0 / (0.5 * 400), rel=0.08)


@pytest.mark.parametrize("figure", [real_data.table_1, real_data.figure_8, real_data.figure_9])
def test_figures_without_their_data_say_so(figure, monkeypatch, tmp_path):
    monkeypatch.setenv("DPFAST_DATA", str(tmp_path))
    outcome = figure(Run("1/test", True))
    assert outcome.reproduced == "not applicable" and "DPFAST_DATA" in outcome.remark
    assert not outcome.plot
