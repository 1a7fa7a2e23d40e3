"""Records of a treatment in two folds, and the mean of their pseudo-outcomes (claim C78)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, StepBudget, gaussian_receipt
from dpfast.curator.curator import Curator, prepare
from dpfast.curator.noisy_release import for_observers, release_jointly_with_noise, source_of_noise
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data import Records
from dpfast.data.scaling.transformed import predictors
from dpfast.kernels.records import GRADIENT, MEAT
from dpfast.models import Huber, LeastSquares, Loss, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import joint_grids
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import random_parts, secret_choices
from dpfast.privacy.sensitivity import SQUARE_MU, mean_score, mean_square

Array = NDArray[np.float64]

FOLDS = 2

#: Cells of a histogram of propensities at most.
OVERLAP_CELLS = 12


class Nuisance(NamedTuple):
    """Released coefficients of one fold, each the intercept first."""

    propensity: Array
    arms: Array


class Aim(NamedTuple):
    """What is estimated, and how it is adjusted: public."""

    propensity: bool
    outcomes: bool
    treated: bool = False
    known: float | None = None


class Trial:
    """Covariates, treatment and outcome of rows, and records in one of two folds each."""

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
        self._known, self._weights, self._persons = known, weights, persons
        self._one = np.arange(self.n)
        if persons is not None:
            self._counts, self._one = one_of_each(persons, usable, self.n, noise)
        self._rows = [self._one[folds == fold] for fold in range(FOLDS)]
        self._fitted = [self._fold(X, rows) for rows in self._rows]
        self._mine = [(some.rows, some.X) for some in self._fitted]
        if persons is not None:
            whose = [np.flatnonzero(folds[persons] == fold) for fold in range(FOLDS)]
            self._mine = [(rows, X[rows]) for rows in whose]

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
        """Of records that fit into memory, wherever they are kept."""
        persons = None
        blocks = records.pieces() if records.means else records.blocks()
        found = [(np.asarray(one[0], dtype=np.float64), *map(np.array, one[1:])) for one in blocks]
        one, *others = found
        X, y, *labels = map(np.concatenate, zip(*found, strict=True)) if others else one
        if records.means:
            y, persons = y[:, 0], labels[0]
        return cls(X, y, treatment, folds, noise, threads, aim, known, persons)

    @staticmethod
    def folds(n: int, noise: NoiseSource) -> NDArray[np.intp]:
        """A fold for each of n records; no record is looked at (claim C53)."""
        return random_parts(n, FOLDS, source_of_noise(noise))

    def propensity(self, fold: int, objective: Objective, ledger: Ledger) -> Curator:
        """A curator of the treatments of one fold."""
        rows, X, arms = self._fitted[fold]
        treated = np.full(len(rows), np.nan)
        for arm, inside in enumerate(arms):
            treated[inside] = arm
        records = Records(X if self._aim.propensity else X[:, :0], treated, None)
        return self._about(records, objective, ledger)

    def outcomes(self, fold: int, ledger: Ledger) -> Outcomes:
        """Outcomes of one fold, in both arms."""
        rows, X, arms = self._fitted[fold]
        X, outcome = X if self._aim.outcomes else X[:, :0], select_rows(self._outcome, rows)
        records = Arms(len(rows), [(X[inside], outcome[inside]) for inside in arms])
        return Outcomes(records, ledger, self._noise, self._threads)

    def _fold(self, X: Array, rows: NDArray[np.intp]) -> _Fold:
        """Rows of a fold, in another order: those of an arm lie together."""
        treated = select_rows(self._treatment, rows)
        arms = [rows[treated == arm] for arm in (0.0, 1.0)]
        rows = np.concatenate([*arms, rows[np.isnan(treated)]])
        low, high = len(arms[0]), len(arms[0]) + len(arms[1])
        found = X.take(np.minimum(rows, len(X) - 1), axis=0)
        return _Fold(rows, found, (slice(0, low), slice(low, high)))

    def pseudo_outcomes(
        self, nuisances: Sequence[Nuisance], overlap: float, ledger: Ledger
    ) -> PseudoOutcomes:
        """What the records say of the effect, each with the nuisances of the other fold."""
        rows = len(self._treatment)
        propensities, outcomes = np.full(rows, np.nan), np.full(rows, np.nan)
        with np.errstate(all="ignore"):
            for fold, (mine, covariates) in enumerate(self._mine):
                other = nuisances[1 - fold]
                e = self._propensities(mine, covariates, other)
                propensities[mine] = np.where(np.isfinite(self._treatment[mine]), e, np.nan)
                outcomes[mine] = self._told(mine, covariates, other, e, overlap)
            counted = self._treatment if self._aim.treated else np.ones(rows)
            if self._weights is not None:
                outcomes, counted = self._weights * outcomes, self._weights * counted
            if self._persons is not None:
                share = np.where(np.isnan(outcomes), 0.0, 1.0 / self._counts)
                outcomes, counted = [
                    np.bincount(
                        np.maximum(self._persons, 0),
                        np.where(share > 0.0, share * some, 0.0),
                        minlength=self.n,
                    )
                    for some in (outcomes, counted)
                ]
        propensities = select_rows(propensities, self._one)
        return PseudoOutcomes(
            (*nuisances, overlap), propensities, outcomes, counted, self._alone, ledger
        )

    def _propensities(self, rows: Any, covariates: Array, nuisance: Nuisance) -> Array:
        if self._aim.known is not None:
            return np.full(len(rows), self._aim.known)
        if self._known is not None:
            return np.asarray(self._known[rows])
        return 1.0 / (1.0 + np.exp(-linear_predictors(covariates, nuisance.propensity)))

    def _told(
        self, rows: Any, covariates: Array, nuisance: Nuisance, e: Array, overlap: float
    ) -> Array:
        """Of each row: its pseudo-outcome, or what it adds to the sum over the treated."""
        treated, outcome = self._treatment[rows], self._outcome[rows]
        if self._aim.known is None:
            e = np.clip(e, overlap, 1.0 - overlap)
        m0, m1 = [linear_predictors(covariates, arm) for arm in nuisance.arms]
        if self._aim.treated:
            return np.asarray((treated - (1.0 - treated) * (e / (1.0 - e))) * (outcome - m0))
        up, down = treated * (outcome - m1) / e, (1.0 - treated) * (outcome - m0) / (1.0 - e)
        return np.asarray(m1 - m0 + up - down)

    def _alone(self, values: Array, ledger: Ledger) -> Curator:
        """A curator of one number a record."""
        records = Records(np.empty((self.n, 0)), values, None)
        return self._about(records, linear(0, LeastSquares(), intercept=True), ledger)

    def _about(self, records: Records, objective: Objective, ledger: Ledger) -> Curator:
        return Curator(records, objective, ledger, self._noise, self._threads)


class _Fold(NamedTuple):
    """Rows that nuisances are fitted to, their covariates, and where those of either arm are."""

    rows: NDArray[np.intp]
    X: Array
    arms: tuple[slice, slice]


class Arms(Records):
    """Rows ``((1 - T) v, T v)``, v with a constant; records of neither arm are zero, and in n."""

    parts = 2

    def __init__(self, n: int, arms: Sequence[tuple[Array, Array]]) -> None:
        self.n, self.n_covariates, self.names = n, 2 * (1 + arms[0][0].shape[1]), None
        self.block_sizes, self._arms = (n,), arms

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Vectors of the arms one after the other, and blocks of matrices, else zero."""
        theta, *asked = arguments
        halves = zip(self._arms, np.split(theta, 2), strict=True)
        found = [function(*some, np.ascontiguousarray(half), *asked) for some, half in halves]
        return tuple([_both(*parts) for parts in zip(*found, strict=True)])


