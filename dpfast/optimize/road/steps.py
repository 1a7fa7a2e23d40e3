"""Full steps of the road, from a start in whitened coordinates to where all records lead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.curator.whitened import At, Held
from dpfast.optimize.road.secants import Asked, Rough, Stepped, bent, joint_noise, mean_point

__all__ = ["EARLY", "FAR", "STEPS", "Rows", "Walked", "walk"]

Array = NDArray[np.float64]

#: Steps at most; those after the first few count in the result.  Once one of them has arrived, the
#: next is the last, and has all that is left.
STEPS, EARLY = 6, 1

#: Longest step of a loss that bends, in roots of its curvature, and in its noise.
FAR = 3.0


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
    most: float,
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
    most : float
        Longest step, where noise is no longer; zero: of any length.
    report : callable
        Told where each step led, and how many there were.

    Privacy
    -------
    Which steps there are follows from answers (C9); together they cost ``mus``, each score with
    its meat (C17).
    """
    theta, curvature, p = start.theta, np.eye(len(start.theta)), len(start.theta)
    before, earlier, done, near = None, None, 0, False
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
        if counts:
            meats.append(answer.meat)
            noises.append(noise)
        if before is not None:
            steeper = bent(curvature, before, direction, noise, 1.0)
            if steeper is not curvature:  # what was asked far from here is of no use
                curvature, asked = steeper, asked if near else []
        asked, was = [*asked, Asked(theta, direction, noise)] if counts else [], theta
        length = math.hypot(*direction)
        longest = max(most, FAR * noise * p**0.5)
        cut = most > 0.0 and length > longest
        if cut:  # the curvature may be another one there
            asked, theta = [], theta + longest / length * direction
        elif counts:
            theta = mean_point(asked, curvature)
        else:
            theta = theta + direction
        now = Stepped(theta - was, direction, noise)
        near = (
            bool(left) and not cut and rough.arrived(now, earlier, (mu_step, *left), counts, rows.n)
        )
        if near:
            left = [math.hypot(*left)]
        before, earlier, done = now, rough.heard(now), done + 1
        report(theta, done if left else STEPS)
    spread = joint_noise([one.noise for one in asked] or [noise])
    return Walked(theta, curvature, spread, meats, noises, done)
