"""What released scores say of the curvature between the points they were asked at."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh

__all__ = ["HEARD", "Asked", "Rough", "Stepped", "bent", "joint_noise", "mean_point"]

Array = NDArray[np.float64]

#: Deviations of noise from which on a score, or what it changed by, says something.
HEARD = 2.0

#: Of a curvature that is learnt: the least of a direction as a part of the largest.
EVEN = 1e-3

#: What steps may leave, as a part of noise, and of the standard error of sampling.
SLIGHT, FINE = 0.3, 0.05

#: Instead of nothing below a division bar.
LEAST = 1e-300


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


class Asked(NamedTuple):
    """A point, the score there, and that score's noise in any direction."""

    at: Array
    score: Array
    noise: float


def mean_point(asked: list[Asked], curvature: Array) -> Array:
    """Where steps of this curvature lead from the points that were asked about, in the mean."""
    weights = np.array([one.noise**-2 for one in asked])
    weights /= weights.sum()
    where = weights @ [one.at for one in asked]
    scores = weights @ [one.score for one in asked]
    return np.asarray(where + np.linalg.solve(curvature, scores))


def joint_noise(noises: list[float]) -> float:
    """Of a mean by precision."""
    return math.hypot(*[1.0 / noise for noise in noises]) ** -1.0


class Rough(NamedTuple):
    """How far steps in whitened coordinates, where curvatures should be 1, may be from arriving.

    Attributes
    ----------
    even : float
        Error of the curvature, whatever the step is.
    bends : float
        What the curvature may change by for each unit of a step's length.
    spread : float
        Mean square of the scores' lengths.
    """

    even: float
    bends: float
    spread: float

    def heard(self, step: Stepped) -> tuple[float, float]:
        """Squared length of the score that a step began with, without its noise's, and that."""
        error = len(step.score) * step.noise**2
        return max(float(step.score @ step.score) - error, 0.0), error

    def arrived(
        self,
        step: Stepped,
        before: tuple[float, float] | None,
        mus: tuple[float, ...],
        counts: bool,
        n: int,
    ) -> bool:
        """Whether one further step, with all that is left, is as good as many.

        What this one leaves is a part of its length, no less than what the one before left; it
        counts as much as its part of the budget, and the further step leaves the same part of it.

        Parameters
        ----------
        step : Stepped
        before : tuple of float, optional
            What was :meth:`heard` of the step before.
        mus : tuple of float
            What this step cost, and what those that are left may.
        counts : bool
            Whether it counts in the result.
        n : int
        """
        square, error = self.heard(step)
        length, whole, kept = math.sqrt(square), math.hypot(counts * mus[0], *mus[1:]), 0.0
        if before is not None:
            explained = before[1] * (1.0 + HEARD * math.sqrt(2.0 / len(step.score)))
            kept = max(square - explained, 0.0) / max(before[0], LEAST)
        part = max(self.even + self.bends * length, math.sqrt(kept))
        own = (counts * mus[0] / whole) ** 2
        stays = own * part * length + (1.0 - own) * part * math.hypot(part * length, error**0.5)
        noise = error**0.5 * mus[0] / whole
        return stays <= math.hypot(SLIGHT * noise, FINE * math.sqrt(self.spread / n))