def _both(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return None
    if first.ndim == 1:
        return np.concatenate([first, second])
    nothing = np.zeros_like(first)
    return np.block([[first, nothing], [nothing, second]])


class Outcomes:
    """Outcomes in both arms: one regression on ``((1 - T) v, T v)``."""

    def __init__(self, records: Arms, ledger: Ledger, noise: NoiseSource, threads: int) -> None:
        self.dimension = records.n_covariates
        self._about = (records, ledger, noise, threads)

    def gram(self, radius: float, mu: float) -> Answer:
        """Mean of ``min(1, radius^2/|v|^2) v v'`` of either arm; costs ``mu`` (claim C14)."""
        curator = self._curator(LeastSquares(), radius)
        return curator.joint(np.zeros(self.dimension), StepBudget(0.0, mu)).hessian

    def moment(self, radius: float, cap: float, mu: float, at: Array | None = None) -> Answer:
        """Mean of ``min(1, radius^2/|v|^2) v r``; costs ``mu`` (claim C13)."""
        theta = np.zeros(self.dimension) if at is None else at
        curator = self._curator(Huber(cap), radius)
        gradient = curator.joint(theta, StepBudget(mu)).gradient
        return gradient._replace(value=-gradient.value)

    def _curator(self, loss: Loss, radius: float) -> Curator:
        both = linear(self.dimension, loss, radius)
        kernel, _ = prepare(linear(self.dimension // 2 - 1, loss, radius, intercept=True))
        records, ledger, noise, threads = self._about
        return Curator(records, both, ledger, noise, threads, (kernel, both.constants()))


def planned(n: int, objective: Objective, noise: NoiseSource, parts: int = 1) -> Curator:
    """Of as many records without a value: what refuses budgets, free of charge."""
    nothing: Any = np.broadcast_to(np.nan, (n, objective.n_covariates + 1))
    records = Records(nothing[:, 1:], nothing[:, 0], None)
    records.parts = parts
    return Curator(records, objective, Ledger(GDP(1.0)), noise, 1)


def planned_rows(n: int, columns: int, noise: NoiseSource) -> PreconditionedQueries:
    """As many rows of so many numbers without a record, for the same."""
    objective = Objective(LeastSquares(), Mallows(1.0), columns, fit_intercept=False)
    return PreconditionedQueries(planned(n, objective, noise))


def refuse_pooled(
    n: int,
    asked: tuple[float, float, float],
    steps: Sequence[float],
    cells: int,
    noise: NoiseSource,
) -> None:
    """Refuse budgets at which a query about all of n records would be; nothing is spent."""
    blank = planned(n, linear(0, LeastSquares(), intercept=True), noise)
    overlap, lengths, counted = asked
    PreconditionedQueries(blank).refuse_norm_histogram(OVERLAP_CELLS, overlap)
    if lengths:
        PreconditionedQueries(blank).refuse_norm_histogram(cells, lengths)
    locations = [(step, step == steps[-1]) for step in steps]
    for mu, square in locations + [(counted, False)] * (counted > 0.0):
        want = GRADIENT | MEAT if square else GRADIENT
        location_receipts(n, 1.0, mu, square, blank.depth(want))


@dataclass(repr=False, eq=False)
class PseudoOutcomes:
    """Queries about all records at once: their propensities and their pseudo-outcomes."""

    _made_with: tuple[Any, ...]
    _propensities: Array
    _told: Array
    _counted: Array
    _alone: Callable[[Array, Ledger], Curator]
    _ledger: Ledger

    def overlap(self, edges: Array, mu: float) -> Answer:
        """Shares of the records with propensities between these edges; costs ``mu`` (C60)."""
        propensities = self._curator(self._propensities)
        return PreconditionedQueries(propensities).norm_histogram(
            edges, mu, Linearization(np.zeros(1), LeastSquares()), "score"
        )

    def distance_histogram(self, centre: float, edges: Array, mu: float) -> Answer:
        """Shares of the records with these distances to a centre; costs ``mu`` (claim C60)."""
        deviations = self._curator(self._deviations(centre), centre)
        return PreconditionedQueries(deviations).norm_histogram(
            edges, mu, Linearization(np.zeros(1), LeastSquares()), "score"
        )

    def location(
        self, centre: float, clip: float, mu: float, square: bool = False
    ) -> tuple[Answer, Answer | None]:
        """Means of deviations ``d`` held to ``+-clip`` and of ``d^2``: ``mu`` (claims C78, C79)."""
        return self._mean(self._deviations(centre), (mu, centre, clip), square)

    def share(self, mu: float) -> Answer:
        """How much the records count in the mean, less one half; costs ``mu`` (claim C78)."""
        usable = np.isfinite(self._told)
        values = np.where(usable, np.clip(self._counted, 0.0, 1.0), 0.0) - 0.5
        return self._mean(values, (mu, 0.5, 0.5), False)[0]

    def _curator(self, values: Array, *made_with: float) -> Curator:
        """A curator of one number a record, made of their rows and of what was released."""
        curator = self._alone(values, self._ledger)
        curator._made_with = (*self._made_with, *made_with)
        return curator

    def _deviations(self, centre: float) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self._told - centre * self._counted)

    def _mean(
        self, values: Array, asked: tuple[float, float, float], square: bool
    ) -> tuple[Answer, Answer | None]:
        mu, _, clip = asked
        objective = Objective(Huber(clip), Mallows(1.0), 0, scale=1.0)
        alone = self._curator(values)
        curator = alone._beside(alone._records, objective, self._ledger)
        want = GRADIENT | MEAT if square else GRADIENT
        receipts = location_receipts(curator.n, clip, mu, square, curator.depth(want))
        self._ledger.charge(GDP(mu), receipts[0].query)
        score, _, meat = curator._sums(np.zeros(1), want)
        means = [-score, meat.reshape(1)] if square else [-score]
        grids = joint_grids(((1,),) * len(means), tuple([r.noise_scale for r in receipts]))
        question = (receipts[0].query, *asked, *for_observers(alone._made_with))
        found = release_jointly_with_noise(alone._noise, question, receipts, grids, means)
        return found[0], found[1] if square else None


def location_receipts(n: int, clip: float, mu: float, square: bool, depth: int) -> list[Receipt]:
    """How a location would be released; touches nothing, costs nothing."""
    sensitivity = mean_score(2.0 * clip, n, depth=depth)
    found = [gaussian_receipt("location", "C78", mu, sensitivity, clip, 1)]
    if square:
        known = mean_square(clip, n, depth=depth)
        found.append(gaussian_receipt("variance", "C79", SQUARE_MU * mu, known, clip * clip, 1))
    return found


def linear(q: int, loss: Loss, radius: float = 1.0, *, intercept: bool = False) -> Objective:
    """Of a regression on q columns, rows with weights of this radius."""
    scale = 1.0 if loss.needs_scale else None
    return Objective(loss, Mallows(radius), q, fit_intercept=intercept, scale=scale)


def one_of_each(
    persons: NDArray[np.intp], usable: NDArray[np.bool_], n: int, noise: NoiseSource
) -> tuple[Array, NDArray[np.intp]]:
    """How many usable rows the person of each row has, and one of each person's (claim C67)."""
    counts = np.bincount(persons[usable], minlength=n)
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(persons[rows], kind="stable")]
    places = np.floor(secret_choices(n, source_of_noise(noise)) * counts)
    places = np.minimum(places, counts - 1).astype(np.intp) + np.cumsum(counts) - counts
    one = np.full(n, len(persons), dtype=np.intp)
    one[counts > 0] = rows[places[counts > 0]]
    return np.maximum(counts, 1)[np.maximum(persons, 0)].astype(np.float64), one


def select_rows(values: Array, rows: NDArray[np.intp]) -> Array:
    """Some rows; one beyond the last is missing."""
    found = values[np.minimum(rows, len(values) - 1)]
    found[rows == len(values)] = np.nan
    return found


def linear_predictors(X: Array, coefficients: Array) -> Array:
    """Linear predictors, the intercept first: of each row, whatever rows there are beside it."""
    return predictors(X[:, : len(coefficients) - 1], coefficients, True)  # of a mean alone: none
