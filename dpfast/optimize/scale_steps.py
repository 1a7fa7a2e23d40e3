"""Newton's steps for coefficients and scale together (eq. (6), Avella-Medina et al. 2023).

Early steps majorise: weighted least squares at a fixed scale, and Huber's update of the scale at
fixed coefficients (Huber 1981, section 7.8), on its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpfast.arguments import Array
from dpfast.curator import JointAnswer
from dpfast.kernels.linalg import capped_step, floored_step
from dpfast.models import Objective

#: Largest factor by which a step raises the scale, and by which it lowers it.  A scale that is too
#: large comes down in one step if noise is small; one that is too small needs several.
MAX_INCREASE = 3.0
MAX_DECREASE = 10.0

#: Share of the records' weights below which the scale's majorising curvature is not believed: a
#: smaller one would be noise, and the step would be as long as is allowed.
MIN_WEIGHT = 0.05

#: Standard deviations by which the last score points out of the interval before a fit warns: below,
#: noise and sampling explain it.
OUTSIDE_SDS = 4.0

#: Relative distance from an end of the interval that is rounding.
END_TOLERANCE = 1e-9

OUTSIDE = (
    "the residual scale is beyond the end of its public interval, where it was left: its own "
    "interval does not cover. Pass a wider dpfast.FreeScale."
)


def majorized(
    objective: Objective, theta: Array, gradient: Array, answer: JointAnswer, floor: float
) -> tuple[Array, Array, Array]:
    """Compute a majorising step, in the coefficients at this scale and in the scale at these.

    Returns
    -------
    direction : ndarray of shape (q + 1,)
        Subtracted from the parameter by a full step.
    eigenvalues : ndarray of shape (q + 1,)
    inverse : ndarray of shape (q + 1, q + 1)
        Inverse of the curvature that was used.
    """
    joint = objective.free_scale
    assert joint is not None
    curvature, noise_scale, _ = answer.hessian
    q = len(theta) - 1
    slope = np.ascontiguousarray(gradient[:q])
    direction, values, block = floored_step(
        np.ascontiguousarray(curvature[:q, :q]), slope, max(floor, 2.0 * noise_scale * q**0.5)
    )
    # Where the scale is far too large, the gradient is small beside its noise.  Full steps would
    # then carry the coefficients away by a part of that scale.
    noise = q * answer.gradient.noise_scale**2
    signal = max(0.0, 1.0 - noise / float(slope @ slope))
    corner = max(
        float(curvature[q, q]), MIN_WEIGHT * largest_corner(objective, theta), 2.0 * noise_scale
    )
    change = huber_update(float(theta[q]), float(gradient[q]), corner)
    inverse = np.zeros((q + 1, q + 1))
    inverse[:q, :q] = block
    inverse[q, q] = 1.0 / corner
    return np.append(signal * direction, -change * theta[q]), np.append(values, corner), inverse


def largest_corner(objective: Objective, theta: Array) -> float:
    """Bound the scale's majorising curvature: it is this where all records have weight one."""
    joint = objective.free_scale
    assert joint is not None
    return joint.kappa * joint.factor**2 / objective.scale_at(theta)


def huber_update(scale: float, slope: float, corner: float) -> float:
    """Return the change of the scale's logarithm by Huber's update, within its longest step."""
    # 1 - 2 q / (kappa w): the mean of 2 w chi over its target
    squared = 1.0 - 2.0 * slope / (corner * scale)
    return 0.5 * math.log(min(max(squared, MAX_DECREASE**-2), MAX_INCREASE**2))


def within(
    objective: Objective, theta: Array, slope: Array, hessian: Array, floor: float
) -> tuple[Array, Array, Array]:
    """Compute Newton's step, of the coefficients alone where the scale would leave its interval.

    It returns the direction, eigenvalues and inverse, as :func:`majorized` does.
    """
    solution: tuple[Array, Array, Array] = floored_step(hessian, slope, floor)
    if not _leaves(objective, theta, float(solution[0][-1])):
        return solution
    q = len(theta) - 1
    coefficients_hessian = np.ascontiguousarray(hessian[:q, :q])
    coefficients_slope = np.ascontiguousarray(slope[:q])
    direction, values, block = floored_step(coefficients_hessian, coefficients_slope, floor)
    inverse = np.zeros((q + 1, q + 1))
    inverse[:q, :q] = block
    return np.append(direction, 0.0), values, inverse


def _leaves(objective: Objective, theta: Array, change: float) -> bool:
    """Return True if the scale, lowered where ``change`` is positive, would leave its interval."""
    free = objective.free_scale
    scale = objective.scale_at(theta)
    assert free is not None
    if change > 0.0:
        return scale <= free.low * (1.0 + END_TOLERANCE)
    return scale >= free.high * (1.0 - END_TOLERANCE)


def moved(objective: Objective, theta: Array, step: Array, longest: float) -> Array:
    """Take a step, the scale's on the logarithm."""
    change = -float(step[-1] / theta[-1])
    exponent = min(max(change, -math.log(MAX_DECREASE)), math.log(MAX_INCREASE))
    beta = capped_step(theta[:-1], step[:-1], 1.0, longest)
    return objective.project(np.append(beta, theta[-1] * math.exp(exponent)))


def outside(objective: Objective, n: int, iterates: Sequence[Array], final: JointAnswer) -> bool:
    """Test whether the last score puts the scale beyond the end where it stopped."""
    slope = float(final.gradient.value[-1])
    if objective.free_scale is None:
        return False
    if not all(_leaves(objective, theta, slope) for theta in iterates[-2:]):
        return False
    sampling = max(0.0, float(final.meat.value[-1, -1])) / n
    return abs(slope) > OUTSIDE_SDS * math.sqrt(final.gradient.noise_scale**2 + sampling)
