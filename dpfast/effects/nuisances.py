"""Nuisances of a fold: who was treated, and what outcomes were to be expected in either arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, ndtr

from dpfast.curator.answers import StepBudget
from dpfast.curator.effects import Aim, Arms, Nuisance, Trial, linear, planned
from dpfast.models import Huber, LeastSquares
from dpfast.models.losses import MASSES, NODES
from dpfast.optimize.protocol import answers_only
from dpfast.optimize.road.histogram import NormHistogram
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.regression.decisions import Recipe, recipe_of

Array = NDArray[np.float64]

#: Shares of mu^2: of the nuisances, of the histograms of propensities and of deviations, and of how
#: much records count where that is asked.  The location has the rest.
NUISANCES, OVERLAP, LENGTHS, COUNTED = 0.35, 0.01, 0.05, 0.02

#: Of the nuisances' share, that of the propensity; of the outcomes' rest, those of their Gram, of
#: their moments, and of the moments of what these leave.
PROPENSITY = 0.4
GRAM, MOMENT, RESIDUAL = 0.4, 0.2, 0.4

#: Of what the location has, the share of its first step.
FIRST = 0.1

#: Public penalty of the propensity's coefficients, over the records: a normal prior of variance 10.
#: There is a fit with it; a larger one, whose pull is seen beside sampling errors, makes weights
#: too even, and what the arms' regressions then add to the variance goes with the mean itself.
RIDGE = 0.1

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

#: Of a coefficient of which nothing is told, where columns are standardised.
UNTOLD = 1.0


class Fold(NamedTuple):
    """Released nuisances of a fold, and how well they are known."""

    nuisance: Nuisance
    rows: Array
    of_propensity: Array
    of_arms: Array
    sampled: Array


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each quantity."""

    nuisances: float
    propensity: float
    gram: float
    moments: tuple[float, float]
    overlap: float
    lengths: float
    counted: float
    steps: tuple[float, float]


def budgets(mu: float, aim: Aim, measured: bool, known: bool, counted: bool) -> Budgets:
    """How ``mu`` is divided; ``measured``: whether the clipping bound is bought."""
    lengths, share = LENGTHS if measured else 0.0, COUNTED if counted else 0.0
    nuisances = 0.0 if aim.known is not None and not aim.outcomes else NUISANCES
    of_propensity = 0.0 if known else nuisances * PROPENSITY
    outcomes = nuisances * (1.0 - PROPENSITY)
    if known:
        nuisances = outcomes * (1.0 + ROUNDING_SHARES)
    rest = 1.0 - nuisances - OVERLAP - lengths - share

    def part(share: float) -> float:
        return mu * math.sqrt(share)

    return Budgets(
        part(nuisances),
        part(of_propensity),
        part(outcomes * GRAM),
        (part(outcomes * MOMENT), part(outcomes * RESIDUAL)),
        part(OVERLAP),
        part(lengths),
        part(share),
        (part(rest * FIRST), part(rest * (1.0 - FIRST))),
    )


def fold_recipe(n: int, n_covariates: int, mu: float) -> Recipe:
    """How the propensity of a fold of n records is fitted."""
    return recipe_of(
        n, n_covariates, mu, True, "logistic", None, None, RIDGE / n, "auto", inference=False
    )


def refuse(n: int, p: int, recipe: Recipe | None, budget: Budgets, noise: NoiseSource) -> None:
    """Refuse budgets at which an answer about n records would be; nothing is spent."""
    if not budget.nuisances:
        return
    if recipe is not None:
        curator = planned(n, recipe.objective, noise)
        for asked in recipe.budgets:
            curator.plan(asked)
        recipe.optimiser.check(answers_only(curator, recipe.budgets), recipe.budgets)
    # noise is in proportion to radius and cap, so those of 1 decide
    planned(n, linear(2 * p, LeastSquares()), noise, Arms.parts).plan(StepBudget(0.0, budget.gram))
    for moment in budget.moments:
        planned(n, linear(2 * p, Huber(1.0)), noise, Arms.parts).plan(StepBudget(moment))


def level(effect: float, unsure: float, aim: Aim) -> Fold:
    """Of outcomes about zero that differ by an effect, where the propensity is known: free."""
    assert aim.known is not None
    share = 0.0 if aim.treated else aim.known
    arms = np.array([[-share * effect], [(1.0 - share) * effect]])
    shares = np.array([share, 1.0 - share])
    variances = ((unsure * shares) ** 2)[:, None, None]
    nothing = np.zeros((1, 1))
    return Fold(Nuisance(nothing[0], arms), nothing + 1.0, nothing, variances, 0.0 * variances)


