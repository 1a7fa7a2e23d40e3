"""Attacks on claims C76 and C77: the loss of counts, through the compiled kernels.

With one record and divisor 1 a kernel returns that record's contribution.  Offsets are data: they
put any predictor beside any covariates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import differential_evolution

from dpfast.kernels.records import RecordKernel
from dpfast.models import Bounded, Clip, Mallows, MallowsLinear, Objective
from dpfast.models.poisson import Poisson
from dpfast.privacy.sensitivity import (
    COUPLINGS,
    joint_mu,
    loss_difference,
    mean_rank_one,
    mean_score,
)
from tests.loops import each

TIGHT = 0.99
CAPS = [(4.0, 10.0), (4.0, 3.0), (0.2, 1.5), (90.0, 30.0)]  # largest mean, largest residual
LOSSES = [Poisson(*caps) for caps in CAPS]
WEIGHTS = [Mallows(1.7), Bounded(1.7), MallowsLinear(1.7)]
THETA = np.array([0.3, -0.2])


def record(z, loss):
    """Variables in [0, 1] to a record: angle, length, predictor below or above the cap, count."""
    angle = 2 * np.pi * z[0]
    x = 10 ** (4 * z[1] - 2) * np.array([math.cos(angle), math.sin(angle)])
    predictor = math.log(loss.largest_mean) + math.sinh(12.0 * (z[2] - 0.5))
    mean = min(math.exp(min(predictor, 700.0)), loss.largest_mean)
    y = mean + loss.largest_residual * math.sinh(12.0 * (z[3] - 0.5))
    return x, np.array([[y, 1.0, predictor - float(x @ THETA)]])


def contribution(kernel, x, y, want):
    return kernel.sums(x[None], y, THETA, want, 1.0, 1)


#: mean at the cap, or just below it; nothing is clipped, or just so, on either side
PREDICTORS = (0.5, 0.5 - 1e-7)
#: where the curvatures' cross term pays best beside opposite scores, in claim C17
WORST = [0.5 - math.acos(t) / (2 * math.pi) for t in (0.25, 0.5, 0.625)]
STARTS = [
    [0.0, length, t, r1, angle, length, t, r2]
    for length in (0.557612,)  # of the radius
    for angle in (0.0, 0.25, 0.5, *WORST)
    for t in PREDICTORS
    for r1, r2 in ((0.0, 1.0), (0.5, 0.5), (0.5733, 0.5733), (1.0, 1.0), (0.5733, 1.0))
]


def attack(loss, distance, rounds=25):
    """Largest distance found over pairs of records at a public parameter."""

    def negative(z):
        return -distance([record(part, loss) for part in (z[:4], z[4:])])

    first = np.concatenate([np.array(STARTS), np.random.default_rng(0).random((20, 8))])
    found = differential_evolution(
        negative, [(0.0, 1.0)] * 8, init=first, maxiter=rounds, polish=False, tol=0.0, seed=1
    )
    return -float(found.fun)


@each("loss", LOSSES, ids=repr)
def test_c76_constants_are_suprema(loss):
    """Over predictors and counts of every size: bounds that hold, and are attained."""
    t = np.concatenate([np.linspace(-60.0, 60.0, 24_001), [math.log(loss.largest_mean) - 1e-9]])
    a, most = loss.largest_residual, loss.largest_mean
    scores, slopes = [], []
    for y in (-1e9, 0.0, 0.5, most, a, most + a, 2.0 * (most + a), 1e300):
        psi, slope = loss.psi(t, y), loss.psi_prime(t, y)
        scores += [psi.min(), psi.max()]
        slopes += [slope.min(), slope.max()]
        step = 1e-6
        numeric = (loss.loss(t + step, y) - loss.loss(t - step, y)) / (2 * step)
        np.testing.assert_allclose(numeric, psi, rtol=1e-5, atol=1e-5 * most)
        assert (np.diff(loss.psi(np.sort(t), y)) >= 0.0).all()  # convex
    assert min(scores) == -a
    assert min(most, a) * (1 - 1e-9) <= max(scores) <= min(most, a)
    assert min(slopes) == 0.0
    assert most * (1 - 1e-8) <= max(slopes) <= most
    assert loss.psi_bound == a
    assert loss.psi_prime_bound == most
    assert loss.coupling == loss.majorizer_coupling == "independent"
    # neither the curvature nor a part of it is comparable at neighbouring predictors
    assert loss.self_concordance == loss.psi_second_bound == math.inf


@pytest.mark.parametrize("weighting", [*WEIGHTS, Clip(1.7)], ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.values
def test_c76_scores_and_matrices(loss, weighting):
    objective = Objective(loss, weighting, 2, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    cases = [(1, 0, mean_score(objective.score_diameter, 1))]
    cases.append((4, 2, mean_rank_one(objective.meat_bound, 1, 2)))
    if objective.has_curvature:
        cases.append((2, 1, mean_rank_one(objective.curvature_bound, 1, 2)))
        cases.append((34, 1, mean_rank_one(objective.curvature_bound, 1, 2)))
    for want, part, constant in cases:

        def distance(pair, want=want, part=part):
            first, second = (contribution(kernel, x, y, want)[part] for x, y in pair)
            return float(np.linalg.norm(first - second))

        assert TIGHT * constant <= attack(loss, distance, 4) <= constant


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("weighting", [Mallows, Bounded])
@pytest.mark.values
def test_c76_scores_beside_an_intercept(loss, weighting):
    """Scores of one sign face few opposite rows: the diameter of the proof, never more than 2 B."""
    radius = 1.7
    objective = Objective(loss, weighting(radius), 1)
    kernel = RecordKernel(*objective.kernel_arguments())

    def distance(pair):
        parts = [contribution(kernel, x[:1], y, 1)[0] for x, y in pair]
        return float(np.linalg.norm(parts[0] - parts[1]))

    found = attack(loss, distance, 25)
    a, most = loss.largest_residual, loss.largest_mean
    exact = max((a + min(most, a)) * radius, 2.0 * a * math.sqrt(radius**2 - 1.0))
    assert TIGHT * exact <= found <= exact * (1 + 1e-11)
    assert exact <= mean_score(objective.score_diameter, 1)


@each("loss", LOSSES, ids=repr)
def test_c76_differences_of_losses(loss):
    objective = Objective(loss, Bounded(1.7), 2, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    new, old = np.array([0.4, 0.0]), np.zeros(2)
    found = []
    for x0, o, y in [(-1.7, 5.0, 1e9), (1.7, 5.0, 1e9), (1.7, 60.0, 0.0), (-1.7, 60.0, 0.0)]:
        offset = o + math.log(loss.largest_mean)
        y = np.array([[y, 1.0, offset]])
        found.append(kernel.loss_difference(np.array([[x0, 0.0]]), y, new, old, 1.0))
    claimed = loss_difference(objective.score_bound, 0.4, 1)
    assert TIGHT * claimed <= max(found) - min(found) <= claimed


@pytest.mark.parametrize("weighting", WEIGHTS[:2], ids=repr)
@pytest.mark.parametrize("loss", LOSSES[1:2], ids=repr)
@pytest.mark.parametrize("majorize", [False, True])
@pytest.mark.parametrize("shares", [(1.0, 1.0, 0.0), (1.0, 0.4, 0.0), (1.0, 0.4, 0.1)])
@pytest.mark.values
def test_c77_joint_release(loss, weighting, majorize, shares):
    """Gradient, curvature and meat at one parameter cost what C17 says, and no coupling's less.

    The majorising curvature is the same of all records, and C17 has one of them without any.
    """
    objective = Objective(loss, weighting, 2, fit_intercept=False)
    kernel = RecordKernel(*objective.kernel_arguments())
    mus = [math.sqrt(share) for share in shares]
    bounds = (
        2.0 * objective.score_bound,
        math.sqrt(2.0) * objective.curvature_bound,
        math.sqrt(2.0) * objective.meat_bound,
    )
    want = 39 if majorize else 7

    def distance(pair):
        first, second = (contribution(kernel, x, y, want) for x, y in pair)
        parts = zip(first, second, bounds, mus, strict=True)
        moved = [mu * float(np.linalg.norm((a - b) / bound)) for a, b, bound, mu in parts]
        return math.hypot(*moved)

    found = attack(loss, distance, 5)
    constant = joint_mu("independent", *mus)
    assert (0.93 if majorize else TIGHT) * constant <= found <= constant * (1 + 1e-11)
    dear = ("independent", "none", "narrow-logistic")  # as dear as no coupling, or dearer
    for coupling in COUPLINGS:
        if coupling not in dear and not coupling.endswith("-majorizer"):
            assert joint_mu(coupling, *mus) < found
