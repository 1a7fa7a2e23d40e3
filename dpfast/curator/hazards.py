"""Scores of proportional hazards: rows that are made of one record each and of releases (T13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

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

#: Most numbers of rows that are kept for the next query: 8 MB.
MAX_KEPT = 1 << 20


def made_rows(records: Records, columns: int, make: Callable[[Array, Array], Array]) -> Records:
    """Make rows of the records in every query, each beside a response of 1; few are made once.

    Weights stay beside the rows, which contain the offsets.
    """
    sizes = [range(0, size, RECORDS_AT_A_TIME) for size in records.block_sizes]
    block_sizes = tuple([
        min(RECORDS_AT_A_TIME, firsts.stop - first) for firsts in sizes for first in firsts
    ])  # fmt: skip

    def made() -> Iterator[tuple[Covariates, Array]]:
        raw, units = records.uncoded
        for all_X, all_y in raw.blocks():
            for first in range(0, len(all_y), RECORDS_AT_A_TIME):
                some = slice(first, first + RECORDS_AT_A_TIME)
                X, y = all_X[some], all_y[some]
                if units is not None:
                    X, y = units.coded(X, y)
                rows = make(np.asarray(X, dtype=np.float64), y)
                # zero times a number that is not finite is NaN
                ones = 1.0 + np.einsum("ij,j->i", rows, np.zeros(rows.shape[1]))
                if y.ndim == 2:
                    ones = np.column_stack([ones, y[:, 1], np.zeros(len(y))])
                yield rows, ones

    facts = {"names": None, "coding": None, "n_covariates": columns, "block_sizes": block_sizes}
    return Wrapped(records, made, kept=records.n * columns <= MAX_KEPT, **facts)


class FollowUp(NamedTuple):
    """Times of rows: at risk from ``entry`` to ``time``, with an event then or without, by stratum.

    The response of a record is the number of its row here, so whatever is made of a record is made
    of its own row.  ``time`` is NaN where the row is incomplete.
    """

    time: Array
    event: NDArray[np.bool_]
    entry: Array | None = None
    stratum: NDArray[np.int64] | None = None
    n_strata: int = 1

    @staticmethod
    def of(
        time: Array,
        event: Array,
        entry: Array | None = None,
        stratum: NDArray[np.int64] | None = None,
        n_strata: int = 1,
    ) -> FollowUp:
        """Join columns of one length; rows with a wrong value are incomplete."""
        start = 0.0 if entry is None else entry
        with np.errstate(all="ignore"):
            in_order = (start < time) | ((time == 0.0) & (start == 0.0))
            usable = (start >= 0.0) & in_order & (time < np.inf)
            usable &= (event == 0.0) | (event == 1.0)
        if stratum is not None:
            usable &= stratum >= 0
        return FollowUp(np.where(usable, time, np.nan), event == 1.0, entry, stratum, n_strata)

    @property
    def responses(self) -> Array:
        """Number of each row, NaN of incomplete ones."""
        return np.where(np.isnan(self.time), np.nan, np.arange(float(len(self.time))))

    def rows(self, y: Array) -> FollowUp:
        """Return the rows of records with these responses."""
        numbers = y if y.ndim == 1 else y[:, 0]
        missing = np.isnan(numbers)
        at = np.where(missing, 0.0, numbers).astype(np.int64)
        time = np.where(missing, np.nan, self.time[at])
        entry = None if self.entry is None else self.entry[at]
        stratum = None if self.stratum is None else self.stratum[at]
        return FollowUp(time, self.event[at], entry, stratum, self.n_strata)

    def by_stratum(self, parts: Array) -> Array:
        """Put parts of intervals into the columns of each row's own stratum."""
        if self.stratum is None:
            return parts
        columns = np.zeros((len(parts), self.n_strata, parts.shape[1]))
        columns[np.arange(len(parts)), self.stratum] = parts
        return columns.reshape(len(parts), -1)


class AtRisk:
    """Queries about persons at risk until an event or until follow-up ends.

    Responses are those of ``people``.  ``weigh`` multiplies the weights of records.
    """

    def __init__(
        self,
        records: Records,
        subsample: Records | None,
        people: FollowUp,
        cuts: Array,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int,
        unit: float | None = None,
        weigh: float = 0.0,
    ) -> None:
        self._records, self._subsample, self._people = records, subsample, people
        self._cuts, self._unit, self._weigh = cuts, unit, weigh
        self._settings = ledger, noise, threads
        self.intervals, self.n = people.n_strata * (len(cuts) - 1), records.n
        self._last: tuple[Array, PreconditionedQueries] | None = None

    def sample(self) -> AtRisk:
        """Return queries about the secret sample if there is one, else about all."""
        if self._subsample is None:
            return self
        records = self._subsample, None, self._people, self._cuts
        return AtRisk(*records, *self._settings, self._unit, self._weigh)

    def exposures(self, bound: float, tie: float, mu: float) -> Answer:
        """Release the mean part of each interval that persons are at risk; ``mu`` (claim T13).

        With a positive ``tie`` the last entry is this multiple of the share with an event exactly
        at a cut.
        """
        make = partial(exposures_of, self._people, self._cuts, self._unit, tie)
        rows = self._rows(self.intervals + (tie > 0.0), make)
        answer: JointAnswer = rows.clipped(score_of_rows(rows), bound, mu)
        return answer.gradient

    def events(self) -> PreconditionedQueries:
        """Make queries about interval and covariates of events."""
        return self._rows(self._columns, partial(events_of, self._people, self._cuts))

    def scores(self, params: Array) -> PreconditionedQueries:
        """Make queries about scores at these coefficients."""
        if self._last is None or not np.array_equal(self._last[0], params):
            make = partial(person_scores, self._people, self._cuts, self._unit, params)
            self._last = params, self._rows(self._columns, make, params)
        return self._last[1]

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
                return made_rows(raw, columns, make)

            rows = records.mapped(made) if records.means else made(records)
            result = Curator(rows, objective, *self._settings)
            result._made_with = (self._cuts, params)
            return result

        sample = None if self._subsample is None else curator(self._subsample)
        return PreconditionedQueries(curator(self._records), subsample=sample, weigh=self._weigh)


