"""Records of a treatment, dealt into two folds, and the mean of their pseudo-outcomes.

Each fold's nuisances are asked of a curator of that fold; the pseudo-outcome of a record is made
with the nuisances of the *other* fold, and one query is about all of them (claim C78).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt
from dpfast.curator.curator import Curator
from dpfast.curator.door import hand_out_together, source_of_noise
from dpfast.curator.whitened import At, Whitened
from dpfast.data import Records
from dpfast.kernels.records import GRADIENT, MEAT
from dpfast.models import Huber, LeastSquares, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.dealing import deal
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale, joint_grids
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.sensitivity import SQUARE_MU, mean_score, mean_square

__all__ = ["FOLDS", "Nuisance", "PseudoOutcomes", "Trial"]

Array = NDArray[np.float64]

FOLDS = 2

#: Cells of the histogram of propensities: too small, within the bounds, too large.
OVERLAP_CELLS = 3


class Nuisance(NamedTuple):
    """Released coefficients of one fold, each the intercept first.

    Attributes
    ----------
    propensity : ndarray
        Of the log odds of treatment.
    arms : ndarray of shape (2, p)
        Of the mean outcome, without and with treatment.
    """

    propensity: Array
    arms: Array


class Trial:
    """Covariates, treatment and outcome of records, copied, each in one of two folds.

    Parameters
    ----------
    X : ndarray of shape (n, q)
    y : ndarray of shape (n,)
        Outcome.
    treatment : ndarray of shape (n,)
        0 or 1; a record with anything else, or with a covariate or outcome that is not finite,
        contributes zero everywhere and counts in n.
    folds : ndarray of shape (n,)
        Dealt without a look at the records (:meth:`dealt`).
    noise : NoiseSource
    threads : int
    adjusted : tuple of bool
        Whether the propensity depends on the covariates, and whether the outcomes do.

    Attributes
    ----------
    n : int
    sizes : tuple of int
        Numbers of records in the folds, public.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        treatment: Array,
        folds: NDArray[np.intp],
        noise: NoiseSource,
        threads: int,
        adjusted: tuple[bool, bool],
    ) -> None:
        self.n = len(y)
        self.sizes = tuple([int(np.count_nonzero(folds == fold)) for fold in range(FOLDS)])
        self._noise, self._threads = noise, threads
        self._rows = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
        with np.errstate(all="ignore"):
            known = np.isfinite(X).all(axis=1) & np.isfinite(y)
            known &= (treatment == 0.0) | (treatment == 1.0)
            self._treatment = np.where(known, treatment, np.nan)
            self._outcome = np.where(known, y, np.nan)
            covariates = np.where(known[:, None], X, np.nan)
        self._of_propensity, self._of_outcome = [
            covariates if kept else covariates[:, :0] for kept in adjusted
        ]

    @classmethod
    def of(cls, records: Records, treatment: Array, *settings: Any) -> Trial:
        """Of records that fit into memory, wherever they are kept."""
        blocks = [(np.asarray(X, dtype=np.float64), np.array(y)) for X, y in records.blocks()]
        X = np.concatenate([some for some, _ in blocks])
        y = np.concatenate([some for _, some in blocks])
        return cls(X, y, treatment, *settings)

    @staticmethod
    def dealt(n: int, noise: NoiseSource) -> NDArray[np.intp]:
        """A fold for each of n records; no record is looked at (claim C53)."""
        return deal(n, FOLDS, source_of_noise(noise))

    def propensity(self, fold: int, objective: Objective, ledger: Ledger) -> Curator:
        """A curator of the treatments of one fold."""
        rows = self._rows[fold]
        records = Records(self._of_propensity[rows], self._treatment[rows], None)
        return Curator(records, objective, ledger, self._noise, self._threads)

    def outcomes(self, fold: int, ledger: Ledger) -> Whitened:
        """Outcomes of one fold on rows ``((1 - T) v, T v)``: one regression for both arms.

        A record is in one arm, so its row is as long as ``v`` alone.
        """
        rows = self._rows[fold]
        design = with_ones(self._of_outcome[rows])
        treated = self._treatment[rows][:, None]
        with np.errstate(all="ignore"):
            arms = np.hstack([(1.0 - treated) * design, treated * design])
        records = Records(arms, self._outcome[rows], None)
        return Whitened(self._about(records, _linear(arms.shape[1], intercept=False), ledger))

    def refuse_pooled(
        self, overlap: float, lengths: float, steps: Sequence[float], cells: int
    ) -> None:
        """Refuse budgets at which a query about all records would be; nothing is spent.

        Noise of a location is in proportion to its bound, so that of 1 decides.
        """
        blank = self._alone(np.full(self.n, np.nan), Ledger(GDP(1.0)))
        Whitened(blank).refuse_lengths(OVERLAP_CELLS, overlap)
        if lengths:
            Whitened(blank).refuse_lengths(cells, lengths)
        for step, mu in enumerate(steps):
            square = step == len(steps) - 1
            want = GRADIENT | MEAT if square else GRADIENT
            location_receipts(self.n, 1.0, mu, square, blank.depth(want))

    def pseudo_outcomes(
        self, nuisances: Sequence[Nuisance], overlap: float, ledger: Ledger
    ) -> PseudoOutcomes:
        """What the records say of the effect, each with the nuisances of the other fold."""
        propensities, outcomes = np.full(self.n, np.nan), np.full(self.n, np.nan)
        with np.errstate(all="ignore"):
            for fold, rows in enumerate(self._rows):
                other = nuisances[1 - fold]
                treated, outcome = self._treatment[rows], self._outcome[rows]
                e = 1.0 / (1.0 + np.exp(-with_ones(self._of_propensity[rows]) @ other.propensity))
                means = with_ones(self._of_outcome[rows]) @ other.arms.T
                propensities[rows] = np.where(np.isfinite(treated), e, np.nan)
                e = np.clip(e, overlap, 1.0 - overlap)
                outcomes[rows] = (
                    means[:, 1]
                    - means[:, 0]
                    + treated * (outcome - means[:, 1]) / e
                    - (1.0 - treated) * (outcome - means[:, 0]) / (1.0 - e)
                )
        return PseudoOutcomes(
            self._alone(propensities, ledger), self._alone(outcomes, ledger), ledger
        )

    def _alone(self, values: Array, ledger: Ledger) -> Curator:
        """A curator of one number a record."""
        records = Records(np.empty((self.n, 0)), values, None)
        return self._about(records, _linear(0, intercept=True), ledger)

    def _about(self, records: Records, objective: Objective, ledger: Ledger) -> Curator:
        return Curator(records, objective, ledger, self._noise, self._threads)


