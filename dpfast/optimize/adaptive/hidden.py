"""Directions of the curvature that privacy noise hides, and what steps left undone along them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh

Array = NDArray[np.float64]

#: A curvature, which is never negative, released as zero is above so many noise scales: 19 of 20.
PLAUSIBLE = 0.06

#: The same, where any may be left undone.
POSSIBLE = 1e-9

#: Standard deviations by which a gradient stands out of its noise.
REMAINS = 2.5

#: Standard errors, of which what is left undone may be so many.
HARMLESS = 1.96


class Hidden(NamedTuple):
    """What noise hides."""

    n_directions: int
    #: Whether a gradient that steps could not follow remains along one.
    stuck: bool
    #: Most that is left undone, per coefficient.
    possible: Array
    #: Mean square of what is left undone where curvatures are as small as is plausible.
    plausible: Array

    def harms(self, covariance: Array) -> bool:
        """Whether intervals with this covariance, which leaves it out, may miss.

        A direction below the floor is no harm in itself: what it leaves undone is known.
        """
        reach = HARMLESS**2 * covariance.diagonal()
        few = 2 * self.n_directions <= len(reach)
        return self.stuck or not (few and bool((self.possible**2 <= reach).all()))


class FloorOfStep(NamedTuple):
    """A full answer: floors of the step taken at it and of where it says the path ends; weight."""

    floor: float
    floor_of_end: float
    weight: float


def hidden_directions(
    curvature: tuple[Array, float],
    floor: float,
    early: Sequence[float],
    answers: Sequence[FloorOfStep],
    travelled: Array,
    gradients: Sequence[tuple[Array, float]],
) -> Hidden:
    """Directions whose curvature noise hides: how many, and what that leaves undone.

    Along them a step goes only as far as the floor lets it.  The curvature may be as small as the
    released one less two noise scales; the steps before an answer, and its own, then left a part of
    the way undone, of which only the rest shows in the distance travelled.  And a gradient that
    still stands out of its noise there says so without any assumption.
    """
    hessian, scale = curvature
    values, vectors = eigh(hessian)
    count = int(np.count_nonzero(~(values > floor)))
    along = vectors.T @ travelled
    total = math.fsum(answer.weight for answer in answers)

    def undone(least: float) -> Array:
        smallest = np.maximum(values - 2.0 * scale, least * scale)
        before, left = np.ones(len(values)), np.zeros(len(values))
        for height in early:
            before *= np.maximum(0.0, 1.0 - smallest / height)
        for height, end, weight in answers:
            left += weight / total * before * np.maximum(0.0, 1.0 - smallest / end)
            before *= np.maximum(0.0, 1.0 - smallest / height)
        found: Array = left / np.maximum(1.0 - left, 1e-9) * along
        return found

    possible = np.abs(vectors) @ np.abs(undone(POSSIBLE))
    plausible = (vectors * undone(PLAUSIBLE) ** 2) @ vectors.T
    precisions = np.array([noise**-2.0 for _, noise in gradients])
    pooled = precisions @ np.array([gradient for gradient, _ in gradients])
    remaining = np.abs(vectors[:, :count].T @ pooled).max(initial=0.0) / precisions.sum() ** 0.5
    return Hidden(count, bool(remaining > REMAINS), possible, (plausible + plausible.T) / 2.0)
