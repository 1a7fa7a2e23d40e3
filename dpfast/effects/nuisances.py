"""Nuisances of a fold: the propensity of treatment, and the outcome models of both arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, ndtr

from dpfast.curator.answers import Answer, StepBudget
from dpfast.curator.effects import Aim, Arms, Nuisance, Trial, linear, planned
from dpfast.kernels.linalg import floor_eigenvalues
from dpfast.models import Huber, LeastSquares
from dpfast.models.losses import MASSES, NODES
from dpfast.optimize.protocol import answers_only
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.regression.decisions import Recipe, recipe_of
from dpfast.solvers.pcn.histogram import NormHistogram
from dpfast.solvers.pcn.precondition import precondition

Array = NDArray[np.float64]

#: Shares of mu^2: of the nuisances, of the histograms of propensities and of deviations, and of the
#: mean weight where it is released.  The location has the rest.
NUISANCES, OVERLAP, LENGTHS, COUNTED = 0.35, 0.01, 0.05, 0.02

#: Share of the propensity in the nuisances' part.  The outcome models' rest is divided between
#: their Gram matrix, their moments, and the moments of their residuals.
PROPENSITY = 0.4
GRAM, MOMENT, RESIDUAL = 0.4, 0.2, 0.4

#: Share of the location's first step; the second step, which is released, needs more.
FIRST = 0.1

#: Public ridge penalty of the propensity's coefficients, times n: a normal prior of variance 10.
#: Without it separated arms have no fit.  A larger one shrinks propensities by more than their
#: sampling error: weights are too even, and errors of the outcome models no longer cancel.
RIDGE = 0.1

#: Clipping bounds on outcomes and on residuals, in standard deviations of the outcome.  Outcomes
#: are clipped far out, since a biased model makes the effect depend on errors of the propensity.
#: Residuals may be clipped closer, which leaves a correct model unchanged.
OUTCOME_CLIP, RESIDUAL_CLIP = 3.0, 2.0

#: Clipping norm of an arm's rows, in units of sqrt(p), for standardised columns.
RADIUS = 1.0

#: Largest variance assumed for a standardised covariate; a larger estimate is noise.
LARGEST_VARIANCE = 4.0

#: Assumed residual variance of a standardised outcome: covariates explain half.
RESIDUAL_VARIANCE = 0.5

#: Prior variance of a coefficient below the noise, for standardised columns.
PRIOR_VARIANCE = 1.0


class Fold(NamedTuple):
    """Released nuisances of a fold, and the covariances of their errors."""

    nuisance: Nuisance
    rows: Array
    propensity_covariance: Array
    arm_covariances: Array
    sampled: Array


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each query."""

    nuisances: float
    propensity: float
    gram: float
    moments: tuple[float, float]
    overlap: float
    lengths: float
    counted: float
    steps: tuple[float, float]


def budgets(mu: float, aim: Aim, measured: bool, known: bool, counted: bool) -> Budgets:
    """Divide ``mu`` between the queries; ``measured``: whether the clipping bound is released."""
    lengths_share, share = LENGTHS if measured else 0.0, COUNTED if counted else 0.0
    nuisances = 0.0 if aim.known is not None and not aim.outcomes else NUISANCES
    propensity_share = 0.0 if known else nuisances * PROPENSITY
    outcomes = nuisances * (1.0 - PROPENSITY)
    if known:
        nuisances = outcomes * (1.0 + ROUNDING_SHARES)
    rest = 1.0 - nuisances - OVERLAP - lengths_share - share

    def part(share: float) -> float:
        return mu * math.sqrt(share)

    return Budgets(
        part(nuisances),
        part(propensity_share),
        part(outcomes * GRAM),
        (part(outcomes * MOMENT), part(outcomes * RESIDUAL)),
        part(OVERLAP),
        part(lengths_share),
        part(share),
        (part(rest * FIRST), part(rest * (1.0 - FIRST))),
    )


def fold_recipe(n: int, n_covariates: int, mu: float) -> Recipe:
    """Plan the propensity model of a fold of n records: ridge-penalised logistic regression."""
    return recipe_of(
        n, n_covariates, mu, True, "logistic", None, None, RIDGE / n, "auto", inference=False
    )


