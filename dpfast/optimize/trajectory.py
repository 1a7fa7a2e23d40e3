"""What an optimiser hands to inference: released numbers and public settings only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer

__all__ = ["Trajectory", "with_ridge"]


def with_ridge(matrix: NDArray[np.float64], ridge: float) -> NDArray[np.float64]:
    """A curvature and that of the public penalty."""
    return matrix + ridge * np.eye(len(matrix)) if ridge else matrix


class Trajectory(NamedTuple):
    """The path of an optimiser; everything in it was paid for.

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
        average; by default that of ``final`` alone.
    details : object
        What the optimiser's own ``noise_covariance`` wants to know of the run.

    Privacy
    -------
    Released and public numbers only.
    """

    theta: NDArray[np.float64]
    iterates: list[NDArray[np.float64]]
    final: JointAnswer
    hessians: Sequence[Answer] = ()
    details: Any = None
