"""Objective perturbation: the minimiser of a randomly tilted objective, found exactly.

The tilt is normal and secret; the minimiser of the tilted objective is what is private.  What the
search finds lies within a public tolerance of it, which a little noise on the output covers
(claims R10 and R23 of PROOFS-release.md).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.release.certified import certified_minimiser, certified_plan
from dpfast.errors import InvalidBudget, MissingBound
from dpfast.models import release_constants
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.scaled import normal_error, normal_vector
from dpfast.privacy.release.sensitivity import objective_perturbation_scale
from dpfast.privacy.rounding import MARGIN_8000

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

__all__ = ["PerturbationTerms", "paid_minimiser", "perturbation_terms", "perturbed_minimiser"]

#: Parts of epsilon and delta spent on the noise that covers the tolerance of the search.
OUTPUT_SHARE = 1.0 / 64.0


class PerturbationTerms(NamedTuple):
    """Public constants of objective perturbation.

    Attributes
    ----------
    budget : ApproxDP
    plan : MinimiserPlan
    tilt_scale : float
        Standard deviation of each coordinate of the tilt.
    distance : float
        What the search finds is within this of the minimiser.
    receipt : Receipt
        Of the noise on the output.
    """

    budget: ApproxDP
    plan: MinimiserPlan
    tilt_scale: float
    distance: float
    receipt: Receipt


def perturbation_terms(curator: Curator, radius: float, budget: ApproxDP) -> PerturbationTerms:
    """Calibrate both noises; touches nothing, costs nothing.

    Raises
    ------
    MissingBound, InvalidBudget
        If the ridge is zero, or too small for the budget.
    """
    objective, n = curator.objective, curator.n
    ridge = objective.ridge
    if not ridge > 0.0:
        raise MissingBound(
            "objective perturbation needs a ridge penalty. Pass ridge=..., a positive public "
            "number of the order of curvature_bound/(n epsilon)."
        )
    plan = certified_plan(curator, radius)
    constants = release_constants(objective.loss, objective.scale)
    curvature = constants.curvature * radius * radius
    epsilon = budget.epsilon * (1.0 - OUTPUT_SHARE)
    delta = budget.delta * (1.0 - OUTPUT_SHARE)
    scale = objective_perturbation_scale(
        epsilon, delta, curvature, constants.slope, radius, n, ridge
    )
    if not scale < math.inf:
        raise InvalidBudget(
            f"ridge = {ridge:g} is too small for epsilon = {budget.epsilon:g} and n = {n}: "
            f"log(1 + {curvature:g}/(n ridge)) must be below epsilon. Pass a larger ridge."
        )
    # the tilt must leave the minimiser in its box, up to a probability below 1e-300
    if not 80.0 * scale <= ridge * plan.box:
        raise InvalidBudget(
            f"ridge = {ridge:g} is too small beside the perturbation {scale:.3g}. Pass a larger "
            "ridge."
        )
    slack = plan.tolerance + normal_error(scale, plan.dimension)
    distance = slack / plan.floor * (1.0 + MARGIN_8000)
    spend = GDP.within(ApproxDP(budget.epsilon * OUTPUT_SHARE, budget.delta * OUTPUT_SHARE))
    sensitivity = 2.0 * distance
    noise_scale = gaussian_scale(sensitivity, spend.mu, plan.dimension)
    check_grid_range(plan.box, noise_scale, plan.dimension)
    # for audits, which hold the tilt fixed: then the minimiser itself moves by this, and the noise
    # on the output alone would be worth next to nothing; what hides the move is the tilt (R10)
    moved = 2.0 * constants.slope * radius / (n * ridge) * (1.0 + 1e-10) + sensitivity
    receipt = Receipt("perturbed minimiser", "R10", moved / noise_scale, moved, noise_scale)
    return PerturbationTerms(budget, plan, scale, distance, receipt)


def perturbed_minimiser(curator: Curator, terms: PerturbationTerms) -> Answer:
    """Release the minimiser of the tilted objective.

    Parameters
    ----------
    curator : Curator
        Its objective has the ridge the terms were made for.
    terms : PerturbationTerms

    Privacy
    -------
    Charges ``terms.budget`` (claims R10 and R23): the tilt makes the minimiser private, the noise
    on the output covers the tolerance of the search.
    """
    curator.ledger.charge(terms.budget, terms.receipt.query)
    return paid_minimiser(curator, terms)


def paid_minimiser(curator: Curator, terms: PerturbationTerms) -> Answer:
    """The same where ``terms.budget`` was charged before: the fallback of a certified release."""
    p = terms.plan.dimension
    tilt = normal_vector(terms.tilt_scale, p, curator._noise)
    value = certified_minimiser(curator, terms.plan, tilt).theta
    question = (terms.receipt.query, terms.receipt.mu, terms)
    return curator._release(question, terms.receipt, value)