def refuse(n: int, p: int, recipe: Recipe | None, budget: Budgets, noise: NoiseSource) -> None:
    """Refuse, before the charge, budgets that a query about n records would refuse."""
    if not budget.nuisances:
        return
    if recipe is not None:
        curator = planned(n, recipe.objective, noise)
        for step_budget in recipe.budgets:
            curator.plan(step_budget)
        recipe.optimiser.check(answers_only(curator, recipe.budgets), recipe.budgets)
    # noise is in proportion to radius and clip, so a plan with 1 for both decides
    planned(n, linear(2 * p, LeastSquares()), noise, Arms.parts).plan(StepBudget(0.0, budget.gram))
    for moment in budget.moments:
        planned(n, linear(2 * p, Huber(1.0)), noise, Arms.parts).plan(StepBudget(moment))


def level(effect: float, error: float, aim: Aim) -> Fold:
    """Make nuisances for constant outcomes in each arm and a known propensity; free."""
    assert aim.known is not None
    share = 0.0 if aim.treated else aim.known
    arms = np.array([[-share * effect], [(1.0 - share) * effect]])
    shares = np.array([share, 1.0 - share])
    variances = ((error * shares) ** 2)[:, None, None]
    nothing = np.zeros((1, 1))
    return Fold(Nuisance(nothing[0], arms), nothing + 1.0, nothing, variances, 0.0 * variances)


def fold_nuisance(
    trial: Trial, fold: int, recipe: Recipe | None, budget: Budgets, ledger: Ledger
) -> Fold:
    """Fit the nuisances of one fold with ``budget.nuisances``, charged to the fold's ledger."""
    rows, n = trial.outcomes(fold, ledger), trial.sizes[fold]
    p = rows.dimension // 2
    propensity, score = np.zeros(p), 0.0
    if recipe is not None:
        curator = trial.propensity(fold, recipe.objective, ledger)
        answers = answers_only(curator, recipe.budgets)
        start = np.zeros(recipe.objective.dimension)
        run = recipe.optimiser.run(answers, start, recipe.budgets, None)
        propensity, score = run.theta, run.final.gradient.noise_scale
    radius = RADIUS * math.sqrt(p)
    gram = rows.gram(radius, budget.gram)
    first, second = budget.moments
    moment = rows.moment(radius, OUTCOME_CLIP, first)
    inverses, hidden = map(np.array, zip(*_inverses(gram), strict=True))
    pilot = np.einsum("aij,aj->ai", inverses, moment.value.reshape(2, p))
    rest = rows.moment(radius, RESIDUAL_CLIP, second, pilot.ravel())
    step = np.einsum("aij,aj->ai", inverses, rest.value.reshape(2, p))
    clipped_rows = gram.value[:p, :p] + gram.value[p:, p:]
    clipped_rows = floor_eigenvalues(clipped_rows, 2.0 * math.sqrt(p) * gram.noise_scale)[0]
    row_moments = clipped_rows * (
        mean_square(float(np.trace(clipped_rows)), radius**2, p) / np.trace(clipped_rows)
    )
    propensity_covariance = np.zeros((p, p))
    if recipe is not None:
        propensity_covariance = _propensity_covariance(propensity, score, row_moments, n)
    noise = rest.noise_scale**2 + gram.noise_scale**2 * (step**2).sum(axis=1)[:, None, None]
    arm_covariances = noise * (inverses @ inverses) + PRIOR_VARIANCE * hidden
    return Fold(
        Nuisance(propensity, pilot + step),
        row_moments,
        propensity_covariance,
        arm_covariances,
        inverses / n,
    )


def _inverses(gram: Answer) -> list[tuple[Array, Array]]:
    """Invert the noisy Gram matrix of each arm; return also the directions below its noise."""
    p, inverses = len(gram.value) // 2, []
    for arm in (slice(0, p), slice(p, None)):
        whiten, unwhiten, values, floor = precondition(gram._replace(value=gram.value[arm, arm]))
        hidden = values < floor
        inverses.append((whiten @ whiten.T, whiten[:, hidden] @ unwhiten[hidden]))
    return inverses


