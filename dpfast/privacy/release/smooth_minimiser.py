"""Minimisers of convex losses with a Lipschitz Hessian: claims R25 to R27.

Algorithm 7 of paper 3: what is certified and released is the point the search *found*, whose
gradient is within a public tolerance of zero; proofs in ``PROOFS-release.md``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dpfast.errors import InvalidInput
from dpfast.privacy.release.certified_minimiser import (
    MAX_LEVELS,
    RELATIVE_TOLERANCE,
    gradient_error,
)
from dpfast.privacy.release.sensitivity import ROWS
from dpfast.privacy.rounding import (
    ROUNDING_ELEMENTARY,
    ROUNDING_FORMULA,
    ROUNDING_SUM,
    UNIT_ROUNDOFF,
)
from dpfast.privacy.sensitivity import RECORD_ERROR

_UP = 1.0 + ROUNDING_ELEMENTARY

#: Smallest tolerance, in errors of a computed gradient (claim R25).
ERRORS = 50.0

#: Largest tolerances, relative to the gradient's change when one record is replaced.  Above the
#: first the penalty is made stiffer; the second is used if no penalty reaches the first.
MAX_TOLERANCES = (1e-2, 0.1)


#: Margin of the search's box around the level set at zero, in units of a score over the rate.
SLACK = 1e-3


class SmoothPlan(NamedTuple):
    """Public constants of the search and of what follows from the point found."""

    #: ``depth`` is the largest number of sequential roundings of the sums.
    n: int
    dimension: int
    depth: int
    #: slope, curvature, third: bounds of ``|h'|``, ``h''`` and ``|h'''|`` of a record's loss as a
    #: function of its linear predictor.
    slope: float
    curvature: float
    third: float
    #: Bound of ``|r h'''|``, r the residual: what a relative rounding of r does to the curvature.
    stretch: float
    #: Bound on the norm of a row.
    radius: float
    #: The caller's penalty is ``ridge/2 ||theta||^2``.
    ridge: float
    #: stiffness, rate: the public penalty is ``stiffness/rate^2 sum_j (cosh(rate theta_j) - 1)``.
    stiffness: float
    rate: float
    #: Every coordinate of every point of the search is at most this.
    box: float
    #: By how much the Hessian of records and penalty can fall per unit of distance from the point
    #: found.
    lipschitz: float
    #: search_lipschitz, top: Lipschitz constant of the Hessian, and bound of the gradient,
    #: wherever the search goes.
    search_lipschitz: float
    top: float
    #: error, hessian_error: how far a computed gradient and a computed Hessian are from the exact
    #: ones.
    error: float
    hessian_error: float
    #: The point found has an exact gradient of at most this norm, whatever the records.
    tolerance: float
    #: The search has ended after this many steps (claim R25).
    most_steps: int

    @property
    def claim(self) -> str:
        """Claim that proves the shift of the parameter."""
        return "R26"

    @property
    def eta(self) -> float:
        """Bound on the error of the computed eigenvalue of the Hessian at the computed point."""
        return self.hessian_error

    @property
    def floor(self) -> float:
        """Lower bound of the smallest eigenvalue of the Hessian."""
        return (self.ridge + self.stiffness) * (1.0 - ROUNDING_SUM)

    @property
    def gradient_bound(self) -> float:
        """Bound of a record's gradient, with what the solver may leave of the mean (claim R26)."""
        return (self.slope * self.radius * ROWS + self.n * self.tolerance) * _UP

    @property
    def hessian_bound(self) -> float:
        """Bound of a record's Hessian."""
        return self.curvature * self.radius * self.radius * ROWS * _UP

    @property
    def step(self) -> float:
        """Sensitivity of the smallest eigenvalue at the point found (claim R26)."""
        gone = self.hessian_bound / self.n
        return (math.sqrt(4.0 * self.gradient_bound * self.lipschitz / self.n) + gone) * _UP

    def shift(self, l0: float) -> float:
        """Bound the shift of the computed point if its eigenvalue is at least l0 (claim R26)."""
        push = 2.0 * self.gradient_bound / self.n * _UP
        return smooth_shift(l0, self.ridge, self.lipschitz, push)


def smooth_shift(l0: float, lreg: float, lipschitz: float, push: float) -> float:
    """Bound the distance at which a gradient can have grown by ``push`` (claim R26), up."""
    start = l0 * (1.0 - ROUNDING_FORMULA) if l0 > lreg else lreg  # NaN certifies nothing
    falling = 2.0 * lipschitz * push * _UP
    rest = start * start * (1.0 - ROUNDING_FORMULA) - falling
    if rest >= lreg * lreg and rest > 0.0:
        return 2.0 * push / (start + math.sqrt(rest)) * _UP
    if not lreg > 0.0:
        return math.inf
    # the curvature has fallen to the ridge before; (x - y)(x + y) keeps the digits
    flat = (start - lreg) / lipschitz
    gained = (start - lreg) * (start + lreg) / (2.0 * lipschitz) * (1.0 - ROUNDING_FORMULA)
    missing = push - gained
    return (flat + max(missing, 0.0) / lreg) * _UP


