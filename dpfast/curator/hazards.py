"""Scores of proportional hazards: rows that are made of one record each and of releases (T7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, JointAnswer
from dpfast.curator.curator import Curator
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data.records import Covariates, Records, Wrapped
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]

#: Logarithms of hazards are clipped to it, so that every score is a number.
LARGEST = 100.0

#: Records of whose scores a copy is in memory at a time.
RECORDS_AT_A_TIME = 1 << 12


class MadeRows(Wrapped):
    """Rows that a function makes of the records in every query, each beside a response of 1.

    Weights stay beside the rows, which contain the offsets.
    """

    def __init__(self, records: Records, columns: int, make: Callable[[Array, Array], Array]):
        super().__init__(records)
        self.names, self.coding = None, None
        self.n_covariates, self._make = columns, make
        sizes = [range(0, size, RECORDS_AT_A_TIME) for size in records.block_sizes]
        self.block_sizes = tuple([
            min(RECORDS_AT_A_TIME, firsts.stop - first) for firsts in sizes for first in firsts
        ])  # fmt: skip

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield the rows of some records at a time."""
        raw, units = self._raw.uncoded
        for all_X, all_y in raw.blocks():
            for first in range(0, len(all_y), RECORDS_AT_A_TIME):
                records = slice(first, first + RECORDS_AT_A_TIME)
                X, y = all_X[records], all_y[records]
                if units is not None:
                    X, y = units.coded(X, y)
                rows = self._make(np.asarray(X, dtype=np.float64), y)
                # zero times a number that is not finite is NaN
                ones = 1.0 + np.einsum("ij,j->i", rows, np.zeros(rows.shape[1]))
                if y.ndim == 2:
                    ones = np.column_stack([ones, y[:, 1], np.zeros(len(y))])
                yield rows, ones


class AtRisk:
    """Queries about persons at risk until an event or until follow-up ends.

    Responses are the times of :func:`signed_times`.  ``weigh`` multiplies the weights of records.
    """

    def __init__(
        self,
        records: Records,
        subsample: Records | None,
        cuts: Array,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int,
        unit: float | None = None,
        weigh: float = 0.0,
    ) -> None:
        self._records, self._subsample = records, subsample
        self._cuts, self._unit, self._weigh = cuts, unit, weigh
        self._settings = ledger, noise, threads
        self.intervals, self.n = len(cuts) - 1, records.n

    def sample(self) -> AtRisk:
        """Return queries about the secret sample if there is one, else about all."""
        if self._subsample is None:
            return self
        records = self._subsample, None, self._cuts
        return AtRisk(*records, *self._settings, self._unit, self._weigh)

    def exposures(self, bound: float, mu: float) -> Answer:
        """Release the mean part of each interval that persons are at risk; ``mu`` (claim T7)."""
        rows = self._rows(self.intervals, partial(exposures_of, self._cuts, self._unit))
        answer: JointAnswer = rows.clipped(score_of_rows(rows), bound, mu)
        return answer.gradient

    def ties(self, mu: float) -> Answer:
        """Release the share of records with an event exactly at a cut; costs ``mu`` (claim T7)."""
        rows = self._rows(1, partial(ties_of, self._cuts))
        answer: JointAnswer = rows.clipped(score_of_rows(rows), 1.0, mu)
        return answer.gradient

    def events(self) -> PreconditionedQueries:
        """Make queries about interval and covariates of events."""
        return self._rows(self._columns, partial(events_of, self._cuts))

    def scores(self, params: Array) -> PreconditionedQueries:
        """Make queries about scores at these coefficients."""
        make = partial(person_scores, self._cuts, self._unit, params)
        return self._rows(self._columns, make, params)

    @property
    def _columns(self) -> int:
        return int(self.intervals + self._records.n_covariates)

    def _rows(
        self,
        columns: int,
        make: Callable[[Array, Array], Array],
        params: Array | None = None,
    ) -> PreconditionedQueries:
        objective = Objective(LeastSquares(), Mallows(1.0), columns, fit_intercept=False)

        def curator(records: Any) -> Curator:
            def made(raw: Records) -> Records:
                return MadeRows(raw, columns, make)

            rows = records.mapped(made) if records.means else made(records)
            result = Curator(rows, objective, *self._settings)
            result._made_with = (self._cuts, params)
            return result

        sample = None if self._subsample is None else curator(self._subsample)
        return PreconditionedQueries(curator(self._records), subsample=sample, weigh=self._weigh)