class Index(NamedTuple):
    """Quadrature over log odds of treatment: nodes, masses, and the mean row at each node."""

    odds: Array
    masses: Array
    rows: Array
    rest: Array

    @staticmethod
    def of(propensity: Array, row_moments: Array) -> Index:
        """Take covariates for normal, so that the mean row is linear in the log odds."""
        p = len(row_moments)
        theta = np.zeros(p)
        theta[: len(propensity)] = propensity
        mean = row_moments[0] / row_moments[0, 0]
        covariance = row_moments / row_moments[0, 0] - np.outer(mean, mean)
        with_odds = covariance @ theta
        spread = math.sqrt(max(float(theta @ with_odds), 1e-30))
        rows = mean + np.outer(NODES, with_odds / spread)
        rest = covariance - np.outer(with_odds, with_odds) / spread**2
        return Index(float(mean @ theta) + spread * NODES, MASSES, rows, rest)

    def known(self, propensities: Array, masses: Array) -> Index:
        """Replace the quadrature by a histogram of known propensities."""
        masses = np.maximum(masses, 0.0) / max(float(np.maximum(masses, 0.0).sum()), 1e-300)
        odds = np.log(propensities / (1.0 - propensities))
        mean = MASSES @ self.rows
        return Index(
            odds,
            masses,
            np.tile(mean, (len(odds), 1)),
            self.square(np.ones(len(self.odds))) - np.outer(mean, mean),
        )

    def mean(self, weights: Array) -> Array:
        """Return the mean row under weights that depend on the log odds."""
        return (self.masses * weights) @ self.rows

    def square(self, weights: Array) -> Array:
        """Return the weighted mean of the outer product of a row."""
        weights = self.masses * weights
        return np.asarray(self.rows.T * weights @ self.rows + weights.sum() * self.rest)


def _chance(odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -40.0, 40.0))))


def _propensity_covariance(
    propensity: Array, score_noise: float, row_moments: Array, n: int
) -> Array:
    """Estimate the covariance of the propensity's coefficients, from sampling and noise."""
    k, index = len(propensity), Index.of(propensity, row_moments)
    e = _chance(index.odds)
    curvature = index.square(e * (1.0 - e))[:k, :k] + RIDGE / n * np.eye(k)
    inverse = np.linalg.inv(curvature)
    result = np.zeros_like(row_moments)
    result[:k, :k] = score_noise * score_noise * inverse @ inverse + inverse / n
    return result


