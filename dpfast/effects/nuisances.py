"""Nuisances of a fold: the propensity of treatment, and the outcome models of both arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dpfast.arguments import Array
from dpfast.curator.effects import ARMS, Aim, Nuisance, Trial, planned_rows
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.models import resolve_loss
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.solvers.pcn.clipping import ASYMMETRY
from dpfast.solvers.pcn.engine import fit_pcn
from dpfast.solvers.pcn.histogram import N_FINE_BINS, NormHistogram
from dpfast.solvers.pcn.plan import BudgetAllocation, Setting, prices
from dpfast.solvers.pcn.result import SolverResult

#: Shares of mu^2: of the nuisances, of the histograms of propensities and of deviations, and of the
#: mean weight where it is released.  The location has the rest.
NUISANCES, OVERLAP, LENGTHS, COUNTED = 0.35, 0.01, 0.1, 0.02

#: Share of the propensity in the nuisances' part; the model of outcomes has the rest.
PROPENSITY = 0.4

#: Share of the location's first step; the second step, which is released, needs more.
FIRST = 0.1

#: Losses of the models.
PROPENSITY_LOSS, OUTCOME_LOSS = "logistic", "least-squares"

#: Assumed residual variance of a standardised outcome: covariates explain half.
RESIDUAL_VARIANCE = 0.5

#: Quadrature of a standard normal number, by equal steps to where a billionth of the mass is left:
#: exact for smooth functions.  Weights that are clipped somewhere need the fine steps; over errors
#: of the log odds, which move these little, every fourth is enough.
NODES = np.arange(-48, 49) / 8.0
MASSES = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()
ERROR_NODES, ERROR_MASSES = NODES[::4], MASSES[::4] / MASSES[::4].sum()

#: Halvings of the bracket of a spread, which is then known to a ten thousandth.
HALVINGS = 16

#: Standard normal quartile.
QUARTILE = 0.6744897501960817


class Fold(NamedTuple):
    """Released nuisances of a fold, and the covariances of their errors."""

    nuisance: Nuisance
    rows: Array
    propensity_covariance: Array
    arm_covariances: Array
    sampled: Array


class Budgets(NamedTuple):
    """Gaussian-DP parameters of each model and query."""

    nuisances: float
    propensity: float
    outcomes: float
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
        part(outcomes * (1.0 - ROUNDING_SHARES)),
        part(OVERLAP),
        part(lengths_share),
        part(share),
        (part(rest * FIRST), part(rest * (1.0 - FIRST))),
    )


def _setting(loss: str, n: int, p: int, mu: float) -> Setting:
    """Return the settings of a model of p coefficients, the intercept among them."""
    kind = resolve_loss(loss, unbounded=True)
    return Setting(kind._adapted_to_sample(kind._for_records(n, p, mu), n), None, True)


@lru_cache(maxsize=256)
def refuse(n: int, aim: Aim, covariates: int, budget: Budgets) -> None:
    """Refuse, before the charge, budgets that a query about n records would refuse.

    Accepted ones are cached.
    """
    for loss, p, mu in (
        (PROPENSITY_LOSS, 1 + covariates * int(aim.propensity), budget.propensity),
        (OUTCOME_LOSS, 2 * (1 + covariates * int(aim.outcomes)), budget.outcomes),
    ):
        if mu:
            counts = _setting(loss, n, p, mu).query_counts
            rows = planned_rows(n, p, EntropyNoise())  # never drawn from
            rows.refuse(*prices(n, p, (mu,), 1.0, (counts,), False), cells=N_FINE_BINS)


def level(effect: float, error: float, aim: Aim) -> Fold:
    """Make nuisances for constant outcomes in each arm and a known propensity; free."""
    assert aim.known is not None
    share = 0.0 if aim.treated else aim.known
    arms = np.array([[-share * effect], [(1.0 - share) * effect]])
    shares = np.array([share, 1.0 - share])
    variances = ((error * shares) ** 2)[:, None, None]
    nothing = np.zeros((1, 1))
    return Fold(Nuisance(nothing[0], arms), nothing + 1.0, nothing, variances, 0.0 * variances)


def fold_nuisance(trial: Trial, fold: int, budget: Budgets, ledger: Ledger) -> Fold:
    """Fit the nuisances of one fold with ``budget.nuisances``, charged to the fold's ledger.

    The outcomes of both arms are one regression, on covariates and their products with treatment.
    """
    n, propensity = trial.sizes[fold], None
    if budget.propensity:
        rows = trial.treatments(fold, ledger)
        propensity = _fitted(rows, PROPENSITY_LOSS, budget.propensity)
    outcomes = _fitted(trial.outcomes(fold, ledger), OUTCOME_LOSS, budget.outcomes)
    p = len(outcomes.theta) // 2
    theta, propensity_covariance = np.zeros(1), np.zeros((p, p))
    if propensity is not None:
        theta, k = propensity.theta, len(propensity.theta)
        propensity_covariance[:k, :k] = _noise(propensity) + _sampled(propensity, n)
    one = np.eye(p)
    arms = np.array([np.hstack([one, arm * one]) for arm in ARMS])

    def of_arms(covariance: Array) -> Array:
        return np.asarray(arms @ covariance @ arms.transpose(0, 2, 1))

    return Fold(
        Nuisance(theta, arms @ outcomes.theta),
        (outcomes.unmapping.T @ outcomes.unmapping)[:p, :p],
        propensity_covariance,
        of_arms(_noise(outcomes)),
        of_arms(_sampled(outcomes, n)),
    )


def _fitted(rows: PreconditionedQueries, loss: str, mu: float) -> SolverResult:
    """Fit one model by private clipped Newton."""
    setting = _setting(loss, rows.n, rows.dimension, mu)
    allocation = BudgetAllocation(rows.n, rows.dimension, mu)
    return fit_pcn(rows, setting, allocation, False, [])


def _noise(model: SolverResult) -> Array:
    """Return the covariance of a model's coefficients from noise and from what steps left.

    Clipped scores are left out: they may bias a model, and its error has a weight that vanishes
    where the other model is right (Robins, Rotnitzky and Zhao 1994).
    """
    clipping = (ASYMMETRY * model.clipping_bias) ** 2 / len(model.theta)
    variances = model.noise**2 + np.maximum(model.residual_bias_var - clipping, 0.0)
    return np.asarray((model.mapping * variances) @ model.mapping.T)


def _sampled(model: SolverResult, n: int) -> Array:
    """Return the inverse curvature over n: with residuals of variance 1, that of sampling."""
    return np.asarray(model.mapping @ model.mapping.T / n)


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
        """Return mean rows under weights of shape (..., nodes) that depend on the log odds."""
        return (self.masses * weights) @ self.rows

    def square(self, weights: Array) -> Array:
        """Return the weighted means of the outer product of a row, of shape (..., p, p)."""
        weights = self.masses * weights
        total = weights.sum(axis=-1)[..., None, None]
        return np.asarray((self.rows.T * weights[..., None, :]) @ self.rows + total * self.rest)


def _chance(odds: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -40.0, 40.0))))


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
            e = _chance(index.odds[:, None] + error * ERROR_NODES)
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
            chance = e @ ERROR_MASSES
            deviation = np.sqrt((e - chance[:, None]) ** 2 @ ERROR_MASSES)
            self._parts.append(
                (
                    index,
                    error,
                    e,
                    chance,
                    deviation,
                    weights,
                    model_variance,
                    1.0 + sampled_variance,
                )
            )
        pairs = [
            (share * index.masses, weight[:, 0], *errors)
            for index, _, _, chance, _, weights, *variances in self._parts
            for share, weight, *errors in zip(
                (1.0 - chance, chance), weights, *variances, strict=True
            )
        ]
        self._chances, self._weights, self._model_variances, self._sampling_factors = map(
            np.array, zip(*pairs, strict=True)
        )

    def outside_error(self, overlap: float) -> float:
        """Return the error of the share outside the bounds, due to errors of coefficients."""
        square = 0.0
        for index, _, e, *_ in self._parts:
            outside = index.masses @ ((e > 1.0 - overlap) | (e < overlap) & (not self._treated))
            square += float(ERROR_MASSES @ (outside - ERROR_MASSES @ outside) ** 2)
        return math.sqrt(square) / len(self._folds)

    def residuals(self, lengths: NormHistogram) -> float:
        """Estimate the standard deviation of residuals from the median deviation, by bisection."""
        sizes = self._sizes(1.0)
        # the median of a mixture lies between those of its parts
        low, high = np.log(QUARTILE * np.array([sizes.min(), sizes.max()])).tolist()
        for _ in range(HALVINGS):
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

    def product(self, clip: Array, spread: float) -> Array:
        """Return the variance of the mean from errors of the outcome models, for each bound.

        Where weights or deviations are clipped, an error ``m' - m`` of one fold's outcome model
        does not cancel.  The part that is left, ``off' (m' - m)``, is correlated with that fold's
        own deviations.
        """
        total = np.zeros(len(clip))
        for fold, part in zip(self._folds, self._parts, strict=True):
            index, error, _, chance, deviation, weights, model_variance, sampling_factor = part
            sizes = np.sqrt(spread**2 * sampling_factor + model_variance)
            control, treated = (
                weight[:, 0]
                * (1.0 - 2.0 * ndtr(-clip[:, None] / np.maximum(size * weight[:, 0], 1e-300)))
                for size, weight in zip(sizes, weights, strict=True)
            )
            # shares are linear in the chance of treatment, and have a level and a slope
            counted, grows = (0.0, treated) if self._treated else (1.0, 0.0)
            remainders = (counted - control, grows + control), (counted, grows - treated)
            total_row = index.mean(counted + grows * chance)
            for (level, slope), noise, inverse in zip(
                remainders, fold.arm_covariances, fold.sampled, strict=True
            ):
                sampled = spread**2 * inverse
                of_arm, uncancelled = noise + sampled, index.mean(level + slope * chance)
                total += ((uncancelled @ of_arm) * uncancelled).sum(axis=1)
                others = (total_row - uncancelled) @ sampled
                total += 2.0 * (uncancelled * others).sum(axis=1)
                if error > 0.0:
                    moved = index.square(np.abs(slope) * deviation / error)
                    both = moved @ fold.propensity_covariance @ moved @ of_arm
                    total += np.trace(both, axis1=1, axis2=2)
        return np.asarray(np.maximum(total, 0.0) / len(self._folds) ** 2)