def score_of_rows(rows: PreconditionedQueries) -> Linearization:
    """Linearise the squared loss at zero: of responses of 1, scores are the rows themselves."""
    return Linearization(np.zeros(rows.dimension), LeastSquares())


def signed_times(time: Array, event: Array) -> Array:
    """Join times and events: times without an event have a minus sign; NaN where a value is wrong.

    A time of zero has its sign, too.
    """
    with np.errstate(all="ignore"):
        usable = (time >= 0.0) & ((event == 0.0) | (event == 1.0))
        return np.where(usable, np.copysign(time, event - 0.5), np.nan)


def _times(y: Array) -> tuple[Array, Array]:
    """Return times and events of responses."""
    signed = y if y.ndim == 1 else y[:, 0]
    return np.abs(signed), np.where(np.isnan(signed), np.nan, 1.0 - np.signbit(signed))


def exposures_of(cuts: Array, unit: float | None, X: Array, y: Array) -> Array:
    """Return the part of each interval that a person is at risk, until the middle of a unit."""
    return earlier(*_times(y), cuts, 0.5 * (unit or 0.0))


def ties_of(cuts: Array, X: Array, y: Array) -> Array:
    """Return 1 if an event is exactly at a cut."""
    time, event = _times(y)
    at = (time[:, None] == cuts[1:]).any(axis=1) * intervals(time, event, cuts)[0].sum(axis=1)
    return np.asarray(at[:, None])


def events_of(cuts: Array, X: Array, y: Array) -> Array:
    """Return the interval of an event, and its covariates; zeros without an event."""
    events = intervals(*_times(y), cuts)[0]
    return np.hstack([events, X * events.sum(axis=1)[:, None]])


def person_scores(cuts: Array, unit: float | None, params: Array, X: Array, y: Array) -> Array:
    """Return persons' scores at these coefficients."""
    time, event = _times(y)
    events, risk = intervals(time, event, cuts)
    before, last = risk, None
    if unit is not None:
        before = earlier(time, event, cuts, unit)
        last = risk - before
    return scores_of(X, events, before, params, last, None if y.ndim == 1 else y[:, 2])


def intervals(time: Array, event: Array, cuts: Array) -> tuple[Array, Array]:
    """Compute the interval of each person's event, and the part of each interval at risk.

    An interval includes its end, and the first one its beginning.
    """
    with np.errstate(all="ignore"):
        usable = np.isfinite(time) & ((event == 0.0) | (event == 1.0))
        risk = np.where(usable, time, np.nan)[:, None] - cuts[:-1]
        risk /= np.diff(cuts)
        np.clip(risk, 0.0, 1.0, out=risk)
        events = np.zeros(risk.shape)
        came = np.flatnonzero((event == 1.0) & (time >= cuts[0]) & (time <= cuts[-1]))
        events[came, np.searchsorted(cuts[1:], time[came])] = 1.0
        events[~usable] = np.nan
        return events, risk


def earlier(time: Array, event: Array, cuts: Array, length: float) -> Array:
    """Compute the parts at risk until a length of time before an event."""
    with np.errstate(all="ignore"):
        return intervals(time - length * (event == 1.0), event, cuts)[1]


def scores_of(
    X: Array,
    events: Array,
    risk: Array,
    params: Array,
    last: Array | None = None,
    offset: Array | None = None,
) -> Array:
    """Compute each person's score ``(d_k - h_k)_k`` and ``x sum_k (d_k - h_k)``.

    h_k are their expected events: a piecewise exponential model (Holford 1980).

    ``last`` holds the parts of intervals within one unit, in which the event came.  Then d_k is
    the part of interval k in the hazard x of that unit, times ``x / (exp(x) - 1)``.  And h_k are
    the expected events before it (the likelihood of an event between two times).
    """
    K = events.shape[1]
    with np.errstate(all="ignore"):
        predictor = np.zeros(len(X)) if offset is None else offset
        for column, slope in zip(
            X.T, params[K:], strict=True
        ):  # by column: no row depends on another
            predictor = predictor + slope * column
        hazards = np.clip(predictor[:, None] + params[:K], None, LARGEST)
        if last is not None:
            parts = last * np.exp(np.maximum(hazards, -LARGEST))
            total = parts.sum(axis=1)
            events = parts * np.where(total > 0.0, 1.0 / np.expm1(total), total)[:, None]
        residuals = events - risk * np.exp(hazards)
        return np.hstack([residuals, X * residuals.sum(axis=1)[:, None]])
