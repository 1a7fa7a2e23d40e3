"""Minimiser of a self-concordant objective, to a tolerance that holds for every data set.

Newton steps until the gradient proves that the minimiser is near (claim R20 of PROOFS-release.md).
If these do not converge in time, a path of vanishing ridges does (claim R21).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.bounds import refuse_free_scale
from dpfast.curator.release.projection import thinned
from dpfast.errors import InvalidInput, described
from dpfast.kernels.linalg import eigh, newton_direction
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER
from dpfast.models import Bounded, release_constants
from dpfast.privacy.release.certified_minimiser import (
    ERRORS,
    MinimiserPlan,
    gradient_error_at,
    minimiser_plan,
)
from dpfast.privacy.release.smooth_minimiser import SmoothPlan

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


#: Newton or majorise-minimise steps before ridges are tried; five are typical.
FAST_STEPS = 40

#: Newton steps along ridges that fall as fast as they can, before the path that is proved.
EAGER_STEPS = 400

#: Steps at the end of the path; each at least divides the gradient by ten (claim R21).
LAST_STEPS = 100

#: Damping step length, relative to the radius of convergence, beyond which a step of the
#: majorising curvature goes further than a damped Newton step.
MAX_DAMPED = 3.0

#: Records of the pilot problem whose minimiser is where the search starts.
PILOT = 1 << 15


class Minimiser(NamedTuple):
    """Secret point of the search, its computed Hessian, and that Hessian's extreme eigenvalues."""

    theta: Array
    hessian: Array
    eigenvalue: float
    largest: float
    passes: int


def certified_plan(curator: Curator, radius: float) -> MinimiserPlan:
    """Compute public constants of the search; reads no record, costs nothing."""
    problem = public_problem(curator, radius)
    constants = release_constants(curator.objective.loss, curator.objective.scale)._asdict()
    return minimiser_plan(c=constants.pop("concordance"), **constants, **problem)


def public_problem(curator: Curator, radius: float) -> dict[str, Any]:
    """Collect the public constants that every plan needs besides the loss's."""
    objective = curator.objective
    refuse_free_scale(objective, "a certified minimiser")
    if not isinstance(objective.weighting, Bounded):
        raise InvalidInput(
            f"{described(objective.weighting)} does not bound the rows themselves, which "
            "certificates need. Declare a domain such as dpfast.models.Ball(radius)."
        )
    return {
        "radius": radius,
        "n": curator.n,
        "dimension": objective.dimension,
        "ridge": objective.ridge,
        # sequential roundings of the sums
        "depth": max(curator.depth(want) for want in (GRADIENT, GRADIENT | HESSIAN)) + 2,
    }


def certified_minimiser(
    curator: Curator, plan: MinimiserPlan, tilt: Array | None = None
) -> Minimiser:
    """Find a point with exact gradient at most ``plan.tolerance``, for every data set."""
    search = _Search(curator, plan, tilt)
    start = np.zeros(plan.dimension)
    pilot_problem = pilot(curator, plan) if tilt is None else None
    if pilot_problem is not None:
        start = _Search(*pilot_problem).fast(start, 30)[0]
    return search.run(start)


def polished_minimiser(curator: Curator, plan: MinimiserPlan, depth: int, tilt: Array) -> Array:
    """Find a point with exact gradient at most four errors of a computed one (claim R37)."""
    minimiser = certified_minimiser(curator, plan, tilt)
    return _Search(curator, plan, tilt).polish(minimiser.theta, depth)


Plan = TypeVar("Plan", MinimiserPlan, SmoothPlan)


def pilot(curator: Curator, plan: Plan) -> tuple[Curator, Plan] | None:
    """Make a small problem of few records, to start the search; no proof rests on it."""
    if not curator.n > 4 * PILOT:
        return None
    try:
        sample = thinned(curator._records, PILOT)
    except InvalidInput:  # records on a cluster stay there; the search can do without
        return None
    subproblem = type(curator)(
        sample, curator.objective, curator.ledger, curator._noise, curator._threads
    )
    return subproblem, plan._replace(tolerance=1e-6 * plan.slope * plan.radius, error=0.0)


class PenalisedObjective(Generic[Plan]):
    """An objective with its public penalty; counts the passes over the records."""

    def __init__(self, curator: Curator, plan: Plan, tilt: Array | None = None) -> None:
        self.curator = curator
        self.plan: Plan = plan
        self.tilt = tilt
        self.passes = 0
        # certified if ||computed gradient|| + error <= tolerance
        self.enough = plan.tolerance * (1.0 - 1e-9) - plan.error

    def evaluate(self, theta: Array, want: int = GRADIENT | HESSIAN) -> tuple[Array, Array, float]:
        """Compute gradient, curvature and length of the gradient."""
        plan = self.plan
        self.passes += 1
        gradient, curvature, _ = self.curator._sums(theta, want)
        scaled = plan.rate * theta
        penalty_curvature = plan.ridge + plan.stiffness * np.cosh(scaled)
        curvature = curvature + np.diag(penalty_curvature)
        if not want & GRADIENT:
            return gradient, curvature, 0.0
        gradient = gradient + plan.ridge * theta + (plan.stiffness / plan.rate) * np.sinh(scaled)
        if self.tilt is not None:
            gradient = gradient + self.tilt
        return gradient, curvature, float(np.linalg.norm(gradient))


