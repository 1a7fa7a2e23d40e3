"""Full steps of the road, from a start in whitened coordinates to where all records lead.

What released scores say of the curvature between the points they were asked at is learnt on the
way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.curator.whitened import At, Held
from dpfast.kernels.linalg import eigh

__all__ = [
    "EARLY",
    "EVEN",
    "HEARD",
    "STEPS",
    "Asked",
    "Rough",
    "Rows",
    "Walked",
    "bent",
    "by_precision",
    "inside",
    "joint_noise",
    "mean_point",
    "walk",
]

Array = NDArray[np.float64]

#: Steps at most; those after the first few count in the result.  Once one of them has arrived, the
#: next is the last, and has all that is left.
STEPS, EARLY = 6, 1

#: Deviations of noise from which on a score, or what it changed by, says something.
HEARD = 2.0

#: Of the way to a plane beyond which no least is: a step of more than this goes half of it.
BACK = 0.75

#: Of a curvature that is learnt, or expected: the least of a direction as a part of the largest.
EVEN = 1e-3

#: What steps may leave, as a part of noise, and of the standard error of sampling.
SLIGHT, OF_SAMPLING = 0.3, 0.03

#: Instead of nothing below a division bar.
LEAST = 1e-300


class Asked(NamedTuple):
    """Where a score was asked for, the score, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float

    @property
    def heard(self) -> tuple[float, float]:
        """Squared length of the score without its noise's, and that of the noise."""
        error = len(self.score) * self.noise**2
        return max(float(self.score @ self.score) - error, 0.0), error


def bent(curvature: Array, before: Asked, here: Asked) -> Array:
    """A curvature that between two points is what the score changed by, where noise lets that be
    told.

    Where a loss is flatter at both ends of a step than between, Newton's steps would go to and fro
    for ever; where few long rows tell a direction and their scores are held, steps would be too
    short (the update of Broyden, Fletcher, Goldfarb and Shanno).  Noise of the first score is in
    the step, too.
    """
    step, change = here.theta - before.theta, before.score - here.score
    turned, size = curvature @ step, math.hypot(*step.tolist())
    was, between = float(step @ turned), float(step @ change)
    doubt = HEARD * math.hypot(here.noise, before.noise) * size + len(step) * before.noise**2
    if not (abs(between - was) > doubt and was > 0.0 and between > 0.0):
        return curvature
    found = curvature - np.outer(turned, turned) / was + np.outer(change, change) / between
    if not np.isfinite(found).all():
        return curvature
    values = eigh(found)[0]
    return found if values[0] > EVEN * values[-1] else curvature


def inside(step: Array, asked: list[Asked]) -> float:
    """Part of a step from the last point that leads nowhere an earlier score points away from.

    Where a score is heard, a convex loss has its least on that side of the point to which the
    score points (a cutting plane).  A step that ends near the plane or beyond goes half of the way
    to it: others would go to and fro between points whose scores point at each other.
    """
    part, here = 1.0, asked[-1].theta
    for one in asked[:-1]:
        away = here - one.theta
        to_plane, along = float(one.score @ away), -float(one.score @ step)
        if to_plane > HEARD * one.noise * math.hypot(*away.tolist()) and along > BACK * to_plane:
            part = min(part, 0.5 * to_plane / along)
    return part


def by_precision(noises: list[float]) -> Array:
    """Weights of a mean of answers with this noise."""
    weights = np.array([noise**-2 for noise in noises])
    return weights / weights.sum()