class Weighed:
    """Expected sizes, weights and clipping of the deviations of pseudo-outcomes."""

    def __init__(
        self,
        folds: Sequence[Fold],
        overlap: float,
        aim: Aim,
        known_propensities: tuple[Array, Array] | None,
    ) -> None:
        self._folds, self._treated = folds, aim.treated
        self._parts = []
        for fold in folds:
            index = Index.of(fold.nuisance.propensity, fold.rows)
            if aim.known is not None:
                known_propensities = np.array([aim.known]), np.ones(1)
            if known_propensities is not None:
                index = index.known(*known_propensities)
            error = math.sqrt(max(float(np.trace(fold.rows @ fold.propensity_covariance)), 0.0))
            e = _chance(index.odds[:, None] + error * NODES)
            clipped = _chance(index.odds)[:, None]
            if aim.known is None:
                clipped = np.clip(clipped, overlap, 1.0 - overlap)
            if aim.treated:
                weights = clipped / (1.0 - clipped), np.ones_like(clipped)
            else:
                weights = 1.0 / (1.0 - clipped), 1.0 / clipped
            model_variance, sampled_variance = (
                np.maximum(np.einsum("ij,aji->a", fold.rows, inverses), 0.0)
                for inverses in (fold.arm_covariances, fold.sampled)
            )
            self._parts.append((index, error, e, weights, model_variance, 1.0 + sampled_variance))
        pairs = [
            ((chance @ MASSES) * index.masses, weight[:, 0], *errors)
            for index, _, e, weights, *variances in self._parts
            for chance, weight, *errors in zip((1.0 - e, e), weights, *variances, strict=True)
        ]
        self._chances, self._weights, self._model_variances, self._sampling_factors = map(
            np.array, zip(*pairs, strict=True)
        )

    def outside_error(self, overlap: float) -> float:
        """Return the error of the share outside the bounds, due to errors of coefficients."""
        square = 0.0
        for index, _, e, *_ in self._parts:
            outside = index.masses @ ((e > 1.0 - overlap) | (e < overlap) & (not self._treated))
            square += float(MASSES @ (outside - MASSES @ outside) ** 2)
        return math.sqrt(square) / len(self._folds)

    def residuals(self, lengths: NormHistogram) -> float:
        """Estimate the standard deviation of residuals from the median deviation, by bisection."""
        low, high, sizes = -60.0, 60.0, self._sizes(1.0)
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = (self._chances * ndtr(-np.minimum(math.exp(middle) / sizes, 40.0))).sum()
            low, high = (middle, high) if 2.0 * below > 0.5 * len(self._folds) else (low, middle)
        return lengths.median() / math.exp(high)

    def cut(self, clip: Array, spread: float) -> Array:
        """Return the expected excess ``(|d| - clip)^+`` of normal deviations, for each bound."""
        sizes = self._sizes(spread)
        at = np.minimum(clip[:, None, None] / sizes, 40.0)
        density = np.exp(-0.5 * at**2) / math.sqrt(2.0 * math.pi)
        cut = 2.0 * sizes * np.maximum(density - at * ndtr(-at), 0.0)
        return np.asarray((self._chances * cut).sum(axis=(1, 2)) / len(self._folds))

    def _sizes(self, spread: float) -> Array:
        """Return the standard deviation of deviations for each fold and arm, along the log odds."""
        sizes = (
            np.sqrt(spread**2 * self._sampling_factors + self._model_variances)[:, None]
            * self._weights
        )
        return np.asarray(np.maximum(sizes, 1e-300))

    def product(self, clip: float, spread: float) -> float:
        """Return the variance of the mean that comes from errors of the outcome models.

        Where weights or deviations are clipped, an error ``m' - m`` of one fold's outcome model
        does not cancel.  The part that is left, ``off' (m' - m)``, is correlated with that fold's
        own deviations.
        """
        total = 0.0
        for fold, (index, error, e, weights, model_variance, sampling_factor) in zip(
            self._folds, self._parts, strict=True
        ):
            weight_control, weight_treated = weights
            sizes = np.sqrt(spread**2 * sampling_factor + model_variance)
            within = [
                1.0 - 2.0 * ndtr(-clip / np.maximum(size * weight, 1e-300))
                for size, weight in zip(sizes, weights, strict=True)
            ]
            counted_share = e * within[1] if self._treated else np.ones_like(e)
            remainders = [
                counted_share - (1.0 - e) * weight_control * within[0],
                counted_share - e * weight_treated * within[1],
            ]
            total_row = index.mean(counted_share @ MASSES)
            for remainder, noise, inverse in zip(
                remainders, fold.arm_covariances, fold.sampled, strict=True
            ):
                mean, sampled = remainder @ MASSES, spread**2 * inverse
                of_arm, uncancelled = noise + sampled, index.mean(mean)
                total += float(
                    uncancelled @ of_arm @ uncancelled
                    + 2.0 * uncancelled @ sampled @ (total_row - uncancelled)
                )
                if error > 0.0:
                    varies = np.sqrt(np.maximum((remainder - mean[:, None]) ** 2 @ MASSES, 0.0))
                    moved = index.square(varies / error)
                    total += float(np.trace(moved @ fold.propensity_covariance @ moved @ of_arm))
        return max(total, 0.0) / len(self._folds) ** 2


def mean_square(clipped: float, bound: float, p: int) -> float:
    """Estimate the mean squared norm of rows from that of clipped rows, by bisection.

    Covariates are taken for normal; ``bound`` is the squared clipping norm, and ``clipped`` the
    mean.
    """
    if p == 1:
        return clipped
    low, high = 0.0, LARGEST_VARIANCE
    for _ in range(30):
        variance = 0.5 * (low + high)
        cap = (bound - 1.0) / variance
        inside = chdtr(p + 1, cap) * (p - 1) + cap * chdtrc(p - 1, cap)
        low, high = (variance, high) if 1.0 + variance * inside < clipped else (low, variance)
    return max(clipped, 1.0 + 0.5 * (low + high) * (p - 1))