class PseudoOutcomes:
    """Queries about all records at once: their propensities and their pseudo-outcomes.

    Parameters
    ----------
    propensities, outcomes : Curator
        Of one number a record, which may be anything: nothing is assumed of its range.
    ledger : Ledger
    """

    def __init__(self, propensities: Curator, outcomes: Curator, ledger: Ledger) -> None:
        self._propensities, self._outcomes = propensities, outcomes
        self._ledger = ledger

    def overlap(self, edges: Array, mu: float) -> Answer:
        """Shares of the records with propensities between these edges; costs ``mu`` (C60)."""
        return Whitened(self._propensities).lengths(
            edges, mu, At(np.zeros(1), LeastSquares()), "score"
        )

    def lengths(self, centre: float, edges: Array, mu: float) -> Answer:
        """Shares of the records with these distances to a centre; costs ``mu`` (claim C60)."""
        return Whitened(self._outcomes).lengths(
            edges, mu, At(np.array([centre]), LeastSquares()), "score"
        )

    def location(
        self, centre: float, clip: float, mu: float, square: bool = False
    ) -> tuple[Answer, Answer | None]:
        """Mean of the deviations ``d`` from a centre, each held to ``+-clip``, and of ``d^2``.

        Privacy
        -------
        Costs ``mu``, with the square or without (claims C78 and C79).
        """
        objective = Objective(Huber(clip), Mallows(1.0), 0, scale=1.0)
        curator = self._outcomes._beside(self._outcomes._records, objective, self._ledger)
        want = GRADIENT | MEAT if square else GRADIENT
        receipts = location_receipts(curator.n, clip, mu, square, curator.depth(want))
        self._ledger.charge(GDP(mu), receipts[0].query)
        score, _, meat = curator._sums(np.array([centre]), want)
        values = [-score, meat.reshape(1)] if square else [-score]
        grids = joint_grids(((1,),) * len(values), tuple([r.noise_scale for r in receipts]))
        question = (receipts[0].query, mu, centre, clip)
        found = hand_out_together(self._outcomes._noise, question, receipts, grids, values)
        return found[0], found[1] if square else None


def location_receipts(n: int, clip: float, mu: float, square: bool, depth: int) -> list[Receipt]:
    """How a location would be released; touches nothing, costs nothing."""
    bounds = [(clip, mean_score(2.0 * clip, n, depth=depth), mu, "location", "C78")]
    if square:
        known = mean_square(clip, n, depth=depth)
        bounds.append((clip * clip, known, SQUARE_MU * mu, "variance", "C79"))
    found = []
    for bound, sensitivity, part, query, claim in bounds:
        scale = gaussian_scale(sensitivity, part, 1)
        check_grid_range(bound, scale, 1)
        found.append(Receipt(query, claim, part, sensitivity, scale))
    return found


def _linear(n_covariates: int, *, intercept: bool) -> Objective:
    return Objective(LeastSquares(), Mallows(1.0), n_covariates, fit_intercept=intercept)


def with_ones(X: Array) -> Array:
    """Design rows, the intercept first."""
    return np.column_stack([np.ones(len(X)), X])
