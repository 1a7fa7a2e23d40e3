"""Newton's steps for coefficients and scale together (eq. (6), Avella-Medina et al. 2023).

Early ones majorise: weighted least squares at a fixed scale, and Huber's update of the scale at
fixed coefficients (Huber 1981, section 7.8), on its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import JointAnswer
from dpfast.kernels.linalg import capped_step, floored_step
from dpfast.models import Objective

Array = NDArray[np.float64]

#: Most a step may multiply the scale by, and most a majorising step may divide it by: a scale that
#: is too large comes down in one step, noise permitting.
MOST_RATIO = 3.0
MOST_DECREASE = 10.0

#: Least share of the records' weights taken to be behind the scale's majorising curvature.
LEAST_WEIGHT = 0.05

#: Standard deviations by which a score points out of the interval before it is said.
BEYOND = 4.0

#: Relative distance from an end of the interval that is rounding.
AT_END = 1e-9

OUTSIDE = (
    "the residual scale is beyond the end of its public interval, where it was left: its own "
    "interval does not cover. Pass a wider dpfast.FreeScale."
)


def majorized(
    objective: Objective, theta: Array, gradient: Array, answer: JointAnswer, floor: float
) -> tuple[Array, Array, Array]:
    """A step in beta at this scale and one in the scale at this beta; eigenvalues and inverse."""
    joint = objective.free_scale
    assert joint is not None
    curvature, noise_scale, _ = answer.hessian
    q = len(theta) - 1
    slope = np.ascontiguousarray(gradient[:q])
    direction, values, block = floored_step(
        np.ascontiguousarray(curvature[:q, :q]), slope, max(floor, 2.0 * noise_scale * q**0.5)
    )
    # The gradient is small beside its noise where the scale is far too large, and full steps
    # would then carry beta away by a part of that scale.
    noise = q * answer.gradient.noise_scale**2
    signal = max(0.0, 1.0 - noise / float(slope @ slope))
    most = joint.kappa * joint.factor**2 / objective.scale_at(theta)
    corner = max(float(curvature[q, q]), LEAST_WEIGHT * most, 2.0 * noise_scale)
    # 1 - 2 q / (kappa w): the mean of 2 w chi over its target
    squared = 1.0 - 2.0 * float(gradient[q]) / (corner * float(theta[q]))
    change = 0.5 * math.log(min(max(squared, MOST_DECREASE**-2), MOST_RATIO**2))
    inverse = np.zeros((q + 1, q + 1))
    inverse[:q, :q], inverse[q, q] = block, 1.0 / corner
    return np.append(signal * direction, -change * theta[q]), np.append(values, corner), inverse


def within(
    objective: Objective, theta: Array, slope: Array, hessian: Array, floor: float
) -> tuple[Array, Array, Array]:
    """Newton's step; of the coefficients alone where the scale would leave its interval."""
    found: tuple[Array, Array, Array] = floored_step(hessian, slope, floor)
    if not _leaves(objective, theta, float(found[0][-1])):
        return found
    q = len(theta) - 1
    inner, outer = np.ascontiguousarray(hessian[:q, :q]), np.ascontiguousarray(slope[:q])
    direction, values, block = floored_step(inner, outer, floor)
    inverse = np.zeros((q + 1, q + 1))
    inverse[:q, :q] = block
    return np.append(direction, 0.0), values, inverse


def _leaves(objective: Objective, theta: Array, change: float) -> bool:
    """Whether the scale, lowered where ``change`` is positive, would leave its interval."""
    free, scale = objective.free_scale, objective.scale_at(theta)
    assert free is not None
    if change > 0.0:
        return scale <= free.low * (1.0 + AT_END)
    return scale >= free.high * (1.0 - AT_END)


def moved(objective: Objective, theta: Array, step: Array, longest: float) -> Array:
    """Where a step leads, the scale's on the logarithm."""
    most = math.log(MOST_RATIO)
    exponent = min(max(-float(step[-1] / theta[-1]), -math.log(MOST_DECREASE)), most)
    beta = capped_step(theta[:-1], step[:-1], 1.0, longest)
    return objective.project(np.append(beta, theta[-1] * math.exp(exponent)))


def outside(objective: Objective, n: int, iterates: Sequence[Array], final: JointAnswer) -> bool:
    """Whether the last score says that the scale is beyond the end it has stopped at."""
    slope = float(final.gradient.value[-1])
    if objective.free_scale is None:
        return False
    if not all(_leaves(objective, theta, slope) for theta in iterates[-2:]):
        return False
    sampling = max(0.0, float(final.meat.value[-1, -1])) / n
    return abs(slope) > BEYOND * math.sqrt(final.gradient.noise_scale**2 + sampling)
