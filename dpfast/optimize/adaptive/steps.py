"""What a run remembers of its answers, and what they say of its result."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer

__all__ = ["Answered", "Arrival", "Step", "step_of"]

Array = NDArray[np.float64]


class Answered(NamedTuple):
    """A full answer at one parameter, penalty included, and the curvature as it was released."""

    theta: Array
    gradient: Array
    gradient_scale: float
    hessian: Array
    hessian_scale: float
    curvature: Answer


class Step(NamedTuple):
    """A step that an answer asks for: taken, it is subtracted.

    ``length`` is that of the signal in it, without its own noise; infinite where it was cut.
    ``hides`` says whether noise hides a direction of the curvature.
    """

    direction: Array
    length: float
    hides: bool
    inverse: Array


step_of = partial(tuple.__new__, Step)  # without the frame of the constructor


class Arrival(NamedTuple):
    """What the answers of a run say of its result.

    Attributes
    ----------
    noise : ndarray of shape (p, p)
        Covariance of the privacy noise in the estimate.
    unfinished : ndarray of shape (p,)
        Estimated error left along directions that noise hides, per coefficient.
    n_hidden : int
        Number of such directions.
    unsettled, stuck : bool
        Whether the last steps say that the path has not arrived; whether a gradient remains along
        directions that steps cannot follow.
    outside : bool
        Whether the scale is beyond the end of its public interval.
    """

    noise: Array
    unfinished: Array
    n_hidden: int
    unsettled: bool
    stuck: bool
    outside: bool = False
