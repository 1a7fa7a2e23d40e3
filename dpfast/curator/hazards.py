"""Scores of proportional hazards: each person has one row, from their data and releases (T7)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer
from dpfast.curator.curator import Curator
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data import Records
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]

#: Logarithms of hazards are clipped to it, so that every score is a number.
LARGEST = 100.0


class AtRisk:
    """Persons at risk until an event or until follow-up ends, copied."""

    def __init__(
        self,
        records: Records,
        event: Array,
        cuts: Array,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int,
        unit: float | None = None,
    ) -> None:
        blocks = [(np.asarray(X, dtype=np.float64), np.array(y)) for X, y in records.blocks()]
        self._X = np.concatenate([block for block, _ in blocks])
        time = np.concatenate([block for _, block in blocks])
        self._ledger, self._noise, self._threads = ledger, noise, threads
        self._cuts = cuts
        self._events, risk = intervals(time, event, cuts)
        self._risk, self._before = risk, risk
        self._last: Array | None = None
        if unit is not None:
            self._before, self._risk = earlier(time, event, cuts, unit)
            self._last = risk - self._before
        at = (time[:, None] == cuts[1:]).any(axis=1) * self._events.sum(axis=1)
        self._ties = at[:, None]
        self.intervals, self.n = len(cuts) - 1, len(time)

    def exposures(self, mu: float) -> Answer:
        """Release the mean part of each interval that persons are at risk; ``mu`` (claim T7)."""
        rows, bound = self._of(self._risk), float(np.sqrt(self.intervals))
        return rows.clipped(score_of_rows(rows), bound, mu).gradient

    def ties(self, mu: float) -> Answer:
        """Release the share of records with an event exactly at a cut; costs ``mu`` (claim T7)."""
        rows = self._of(self._ties)
        return rows.clipped(score_of_rows(rows), 1.0, mu).gradient

    def events(self) -> PreconditionedQueries:
        """Make queries about interval and covariates of events."""
        return self._of(np.hstack([self._events, self._X * self._events.sum(axis=1)[:, None]]))

    def scores(self, params: Array) -> PreconditionedQueries:
        """Make queries about scores at these coefficients."""
        rows = scores_of(self._X, self._events, self._before, params, self._last)
        return self._of(rows, params)

    def _of(self, rows: Array, params: Array | None = None) -> PreconditionedQueries:
        objective = Objective(LeastSquares(), Mallows(1.0), rows.shape[1], fit_intercept=False)
        records: Any = Records(rows, np.where(np.isfinite(rows).all(axis=1), 1.0, np.nan), None)
        curator = Curator(records, objective, self._ledger, self._noise, self._threads)
        curator._made_with = (self._cuts, params)
        return PreconditionedQueries(curator)


def score_of_rows(rows: PreconditionedQueries) -> Linearization:
    """Linearise the squared loss at zero: of responses of 1, scores are the rows themselves."""
    return Linearization(np.zeros(rows.dimension), LeastSquares())


def intervals(time: Array, event: Array, cuts: Array) -> tuple[Array, Array]:
    """Compute the interval of each person's event, and the part of each interval at risk."""
    with np.errstate(all="ignore"):
        usable = np.isfinite(time) & ((event == 0.0) | (event == 1.0))
        times = np.where(usable, time, np.nan)[:, None]
        risk = np.clip((times - cuts[:-1]) / np.diff(cuts), 0.0, 1.0)
        events = (times > cuts[:-1]) & (times <= cuts[1:]) & (event == 1.0)[:, None]
        return np.where(usable[:, None], events, np.nan), risk


def earlier(time: Array, event: Array, cuts: Array, unit: float) -> tuple[Array, Array]:
    """Compute parts at risk until the unit of a person's event begins, and until its middle."""
    with np.errstate(all="ignore"):
        unit_of_events = unit * (event == 1.0)
        return intervals(time - unit_of_events, event, cuts)[1], intervals(
            time - 0.5 * unit_of_events, event, cuts
        )[1]


def scores_of(
    X: Array, events: Array, risk: Array, params: Array, last: Array | None = None
) -> Array:
    """Compute each person's score ``(d_k - h_k)_k`` and ``x sum_k (d_k - h_k)``.

    h_k are their expected events: a piecewise exponential model (Holford 1980).

    ``last`` holds the parts of intervals within one unit, in which the event came.  Then d_k is
    the part of interval k in the hazard x of that unit, times ``x / (exp(x) - 1)``.  And h_k are
    the expected events before it (the likelihood of an event between two times).
    """
    K = events.shape[1]
    with np.errstate(all="ignore"):
        predictor = np.zeros(len(X))
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
