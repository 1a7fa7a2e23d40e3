"""Objective perturbation: minimiser of a randomly tilted objective, to a public tolerance.

The tilt is normal and secret (claims R10, R23, R37 and R38 of PROOFS-release.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.release.certified import certified_plan, polished_minimiser, public_problem
from dpfast.errors import InvalidBudget, MissingBound
from dpfast.models import release_constants
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.mechanisms import CLAMP, gaussian_scale, grid_bits
from dpfast.privacy.release.calibration import objective_perturbation_scale
from dpfast.privacy.release.certified_minimiser import (
    MinimiserPlan,
    compressed,
    edge,
    expanded,
    knee,
    worst,
)
from dpfast.privacy.release.scaled import normal_error, normal_vector
from dpfast.privacy.rounding import ROUNDING_SUM

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

#: Parts of epsilon and delta that the noise which covers the tolerance of the search may have.
OUTPUT_SHARES = tuple(2.0**-k for k in range(2, 13))


class PerturbationTerms(NamedTuple):
    """Public constants of objective perturbation."""

    budget: ApproxDP
    plan: MinimiserPlan
    #: Sequential roundings of the sums.
    depth: int
    #: Part of epsilon and delta that the noise on the output has.
    share: float
    #: Standard deviation of each coordinate of the tilt.
    tilt_scale: float
    #: What the search finds, compressed, is within this of the compressed minimiser.
    distance: float
    #: Of the noise on the output.
    receipt: Receipt

    @property
    def deviation(self) -> float:
        """Bound of a coordinate's noise: the minimiser moves by the tilt over the ridge."""
        return math.hypot(self.tilt_scale / self.plan.ridge, self.receipt.noise_scale)


def perturbation_terms(curator: Curator, radius: float, budget: ApproxDP) -> PerturbationTerms:
    """Calibrate both noises; reads no record, costs nothing."""
    objective, n = curator.objective, curator.n
    ridge = objective.ridge
    if not ridge > 0.0:
        raise MissingBound(
            "objective perturbation needs a ridge penalty. Pass "
            "dpfast.Objective(loss, ridge=...), a positive public "
            "number of the order of curvature_bound/(n epsilon)."
        )
    plan = certified_plan(curator, radius)
    depth = public_problem(curator, radius)["depth"]
    constants = release_constants(objective.loss, objective.scale)
    curvature = constants.curvature * radius * radius
    share = _output_share(budget, plan, depth, curvature)
    scale = _tilt_deviation(budget, plan, share, curvature)
    if not scale < math.inf:
        raise InvalidBudget(
            f"ridge = {ridge:g} is too small for epsilon = {budget.epsilon:g} and n = {n}: "
            f"log(1 + {curvature:g}/(n ridge)) must be below epsilon. Pass a larger ridge."
        )
    distance, noise_scale = _output_noise(budget, plan, depth, share, scale)
    # the tilt must leave the minimiser in its box, up to a probability below 1e-300
    if not 80.0 * scale <= ridge * plan.box:
        raise InvalidBudget(
            f"ridge = {ridge:g} is too small beside the perturbation {scale:.3g}. Pass a larger "
            "ridge."
        )
    # for audits, which hold the tilt fixed: then the minimiser itself moves by this, and the noise
    # on the output alone would be worth next to nothing; what hides the move is the tilt (R10)
    moved = 2.0 * constants.slope * radius / (n * ridge) * (1.0 + 1e-10) + 2.0 * distance
    receipt = Receipt("perturbed minimiser", "R10", moved / noise_scale, moved, noise_scale)
    return PerturbationTerms(budget, plan, depth, share, scale, distance, receipt)


def _output_share(budget: ApproxDP, plan: MinimiserPlan, depth: int, curvature: float) -> float:
    """Choose the part of the budget for the output's noise that minimises both noises together."""
    smallest = OUTPUT_SHARES[-1]
    scale = _tilt_deviation(budget, plan, smallest, curvature)
    if not scale < math.inf:
        return smallest
    slope = curvature / plan.dimension + plan.floor
    spent = math.log1p(curvature / (plan.n * plan.ridge))
    most_epsilon = budget.epsilon * (1.0 - smallest) - spent

    def total(share: float) -> float:
        rest = budget.epsilon * (1.0 - share) - spent
        if not rest > 0.0:
            return math.inf
        output = _output_noise(budget, plan, depth, share, scale)[1]
        return math.hypot(scale * most_epsilon / rest / slope, output)

    return min(OUTPUT_SHARES, key=total)


def _tilt_deviation(budget: ApproxDP, plan: MinimiserPlan, share: float, curvature: float) -> float:
    """Compute the standard deviation of the tilt, for the budget less the output's share."""
    epsilon = budget.epsilon * (1.0 - share)
    delta = budget.delta * (1.0 - share)
    return objective_perturbation_scale(
        epsilon, delta, curvature, plan.slope, plan.radius, plan.n, plan.ridge
    )


def _output_noise(
    budget: ApproxDP, plan: MinimiserPlan, depth: int, share: float, scale: float
) -> tuple[float, float]:
    """Bound the distance of the search's end from the minimiser; scale the noise that covers it."""
    slack = normal_error(scale, plan.dimension)
    distance = (worst(plan, depth) + slack / plan.floor) * (1.0 + ROUNDING_SUM)
    spend = GDP.within(ApproxDP(budget.epsilon * share, budget.delta * share))
    # no less than the grid of a release resolves at values up to the edge
    grid_scale = 4.0 * edge(plan) * 2.0 ** grid_bits(plan.dimension) / CLAMP
    return distance, max(grid_scale, gaussian_scale(2.0 * distance, spend.mu, plan.dimension))


def perturbed_minimiser(curator: Curator, terms: PerturbationTerms) -> Answer:
    """Release the minimiser of the tilted objective (claims R10, R23, R37, R38)."""
    curator.ledger.charge(terms.budget, terms.receipt.query)
    p = terms.plan.dimension
    tilt = normal_vector(terms.tilt_scale, p, curator._noise)
    knee_length = knee(terms.plan)
    value = compressed(polished_minimiser(curator, terms.plan, terms.depth, tilt), knee_length)
    question = (terms.receipt.query, terms.receipt.mu, terms)
    answer = curator._release(question, terms.receipt, value)
    return answer._replace(value=expanded(answer.value, knee_length))
