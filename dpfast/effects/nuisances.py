"""Nuisances of a fold: who was treated, and what outcomes were to be expected in either arm.

Their noise enters an effect by products only, so they need not be known well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc

from dpfast.curator.effects import Nuisance, Trial
from dpfast.curator.whitened import At
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.models import LeastSquares
from dpfast.optimize.protocol import answers_only
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.regression.decisions import Recipe, recipe_of

__all__ = ["Budgets", "budgets", "fold_nuisance", "fold_recipe", "refuse"]

Array = NDArray[np.float64]

#: Shares of mu^2: of the nuisances, of the histograms of propensities and of deviations.  The
#: location has the rest.
NUISANCES, OVERLAP, LENGTHS = 0.35, 0.01, 0.03

#: Of the nuisances' share, that of the propensity; of the outcomes' rest, those of their Gram, of
#: their moments, and of the moments of what these leave.
PROPENSITY = 0.4
GRAM, MOMENT, RESIDUAL = 0.4, 0.2, 0.4

#: Of what the location has, the share of its first step.
FIRST = 0.1

#: Public penalty of the propensity's coefficients.
RIDGE = 0.003

#: Bounds on outcomes, and on their residuals, in standard deviations of the outcome.  A bound on
#: residuals leaves the regression where it is: outcomes that are expected wrongly make an effect
#: depend on errors of the propensity.
CAP, RESIDUAL_CAP = 3.0, 2.0

#: Radius of the rows' weights, in sqrt(p) of an arm, for standardised columns.
RADIUS = 1.0


#: Of covariates, in their units: more is noise.
LARGEST_VARIANCE = 4.0

#: Of a standardised outcome, as a guess: covariates explain half.
RESIDUAL_VARIANCE = 0.5


class Fold(NamedTuple):
    """Released nuisances, and the variance that their errors leave in the other fold's mean."""

    nuisance: Nuisance
    product: float


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each quantity."""

    nuisances: float
    propensity: float
    gram: float
    moments: tuple[float, float]
    overlap: float
    lengths: float
    steps: tuple[float, float]


def budgets(mu: float, measured: bool) -> Budgets:
    """How ``mu`` is divided; ``measured``: whether the clipping bound is bought."""
    lengths = LENGTHS if measured else 0.0
    rest = 1.0 - NUISANCES - OVERLAP - lengths

    def part(share: float) -> float:
        return mu * math.sqrt(share)

    outcomes = NUISANCES * (1.0 - PROPENSITY)
    return Budgets(
        part(NUISANCES),
        part(NUISANCES * PROPENSITY),
        part(outcomes * GRAM),
        (part(outcomes * MOMENT), part(outcomes * RESIDUAL)),
        part(OVERLAP),
        part(lengths),
        (part(rest * FIRST), part(rest * (1.0 - FIRST))),
    )


def fold_recipe(n: int, n_covariates: int, mu: float) -> Recipe:
    """How the propensity of a fold of n records is fitted."""
    return recipe_of(
        n, n_covariates, mu, True, "logistic", None, None, RIDGE, "auto", inference=False
    )


def refuse(trial: Trial, fold: int, recipe: Recipe, budget: Budgets) -> None:
    """Refuse budgets at which an answer about a fold would be; nothing is spent."""
    ledger = Ledger(GDP(budget.nuisances))
    curator = trial.propensity(fold, recipe.objective, ledger)
    for planned in recipe.budgets:
        curator.plan(planned)
    recipe.optimiser.check(answers_only(curator, recipe.budgets), recipe.budgets)
    for moment in budget.moments:
        trial.outcomes(fold, ledger).refuse_sums(budget.gram, moment)


def fold_nuisance(trial: Trial, fold: int, recipe: Recipe, budget: Budgets, ledger: Ledger) -> Fold:
    """Spend ``budget.nuisances`` on one fold.

    Privacy
    -------
    Post-processing of the answers, which charge the fold's ledger.
    """
    curator = trial.propensity(fold, recipe.objective, ledger)
    answers = answers_only(curator, recipe.budgets)
    start = np.zeros(recipe.objective.dimension)
    run = recipe.optimiser.run(answers, start, recipe.budgets, None)
    rows = trial.outcomes(fold, ledger)
    radius = RADIUS * math.sqrt(rows.dimension / 2)
    gram = rows.gram(radius, budget.gram)
    first, second = budget.moments
    moment = rows.moment(radius, CAP, first)
    floor = math.sqrt(2.0 * rows.dimension) * gram.noise_scale
    curvature = floor_eigenvalues(gram.value, floor)[0]
    pilot = np.asarray(np.linalg.solve(curvature, moment.value), dtype=np.float64)
    rest = rows.moment(radius, RESIDUAL_CAP, second, At(pilot, LeastSquares()), "score")
    arms: Array = pilot + np.linalg.solve(curvature, rest.value)
    product = _product(
        run.theta,
        run.final.gradient.noise_scale,
        curvature,
        rest.noise_scale,
        trial.sizes[fold],
        radius,
    )
    return Fold(Nuisance(run.theta, arms.reshape(2, -1)), product)


def _product(
    propensity: Array, score: float, gram: Array, moment: float, n: int, radius: float
) -> float:
    """Variance of what errors of both nuisances together leave in the mean of the other fold.

    ``E[(1 - e) v'a v'b_1 + e v'a v'b_0]`` for errors a of the propensity's coefficients and b of
    the arms'; their covariances by sampling and by the released noise scales, at the mean
    propensity, for rows as they are: those of the Gram are held to the radius.
    """
    p, k = len(gram) // 2, len(propensity)
    arms = gram[:p, :p], gram[p:, p:]
    both = arms[0] + arms[1]
    treated = 1.0 / (1.0 + math.exp(-min(max(float(propensity[0]), -3.0), 3.0)))
    inverse = np.linalg.inv(treated * (1.0 - treated) * both[:k, :k])
    of_propensity = score * score * inverse @ inverse + inverse / n
    of_arms = np.zeros((p, p))
    for arm, other in zip(arms, (treated, 1.0 - treated), strict=True):
        inverse = np.linalg.inv(arm)
        sampling = RESIDUAL_VARIANCE * inverse / n
        of_arms += other * other * (moment * moment * inverse @ inverse + sampling)
    whole = both[:k] * (mean_square(float(np.trace(both)), radius**2, p) / np.trace(both))
    return float(np.trace(whole.T @ of_propensity @ whole @ of_arms))


def mean_square(held: float, most: float, p: int) -> float:
    """Mean squared length of rows whose squared lengths, held to ``most``, have the mean ``held``.

    Of rows with a constant and p - 1 normal covariates of one variance.
    """
    if p == 1:
        return held
    low, high = 0.0, LARGEST_VARIANCE
    for _ in range(30):
        variance = 0.5 * (low + high)
        cap = (most - 1.0) / variance
        inside = chdtr(p + 1, cap) * (p - 1) + cap * chdtrc(p - 1, cap)
        low, high = (variance, high) if 1.0 + variance * inside < held else (low, variance)
    return max(held, 1.0 + 0.5 * (low + high) * (p - 1))