def fold_nuisance(
    trial: Trial, fold: int, recipe: Recipe | None, budget: Budgets, ledger: Ledger
) -> Fold:
    """Spend ``budget.nuisances`` on one fold: post-processing of what its ledger is charged for."""
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
    moment = rows.moment(radius, CAP, first)
    inverses, hidden = map(np.array, zip(*_inverses(gram.value, gram.noise_scale), strict=True))
    pilot = np.einsum("aij,aj->ai", inverses, moment.value.reshape(2, p))
    rest = rows.moment(radius, RESIDUAL_CAP, second, pilot.ravel())
    step = np.einsum("aij,aj->ai", inverses, rest.value.reshape(2, p))
    held = gram.value[:p, :p] + gram.value[p:, p:]
    own = np.linalg.eigh(held)
    floor = 2.0 * math.sqrt(p) * gram.noise_scale
    held = own[1] * np.maximum(own[0], floor) @ own[1].T
    whole = held * (mean_square(float(np.trace(held)), radius**2, p) / np.trace(held))
    known = np.zeros((p, p))
    if recipe is not None:
        known = _of_propensity(propensity, score, whole, n)
    noise = rest.noise_scale**2 + gram.noise_scale**2 * (step**2).sum(axis=1)[:, None, None]
    of_arms = noise * (inverses @ inverses) + UNTOLD * hidden
    return Fold(Nuisance(propensity, pilot + step), whole, known, of_arms, inverses / n)


def _inverses(gram: Array, noise: float) -> list[tuple[Array, Array]]:
    """Of each arm the inverse of what is told of its Gram, and the directions that are not."""
    p = len(gram) // 2
    floor = math.sqrt(2.0 * p) * noise
    found = []
    for arm in (gram[:p, :p], gram[p:, p:]):
        values, vectors = np.linalg.eigh(arm)
        untold = np.where(values < floor, vectors, 0.0)
        found.append((vectors / np.maximum(values, floor) @ vectors.T, untold @ untold.T))
    return found


class Index(NamedTuple):
    """Log odds of treatment, what they are taken for, and how rows go with them."""

    odds: Array
    masses: Array
    rows: Array
    rest: Array

    @staticmethod
    def of(propensity: Array, whole: Array) -> Index:
        """Where covariates are normal: a row goes with the log odds by a line."""
        p = len(whole)
        theta = np.zeros(p)
        theta[: len(propensity)] = propensity
        mean = whole[0] / whole[0, 0]
        covariance = whole / whole[0, 0] - np.outer(mean, mean)
        with_odds = covariance @ theta
        spread = math.sqrt(max(float(theta @ with_odds), 1e-30))
        rows = mean + np.outer(NODES, with_odds / spread)
        rest = covariance - np.outer(with_odds, with_odds) / spread**2
        return Index(float(mean @ theta) + spread * NODES, MASSES, rows, rest)

    def known(self, propensities: Array, masses: Array) -> Index:
        """The same rows where the propensities are these."""
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
        """Mean row under weights that depend on the log odds."""
        return (self.masses * weights) @ self.rows

    def square(self, weights: Array) -> Array:
        """Mean product of a row with itself."""
        weights = self.masses * weights
        return np.asarray(self.rows.T * weights @ self.rows + weights.sum() * self.rest)


def _chance(odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -40.0, 40.0))))


def _of_propensity(propensity: Array, score: float, whole: Array, n: int) -> Array:
    """Covariance of the coefficients by sampling and by noise, at their own curvature."""
    k, index = len(propensity), Index.of(propensity, whole)
    e = _chance(index.odds)
    curvature = index.square(e * (1.0 - e))[:k, :k] + RIDGE / n * np.eye(k)
    inverse = np.linalg.inv(curvature)
    found = np.zeros_like(whole)
    found[:k, :k] = score * score * inverse @ inverse + inverse / n
    return found


