"""How far off a residual scale is, from one released score, and a start from the response alone."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import JointAnswer
from dpfast.models import FreeScale, Objective
from dpfast.optimize.adaptive.start import LARGEST_SCALE
from dpfast.optimize.budgets import divided
from dpfast.optimize.protocol import Answers

#: Answers about constant and scale, at most.
MOST_ANSWERS = 8

#: How much wider than its upper bound the scale about a constant may be.
WIDER = 1e3

#: Steps on the logarithm of the scale, and of the constant in scales, that are the last.
SETTLED, NEAR = 0.5, 1.0

#: Power of the ratio: near the solution a score of normal residuals tells 1.25 times its logarithm,
#: one of residuals all of one size 2.3 times.
DAMPED = 0.8

#: Mean weights of the records below this are taken for noise.
LEAST_WEIGHT = 0.05

#: Most that one score multiplies or divides the scale by.
MOST_RATIO = 30.0


def scale_ratio(
    objective: Objective, theta: NDArray[np.float64], answer: JointAnswer
) -> tuple[float, float, float]:
    """What the scale is to be multiplied by, its logarithm's standard deviation, and the score's.

    The last is how many standard deviations of the noise the score is from zero.

    From a score and the majorising curvature.  The mean v of ``chi(r / sigma)``, relative to its
    supremum, is v0 at the solution.  It is of the order of the squared residuals where these are
    small, and short of 1 by the order of their inverse where they are large:
    ``sqrt(v / v0) (1 - v0) / (1 - v)`` is right at both ends and at the solution, so one step leads
    near from any distance that the noise resolves.  What may be noise is left out: far up the ratio
    bends, and noise alone would drive the scale there.
    """
    free, part = objective.free_scale, objective.loss.scale_part
    assert free is not None and part is not None
    most, scale = part.chi * objective.loss.c**2, objective.scale_at(theta)
    # the mean weight is at most 1; a little too much of it makes for a shorter step
    weight = float(answer.hessian.value[-1, -1]) + 2.0 * answer.hessian.noise_scale
    weight *= scale / (free.kappa * free.factor**2)
    unit = free.factor * most * (min(weight, 1.0) if weight > LEAST_WEIGHT else 1.0)
    target = 0.5 * free.kappa / most
    noise = answer.gradient.noise_scale / unit
    apart = float(answer.gradient.value[-1]) / unit
    seen = target - apart * _signal(apart, noise)
    seen = max(seen, min(noise, 0.25 * target))
    seen = 1.0 - max(1.0 - seen, min(2.0 * noise, 0.5 * (1.0 - target)))
    ratio = (math.sqrt(seen / target) * (1.0 - target) / (1.0 - seen)) ** DAMPED
    lowest, highest = max(free.low / scale, 1.0 / MOST_RATIO), min(free.high / scale, MOST_RATIO)
    ratio = min(max(ratio, lowest), highest)
    return ratio, DAMPED * noise * (0.5 / seen + 1.0 / (1.0 - seen)), abs(apart) / noise


def _signal(seen: float, noise: float) -> float:
    """What part of a number is not noise, by its square."""
    return max(0.0, 1.0 - (noise / seen) * (noise / seen)) if seen else 0.0


def released_location(answers: Answers, mu: float) -> tuple[float, float, float]:
    """Where the response is, its scale about that, and the part of ``mu^2`` it took.

    Majorising steps of a constant and its scale, which may be as large as the response is far:
    the noise of a step is a small part of the scale of the moment, so nothing is lost where the
    start is near.

    Charges the ledger behind the answers (claims C34, C35 and C37 with one coefficient).
    """
    free = answers.objective.free_scale
    assert free is not None
    widest = min(free.high * WIDER, LARGEST_SCALE)
    constant = answers.constant_term(FreeScale(free.low, widest, free.start))
    objective = constant.objective
    assert objective.free_scale is not None
    theta = np.array([0.0, free.start / objective.free_scale.factor])
    part, spent = 1.0 / MOST_ANSWERS, 0.0
    budget = divided(objective, mu * part**0.5, "majorizer")
    for _ in range(MOST_ANSWERS):
        answer, spent = constant.joint(theta, budget), spent + part
        gradient, curvature, _, _ = answer
        slope, noise = float(gradient.value[0]), gradient.noise_scale
        floored = max(float(curvature.value[0, 0]), 4.0 * curvature.noise_scale)
        move = slope / floored * _signal(slope, noise)
        ratio, _, _ = scale_ratio(objective, theta, answer)
        scale = objective.scale_at(theta)
        theta = objective.project(np.array([theta[0] - move, theta[1] * ratio]))
        if abs(math.log(ratio)) < SETTLED and abs(move) < NEAR * scale:
            break
    return float(theta[0]), objective.scale_at(theta), spent
