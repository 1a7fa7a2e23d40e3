"""Results that an optimiser hands to inference: released numbers and public settings only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget
from dpfast.curator.bounds import joint_cost
from dpfast.curator.nonconvex.gradients import public_length
from dpfast.models import Objective
from dpfast.privacy.rounding import ROUNDING_SHARES

if TYPE_CHECKING:
    from dpfast.optimize.protocol import Answers


def with_ridge(matrix: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Add the public ridge penalty to a curvature matrix."""
    return matrix + ridge * np.eye(len(matrix)) if ridge else matrix


def run_steps(
    answers: Answers,
    start: NDArray[np.float64],
    budgets: Sequence[StepBudget],
    progress: Callable[[int, int], None] | None,
    step: Callable[[int, NDArray[np.float64], JointAnswer], NDArray[np.float64]],
    stop: float = 0.0,
) -> tuple[list[NDArray[np.float64]], list[JointAnswer], list[int]]:
    """Take one step per budget; ``step(k, theta, answer)`` returns the next iterate.

    After a gradient shorter than ``stop`` expected norms of its noise, the last step is next, and
    it has the budget of the steps between (claim C9: an amount may depend on released numbers).

    Returns
    -------
    iterates : list of ndarray of shape (p,)
        The start and one more for each step.
    answers : list of JointAnswer
    taken : list of int
        Which of the planned steps were taken.
    """
    iterates = [start]
    received: list[JointAnswer] = []
    taken: list[int] = []
    planned, k, last = list(budgets), 0, len(budgets) - 1
    while k <= last:
        theta = iterates[-1]
        received.append(answers.joint(theta, planned[k]))
        iterates.append(step(k, theta, received[-1]))
        taken.append(k)
        if progress is not None:
            progress(k + 1, len(budgets))
        if k < last - 1 and _is_short(answers.objective, theta, received[-1], stop):
            planned[last] = _with_all(answers.objective, planned[k + 1 :])
            k = last
        else:
            k += 1
    return iterates, received, taken


def _is_short(
    objective: Objective, theta: NDArray[np.float64], answer: JointAnswer, stop: float
) -> bool:
    """Test whether a released gradient is below this many expected norms of its noise."""
    gradient = answer.gradient.value + objective.ridge_gradient(theta)
    noise = math.sqrt(len(theta)) * answer.gradient.noise_scale
    return bool(stop) and public_length(gradient) < stop * noise


def _with_all(objective: Objective, budgets: Sequence[StepBudget]) -> StepBudget:
    """Scale the last of some budgets so that it costs as much as all of them together."""
    last = budgets[-1]
    costs = [joint_cost(objective, budget, objective.means) for budget in budgets]
    factor = max(math.hypot(*costs) / costs[-1] * (1.0 - ROUNDING_SHARES), 1.0)
    parts = (factor * last.gradient, factor * last.hessian, factor * last.meat)
    return StepBudget(*parts, last.majorize)


class Trajectory(NamedTuple):
    """Path of an optimiser; everything in it was paid for.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        The estimate: last iterate or weighted average of the iterates.
    iterates : list of ndarray of shape (p,)
        Start and the iterates after it, one for each step that was taken.
    final : JointAnswer
        Answers at the parameter of the last step.
    hessians : sequence of Answer
        Hessians near the estimate with independent noises, the last first, which intervals may
        average; by default only the Hessian of ``final``.
    details : object
        Data of the run that the optimiser's own ``noise_covariance`` needs.

    Privacy
    -------
    Released and public numbers only.
    """

    theta: NDArray[np.float64]
    iterates: list[NDArray[np.float64]]
    final: JointAnswer
    hessians: Sequence[Answer] = ()
    details: Any = None
