"""Records of a treatment in two folds, and the mean of their pseudo-outcomes (claim C78)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.curator import Curator
from dpfast.curator.noisy_release import for_observers, release_jointly_with_noise, source_of_noise
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data import Records
from dpfast.data.scaling.transformed import predictors
from dpfast.kernels.records import GRADIENT, MEAT
from dpfast.models import Huber, LeastSquares, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import joint_grids
from dpfast.privacy.noise import EntropyNoise, NoiseSource
from dpfast.privacy.random_parts import random_parts, secret_choices
from dpfast.privacy.sensitivity import SQUARE_MU, mean_score, mean_square

Array = NDArray[np.float64]

FOLDS = 2

#: Treatments of the two arms.
ARMS = (0.0, 1.0)

#: Largest number of cells of a histogram of propensities.
OVERLAP_CELLS = 24


class Nuisance(NamedTuple):
    """Released coefficients of one fold, each the intercept first."""

    propensity: Array
    arms: Array


class Aim(NamedTuple):
    """Estimand and adjustment of a treatment effect; public."""

    propensity: bool
    outcomes: bool
    treated: bool = False
    known: float | None = None


def without_other_treatments(records: Records, treatment: Array) -> Records:
    """Set the outcome to NaN where the treatment is neither 0 nor 1, of records in memory."""
    if type(records) is not Records or records.y.ndim > 1:  # weighted
        return records
    treated = (treatment == 0.0) | (treatment == 1.0)
    return Records(records.X, np.where(treated, records.y, np.nan), records.names)


class Trial:
    """Covariates, treatment and outcome of rows, with records split into random folds."""

    def __init__(
        self,
        X: Array,
        y: Array,
        treatment: Array,
        folds: NDArray[np.intp],
        noise: NoiseSource,
        threads: int,
        aim: Aim,
        known: Array | None = None,
        persons: NDArray[np.intp] | None = None,
    ) -> None:
        self.n = len(folds)
        self.sizes = tuple([int(np.count_nonzero(folds == fold)) for fold in range(FOLDS)])
        self._noise, self._threads, self._aim = noise, threads, aim
        with np.errstate(all="ignore"):
            weights = None if y.ndim == 1 else np.clip(y[:, 1], 0.0, 1.0)
            outcome = y if weights is None else y[:, 0]
            usable = np.isfinite(outcome)
            usable &= (treatment == 0.0) | (treatment == 1.0)
            usable &= np.isfinite(predictors(X, np.zeros(1 + X.shape[1]), True))
            if known is not None:
                usable &= (known > 0.0) & (known < 1.0)
            if persons is not None:
                usable &= persons >= 0
            self._treatment = np.where(usable, treatment, np.nan)
            self._outcome = np.where(usable, outcome, np.nan)
        self._X, self._known, self._weights, self._persons = X, known, weights, persons
        self._row_of_record = np.arange(self.n)
        if persons is not None:
            self._counts, self._row_of_record = one_row_of_each(persons, usable, self.n, noise)
        self._rows = [self._row_of_record[folds == fold] for fold in range(FOLDS)]
        of_rows = folds if persons is None else folds[persons]
        self._rows_of_folds = [np.flatnonzero(of_rows == fold) for fold in range(FOLDS)]

    @classmethod
    def of(
        cls,
        records: Any,
        treatment: Array,
        folds: NDArray[np.intp],
        noise: NoiseSource,
        threads: int,
        aim: Aim,
        known: Array | None = None,
    ) -> Trial:
        """Make a trial of records that fit into memory."""
        persons = None
        blocks = records.pieces() if records.means else records.blocks()
        arrays = [
            (np.asarray(block[0], dtype=np.float64), *map(np.array, block[1:])) for block in blocks
        ]
        block, *rest = arrays
        X, y, *labels = map(np.concatenate, zip(*arrays, strict=True)) if rest else block
        if records.means:
            y, persons = y[:, 0], labels[0]
        return cls(X, y, treatment, folds, noise, threads, aim, known, persons)

    @staticmethod
    def folds(n: int, noise: NoiseSource) -> NDArray[np.intp]:
        """Draw a random fold for each of n records; no record is read (claim C53)."""
        return random_parts(n, FOLDS, source_of_noise(noise))

    def treatments(self, fold: int, ledger: Ledger) -> PreconditionedQueries:
        """Make queries about the treatments of one fold."""
        rows = self._rows[fold]
        covariates = self._covariates(rows, self._aim.propensity)
        return self._queries(covariates, select_rows(self._treatment, rows), ledger)

    def outcomes(self, fold: int, ledger: Ledger) -> PreconditionedQueries:
        """Make queries about the outcomes of one fold, on covariates and the treatment's products.

        A row is ``(x, t, t x)``, so the model has coefficients of its own in either arm.
        """
        rows = self._rows[fold]
        covariates = self._covariates(rows, self._aim.outcomes)
        treated = select_rows(self._treatment, rows)
        with np.errstate(all="ignore"):
            products = np.where(treated == 1.0, 1.0, 0.0)[:, None] * with_constant(covariates)
        outcome = np.where(np.isnan(treated), np.nan, select_rows(self._outcome, rows))
        return self._queries(np.hstack([covariates, products]), outcome, ledger)

    def _covariates(self, rows: NDArray[np.intp], modelled: bool) -> Array:
        X = self._X if modelled else self._X[:, :0]
        return np.asarray(X.take(np.minimum(rows, len(X) - 1), axis=0))

    def _queries(self, X: Array, response: Array, ledger: Ledger) -> PreconditionedQueries:
        objective = linear(X.shape[1])
        return PreconditionedQueries(
            self._curator_of(Records(X, response, None), objective, ledger)
        )

    def pseudo_outcomes(
        self, nuisances: Sequence[Nuisance], overlap: float, ledger: Ledger
    ) -> PseudoOutcomes:
        """Compute the pseudo-outcome of each record by the nuisances of the other fold.

        Cross-fitting (Chernozhukov and others 2018).
        """
        rows = len(self._treatment)
        propensities, outcomes = np.full(rows, np.nan), np.full(rows, np.nan)
        with np.errstate(all="ignore"):
            for fold, row_numbers in enumerate(self._rows_of_folds):
                nuisance, covariates = nuisances[1 - fold], self._X[row_numbers]
                e = self._propensities(row_numbers, covariates, nuisance)
                propensities[row_numbers] = np.where(
                    np.isfinite(self._treatment[row_numbers]), e, np.nan
                )
                outcomes[row_numbers] = self._pseudo_outcome(
                    row_numbers, covariates, nuisance, e, overlap
                )
            counted = self._treatment if self._aim.treated else np.ones(rows)
            if self._weights is not None:
                outcomes, counted = self._weights * outcomes, self._weights * counted
            if self._persons is not None:
                share = np.where(np.isnan(outcomes), 0.0, 1.0 / self._counts)
                outcomes, counted = [
                    np.bincount(
                        np.maximum(self._persons, 0),
                        np.where(share > 0.0, share * values, 0.0),
                        minlength=self.n,
                    )
                    for values in (outcomes, counted)
                ]
        propensities, treated = [
            select_rows(values, self._row_of_record) for values in (propensities, self._treatment)
        ]
        return PseudoOutcomes(
            (*nuisances, overlap), propensities, treated, outcomes, counted,
            self._curator_of_values, ledger,
        )  # fmt: skip

    def _propensities(self, rows: Any, covariates: Array, nuisance: Nuisance) -> Array:
        if self._aim.known is not None:
            return np.full(len(rows), self._aim.known)
        if self._known is not None:
            return np.asarray(self._known[rows])
        return 1.0 / (1.0 + np.exp(-linear_predictors(covariates, nuisance.propensity)))

    def _pseudo_outcome(
        self, rows: Any, covariates: Array, nuisance: Nuisance, e: Array, overlap: float
    ) -> Array:
        """Compute the doubly robust pseudo-outcome of each row (Robins, Rotnitzky and Zhao 1994).

        For the effect on the treated: the term of each row in the sum over the treated.
        """
        treated, outcome = self._treatment[rows], self._outcome[rows]
        if self._aim.known is None:
            e = np.clip(e, overlap, 1.0 - overlap)
        m0, m1 = [linear_predictors(covariates, arm) for arm in nuisance.arms]
        if self._aim.treated:
            return np.asarray((treated - (1.0 - treated) * (e / (1.0 - e))) * (outcome - m0))
        up, down = treated * (outcome - m1) / e, (1.0 - treated) * (outcome - m0) / (1.0 - e)
        return np.asarray(m1 - m0 + up - down)

    def _curator_of_values(self, values: Array, ledger: Ledger) -> Curator:
        """Make a curator of one number per record."""
        records = Records(np.empty((self.n, 0)), values, None)
        return self._curator_of(records, linear(0), ledger)

    def _curator_of(self, records: Records, objective: Objective, ledger: Ledger) -> Curator:
        return Curator(records, objective, ledger, self._noise, self._threads)


def planned(n: int, objective: Objective, noise: NoiseSource) -> Curator:
    """Make a curator of n missing records, which refuses budgets free of charge."""
    nothing: Any = np.broadcast_to(np.nan, (n, objective.n_covariates + 1))
    records = Records(nothing[:, 1:], nothing[:, 0], None)
    return Curator(records, objective, Ledger(GDP(1.0)), noise, 1)


def planned_rows(n: int, columns: int, noise: NoiseSource) -> PreconditionedQueries:
    """Make queries about n missing rows, which refuse budgets free of charge."""
    objective = Objective(LeastSquares(), Mallows(1.0), columns, fit_intercept=False)
    return PreconditionedQueries(planned(n, objective, noise))


@lru_cache(maxsize=256)
def refuse_pooled(
    n: int, asked: tuple[float, float, float], steps: tuple[float, ...], cells: int
) -> None:
    """Refuse budgets that a query about all n records refuses; accepted ones are cached."""
    nothing_drawn = EntropyNoise()
    missing = planned(n, linear(0), nothing_drawn)
    overlap, distances, counted = asked
    PreconditionedQueries(missing).refuse_norm_histogram(OVERLAP_CELLS, overlap)
    if distances:
        PreconditionedQueries(missing).refuse_norm_histogram(cells, distances)
    locations = [(step, step == steps[-1]) for step in steps]
    for mu, square in locations + [(counted, False)] * (counted > 0.0):
        want = GRADIENT | MEAT if square else GRADIENT
        location_receipts(n, 1.0, mu, square, missing.depth(want))


@dataclass(repr=False, eq=False)
class PseudoOutcomes:
    """Queries about all records at once: their propensities and their pseudo-outcomes."""

    _made_with: tuple[Any, ...]
    _propensities: Array
    _treated: Array
    _outcomes: Array
    _counted: Array
    _curator_of_values: Callable[[Array, Ledger], Curator]
    _ledger: Ledger

    @property
    def n(self) -> int:
        """Number of records or persons; public."""
        return len(self._propensities)

    def overlap(self, edges: Array, mu: float, by_arm: bool = False) -> Answer:
        """Shares of the records with propensities between these edges; costs ``mu`` (C60).

        ``by_arm``: cells of records without treatment, then those of the treated ones.
        """
        values = self._propensities
        if by_arm:
            values, edges = values + self._treated, np.concatenate([edges, [1.0], 1.0 + edges])
        propensities = self._curator(values)
        answer: Answer = PreconditionedQueries(propensities).norm_histogram(
            edges, mu, Linearization(np.zeros(1), LeastSquares()), "score"
        )
        return answer

    def distance_histogram(self, centre: float, edges: Array, mu: float) -> Answer:
        """Shares of the records with these distances to a centre; costs ``mu`` (claim C60)."""
        deviations = self._curator(self._deviations(centre), centre)
        answer: Answer = PreconditionedQueries(deviations).norm_histogram(
            edges, mu, Linearization(np.zeros(1), LeastSquares()), "score"
        )
        return answer

    def location(
        self, centre: float, clip: float, mu: float, square: bool = False
    ) -> tuple[Answer, Answer | None]:
        """Release means of clipped deviations ``d`` and of ``d^2``: ``mu`` (claims C78, C79)."""
        return self._mean(self._deviations(centre), (mu, centre, clip), square)

    def share(self, mu: float) -> Answer:
        """Release the mean weight of the records, less one half; costs ``mu`` (claim C78)."""
        usable = np.isfinite(self._outcomes)
        values = np.where(usable, np.clip(self._counted, 0.0, 1.0), 0.0) - 0.5
        return self._mean(values, (mu, 0.5, 0.5), False)[0]

    def _curator(self, values: Array, *made_with: float) -> Curator:
        """Make a curator of one number per record, computed from its rows and released numbers."""
        curator = self._curator_of_values(values, self._ledger)
        curator._made_with = (*self._made_with, *made_with)
        return curator

    def _deviations(self, centre: float) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self._outcomes - centre * self._counted)

    def _mean(
        self, values: Array, parameters: tuple[float, float, float], square: bool
    ) -> tuple[Answer, Answer | None]:
        mu, _, clip = parameters
        objective = Objective(Huber(clip), Mallows(1.0), 0, scale=1.0)
        alone = self._curator(values)
        curator = alone._beside(alone._records, objective, self._ledger)
        want = GRADIENT | MEAT if square else GRADIENT
        receipts = location_receipts(curator.n, clip, mu, square, curator.depth(want))
        self._ledger.charge(GDP(mu), receipts[0].query)
        score, _, meat = curator._sums(np.zeros(1), want)
        means = [-score, meat.reshape(1)] if square else [-score]
        grids = joint_grids(((1,),) * len(means), tuple([r.noise_scale for r in receipts]))
        question = (receipts[0].query, *parameters, *for_observers(alone._made_with))
        answers = release_jointly_with_noise(alone._noise, question, receipts, grids, means)
        return answers[0], answers[1] if square else None


def location_receipts(n: int, clip: float, mu: float, square: bool, depth: int) -> list[Receipt]:
    """Make the receipts of a location; reads no record, costs nothing."""
    sensitivity = mean_score(2.0 * clip, n, depth=depth)
    result = [gaussian_receipt("location", "C78", mu, sensitivity, clip, 1)]
    if square:
        sensitivity_of_square = mean_square(clip, n, depth=depth)
        result.append(
            gaussian_receipt(
                "variance", "C79", SQUARE_MU * mu, sensitivity_of_square, clip * clip, 1
            )
        )
    return result


@lru_cache(maxsize=64)
def linear(q: int) -> Objective:
    """Make the objective of least squares on q columns and an intercept; it is cached."""
    return Objective(LeastSquares(), Mallows(1.0), q)


def one_row_of_each(
    persons: NDArray[np.intp], usable: NDArray[np.bool_], n: int, noise: NoiseSource
) -> tuple[Array, NDArray[np.intp]]:
    """Count the usable rows of each row's person, and draw one row per person (claim C67)."""
    counts = np.bincount(persons[usable], minlength=n)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(persons[rows], kind="stable")]
    places = np.floor(secret_choices(n, source_of_noise(noise)) * counts)
    places = np.minimum(places, counts - 1).astype(np.intp) + np.cumsum(counts) - counts
    chosen = np.full(n, len(persons), dtype=np.intp)
    chosen[counts > 0] = rows[places[counts > 0]]
    return np.maximum(counts, 1)[np.maximum(persons, 0)].astype(np.float64), chosen


def with_constant(X: Array) -> Array:
    """Put a column of ones before covariates."""
    return np.hstack([np.ones((len(X), 1)), X])


def select_rows(values: Array, rows: NDArray[np.intp]) -> Array:
    """Select rows; an index beyond the last row gives a missing value."""
    selected = values[np.minimum(rows, len(values) - 1)]
    selected[rows == len(values)] = np.nan
    return selected


def linear_predictors(X: Array, coefficients: Array) -> Array:
    """Compute linear predictors, the intercept first, row by row.

    The value of a row does not depend on the other rows.
    """
    return predictors(X[:, : len(coefficients) - 1], coefficients, True)  # a mean has no slopes
