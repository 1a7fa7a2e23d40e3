"""Attacks on claim C93: losses of a predictor that have no constant, through the kernels.

With one record and divisor 1 a kernel returns that record's contribution.  Offsets are data: they
put any predictor beside any covariates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpfast.kernels.records import RecordKernel
from dpfast.models import Bounded, Clip, Gamma, Mallows, MallowsLinear, Objective, Probit
from dpfast.privacy.sensitivity import loss_difference, mean_rank_one, mean_score
from tests.loops import each

TIGHT = 0.99
LOSSES = [Gamma(), Probit()]
WEIGHTS = [Mallows(1.7), Bounded(1.7), MallowsLinear(1.7), Clip(1.7)]
THETA = np.array([0.3, -0.2])


def predictors_and_responses(loss):
    """Where scores and curvatures are largest, and beyond."""
    if loss.binary_response:
        return [(t, y) for t in (-1e200, -1e61, -1e30, -5.0, 0.0, 5.0, 1e61) for y in (0.0, 1.0)]
    ratios = [0.0, 1e-9, 1.0, 0.5 * loss.c, loss.c * (1.0 - 1e-9), 2.0 * loss.c, 1e300]
    return [(t, ratio * math.exp(t)) for t in (-300.0, -1.0, 0.0, 9.0) for ratio in ratios]


def contributions(loss, weighting, want, part):
    """Of single records with rows of every length and direction."""
    objective = Objective(loss, weighting, 2, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    rows = [
        size * np.array([math.cos(angle), math.sin(angle)])
        for angle in (0.0, 0.5 * math.pi, math.pi)
        for size in (1e-3, 0.5, 1.7, 30.0)
    ]
    found = []
    for x in rows:
        for t, y in predictors_and_responses(loss):
            response = np.array([[y, 1.0, t - float(x @ THETA)]])
            found.append(kernel.sums(x[None], response, THETA, want, 1.0, 1)[part])
    return objective, found


def farthest(found):
    flat = np.array([np.ravel(one) for one in found])
    size = np.abs(flat).max()
    flat = flat / size
    return size * max(float(np.linalg.norm(flat - one, axis=1).max()) for one in flat)


@each("loss", LOSSES, ids=repr)
@each("weighting", WEIGHTS, ids=repr)
def test_c93_scores_and_matrices(loss, weighting):
    objective, scores = contributions(loss, weighting, 1, 0)
    constant = mean_score(objective.score_diameter, 1)
    assert TIGHT * constant <= farthest(scores) <= constant
    _, meats = contributions(loss, weighting, 4, 2)
    constant = mean_rank_one(objective.meat_bound, 1, 2)
    assert TIGHT * constant <= farthest(meats) <= constant
    if objective.has_curvature:
        for want in (2, 34):
            _, curvatures = contributions(loss, weighting, want, 1)
            constant = mean_rank_one(objective.curvature_bound, 1, 2)
            assert TIGHT * constant <= farthest(curvatures) <= constant


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_c93_constants_and_differences(loss):
    objective = Objective(loss, Mallows(1.7), 2, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    new, old = np.array([0.4, -0.2]), THETA
    limit = loss_difference(objective.score_bound, 0.1, 1)
    found = []
    for t, y in predictors_and_responses(loss):
        for x in (np.array([1.7, 0.0]), np.array([-1.7, 0.0])):
            response = np.array([[y, 1.0, t - float(x @ old)]])
            found.append(kernel.loss_difference(x[None], response, new, old, 1.0))
            score, slope = (
                float(np.asarray(function(t, y))) for function in (loss.psi, loss.psi_prime)
            )
            assert abs(score) <= loss.psi_bound
            assert 0.0 <= slope <= loss.psi_prime_bound
    assert max(found) - min(found) <= limit * (1.0 + 1e-12)
    # predictors of 1e60, where a probit score is as long as that, do not see so short a step
    assert loss.binary_response or max(found) - min(found) >= TIGHT * limit
    assert loss.coupling == loss.majorizer_coupling == "independent"
    assert loss.self_concordance == loss.psi_second_bound == math.inf