class _Search(PenalisedObjective[MinimiserPlan]):
    """Damped Newton search."""

    def into_box(self, theta: Array) -> Array:
        """Project to the box that contains the minimiser; NaN becomes zero."""
        box = self.plan.box
        return np.clip(np.nan_to_num(theta, nan=0.0, posinf=box, neginf=-box), -box, box)

    def run(self, start: Array) -> Minimiser:
        theta, hessian, done = self.fast(start, FAST_STEPS)
        if not done:
            theta, hessian, done = self.eager()
        if not done:
            theta, hessian = self.path()
        values, _ = eigh(hessian)
        return Minimiser(theta, hessian, float(values[0]), float(values[-1]), self.passes)

    def polish(self, theta: Array, depth: int) -> Array:
        """Take Newton steps to the last digits, from the end of the search (claim R37)."""
        for _ in range(LAST_STEPS):
            gradient, hessian, length = self.evaluate(theta)
            error = gradient_error_at(self.plan, depth, float(np.linalg.norm(theta)))
            if length <= (ERRORS * (1.0 - 1e-9) - 1.0) * error:
                break
            theta = self.into_box(theta - self.direction(hessian, gradient))
        return theta

    def fast(self, theta: Array, steps: int) -> tuple[Array, Array, bool]:
        """Take Newton steps, damped where they do not halve the gradient."""
        plan = self.plan
        gradient, hessian, length = self.evaluate(theta)
        for _ in range(steps):
            if length <= self.enough:
                return theta, hessian, True
            direction = self.direction(hessian, gradient)
            candidate = self.into_box(theta - direction)
            following = self.evaluate(candidate)
            if not following[2] <= 0.5 * length:
                b = plan.c * plan.radius * float(np.linalg.norm(direction))
                if b > MAX_DAMPED:
                    _, majorizer, _ = self.evaluate(theta, MAJORIZER)
                    candidate = self.into_box(theta - self.direction(majorizer, gradient))
                else:
                    candidate = self.into_box(theta - math.log1p(b) / b * direction)
                following = self.evaluate(candidate)
            theta, (gradient, hessian, length) = candidate, following
        return theta, hessian, length <= self.enough

    def direction(self, curvature: Array, gradient: Array) -> Array:
        direction, _, _ = newton_direction(curvature, gradient, 0.5 * self.plan.floor)
        return direction

    def largest_ridge(self) -> float:
        """Compute a ridge with which zero is in the region of quadratic convergence."""
        plan = self.plan
        score = plan.slope * plan.radius * (1.0 + 1e-9)
        if self.tilt is not None:
            score += float(np.linalg.norm(self.tilt))
        return 8.0 * plan.c * plan.radius * score

    def eager(self) -> tuple[Array, Array, bool]:
        """Take Newton steps with a ridge that falls as fast as they allow."""
        plan = self.plan
        theta, ridge, factor = np.zeros(plan.dimension), self.largest_ridge(), 16.0
        gradient, hessian, length = self.evaluate(theta)
        last = self.passes + EAGER_STEPS
        while self.passes < last and not length <= self.enough:
            target = ridge / factor if ridge / factor > 1e-3 * plan.floor else 0.0
            point, slope, curvature = theta, gradient, hessian
            first = size = float(np.linalg.norm(slope + target * point))
            for _ in range(4):
                shifted = curvature + target * np.eye(plan.dimension)
                step = self.direction(shifted, slope + target * point)
                point = self.into_box(point - step)
                slope, curvature, length = self.evaluate(point)
                size = float(np.linalg.norm(slope + target * point))
                if not size <= 4.0 * first or size <= 0.1 * first:
                    break
            if size <= 0.1 * first:
                theta, gradient, hessian, ridge = point, slope, curvature, target
                factor = min(factor * factor, 1e4)
            else:
                factor = math.sqrt(factor)
                length = float(np.linalg.norm(gradient))
        return theta, hessian, length <= self.enough

    def path(self) -> tuple[Array, Array]:
        """Take one Newton step for each of a public sequence of ridges down to 0 (claim R21)."""
        plan = self.plan
        reach = plan.c * plan.radius * plan.reach
        ridge = self.largest_ridge()
        theta = np.zeros(plan.dimension)
        while ridge > 0.0:
            gradient, hessian, _ = self.evaluate(theta)
            shifted = hessian + ridge * np.eye(plan.dimension)
            theta = self.into_box(theta - self.direction(shifted, gradient + ridge * theta))
            following = (plan.floor + ridge) / (1.0 + 1.0 / (32.0 * reach)) - plan.floor
            ridge = following if following > 0.0 else 0.0
        gradient, hessian, length = self.evaluate(theta)
        for _ in range(LAST_STEPS):
            if length <= self.enough:
                break
            theta = self.into_box(theta - self.direction(hessian, gradient))
            gradient, hessian, length = self.evaluate(theta)
        return theta, hessian
