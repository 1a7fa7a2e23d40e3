"""From one total budget to the budget of every step; choice of method from public facts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from dpfast.arguments import real_number
from dpfast.curator import StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.errors import InvalidInput, described
from dpfast.models import Constants, Objective
from dpfast.optimize.double_noise import DoubleNoise
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.joint_newton import JointNewton
from dpfast.optimize.newton import Newton, curvature_noise
from dpfast.optimize.protocol import Method, refuse_unmet_needs
from dpfast.optimize.schedules import ROUNDING_MARGIN, Schedule

__all__ = ["choose_method", "plan_steps"]

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


#: Optimisers by name.
NAMED: dict[str, Callable[[Objective], Method]] = {
    "newton": lambda objective: JointNewton() if objective.free_scale is not None else Newton(),
    "gradient-descent": lambda objective: GradientDescent(),
    "double-noise": lambda objective: DoubleNoise(),
}


def choose_method(
    method: str | Method, objective: Objective, n: int, mu: float
) -> tuple[Method, str]:
    """Pick the optimiser, and say why, from n, p, the objective's constants and mu only."""
    if isinstance(method, Method):
        chosen, reason = method, "as given"
    elif isinstance(method, str) and method in NAMED:
        chosen, reason = NAMED[method](objective), "as requested"
    elif isinstance(method, str) and method == "auto":
        chosen, reason = _automatic(objective, n, mu)
    else:
        raise InvalidInput(
            'method must be "auto", "newton", "gradient-descent", "double-noise", '
            "dpfast.Newton(...), dpfast.GradientDescent(...), dpfast.DoubleNoise(...) or a "
            f"dpfast.optimize.Method of your own; received {described(method, text=True)}."
        )
    refuse_unmet_needs(chosen, objective)
    return chosen.settled(objective, n, mu), reason


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
    curvatures = tuple(method.curvatures(n_steps))
    reserved = real_number(method.steering_share, "steering_share")
    if len(curvatures) != n_steps or not {"none", "majorizer", "hessian"}.issuperset(curvatures):
        raise InvalidInput(
            'an optimiser\'s curvatures(n_steps) are n_steps of "none", "majorizer" and "hessian".'
        )
    if not 0.0 <= reserved < 1.0 - 2.0 * MEAT_SHARE:
        raise InvalidInput(
            "an optimiser's steering_share is a part of the budget, from 0 to below "
            f"{1.0 - 2.0 * MEAT_SHARE:g}; received {described(reserved)}."
        )
    inference_share = 0.0
    if inference:
        inference_share = MEAT_SHARE
        # its only Hessian is bought here
        if curvatures[-1] != "hessian" and _hessian_costs(objective):
            inference_share *= 2.0
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
