"""Public constants of certificates that measure a Hessian by its largest leverage: R31 to R33.

The smallest eigenvalue sees the declared rows through the ball around them.  The leverage
``sup x'H^-1 x`` over the rows themselves does not change when a column is measured in another
unit or with another origin.  Functions of public constants only; proofs in ``PROOFS-release.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dpfast.errors import InvalidInput
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.sensitivity import eigenvalue_step
from dpfast.privacy.rounding import MARGIN_8000, UNIT_ROUNDOFF

_UP = 1.0 + MARGIN_8000


class LeveragePlan(NamedTuple):
    """What ``1/L`` is to a release, in place of the smallest eigenvalue (claims R31 and R32).

    L is the largest ``x'H^-1 x`` over the declared rows, the rows ``unit e_j`` of the public
    penalty, and one row along each direction that will be released.
    """

    #: n, dimension, slope, largest: As in
    #: :class:`~dpfast.privacy.release.certified_minimiser.MinimiserPlan`.
    n: int
    dimension: int
    slope: float
    largest: float
    #: 1: what the claims of the eigenvalue call the norm of a row is part of L.
    radius: float
    #: Length of the rows that stand for the penalty.
    unit: float
    #: Sensitivity of 1/L.
    step: float
    #: The number computed is within this of 1/L at the minimiser, whatever the records.
    eta: float
    #: As :func:`~dpfast.privacy.release.sensitivity.functional_factors` takes it.
    solver_error: float
    #: floor, ceiling: 1/L lies between them for every data set.
    floor: float
    ceiling: float
    #: The smallest eigenvalue of H is at least ``1/(L spread)``.
    spread: float


def leverage_plan(
    plan: MinimiserPlan, axes: Sequence[float], widest: float = math.inf
) -> LeveragePlan:
    """Constants of a leverage certificate at a certified minimiser (claim R32)."""
    unit = plan.rate / plan.c * _UP  # the penalty's rate is at most c times it
    spread = math.fsum(min(gauge, 1.0 / unit) ** 2 for gauge in axes)
    spread = min(spread, widest * widest) * _UP
    d = plan.dimension
    inverse = 64.0 * d * (d + 2) * UNIT_ROUNDOFF * plan.largest
    if not inverse <= plan.floor / 16.0:
        raise InvalidInput(
            f"rounding of a Hessian of n = {plan.n} records in {d} dimensions could hide what one "
            'record does to it. Use certificate="global", or pass ridge=..., a larger public '
            "penalty."
        )
    step = eigenvalue_step(plan.c, plan.slope, 1.0, plan.n)
    search = plan.c * plan.tolerance * math.sqrt(spread)
    matrix = plan.hessian_error * spread
    square = plan.radius * plan.radius
    return LeveragePlan(
        n=plan.n,
        dimension=d,
        slope=plan.slope,
        largest=plan.largest,
        radius=1.0,
        unit=unit,
        step=step,
        eta=1.1 * (search + matrix + inverse * spread),
        solver_error=1.6 * (search + matrix) / step,
        floor=plan.floor / square * (1.0 - 1e-9),
        ceiling=plan.largest / square * (1.0 + 1e-9),
        spread=spread,
    )


def row_length(
    plan: LeveragePlan, radius: float, gauge: float, even: float, direction: Sequence[float]
) -> float:
    """Length t of a direction w for which ``w/t`` is one of the rows of L (claim R33).

    Any t is private.  With the gauge of w nothing is asked of the records beyond what the domain
    sees, with ``||w||/radius`` as much as the smallest eigenvalue asks; the announced bound of the
    noise is in proportion to t.  Between them, ``even`` asks nothing more of records that are
    spread evenly.
    """
    largest = min(gauge, math.fsum(abs(w) for w in direction) / plan.unit)
    least = math.hypot(*direction) / radius
    return max(min(even, largest), least) * _UP