class Weighed:
    """What is foreseen of deviations: who has which weight, and how often they are clipped."""

    def __init__(
        self, folds: Sequence[Fold], overlap: float, aim: Aim, told: tuple[Array, Array] | None
    ) -> None:
        self._folds, self._treated = folds, aim.treated
        self._parts = []
        for fold in folds:
            index = Index.of(fold.nuisance.propensity, fold.rows)
            if aim.known is not None:
                told = np.array([aim.known]), np.ones(1)
            if told is not None:
                index = index.known(*told)
            error = math.sqrt(max(float(np.trace(fold.rows @ fold.of_propensity)), 0.0))
            e = _chance(index.odds[:, None] + error * NODES)
            held = _chance(index.odds)[:, None]
            if aim.known is None:
                held = np.clip(held, overlap, 1.0 - overlap)
            if aim.treated:
                weights = held / (1.0 - held), np.ones_like(held)
            else:
                weights = 1.0 / (1.0 - held), 1.0 / held
            unsure, more = (
                np.maximum(np.einsum("ij,aji->a", fold.rows, some), 0.0)
                for some in (fold.of_arms, fold.sampled)
            )
            self._parts.append((index, error, e, weights, unsure, 1.0 + more))
        pairs = [
            ((chance @ MASSES) * index.masses, weight[:, 0], *errors)
            for index, _, e, weights, *known in self._parts
            for chance, weight, *errors in zip((1.0 - e, e), weights, *known, strict=True)
        ]
        self._chances, self._weights, self._unsure, self._more = map(
            np.array, zip(*pairs, strict=True)
        )

    def outside_error(self, overlap: float) -> float:
        """Standard deviation of the share outside of the bounds, by errors of coefficients."""
        square = 0.0
        for index, _, e, *_ in self._parts:
            outside = index.masses @ ((e > 1.0 - overlap) | (e < overlap) & (not self._treated))
            square += float(MASSES @ (outside - MASSES @ outside) ** 2)
        return math.sqrt(square) / len(self._folds)

    def residuals(self, lengths: NormHistogram) -> float:
        """Standard deviation of the residuals, by the median of the deviations."""
        low, high, sizes = -60.0, 60.0, self._sizes(1.0)
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = (self._chances * ndtr(-np.minimum(math.exp(middle) / sizes, 40.0))).sum()
            low, high = (middle, high) if 2.0 * below > 0.5 * len(self._folds) else (low, middle)
        return lengths.median() / math.exp(high)

    def cut(self, clip: Array, spread: float) -> Array:
        """Mean of ``(|d| - clip)^+`` for each of these bounds."""
        sizes = self._sizes(spread)
        at = np.minimum(clip[:, None, None] / sizes, 40.0)
        density = np.exp(-0.5 * at**2) / math.sqrt(2.0 * math.pi)
        cut = 2.0 * sizes * np.maximum(density - at * ndtr(-at), 0.0)
        return np.asarray((self._chances * cut).sum(axis=(1, 2)) / len(self._folds))

    def _sizes(self, spread: float) -> Array:
        """Standard deviations of the deviations of each fold and arm, along the log odds."""
        sizes = np.sqrt(spread**2 * self._more + self._unsure)[:, None] * self._weights
        return np.asarray(np.maximum(sizes, 1e-300))

    def product(self, clip: float, spread: float) -> float:
        """Variance of what the arms' regressions leave in the mean, and go with what it is of.

        Weights that are held, and deviations that are, leave ``off' (m' - m)`` of a regression m'
        on one fold, which goes with that fold's own deviations.
        """
        total = 0.0
        for fold, (index, error, e, weights, unsure, more) in zip(
            self._folds, self._parts, strict=True
        ):
            down, up = weights
            sizes = np.sqrt(spread**2 * more + unsure)
            within = [
                1.0 - 2.0 * ndtr(-clip / np.maximum(size * weight, 1e-300))
                for size, weight in zip(sizes, weights, strict=True)
            ]
            counted = e * within[1] if self._treated else np.ones_like(e)
            off = [counted - (1.0 - e) * down * within[0], counted - e * up * within[1]]
            whole = index.mean(counted @ MASSES)
            for one, noise, inverse in zip(off, fold.of_arms, fold.sampled, strict=True):
                mean, sampled = one @ MASSES, spread**2 * inverse
                of_arm, left = noise + sampled, index.mean(mean)
                total += float(left @ of_arm @ left + 2.0 * left @ sampled @ (whole - left))
                if error > 0.0:
                    varies = np.sqrt(np.maximum((one - mean[:, None]) ** 2 @ MASSES, 0.0))
                    moved = index.square(varies / error)
                    total += float(np.trace(moved @ fold.of_propensity @ moved @ of_arm))
        return max(total, 0.0) / len(self._folds) ** 2


def mean_square(held: float, most: float, p: int) -> float:
    """Mean squared length of rows whose squared lengths, held to ``most``, have mean ``held``."""
    if p == 1:
        return held
    low, high = 0.0, LARGEST_VARIANCE
    for _ in range(30):
        variance = 0.5 * (low + high)
        cap = (most - 1.0) / variance
        inside = chdtr(p + 1, cap) * (p - 1) + cap * chdtrc(p - 1, cap)
        low, high = (variance, high) if 1.0 + variance * inside < held else (low, variance)
    return max(held, 1.0 + 0.5 * (low + high) * (p - 1))
