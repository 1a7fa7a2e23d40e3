"""From one total budget to the budget of every step; choice of method from public facts."""

from __future__ import annotations

from functools import lru_cache

from dpfast.curator import StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.errors import InvalidInput, described
from dpfast.models import Constants, Objective
from dpfast.optimize.double_noise import DoubleNoise
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.joint_newton import JointNewton
from dpfast.optimize.newton import Newton, curvature_noise
from dpfast.optimize.schedules import ROUNDING_MARGIN, Schedule

__all__ = ["Method", "choose_method", "plan_steps"]

Method = Newton | JointNewton | GradientDescent | DoubleNoise

#: Share of the total ``mu^2`` that buys the covariance of the scores for intervals.
MEAT_SHARE = 0.08

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


def choose_method(
    method: str | Method, objective: Objective, n: int, mu: float
) -> tuple[Method, str]:
    """Pick the optimiser, and say why, from n, p, the objective's constants and mu only."""
    chosen: Method
    free = objective.free_scale is not None
    if isinstance(method, Method):
        chosen, reason = method, "as given"
    elif method == "newton":
        chosen, reason = JointNewton() if free else Newton(), "as requested"
    elif method == "gradient-descent":
        chosen, reason = GradientDescent(), "as requested"
    elif method == "double-noise":
        chosen, reason = DoubleNoise(), "as requested"
    elif method == "auto":
        chosen, reason = _automatic(objective, n, mu)
    else:
        raise InvalidInput(
            'method must be "auto", "newton", "gradient-descent", "double-noise", '
            "dpfast.Newton(...), dpfast.GradientDescent(...) or dpfast.DoubleNoise(...); received "
            f"{described(method, text=True)}."
        )
    if isinstance(chosen, Newton if free else JointNewton):
        raise InvalidInput(
            "dpfast.JointNewton is for scale=dpfast.FreeScale(...), and dpfast.Newton for a known "
            f"scale; received {described(chosen, text=True)} with {described(objective)}. "
            'method="newton" picks the right one.'
        )
    estimated = isinstance(chosen, GradientDescent) and chosen.step_size == "estimated"
    if free and (estimated or isinstance(chosen, DoubleNoise)):
        raise InvalidInput(
            f"{described(chosen, text=True)} is for a known scale; received "
            f"{described(objective)}. Use "
            'method="newton" or method="gradient-descent".'
        )
    if isinstance(chosen, GradientDescent) and isinstance(chosen.step_size, (int, float)):
        objective.check_step(chosen.step_size)
    needs_curvature = estimated or isinstance(chosen, Newton | DoubleNoise)
    if needs_curvature and not objective.has_curvature:
        remedy = "" if not objective.loss.has_curvature else " or weights=dpfast.Mallows(radius)"
        raise InvalidInput(
            f"{objective.curvature_refusal()}, which {described(chosen, text=True)} needs. Use "
            f'method="gradient-descent"{remedy}.'
        )
    if isinstance(chosen, Newton):
        chosen = chosen.settled(objective, n, mu)
    return chosen, reason


def _automatic(objective: Objective, n: int, mu: float) -> tuple[Method, str]:
    if not objective.has_curvature:
        return GradientDescent(), f"auto: {objective.curvature_refusal()}"
    noise_level = curvature_noise(objective, n, mu)
    if noise_level <= 0.5 or objective.ridge >= noise_level * objective.curvature_bound:
        newton = Newton() if objective.free_scale is None else JointNewton()
        return newton, f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} is at most 0.5"
    step_size = "estimated" if objective.curvature_peaks_at_zero else None
    return GradientDescent(step_size=step_size), (
        f"auto: curvature noise 2 p^1.5/(n mu) = {noise_level:.2g} exceeds 0.5"
    )


def plan_steps(
    method: Method,
    objective: Objective,
    mu: float,
    schedule: Schedule,
    n_steps: int,
    inference: bool,
) -> list[StepBudget]:
    """Budgets of every step; their joint costs' exact squares add up to at most ``mu^2``."""
    curvatures = method.curvatures(n_steps)
    inference_share = 0.0
    if inference:
        inference_share = MEAT_SHARE
        # its only Hessian is bought here
        if curvatures[-1] != "hessian" and _hessian_costs(objective):
            inference_share *= 2.0
    reserved = method.steering_share
    mus = schedule.step_mus(mu * (1.0 - reserved - inference_share) ** 0.5, n_steps)
    constants = objective.constants()
    if constants is None:
        return _step_budgets(objective, mu, tuple(mus), curvatures, inference_share)
    return list(_shared_budgets(constants, mu, tuple(mus), curvatures, inference_share))


def _step_budgets(
    objective: Objective | Constants,
    mu: float,
    mus: tuple[float, ...],
    curvatures: tuple[str, ...],
    inference_share: float,
) -> list[StepBudget]:
    """Each step's mu divided among what it releases; the last also buys what inference needs."""
    budgets = []
    for k, (gradient, curvature) in enumerate(zip(mus, curvatures, strict=True)):
        total, meat = gradient, 0.0
        if inference_share and k == len(mus) - 1:
            curvature = "hessian"
            meat = MEAT_SHARE**0.5 * mu
            total = (gradient**2 + inference_share * mu**2) ** 0.5 * (1.0 - ROUNDING_MARGIN)
        majorize, hessian = curvature == "majorizer", 0.0
        if curvature != "none":
            ratio = _curvature_ratio(objective, majorize)
            hessian = (ratio * (gradient**2 + meat**2)) ** 0.5
        # The joint cost is homogeneous of degree one: scale the pattern to cost `total`.
        factor = total / joint_cost(objective, StepBudget(gradient, hessian, meat, majorize))
        parts = (gradient * factor, hessian * factor, meat * factor)
        budgets.append(StepBudget(*parts, majorize=majorize))
    return budgets


#: Of numbers only, so that the many fits of a simulation share them.
_shared_budgets = lru_cache(maxsize=1024)(_step_budgets)


def _curvature_ratio(objective: Objective | Constants, majorize: bool) -> float:
    if isinstance(objective, Objective) and objective.free_scale is not None:
        part = objective.loss.scale_part
        assert part is not None
        return part.majorizer_share if majorize else part.hessian_share
    return CURVATURE_RATIO[objective.majorizer_coupling if majorize else objective.coupling]


def _hessian_costs(objective: Objective) -> bool:
    if objective.free_scale is not None:
        part = objective.loss.scale_part
        return part is None or part.profile is None
    return objective.coupling == "independent"
