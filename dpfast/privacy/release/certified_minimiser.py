"""Accuracy of a certified minimiser for every data set: claims R20, R21, R37 and R38.

A public penalty, ``stiffness/rate^2 sum_j (cosh(rate theta_j) - 1)``, gives every data set a
minimiser in a public box, which floating point resolves to a public tolerance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput
from dpfast.privacy.release.sensitivity import eigenvalue_step, parameter_shift
from dpfast.privacy.rounding import (
    ROUNDING_ELEMENTARY,
    ROUNDING_FORMULA,
    ROUNDING_SUM,
    UNIT_ROUNDOFF,
)
from dpfast.privacy.sensitivity import RECORD_ERROR, check_constants

Array = NDArray[np.float64]

_UP = 1.0 + ROUNDING_ELEMENTARY

#: Step of the eigenvalue over the penalty's stiffness, where rounding allows it; less where not.
MAX_LEVELS = 256

#: Tolerance of the gradient relative to half of what replacing one record can do to it.
RELATIVE_TOLERANCE = 1e-6

#: Relative error of a record's computed score at its computed predictor.
SCORE_ERROR = 2.0**-44

#: Length of a parameter, in units of 1/(c radius), above which its logarithm is released.
KNEE = 8.0

#: Bound on the gradient at the computed point, in errors of a computed gradient.
ERRORS = 4.0


def gradient_error(
    score_bound: float, smoothness: float, reach: float, dimension: int, depth: int
) -> float:
    """Bound the distance of a computed penalised gradient from the exact one (claim R21)."""
    check_constants(
        score_bound=score_bound, smoothness=smoothness, reach=reach, dimension=dimension
    )
    gamma = depth * UNIT_ROUNDOFF / (1.0 - depth * UNIT_ROUNDOFF)
    products = 4.0 * (dimension + 16) * UNIT_ROUNDOFF
    return (score_bound * (2.0 * RECORD_ERROR + gamma) + products * smoothness * reach) * (
        1.0 + ROUNDING_FORMULA
    )


class MinimiserPlan(NamedTuple):
    """Public constants of a certified minimiser (claims R20 and R21)."""

    n: int
    dimension: int
    #: c, slope, radius: Self-concordance ``|h'''| <= c h''`` and bound ``|h'|`` of a record's loss
    #: as a function of its linear predictor; bound on the norm of a row.
    c: float
    slope: float
    radius: float
    #: The caller's penalty is ``ridge/2 ||theta||^2``.
    ridge: float
    #: stiffness, rate: The public penalty, see the module.
    stiffness: float
    rate: float
    #: Every coordinate of every minimiser is at most this.
    box: float
    #: Sensitivity of the smallest eigenvalue of the Hessian at the minimiser.
    step: float
    #: error, hessian_error: How far a computed gradient (Euclidean norm) and Hessian (spectral
    #: norm) inside of the box are from the exact ones, eigenvalues of the latter included.
    error: float
    hessian_error: float
    #: The point found has an exact gradient of at most this norm, whatever the records.
    tolerance: float
    #: The eigenvalue found is within this of the one at the minimiser.
    eta: float
    #: As :func:`~dpfast.privacy.release.sensitivity.functional_factors` takes it.
    solver_error: float
    #: Bound on the largest eigenvalue of the Hessian.
    largest: float

    @property
    def claim(self) -> str:
        """Claim that proves the shift of the parameter."""
        return "R4"

    @property
    def floor(self) -> float:
        """Lower bound of the smallest eigenvalue of the Hessian."""
        return (self.ridge + self.stiffness) * (1.0 - ROUNDING_SUM)

    @property
    def reach(self) -> float:
        """Bound on the norm of every point of the box."""
        return self.box * math.sqrt(self.dimension) * _UP

    def distance(self, l0: float) -> float:
        """Bound the distance of the computed point from the minimiser, from l0 (claim R21)."""
        return 1.2 * self.tolerance / max((l0 - self.step) * (1.0 - 1e-9), self.floor)

    def shift(self, l0: float) -> float:
        """Bound the shift of the computed point if the eigenvalue is at least l0 (R4, R21)."""
        moved = parameter_shift(l0, self.ridge, self.c, self.slope, self.radius, self.n)
        return (moved + 2.0 * self.distance(l0)) * (1.0 + ROUNDING_FORMULA)


def minimiser_plan(
    *, c: float, slope: float, radius: float, n: int, **others: Any
) -> MinimiserPlan:
    """Choose tolerances that the search keeps for every data set (claims R20 and R21)."""
    step = eigenvalue_step(c, slope, radius, n)
    levels = float(MAX_LEVELS)
    while levels >= 1.0:
        plan = _plan(step, levels, c=c, slope=slope, radius=radius, n=n, **others)
        allowed = plan.floor / 16.0
        if c * radius * plan.tolerance <= allowed and plan.hessian_error <= allowed:
            return plan
        levels *= 0.5
    raise InvalidInput(
        f"rounding of sums of n = {n} records in {plan.dimension} dimensions could hide what one "
        "record does to the minimiser. Pass ridge=..., a larger public penalty, or use dpfast.fit."
    )


def _plan(
    step: float,
    levels: float,
    *,
    c: float,
    slope: float,
    curvature: float,
    third: float,
    radius: float,
    n: int,
    dimension: int,
    ridge: float,
    depth: int,
) -> MinimiserPlan:
    u = UNIT_ROUNDOFF
    rate = c * radius / levels * (1.0 - ROUNDING_SUM)  # at most c radius, in particular
    stiffness = step / levels
    score = slope * radius
    # the penalty's force stiffness/rate sinh(rate t) equals the largest mean score at the edge
    box = math.asinh(score * rate / stiffness * (1.0 + 1e-9)) / rate * (1.0 + 1e-9)
    reach = box * math.sqrt(dimension) * _UP
    force = 1.01 * score * math.sqrt(dimension)
    penalty_curvature = stiffness * math.cosh(rate * box) * (1.0 + 1e-9)
    bound = curvature * radius * radius * (1.0 + 1e-11)
    error = gradient_error(score, bound + ridge, reach, dimension, depth) + 256.0 * u * force
    gamma = depth * u / (1.0 - depth * u)
    largest = (bound + ridge + penalty_curvature) * _UP
    predictor = 4.0 * (dimension + 16) * u * radius * reach
    hessian_error = _UP * (
        bound * (2.0 * RECORD_ERROR + gamma)
        + third * radius * radius * predictor
        + 256.0 * u * (penalty_curvature + ridge)
        + 64.0 * dimension * u * largest
    )
    score_shift = step / (c * radius)  # 2 B1 radius/n, one record's effect on the mean score
    tolerance = max(RELATIVE_TOLERANCE * score_shift, 4.0 * error)
    slack = c * radius * tolerance
    return MinimiserPlan(
        n=n,
        dimension=dimension,
        c=c,
        slope=slope,
        radius=radius,
        ridge=ridge,
        stiffness=stiffness,
        rate=rate,
        box=box,
        step=step,
        error=error,
        hessian_error=hessian_error,
        tolerance=tolerance,
        eta=1.1 * slack + hessian_error,
        solver_error=1.6 * (slack + hessian_error) / step,
        largest=largest,
    )


# ---- to the last digits --------------------------------------------------------------------------


def knee(plan: MinimiserPlan) -> float:
    """Return the norm up to which parameters are not compressed."""
    return KNEE / (plan.c * plan.radius)


def _parts(plan: MinimiserPlan, depth: int) -> tuple[float, float]:
    """Bound a computed gradient's error by a constant and a multiple of the parameter's norm."""
    u, score = UNIT_ROUNDOFF, plan.slope * plan.radius
    gamma = depth * u / (1.0 - depth * u)
    penalty = 256.0 * u * 1.01 * score * math.sqrt(plan.dimension)
    slope = 4.0 * (plan.dimension + 16) * u * plan.largest
    return (score * (2.0 * SCORE_ERROR + gamma) + penalty) * _UP, slope * _UP


def gradient_error_at(plan: MinimiserPlan, depth: int, length: float) -> float:
    """Bound the error of a computed gradient at a parameter of this norm (claim R37)."""
    fixed, slope = _parts(plan, depth)
    return min(plan.error, (fixed + slope * max(length, knee(plan))) * _UP)


def edge(plan: MinimiserPlan) -> float:
    """Bound the norm of a compressed parameter of the box."""
    threshold = knee(plan)
    return threshold * (1.0 + math.log(max(1.0, plan.reach / threshold))) * _UP


def worst(plan: MinimiserPlan, depth: int) -> float:
    """Bound the compressed solution's distance from the compressed minimiser (claim R38)."""
    fixed, slope = _parts(plan, depth)
    size = edge(plan)
    error = min(plan.error, (fixed + slope * size) * (65.0 / 64.0) * _UP)
    return (ERRORS * error / plan.floor + 256.0 * UNIT_ROUNDOFF * size) * _UP


def compressed(theta: Array, threshold: float) -> Array:
    """Shorten a vector of length t beyond ``unit`` to ``unit (1 + log(t/unit))``."""
    length = float(np.linalg.norm(theta))
    if not length > threshold:
        return theta
    return theta * (threshold * (1.0 + math.log(length / threshold)) / length)


def expanded(value: Array, threshold: float) -> Array:
    """Invert :func:`compressed`."""
    length = float(np.linalg.norm(value))
    if not length > threshold:
        return value
    return value * (threshold * math.exp(min(length / threshold - 1.0, 600.0)) / length)
