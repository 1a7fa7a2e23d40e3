"""Results that an optimiser hands to inference: released numbers and public settings only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer, StepBudget

if TYPE_CHECKING:
    from dpfast.optimize.answers import Answers


def with_ridge(matrix: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """Add the public ridge penalty to a curvature matrix."""
    return matrix + ridge * np.eye(len(matrix)) if ridge else matrix


def run_steps(
    answers: Answers,
    start: NDArray[np.float64],
    budgets: Sequence[StepBudget],
    progress: Callable[[int, int], None] | None,
    step: Callable[[int, NDArray[np.float64], JointAnswer], NDArray[np.float64]],
) -> tuple[list[NDArray[np.float64]], list[JointAnswer]]:
    """Take one step per budget; ``step(k, theta, answer)`` returns the next iterate.

    Returns
    -------
    iterates : list of ndarray of shape (p,)
        The start and one more for each budget.
    answers : list of JointAnswer
    """
    iterates = [start]
    received: list[JointAnswer] = []
    for k, budget in enumerate(budgets):
        received.append(answers.joint(iterates[k], budget))
        iterates.append(step(k, iterates[k], received[k]))
        if progress is not None:
            progress(k + 1, len(budgets))
    return iterates, received


class Trajectory(NamedTuple):
    """Path of an optimiser; everything in it was paid for.

    Attributes
    ----------
    theta : ndarray of shape (p,)
        The estimate: last iterate or weighted average of the iterates.
    iterates : list of ndarray of shape (p,)
        Start and the K iterates after it.
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
