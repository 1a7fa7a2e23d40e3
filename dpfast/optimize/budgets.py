"""Division of a total among the steps of a run, and of a step among the quantities it releases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Self

from dpfast.arguments import real_number
from dpfast.curator import StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.errors import InvalidInput, described
from dpfast.models import Constants, Objective
from dpfast.optimize.schedules import Schedule
from dpfast.privacy.rounding import ROUNDING_SHARES

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
    "narrow-logistic": 0.6,
    "logistic-majorizer": 0.4,
}


class Budgets(tuple[StepBudget, ...]):
    """Budget of a run: one budget for each of its steps, if they are fixed in advance.

    Attributes
    ----------
    mu : float
        The total; the ledger refuses to charge more.
    inference : bool
        Whether intervals are wanted; the last budget then buys the Hessian and the meat.
    steering_mu : float
        Joint budget of all other queries.
    most_steps : int
        Largest number of steps, for ``progress``.
    description : str
        The planned run in words, for the result.

    Privacy
    -------
    Public: nothing is spent by planning it.
    """

    mu: float
    inference: bool
    steering_mu: float
    most_steps: int
    description: str

    def __new__(
        cls,
        steps: Iterable[StepBudget],
        mu: float,
        *,
        inference: bool,
        steering_mu: float = 0.0,
        most_steps: int | None = None,
        description: str = "",
    ) -> Self:
        budgets = super().__new__(cls, steps)
        budgets.mu = mu
        budgets.inference = inference
        budgets.steering_mu = steering_mu
        budgets.most_steps = len(budgets) if most_steps is None else most_steps
        budgets.description = description
        return budgets


def step_budgets(
    objective: Objective,
    mu: float,
    schedule: Schedule,
    curvatures: Sequence[str],
    inference: bool,
    *,
    steering_share: float = 0.0,
    description: str = "",
) -> Budgets:
    """Budgets of every step; their joint costs' exact squares add up to at most ``mu^2``."""
    reserved = real_number(steering_share, "steering_share")
    if not 0.0 <= reserved < 1.0 - 2.0 * MEAT_SHARE:
        raise InvalidInput(
            "an optimiser's steering_share is a part of the budget, from 0 to below "
            f"{1.0 - 2.0 * MEAT_SHARE:g}; received {described(reserved)}."
        )
    inference_share = 0.0
    if inference:
        inference_share = MEAT_SHARE
        # the only Hessian is released for intervals, as dear as the meat
        if curvatures[-1] != "hessian" and hessian_costs(objective):
            inference_share *= 2.0
    steps_mu = mu * (1.0 - reserved - inference_share) ** 0.5
    mus = tuple(schedule.step_mus(steps_mu, len(curvatures)))
    constants = objective.constants()
    kinds = tuple(curvatures)
    if constants is None:
        steps = _step_budgets(objective, mu, mus, kinds, inference_share)
    else:
        steps = _shared_budgets(constants, mu, mus, kinds, inference_share)
    steering_mu = mu * reserved**0.5 * (1.0 - ROUNDING_SHARES)
    return Budgets(steps, mu, inference=inference, steering_mu=steering_mu, description=description)


def _step_budgets(
    objective: Objective | Constants,
    mu: float,
    mus: tuple[float, ...],
    curvatures: tuple[str, ...],
    inference_share: float,
) -> tuple[StepBudget, ...]:
    """Divide each step's mu among its releases; the last step also buys Hessian and meat."""
    budgets = []
    for k, (gradient, curvature) in enumerate(zip(mus, curvatures, strict=True)):
        total = gradient
        meat = 0.0
        if inference_share and k == len(mus) - 1:
            curvature = "hessian"
            meat = MEAT_SHARE**0.5 * mu
            total = (gradient**2 + inference_share * mu**2) ** 0.5 * (1.0 - ROUNDING_SHARES)
        kind = None if curvature == "none" else curvature
        budgets.append(_scaled(objective, total, kind, gradient, meat))
    return tuple(budgets)


#: Cached: its arguments are numbers only, so that the many fits of a simulation share it.
_shared_budgets = lru_cache(maxsize=1024)(_step_budgets)


def hessian_costs(objective: Objective) -> bool:
    """Return True if a Hessian beside the gradient lowers the budget of the gradient."""
    if objective.free_scale is not None:
        part = objective.loss.scale_part
        return part is None or part.profile is None
    return objective.coupling in ("independent", "narrow-logistic")


def _scaled(
    objective: Objective | Constants,
    mu: float,
    curvature: str | None,
    gradient: float,
    meat: float,
) -> StepBudget:
    """Scale a budget so that it costs ``mu``: the joint cost is homogeneous of degree one."""
    majorize = curvature == "majorizer"
    hessian = 0.0
    if curvature is not None:
        hessian = (_curvature_ratio(objective, majorize) * (gradient**2 + meat**2)) ** 0.5
    unscaled = StepBudget(gradient, hessian, meat, majorize)
    factor = mu / joint_cost(objective, unscaled, objective.means)
    return StepBudget(gradient * factor, hessian * factor, meat * factor, majorize)


def _curvature_ratio(objective: Objective | Constants, majorize: bool) -> float:
    """Return the share ``mu_H^2`` of a Hessian or majoriser relative to the gradient's."""
    if isinstance(objective, Objective) and objective.free_scale is not None:
        part = objective.loss.scale_part
        assert part is not None
        return part.majorizer_share if majorize else part.hessian_share
    return CURVATURE_RATIO[objective.majorizer_coupling if majorize else objective.coupling]
