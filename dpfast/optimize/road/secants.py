"""What released scores say of the curvature between the points they were asked at."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh

__all__ = ["HEARD", "Asked", "bent", "inside", "mean_point"]

Array = NDArray[np.float64]

#: Deviations of noise from which on a score, or what it changed by, says something.
HEARD = 2.0

#: Of a curvature that is learnt: the least of a direction as a part of the largest.
EVEN = 1e-3


class Asked(NamedTuple):
    """Where a score was asked for, the score, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float


def bent(curvature: Array, before: Asked, here: Asked) -> Array:
    """A curvature that between two points is what the score changed by, where noise lets that be
    told.

    Where a loss is flatter at both ends of a step than between, Newton's steps would go to and fro
    for ever (the update of Broyden, Fletcher, Goldfarb and Shanno).  Noise of the first score is in
    the step, too.  No curvature falls below 1, which is that of whitened rows.
    """
    step, change = here.theta - before.theta, before.score - here.score
    turned, size = curvature @ step, math.hypot(*step)
    was, between = float(step @ turned), float(step @ change)
    doubt = HEARD * math.hypot(here.noise, before.noise) * size + len(step) * before.noise**2
    if not (abs(between - was) > doubt and was > 0.0):
        return curvature
    lowest = min(was, size**2)
    if between < lowest:
        if lowest == was:
            return curvature
        change, between = lowest / was * turned, lowest
    found = curvature - np.outer(turned, turned) / was + np.outer(change, change) / between
    if not np.isfinite(found).all():
        return curvature
    values = eigh(found)[0]
    return found if values[0] > EVEN * values[-1] else curvature


def inside(step: Array, asked: list[Asked]) -> float:
    """Part of a step from the last point that leads nowhere an earlier score points away from.

    Where a score is heard, a convex loss has its least on that side of the point to which the
    score points (a cutting plane).  A step beyond goes half of the way to the plane.
    """
    part, here = 1.0, asked[-1].theta
    for one in asked[:-1]:
        away = here + step - one.theta
        if float(one.score @ away) < -HEARD * one.noise * math.hypot(*away):
            to_plane, along = float(one.score @ (here - one.theta)), -float(one.score @ step)
            if 0.0 < to_plane < along:
                part = min(part, 0.5 * to_plane / along)
    return part


def mean_point(asked: list[Asked], curvature: Array) -> Array:
    """Where steps of this curvature lead from the points that were asked about, in the mean."""
    where, scores = np.mean([(one.theta, one.score) for one in asked], axis=0)
    return np.asarray(where + np.linalg.solve(curvature, scores))
