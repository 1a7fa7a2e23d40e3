"""A tilted minimiser found to the last digits, and how it is written down (claims R37 and R38).

Functions of public constants only; proofs in ``PROOFS-release.md``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.rounding import MARGIN_500, UNIT_ROUNDOFF

Array = NDArray[np.float64]

#: A record's computed score is within this part of its bound, its predictor taken as it is.
SCORE_ERROR = 2.0**-44

#: Lengths beyond this many units of 1/(c radius) are written down by their logarithm.
KNEE = 8.0

#: What is found has a gradient of at most this many errors of a computed one.
ERRORS = 4.0

_UP = 1.0 + MARGIN_500


def knee(plan: MinimiserPlan) -> float:
    """Parameters of at most this norm are written down as they are."""
    return KNEE / (plan.c * plan.radius)


def _parts(plan: MinimiserPlan, depth: int) -> tuple[float, float]:
    """The error of a computed gradient, and what each unit of the parameter's norm adds to it."""
    u, score = UNIT_ROUNDOFF, plan.slope * plan.radius
    gamma = depth * u / (1.0 - depth * u)
    penalty = 256.0 * u * 1.01 * score * math.sqrt(plan.dimension)
    slope = 4.0 * (plan.dimension + 16) * u * plan.largest
    return (score * (2.0 * SCORE_ERROR + gamma) + penalty) * _UP, slope * _UP


def gradient_error_at(plan: MinimiserPlan, depth: int, length: float) -> float:
    """How far a computed gradient is from the exact one where the parameter has this norm (R37)."""
    fixed, slope = _parts(plan, depth)
    return min(plan.error, (fixed + slope * max(length, knee(plan))) * _UP)


def edge(plan: MinimiserPlan) -> float:
    """No compressed parameter of the box has a larger norm."""
    unit = knee(plan)
    return unit * (1.0 + math.log(max(1.0, plan.reach / unit))) * _UP


def worst(plan: MinimiserPlan, depth: int) -> float:
    """What is found, compressed, is within this of the compressed minimiser (claim R38)."""
    fixed, slope = _parts(plan, depth)
    size = edge(plan)
    error = min(plan.error, (fixed + slope * size) * (65.0 / 64.0) * _UP)
    return (ERRORS * error / plan.floor + 256.0 * UNIT_ROUNDOFF * size) * _UP


def compressed(theta: Array, unit: float) -> Array:
    """The same direction; of a length t beyond ``unit``, ``unit (1 + log(t/unit))``."""
    length = float(np.linalg.norm(theta))
    if not length > unit:
        return theta
    return theta * (unit * (1.0 + math.log(length / unit)) / length)


def expanded(value: Array, unit: float) -> Array:
    """The inverse of :func:`compressed`."""
    length = float(np.linalg.norm(value))
    if not length > unit:
        return value
    return value * (unit * math.exp(min(length / unit - 1.0, 600.0)) / length)
