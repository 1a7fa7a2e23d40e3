"""A released start of the intercept, for a small part of the budget.

Where the response is far from zero, relative to the scale, or nearly always the same, steps of all
coefficients together take long to get near and learn little on the way; the constant term alone is
a model of one parameter, which costs next to nothing to fit.
"""

from __future__ import annotations

import math

import numpy as np

from dpfast.optimize.budgets import divided
from dpfast.optimize.protocol import Answers

#: Answers about the constant of a loss with a scale, or of counts, at most.
MOST_ANSWERS = 4

#: Of an objective.
LARGEST_SCALE = 1e100

#: How far, in logs of a mean, the next answer about counts is where one shows no curvature.
LEAP = 3.0

#: n mu of an answer about the constant that lands near, least and most it may take of ``mu^2``.
SIGNAL, LEAST_PART, MOST_PART = 30.0, 0.005, 0.02

#: Scales of a step above which noise may have shortened it, so that the next is at a wider scale.
FAR = 5.0

#: Below this n mu a step on the ladder may end further off than it began.
LEAST_SIGNAL = 20.0


def share_of_location(n_mu: float) -> float:
    """Part of ``mu^2`` that the start of a loss with a scale may take, from ``n mu``: public."""
    needed = SIGNAL / n_mu
    return MOST_ANSWERS * min(max(needed * needed, LEAST_PART), MOST_PART)


def released_intercept(answers: Answers, mu: float) -> tuple[float, float]:
    """Where the constant term is, roughly, and the part of ``mu^2`` it took to learn that.

    Zero for nothing where that cannot be told.

    Charges the ledger behind the answers (claims C13, C14 and C17 to C19 with one parameter).
    """
    if answers.objective.loss.binary_response:
        return _log_odds(answers, mu), 1.0
    if answers.objective.loss.link == "log":
        return _log_mean(answers, mu)
    return _location(answers, mu)


def _log_odds(answers: Answers, mu: float) -> float:
    """Log odds of the released share of ones, kept away from 0 and 1 by its noise."""
    constant = answers.constant_term(None)
    answer = constant.joint(np.zeros(1), divided(constant.objective, mu, None)).gradient
    share = 0.5 - float(answer.value[0])
    least = min(0.5, max(3.0 * answer.noise_scale, 0.5 / answers.n))
    share = min(max(share, least), 1.0 - least)
    return math.log(share / (1.0 - share))


def _log_mean(answers: Answers, mu: float) -> tuple[float, float]:
    """Log of the mean count, of a unit of exposure: the mean at a constant is known up to noise.

    At half the largest mean few residuals are clipped, and curvature less slope is the mean of the
    counts, curvature that of their means.  Where noise hides the curvature exposures are so long,
    or so short, that the means are beyond the cap or next to nothing.
    """
    mu /= MOST_ANSWERS**0.5
    constant, theta = answers.constant_term(None), np.zeros(1)
    theta[0] = constant.objective.loss.start
    budget = divided(constant.objective, mu, "hessian")
    asked = 0
    while asked < MOST_ANSWERS:
        asked += 1
        gradient, curvature, _, _ = constant.joint(theta, budget)
        slope, mean = float(gradient.value[0]), float(curvature.value[0, 0])
        if mean > 4.0 * curvature.noise_scale:
            noise = math.hypot(gradient.noise_scale, curvature.noise_scale)
            move = max(math.log(max(mean - slope, 2.0 * noise) / mean), -LEAP)
        else:
            move = -math.copysign(LEAP, slope)
        theta[0] += move
        if abs(move) < 1.0:
            break
    return float(theta[0]), asked / MOST_ANSWERS


def _location(answers: Answers, mu: float) -> tuple[float, float]:
    """A majorising step at a wide scale, which lands near from anywhere, then at narrower ones.

    The noise of a step is a small part of its scale.  The slopes must not move: along weakly
    determined directions a wide scale's noise is beyond repair.
    """
    mu /= MOST_ANSWERS**0.5
    theta = np.zeros(1)
    if answers.n * mu < LEAST_SIGNAL:
        return 0.0, 0.0

    def step(exponent: float) -> float:
        """Move; how far, in units of the step's scale, infinite where that is not known.

        Near the location the curvature is nearly 1: noise that hides it says that it is far away.
        """
        scale = min(answers.objective.scale * 10.0**exponent, LARGEST_SCALE)
        constant = answers.constant_term(scale)
        budget = divided(constant.objective, mu, "majorizer")
        gradient, curvature, _, _ = constant.joint(theta, budget)
        seen, least = float(curvature.value[0, 0]), 4.0 * curvature.noise_scale
        move = float(gradient.value[0]) / max(seen, least)
        theta[0] -= move
        return abs(move) / scale if seen > least else math.inf

    far = step(1.5)
    if far > FAR:
        step(3.0)
        step(2.0)  # where the noise of the step before is within reach
    step(0.75 if far > 1.0 else 0.5)
    return float(theta[0]), (4.0 if far > FAR else 2.0) / MOST_ANSWERS
