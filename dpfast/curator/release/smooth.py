"""Minimiser of a convex objective whose Hessian is Lipschitz, to a public tolerance.

Newton steps with a ridge of ``sqrt(2 L ||gradient||)`` (Mishchenko 2023) end after a public number
(claim R25 of PROOFS-release.md); smaller ridges are tried first.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.release.certified import Minimiser, PenalisedObjective, pilot, public_problem
from dpfast.kernels.linalg import eigh, newton_direction
from dpfast.models import smooth_constants
from dpfast.privacy.release.smooth_minimiser import SmoothPlan, smooth_minimiser_plan

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


#: Steps from the pilot's point before the search starts again at zero, where it is proved.
PILOT_STEPS = 60

#: By how much a ridge is lowered after a step that it allowed, and raised after one it did not.
LOWER, RAISE, MIN_SHARE = 1.0 / 16.0, 64.0, 2.0**-40


def smooth_plan(curator: Curator, radius: float) -> SmoothPlan:
    """Compute public constants of the search; reads no record, costs nothing."""
    constants = smooth_constants(curator.objective.loss, curator.objective.scale)
    return smooth_minimiser_plan(**constants._asdict(), **public_problem(curator, radius))


def smooth_minimiser(curator: Curator, plan: SmoothPlan) -> Minimiser:
    """Find a point with exact gradient at most ``plan.tolerance``, for every data set."""
    search = _Search(curator, plan)
    pilot_problem = pilot(curator, plan)
    done = False
    if pilot_problem is not None:
        start, _, _ = _Search(*pilot_problem).run(np.zeros(plan.dimension), PILOT_STEPS)
        theta, hessian, done = search.run(start, PILOT_STEPS)
    if not done:
        theta, hessian, _ = search.run(np.zeros(plan.dimension), plan.most_steps)
    values, _ = eigh(hessian)
    return Minimiser(theta, hessian, float(values[0]), float(values[-1]), search.passes)


class _Search(PenalisedObjective[SmoothPlan]):
    """Regularised Newton search."""

    def run(self, theta: Array, steps: int) -> tuple[Array, Array, bool]:
        """Take regularised Newton steps; the last result says if the tolerance was reached."""
        plan = self.plan
        gradient, hessian, length = self.evaluate(theta)
        share = 1.0
        for _ in range(steps):
            if length <= self.enough:
                break
            safe = math.sqrt(2.0 * plan.search_lipschitz * length)
            while True:
                ridge = max(share * safe, 8.0 * plan.hessian_error)
                certain = not ridge < safe
                step = self.direction(hessian, gradient, safe if certain else ridge)
                candidate = theta - step
                if certain or np.abs(candidate).max() <= plan.box:
                    following = self.evaluate(candidate)
                    if certain or self.accepts(theta - candidate, following, ridge):
                        break
                share = min(1.0, share * RAISE)
            theta, (gradient, hessian, length) = candidate, following
            share = max(share * LOWER, MIN_SHARE)
        return theta, hessian, length <= self.enough

    def direction(self, hessian: Array, gradient: Array, ridge: float) -> Array:
        shifted = hessian + ridge * np.eye(self.plan.dimension)
        direction, _, _ = newton_direction(shifted, gradient, 0.5 * ridge)
        return direction

    def accepts(self, back: Array, following: tuple[Array, Array, float], ridge: float) -> bool:
        """Say whether the search ended, or convexity proves the descent along ``back``."""
        gradient, _, length = following
        if length <= self.enough:
            return True
        proved = length * length / (2.0 * ridge)
        proved += 2.0 * self.plan.error * float(np.linalg.norm(back))
        return float(gradient @ back) >= proved
