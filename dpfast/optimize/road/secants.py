"""What released scores say of the curvature between the points they were asked at."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh

__all__ = ["HEARD", "Stepped", "bent", "mean_point"]

Array = NDArray[np.float64]

#: Deviations of noise from which on a score, or what it changed by, says something.
HEARD = 2.0

#: Of a curvature that is learnt: the least of a direction as a part of the largest.
EVEN = 1e-3


class Stepped(NamedTuple):
    """A round: its step, the score it began with, and that score's noise in any direction."""

    step: Array
    score: Array
    noise: float


def bent(
    curvature: Array, before: Stepped, score: Array, noise: float, least: float = math.inf
) -> Array:
    """A curvature that along the last step is what the score changed by, where noise lets that be
    told.

    Where a loss is flatter at both ends of a step than between, Newton's steps would go to and fro
    for ever (the update of Broyden, Fletcher, Goldfarb and Shanno).  Noise of the first score is in
    the step, too.

    Parameters
    ----------
    curvature : ndarray of shape (p, p)
    before : Stepped
    score : ndarray of shape (p,)
        After the step.
    noise : float
        Of it, in any direction.
    least : float
        Along the step no curvature is below so many times its square: by default it only rises.
    """
    step, change = before.step, before.score - score
    turned, size = curvature @ step, math.hypot(*step)
    here, between = float(step @ turned), float(step @ change)
    doubt = HEARD * math.hypot(noise, before.noise) * size + len(step) * before.noise**2
    if not (abs(between - here) > doubt and here > 0.0):
        return curvature
    lowest = min(here, least * size**2)
    if between < lowest:
        if lowest == here:
            return curvature
        change, between = lowest / here * turned, lowest
    found = curvature - np.outer(turned, turned) / here + np.outer(change, change) / between
    if not np.isfinite(found).all():
        return curvature
    values = eigh(found)[0]
    return found if values[0] > EVEN * values[-1] else curvature


def mean_point(asked: list[tuple[Array, Array]], curvature: Array) -> Array:
    """Where steps of this curvature lead from the points that were asked about, in the mean."""
    where, scores = np.mean([list(one) for one in asked], axis=0)
    return np.asarray(where + np.linalg.solve(curvature, scores))
