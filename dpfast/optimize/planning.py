"""From one total budget to the budget of every step; choice of method from public facts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from dpfast.arguments import real_number
from dpfast.curator import StepBudget
from dpfast.errors import InvalidInput, described
from dpfast.models import Constants, Objective
from dpfast.optimize.adaptive.method import AdaptiveNewton
from dpfast.optimize.budgets import scaled
from dpfast.optimize.double_noise import DoubleNoise
from dpfast.optimize.gradient_descent import GradientDescent
from dpfast.optimize.joint_newton import JointNewton
from dpfast.optimize.newton import Newton, curvature_noise
from dpfast.optimize.protocol import Method, refuse_unmet_needs
from dpfast.optimize.schedules import ROUNDING_MARGIN, Schedule

__all__ = ["choose_method", "plan_steps"]

#: Share of the total ``mu^2`` that buys the covariance of the scores for intervals.
MEAT_SHARE = 0.08

#: Optimisers by name.
NAMED: dict[str, Callable[[Objective], Method]] = {
    "newton": lambda objective: JointNewton() if objective.free_scale is not None else Newton(),
    "gradient-descent": lambda objective: GradientDescent(),
    "double-noise": lambda objective: DoubleNoise(),
    "adaptive-newton": lambda objective: AdaptiveNewton(),
}


def choose_method(
    method: str | Method, objective: Objective, n: int, mu: float, *, stepwise: bool = False
) -> tuple[Method, str]:
    """Pick the optimiser, and say why, from n, p, the objective's constants and mu only.

    Parameters
    ----------
    stepwise : bool
        Whether a number of steps or a schedule is given, which only some optimisers follow.
    """
    if isinstance(method, Method):
        chosen, reason = method, "as given"
    elif isinstance(method, str) and method in NAMED:
        chosen, reason = NAMED[method](objective), "as requested"
    elif isinstance(method, str) and method == "auto":
        chosen, reason = _automatic(objective, n, mu, stepwise)
    else:
        raise InvalidInput(
            'method must be "auto", "newton", "gradient-descent", "double-noise", '
            '"adaptive-newton", '
            "dpfast.Newton(...), dpfast.GradientDescent(...), dpfast.DoubleNoise(...) or a "
            f"dpfast.optimize.Method of your own; received {described(method, text=True)}."
        )
    refuse_unmet_needs(chosen, objective)
    return chosen.settled(objective, n, mu), reason


def _automatic(objective: Objective, n: int, mu: float, stepwise: bool) -> tuple[Method, str]:
    if not objective.has_curvature:
        return GradientDescent(), f"auto: {objective.curvature_refusal()}"
    noise_level = curvature_noise(objective, n, mu)
    if noise_level <= 0.5 or objective.ridge >= noise_level * objective.curvature_bound:
        newton: Method = JointNewton()
        if objective.free_scale is None:
            newton = Newton() if stepwise else AdaptiveNewton()
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
        kind = None if curvature == "none" else curvature
        budgets.append(scaled(objective, total, kind, gradient, meat))
    return budgets


#: Of numbers only, so that the many fits of a simulation share them.
_shared_budgets = lru_cache(maxsize=1024)(_step_budgets)


def _hessian_costs(objective: Objective) -> bool:
    if objective.free_scale is not None:
        part = objective.loss.scale_part
        return part is None or part.profile is None
    return objective.coupling == "independent"
