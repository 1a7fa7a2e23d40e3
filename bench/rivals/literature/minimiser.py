"""The exact minimiser of a ridge-penalised objective, released once (output perturbation).

What is released lies within a public tolerance of the minimiser for *every* data set: either
that is certified by the size of the gradient, or it follows from the number of gradient steps
taken.  No data set can make the search fail, so nothing about failures needs protecting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.rivals.literature.sensitivity import (
    descent_steps,
    ridge_minimiser as minimiser_sensitivity,
)
from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.bounds import refuse_free_scale
from dpfast.errors import InvalidInput, MissingBound
from dpfast.kernels.linalg import newton_direction
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER
from dpfast.privacy.budget import GDP
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.release.certified_minimiser import gradient_error

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


#: Tolerance of the minimiser relative to its sensitivity, where rounding allows it.
RELATIVE_TOLERANCE = 1e-6

#: Newton or majorise-minimise steps before the search falls back to plain gradient steps, whose
#: number is known in advance.  Ten are typical.
FAST_STEPS = 200

#: Most gradient steps the guarantee may need; beyond it the request is refused.
MOST_DESCENT_STEPS = 50_000_000


class NewtonSearch(NamedTuple):
    """Public constants of the search (claim B5)."""

    tolerance: float
    reach: float
    error: float
    smoothness: float
    n_steps: int


def minimiser_search(curator: Curator) -> NewtonSearch:
    """Tolerance and number of steps, from public constants only."""
    objective, n, p = curator.objective, curator.n, curator.objective.dimension
    refuse_free_scale(objective, "the minimiser")
    ridge = objective.ridge
    if not ridge:
        raise MissingBound(
            "the minimiser has no sensitivity bound without a ridge penalty. Pass "
            "dpfast.Objective(loss, ridge=...), a positive public number."
        )
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, and the claim needs a convex loss. Use one, and "
            "weights=dpfast.Mallows(radius)."
        )
    if not objective.loss.certified:
        raise InvalidInput(
            f"the constants of the {objective.loss.name} loss are declared, not proved, and the "
            "sensitivity of a minimiser rests on its convexity, which no kernel can enforce. Use a "
            "built-in loss."
        )
    bound = objective.score_bound
    smoothness = objective.smoothness * (1.0 + 1e-11)
    reach = bound / ridge * (1.0 + 1e-9)
    depth = max(curator.depth(want) for want in (GRADIENT, GRADIENT | HESSIAN)) + 1
    error = gradient_error(bound, smoothness, reach, p, depth)
    tolerance = max(RELATIVE_TOLERANCE * 2.0 * bound / (n * ridge), 8.0 * error / ridge)
    n_steps = descent_steps(smoothness, ridge, 2.0 * reach, 0.5 * tolerance)
    if n_steps > MOST_DESCENT_STEPS:
        raise InvalidInput(
            f"ridge = {ridge:g} is too small beside the curvature bound "
            f"{objective.curvature_bound:g}: the minimiser could not be guaranteed within "
            f"{MOST_DESCENT_STEPS} steps. Pass a larger ridge."
        )
    return NewtonSearch(tolerance, reach, error, smoothness, n_steps)


def minimiser_receipt(curator: Curator, mu: float) -> Receipt:
    """What :func:`ridge_minimiser` would release; touches nothing, costs nothing."""
    objective, search = curator.objective, minimiser_search(curator)
    sensitivity = minimiser_sensitivity(
        objective.score_diameter, objective.ridge, curator.n, tolerance=search.tolerance
    )
    scale = gaussian_scale(sensitivity, mu, objective.dimension)
    check_grid_range(search.reach, scale, objective.dimension)
    return Receipt("minimiser", "B4", mu, sensitivity, scale)


def ridge_minimiser(curator: Curator, mu: float) -> Answer:
    """Release the minimiser of the curator's objective.

    Charges ``mu`` (claims B4 and B5 of PROOFS-rivals.md): the minimiser moves by at most
    ``2 B / (n ridge)``, and what is released is within the tolerance of it.  How long the search
    takes depends on the records and is not protected.
    """
    receipt = minimiser_receipt(curator, mu)
    curator.ledger.charge(GDP(mu), receipt.query)
    value = _minimise(curator, minimiser_search(curator))
    return curator._release((receipt.query, mu), receipt, value)


def _minimise(curator: Curator, search: NewtonSearch) -> Array:
    """A point within the tolerance of the minimiser; not private."""
    objective = curator.objective
    ridge, p = objective.ridge, objective.dimension
    # certified if (||computed gradient|| + error) / ridge <= tolerance
    enough = ridge * search.tolerance * (1.0 - 1e-9) - search.error

    def gradient_at(theta: Array, want: int) -> tuple[Array, Array, float]:
        gradient, curvature, _ = curator._sums(theta, want)
        gradient = gradient + ridge * theta
        return gradient, curvature, float(np.linalg.norm(gradient))

    theta = best = np.zeros(p)
    identity = ridge * np.eye(p)
    gradient, hessian, length = gradient_at(theta, GRADIENT | HESSIAN)
    shortest = length
    for _ in range(FAST_STEPS):
        if length <= enough:
            return theta
        direction, _, _ = newton_direction(hessian + identity, gradient, 0.5 * ridge)
        candidate = _into_ball(theta - direction, search.reach)
        following = gradient_at(candidate, GRADIENT | HESSIAN)
        if not following[2] <= 0.5 * length:
            # not the quadratic phase yet: a step of the majorising curvature always descends
            _, majorizer, _ = curator._sums(theta, MAJORIZER)
            direction, _, _ = newton_direction(majorizer + identity, gradient, 0.5 * ridge)
            candidate = _into_ball(theta - direction, search.reach)
            following = gradient_at(candidate, GRADIENT | HESSIAN)
        theta, (gradient, hessian, length) = candidate, following
        if length < shortest:
            best, shortest = theta, length
    return _descend(gradient_at, best, enough, search, ridge)


def _descend(
    gradient_at: Callable[[Array, int], tuple[Array, Array, float]],
    theta: Array,
    enough: float,
    search: NewtonSearch,
    ridge: float,
) -> Array:
    """Plain gradient steps: slow, but how many suffice is known whatever the records are."""
    step_size = 2.0 / (search.smoothness + ridge)
    for _ in range(search.n_steps):
        gradient, _, length = gradient_at(theta, GRADIENT)
        if length <= enough:
            break
        theta = _into_ball(theta - step_size * gradient, search.reach)
    return theta


def _into_ball(theta: Array, radius: float) -> Array:
    """The nearest point of the ball, which contains the minimiser; zero for what is not finite."""
    length = float(np.linalg.norm(theta))
    if length <= radius:
        return theta
    return theta * (radius / length) if length < np.inf else np.zeros_like(theta)
