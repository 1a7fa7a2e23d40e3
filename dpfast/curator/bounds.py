"""Bounds of an objective that its claims need: public constants in, public constants out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import StepBudget
from dpfast.errors import InvalidInput, described
from dpfast.models import Constants, Objective
from dpfast.privacy.sensitivity import joint_mu

if TYPE_CHECKING:
    from dpfast.privacy.sensitivity_scale import ScaleCoupling


def joint_cost(objective: Objective | Constants, budget: StepBudget, means: bool = False) -> float:
    """Compute the mu of the quantities of a step, released jointly.

    Claims C17 to C19 and C37, and C72 for means of persons' rows.
    """
    gradient, hessian, meat, majorize = budget
    if isinstance(objective, Objective) and objective.free_scale is not None:
        if means:
            refuse_free_scale(objective, "a mean of a person's rows")
        from dpfast.privacy.sensitivity_scale import joint_scale_mu

        return joint_scale_mu(_coupling(objective), majorize, gradient, hessian, meat)
    coupling = objective.majorizer_coupling if majorize else objective.coupling
    if (sides := objective.sides) is not None:
        from dpfast.privacy.sensitivity_sides import joint_sides_mu

        size = 0.5 * sides.diameter
        return joint_sides_mu(coupling, (*sides, size), gradient, hessian, meat, means=means)
    return joint_mu(coupling, gradient, hessian, meat, means=means)


def record_bounds(
    objective: Objective | Constants, query: str, theta: NDArray[np.float64] | None
) -> tuple[float, float]:
    """Bound on one record's part of a sum, and the diameter of the scores."""
    joint = objective.free_scale
    if joint is None or isinstance(objective, Constants):
        if query == "gradient":
            return objective.score_bound, objective.score_diameter
        bound = objective.meat_bound if query == "meat" else objective.curvature_bound
        return bound, objective.score_diameter
    from dpfast.privacy.sensitivity_scale import (
        curvature_factor,
        majorizer_factor,
        meat_factor,
        score_diameter,
    )

    coupling = _coupling(objective)
    loss, radius = objective.loss, objective.weighting.radius
    diameter = score_diameter(coupling.family, loss.c * radius, joint.ratio)
    if query == "gradient":
        return loss.c * radius * meat_factor(coupling) ** 0.5, diameter
    if query == "meat":
        return (loss.c * radius) ** 2 * meat_factor(coupling), diameter
    scale = joint.high if theta is None else objective.scale_at(theta)
    if not joint.low * (1.0 - 1e-9) <= scale <= joint.high * (1.0 + 1e-9):
        raise InvalidInput(
            f"the scale must lie in [{joint.low:g}, {joint.high:g}]; the parameter has "
            f"{described(scale)}. Use Objective.project."
        )
    factor = (
        majorizer_factor(coupling)
        if query == "majorizer"
        else curvature_factor(coupling.family, joint.ratio)
    )
    return radius**2 * factor / scale, diameter


def refuse_free_scale(objective: Objective, query: str) -> None:
    """Refuse a query whose sensitivity is proved for a known scale only."""
    if objective.free_scale is not None:
        raise InvalidInput(
            f"{query} is not available with a free scale, where no bound on it is proved. Pass "
            "scale=<number>, or a method that needs gradients and Hessians only."
        )


def _coupling(objective: Objective) -> ScaleCoupling:
    joint, family = objective.free_scale, objective.loss.scale_part
    assert joint is not None and family is not None
    from dpfast.privacy.sensitivity_scale import ScaleCoupling

    return ScaleCoupling(family, joint.ratio, joint.kappa / objective.loss.c**2)