def score_of_rows(rows: PreconditionedQueries) -> Linearization:
    """Linearise the squared loss at zero: of responses of 1, scores are the rows themselves."""
    return Linearization(np.zeros(rows.dimension), LeastSquares())


def exposures_of(
    people: FollowUp, cuts: Array, unit: float | None, tie: float, X: Array, y: Array
) -> Array:
    """Return the part of each interval that a person is at risk, until the middle of a unit.

    With a positive ``tie``, this number if an event is exactly at a cut, and else 0, follows.
    """
    rows = people.rows(y)
    parts = rows.by_stratum(at_risk(rows, cuts, 0.5 * (unit or 0.0)))
    if not tie:
        return parts
    at = (rows.time[:, None] == cuts[1:]).any(axis=1) & rows.event
    return np.column_stack([parts, tie * at])


def events_of(people: FollowUp, cuts: Array, X: Array, y: Array) -> Array:
    """Return the interval of an event, and its covariates; zeros without an event."""
    rows = people.rows(y)
    events = event_intervals(rows, cuts)
    return np.hstack([rows.by_stratum(events), X * events.sum(axis=1)[:, None]])


def person_scores(
    people: FollowUp, cuts: Array, unit: float | None, params: Array, X: Array, y: Array
) -> Array:
    """Return persons' scores at these coefficients."""
    rows = people.rows(y)
    events, risk, last = event_intervals(rows, cuts), at_risk(rows, cuts), None
    if unit is not None:
        before = at_risk(rows, cuts, unit)
        risk, last = before, risk - before
    return scores_of(X, rows, events, risk, params, last, None if y.ndim == 1 else y[:, 2])


def event_intervals(rows: FollowUp, cuts: Array) -> Array:
    """Return 1 in the interval of each row's event, else 0; NaN of incomplete rows.

    An interval includes its end, and the first one its beginning.
    """
    events = np.zeros((len(rows.time), len(cuts) - 1))
    came = np.flatnonzero(rows.event & (rows.time <= cuts[-1]))
    events[came, np.searchsorted(cuts[1:], rows.time[came])] = 1.0
    events[np.isnan(rows.time)] = np.nan
    return events


def at_risk(rows: FollowUp, cuts: Array, length: float = 0.0) -> Array:
    """Compute the part of each interval at risk, until this length of time before an event."""
    end = rows.time - length * rows.event
    if rows.entry is None:
        return _passed(end, cuts)
    return _passed(np.maximum(end, rows.entry), cuts) - _passed(rows.entry, cuts)


def _passed(time: Array, cuts: Array) -> Array:
    """Compute the part of each interval that has passed at a time."""
    with np.errstate(all="ignore"):
        passed = time[:, None] - cuts[:-1]
        passed /= np.diff(cuts)
        return np.clip(passed, 0.0, 1.0, out=passed)


def scores_of(
    X: Array,
    rows: FollowUp,
    events: Array,
    risk: Array,
    params: Array,
    last: Array | None = None,
    offset: Array | None = None,
) -> Array:
    """Compute each person's score ``(d_k - h_k)_k`` and ``x sum_k (d_k - h_k)``.

    h_k are their expected events: a piecewise exponential model (Holford 1980).  The intervals of
    each stratum have hazards of their own.

    ``last`` holds the parts of intervals within one unit, in which the event came.  Then d_k is
    the part of interval k in the hazard x of that unit, times ``x / (exp(x) - 1)``.  And h_k are
    the expected events before it (the likelihood of an event between two times).
    """
    K = events.shape[1] * rows.n_strata
    baseline = params[:K].reshape(rows.n_strata, -1)
    with np.errstate(all="ignore"):
        predictor = np.zeros(len(X)) if offset is None else offset
        for column, slope in zip(
            X.T, params[K:], strict=True
        ):  # by column: no row depends on another
            predictor = predictor + slope * column
        own = baseline if rows.stratum is None else baseline[rows.stratum]
        hazards = np.minimum(predictor[:, None] + own, LARGEST)
        if last is not None:
            parts = last * np.exp(np.maximum(hazards, -LARGEST))
            total = parts.sum(axis=1)
            events = parts * np.where(total > 0.0, 1.0 / np.expm1(total), total)[:, None]
        residuals = events - risk * np.exp(hazards)
        return np.hstack([rows.by_stratum(residuals), X * residuals.sum(axis=1)[:, None]])
