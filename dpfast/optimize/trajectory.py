"""What an optimiser hands to inference: released numbers and public settings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer

__all__ = ["Trajectory"]


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
    curvatures : list of Answer
        Noisy curvatures of the last steps of a Newton run, the final one last; the receipts tell
        Hessians from majorising ones.
    floors : list of float
        The floors on their eigenvalues in those steps.
    damping : float
        Public damping of a double-noise run, 0 for the other methods.
    direction_scales : list of float or None
        Noise standard deviation of each step's released direction, if there is one.
    """

    method: str
    theta: NDArray[np.float64]
    iterates: list[NDArray[np.float64]]
    step_sizes: list[float]
    gradient_scales: list[float]
    weights: list[float] | None
    final: JointAnswer
    curvature_change: float
    curvatures: Sequence[Answer] = ()
    floors: Sequence[float] = ()
    damping: float = 0.0
    direction_scales: list[float] | None = None
