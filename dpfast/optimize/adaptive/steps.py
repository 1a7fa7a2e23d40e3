"""What a run remembers of its answers, and what they say of its result."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.optimize.adaptive.hidden import Hidden

Array = NDArray[np.float64]


class FullAnswer(NamedTuple):
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
    """What the answers of a run say of its result."""

    #: Covariance of the privacy noise in the estimate, and of what may be left undone along
    #: directions that noise hides where that is warned of.
    noise: Array
    #: Estimated error left along directions that noise hides, per coefficient.
    unfinished: Array
    #: Whether the last steps say that the path has not arrived.
    unsettled: bool
    #: Number of directions that noise hides, zero where they do no harm.
    n_hidden: int = 0
    #: Whether a gradient remains along directions that steps cannot follow.
    stuck: bool = False
    #: Whether the scale is beyond the end of its public interval.
    outside: bool = False
    #: Whether counts vary so much that clipping their residuals must tell.
    clipped: bool = False

    def beside(self, hidden: Hidden, covariance: Array) -> Arrival:
        """With what noise hides, given the covariance without it.

        Where that may harm the intervals they are as wide as what is plausibly left undone.
        """
        harm = self.unsettled or hidden.harms(covariance)
        return self._replace(
            noise=self.noise + hidden.plausible,
            unfinished=np.sqrt(hidden.plausible.diagonal()),
            n_hidden=max(1, hidden.n_directions) if harm else 0,
            stuck=hidden.stuck,
        )