def mean_point(asked: list[Asked], curvature: Array | None = None) -> Array:
    """Where steps of this curvature, or of 1, lead from the points that were asked about, in the
    mean.
    """
    weights = by_precision([one.noise for one in asked])
    where = weights @ [one.theta for one in asked]
    scores = weights @ [one.score for one in asked]
    step = scores if curvature is None else np.linalg.solve(curvature, scores)
    return np.asarray(where + step)


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

    def arrived(
        self,
        step: Asked,
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
        step : Asked
        before : tuple of float, optional
            What was heard of the step before.
        mus : tuple of float
            What this step cost, and what those that are left may.
        counts : bool
            Whether it counts in the result.
        n : int
        """
        square, error = step.heard
        length, whole, kept = math.sqrt(square), math.hypot(counts * mus[0], *mus[1:]), 0.0
        if before is not None:
            explained = before[1] * (1.0 + HEARD * math.sqrt(2.0 / len(step.score)))
            kept = max(square - explained, 0.0) / max(before[0], LEAST)
        part = max(self.even + self.bends * length, math.sqrt(kept))
        own = (counts * mus[0] / whole) ** 2
        stays = own * part * length + (1.0 - own) * part * math.hypot(part * length, error**0.5)
        noise = error**0.5 * mus[0] / whole
        return stays <= math.hypot(SLIGHT * noise, OF_SAMPLING * math.sqrt(self.spread / n))


class Rows(Protocol):
    """What the road may ask; each answer is charged before it is drawn."""

    @property
    def n(self) -> int: ...

    @property
    def dimension(self) -> int: ...

    def mapped(self, matrix: Array) -> Rows: ...

    def few(self) -> Rows: ...

    def gram(self, radius: float, mu: float, at: At | None = None) -> Answer: ...

    def moment(
        self,
        radius: float,
        cap: float,
        mu: float,
        at: At | None = None,
        what: str = ...,
        shift: float = ...,
    ) -> Answer: ...

    def lengths(
        self, edges: Array, mu: float, at: At | None = None, what: str = ..., held: Held = ...
    ) -> Answer: ...

    def clipped(
        self, at: At, radius: float, mu: float, mu_meat: float = 0.0, held: Held = ...
    ) -> JointAnswer: ...


class Walked(NamedTuple):
    """Where steps led, and what they saw on the way.

    Attributes
    ----------
    theta : ndarray of shape (p,)
    curvature : ndarray of shape (p, p)
        What was learnt of it; the identity if nothing was.
    noise : float
        Standard deviation of the noise in each direction, where curvatures are 1.
    meats : list of Answer
        Of the steps that count.
    noises : list of float
        Of their scores.
    steps : int
        How many there were.
    """

    theta: Array
    curvature: Array
    noise: float
    meats: list[Answer]
    noises: list[float]
    steps: int


def walk(
    rows: Rows,
    start: At,
    bound: float,
    held: Held,
    mus: tuple[float, ...],
    inference: bool,
    rough: Rough,
    farthest: Array | None,
    first: float,
    report: Callable[[Array, int], None],
) -> Walked:
    """Spend all of ``mus`` on steps of clipped scores.

    Parameters
    ----------
    rows : Rows
        Under the map that makes curvatures 1.
    start : At
    bound : float
        To which scores are held.
    held : Held
    mus : tuple of float
        What each step may cost, if there are as many as there may be.
    inference : bool
        Whether to ask for the scores' covariance.
    rough : Rough
    farthest : ndarray of shape (p, p), optional
        By which no step is longer than 1: of predictors, for a loss that bends.
    first : float
        Part that is taken of the early ones: rows longer than the map's curve more.
    report : callable
        Told where each step led, and how many there were.

    Privacy
    -------
    Which steps there are follows from answers (C9); together they cost ``mus``, each score with
    its meat (C17).
    """
    theta, curvature = start.theta, np.eye(len(start.theta))
    learnt: Array | None = None
    counted, done, near = 0, 0, False
    asked: list[Asked] = []
    meats: list[Answer] = []
    noises: list[float] = []
    left = list(mus)
    while left:
        counts = done >= EARLY
        mu_step, left = left[0], left[1:]
        # the meat is free up to half of the gradient's mu (claim C17)
        mu_meat = 0.5 * mu_step if inference and counts else 0.0
        answer = rows.clipped(start._replace(theta=theta), bound, mu_step, mu_meat, held)
        direction, noise = answer.gradient.value, answer.gradient.noise_scale
        asked.append(Asked(theta, direction, noise))
        if counts:
            meats.append(answer.meat)
            noises.append(noise)
            counted += 1
        if done:
            steeper = bent(curvature, *asked[-2:])
            if steeper is not curvature:  # what was asked far from here is of no use
                curvature, counted = steeper, counted if near else int(counts)
                learnt = curvature
        step = (mean_point(asked[-counted:], learnt) - theta) if counts else first * direction
        part = inside(step, asked)
        if farthest is not None:
            part = min(part, 1.0 / max(math.hypot(*(farthest @ step)), LEAST))
        theta = theta + part * step
        if part < 1.0:  # the curvature is another one there
            counted, near = 0, False
        elif left:
            earlier = asked[-2].heard if done else None
            near = rough.arrived(asked[-1], earlier, (mu_step, *left), counts, rows.n)
            left = [math.hypot(*left)] if near else left
        done += 1
        report(theta, done if left else STEPS)
    spread = joint_noise([one.noise for one in asked[-max(counted, 1) :]])
    return Walked(theta, curvature, spread, meats, noises, done)
