"""What one answer may cost, divided among the quantities it releases."""

from __future__ import annotations

from functools import lru_cache

from dpfast.curator import StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.models import Constants, Objective
from dpfast.optimize.schedules import ROUNDING_MARGIN

__all__ = ["CURVATURE_RATIO", "divided", "scaled"]

#: Hessian's ``mu_H^2`` relative to the gradient's, by coupling: as large as it is free, or the
#: best trade found where it is not (formulas page, section 4.3; claims C4 to C6).
CURVATURE_RATIO = {
    "independent": 0.5,
    "one-minus-square": 1.0,
    "circle": 1.0,
    "log-cosh-majorizer": 1.0,
    "logistic": 0.693,
    "logistic-majorizer": 0.4,
}


def divided(
    objective: Objective,
    mu: float,
    curvature: str | None,
    *,
    gradient: float = 1.0,
    meat: float = 0.0,
) -> StepBudget:
    """The budget of an answer that costs ``mu``, less a margin for rounding.

    Parameters
    ----------
    curvature : {"hessian", "majorizer"} or None
        Which is released beside the gradient.
    gradient, meat : float
        In proportion to each other; a gradient of 0 is left out.
    """
    constants, mu = objective.constants(), mu * (1.0 - ROUNDING_MARGIN)
    if constants is None:
        return scaled(objective, mu, curvature, gradient, meat)
    return _remembered(constants, mu, curvature, gradient, meat)


def scaled(
    objective: Objective | Constants,
    mu: float,
    curvature: str | None,
    gradient: float,
    meat: float,
) -> StepBudget:
    """An answer that costs ``mu``: the joint cost is homogeneous of degree one."""
    majorize, hessian = curvature == "majorizer", 0.0
    if curvature is not None:
        ratio = _curvature_ratio(objective, majorize)
        hessian = (ratio * (gradient**2 + meat**2)) ** 0.5 if gradient else 1.0
    factor = mu / joint_cost(objective, StepBudget(gradient, hessian, meat, majorize))
    return StepBudget(gradient * factor, hessian * factor, meat * factor, majorize)


#: Of numbers only, so that the many fits of a simulation share them.
_remembered = lru_cache(maxsize=1024)(scaled)


def _curvature_ratio(objective: Objective | Constants, majorize: bool) -> float:
    if isinstance(objective, Objective) and objective.free_scale is not None:
        part = objective.loss.scale_part
        assert part is not None
        return part.majorizer_share if majorize else part.hessian_share
    return CURVATURE_RATIO[objective.majorizer_coupling if majorize else objective.coupling]
