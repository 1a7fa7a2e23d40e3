"""What an optimiser hands to inference: released numbers and public settings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import JointAnswer

__all__ = ["Trajectory", "with_ridge"]


def with_ridge(matrix: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """A curvature and that of the public penalty."""
    return matrix + ridge * np.eye(len(matrix)) if ridge else matrix


class Trajectory(NamedTuple):
    """The path of an optimiser; everything in it was paid for.

    Attributes
    ----------
    method : str
    theta : ndarray of shape (p,)
        The estimate: last iterate or weighted average of the iterates.
    iterates : list of ndarray of shape (p,)
        Start and the K iterates after it.
    step_sizes : list of float
    gradient_scales : list of float
        Noise standard deviation of each step's gradient.
    weights : list of float or None
        Weight of each iterate (start included) in ``theta``; None for the last iterate.
    final : JointAnswer
        Answers at the parameter of the last step, the second-last iterate.
    curvature_change : float
        Operator norm of the difference of the last two noisy Hessians relative to the smallest
        eigenvalue of the last: the part of an error that one more Newton step leaves (0 if
        unknown).
    answers : list of JointAnswer
        Those of each step of a Newton run; the receipts tell Hessians from majorising curvatures.
    inverses : list of ndarray of shape (p, p)
        Inverses of the curvatures as the steps used them, with the ridge and floored eigenvalues;
        of the last steps, if the first went along the gradient.
    early_ridges : list of float
        Ridge of each step beside the objective's.
    damping : float
        Public damping of a double-noise run, 0 for the other methods.
    direction_scales : list of float or None
        Noise standard deviation of each step's released direction, if there is one.
    yardstick : ndarray of shape (p, p) or None
        Of a Newton run: in it the squared length of a step is the mean squared change of the
        linear predictor, in units in which curvatures change (log odds; scales).
    """

    method: str
    theta: NDArray[np.float64]
    iterates: list[NDArray[np.float64]]
    step_sizes: list[float]
    gradient_scales: list[float]
    weights: list[float] | None
    final: JointAnswer
    curvature_change: float
    answers: Sequence[JointAnswer] = ()
    inverses: Sequence[NDArray[np.float64]] = ()
    early_ridges: Sequence[float] = ()
    damping: float = 0.0
    direction_scales: list[float] | None = None
    yardstick: NDArray[np.float64] | None = None