def smooth_minimiser_plan(*, slope: float, radius: float, n: int, **others: Any) -> SmoothPlan:
    """Choose constants for which the search keeps its tolerance for every data set (claim R25)."""
    score_shift = 2.0 * slope * radius / n
    for largest in MAX_TOLERANCES:
        levels = float(MAX_LEVELS)
        while levels >= 1.0:
            plan = _plan(levels, slope=slope, radius=radius, n=n, **others)
            if plan.tolerance <= largest * score_shift and _proved(plan):
                return plan
            levels *= 0.5
    raise InvalidInput(
        f"rounding of sums of n = {n} records in {plan.dimension} dimensions could hide what one "
        "record does to the minimiser. Use dpfast.fit, or certificate='global' with a "
        "self-concordant loss."
    )


def _proved(plan: SmoothPlan) -> bool:
    """Check that rounding is as small as the proof of claim R25 needs."""
    allowed = math.sqrt(2.0 * plan.search_lipschitz * (plan.tolerance - plan.error))
    # what errors of gradients can add to the objective is within the slack of the box
    drift = 2.0 * plan.error * math.sqrt(plan.top / plan.search_lipschitz)
    slack = SLACK * plan.slope * plan.radius / plan.rate
    return 8.0 * plan.hessian_error <= allowed and drift <= slack


def _plan(
    levels: float,
    *,
    slope: float,
    curvature: float,
    third: float,
    stretch: float,
    radius: float,
    n: int,
    dimension: int,
    ridge: float,
    depth: int,
) -> SmoothPlan:
    """Compute the constants of claim R25 for a penalty with this many levels."""
    u, root_p = UNIT_ROUNDOFF, math.sqrt(dimension)
    score = slope * radius
    record_curvature, record_third = curvature * radius * radius * ROWS, third * radius**3 * ROWS
    # per coordinate the penalty changes over a length on which the records' Hessian changes
    rate = radius * math.sqrt(third / slope) / levels * (1.0 - ROUNDING_SUM)
    stiffness = 2.0 * score * rate / n
    region = _search_region(score, record_third, rate, n=n, dimension=dimension, ridge=ridge)
    top, reach = region.top, region.reach
    penalty_curvature = stiffness * math.cosh(rate * region.outer_box) * (1.0 + 1e-9)
    search_lipschitz = (record_third + rate * penalty_curvature) * _UP
    largest = (
        record_curvature + ridge + penalty_curvature + math.sqrt(2.0 * search_lipschitz * top)
    ) * _UP
    predictor = 4.0 * (dimension + 16) * u * radius * reach
    gamma = depth * u / (1.0 - depth * u)
    error = _UP * (
        gradient_error(score, record_curvature + ridge, reach, dimension, depth)
        + 256.0 * u * (top + penalty_curvature * root_p / rate)
        + 4.0 * u * largest * reach
    )
    hessian_error = _UP * (
        record_curvature * (2.0 * RECORD_ERROR + gamma)
        + third * radius * radius * predictor
        + 16.0 * u * stretch * radius * radius
        + 256.0 * u * (penalty_curvature + ridge) * (1.0 + rate * reach)
        + 64.0 * dimension * u * largest
    )
    tolerance = max(RELATIVE_TOLERANCE * 2.0 * score / n, ERRORS * error)
    penalty_rate = rate * (score + tolerance) * ROWS
    return SmoothPlan(
        n=n,
        dimension=dimension,
        depth=depth,
        slope=slope,
        curvature=curvature,
        third=third,
        stretch=stretch,
        radius=radius,
        ridge=ridge,
        stiffness=stiffness,
        rate=rate,
        box=region.box,
        lipschitz=(record_third + rate * math.hypot(stiffness, penalty_rate)) * _UP,
        search_lipschitz=search_lipschitz,
        top=top,
        error=error,
        hessian_error=hessian_error,
        tolerance=tolerance,
        most_steps=_most_steps(search_lipschitz, top, tolerance - error, reach),
    )


class _SearchRegion(NamedTuple):
    """Bounds of every point that the search visits."""

    #: Bound of a coordinate inside the level set, and after one step outside of it.
    box: float
    outer_box: float
    #: Bound of the gradient's norm in the level set.
    top: float
    #: Bound of the norm of a point.
    reach: float


def _search_region(
    score: float, record_third: float, rate: float, *, n: int, dimension: int, ridge: float
) -> _SearchRegion:
    """Bound the points and gradients of the search (claim R25)."""
    root_p = math.sqrt(dimension)
    box = _level_set_edge(n, root_p) / rate * (1.0 + 1e-9)
    # sinh is below cosh, and the level set bounds the sum of the penalty over coordinates
    force = score * (root_p * rate * box + SLACK + 2.0 * dimension / n)
    top = (score + ridge * box * root_p + force) * (1.0 + 1e-9)
    outer_box = box + math.sqrt(top / record_third)
    return _SearchRegion(box, outer_box, top, outer_box * root_p * _UP)


def _level_set_edge(n: int, root_p: float) -> float:
    """Solve for the edge of the objective's level set at zero, in units of 1/rate.

    There ``(n/2) (sqrt(p) y + slack)`` bounds ``cosh(y) - 1``; the fixed-point iteration converges.
    """
    y = 1e3
    for _ in range(60):
        y = math.acosh(1.0 + 0.5 * n * (root_p * y + SLACK))
    return y


def _most_steps(lipschitz: float, top: float, target: float, reach: float) -> int:
    """Bound the number of steps until the search has ended (claim R25)."""
    diameter = 2.0 * reach
    halvings = math.log2(max(2.0, top / target)) + 2.0
    good = 220.0 * diameter * math.sqrt(lipschitz / target) + 4.0 * halvings
    return math.ceil(1.8 * good + 0.6 * math.log2(top / target) + 10.0)
