"""Scores of thousands of columns beside the residuals of a released model (claim C106)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Receipt
from dpfast.curator.curator import Curator
from dpfast.curator.noisy_release import release_choice_with_noise, source_of_noise
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.curator.shares import Shares
from dpfast.data import Records
from dpfast.data.scaling.units import ReleasedScales
from dpfast.models import LeastSquares, Loss, Mallows, Objective
from dpfast.privacy.blackbox.sensitivity import SCORE_STEPS, choice_exponent, score_steps
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]

#: Spreads at which entries of columns are clipped.
COLUMN_CLIP = 2.0

#: Records of a block.  Sums of products of a block are whole numbers below 2^24, so float32 adds
#: them without rounding, in any order.
BLOCK = 1024


class Model(NamedTuple):
    """Released model: its response (None, or a column's place), columns, and coefficients."""

    response: int | None
    places: tuple[int, ...]
    loss: Loss
    params: Array


class ColumnScores:
    """Records whose columns are in public or released units, for forward selection."""

    def __init__(
        self, records: Records, units: ReleasedScales, ledger: Ledger, noise: NoiseSource
    ) -> None:
        self.n, self._records, self._units = records.n, records, units
        self._ledger, self._noise = ledger, source_of_noise(noise)
        self._cells: NDArray[np.int8] | None = None

    def sizes(self, model: Model) -> Shares:
        """Ask for shares of records whose residual is below a length; each costs its mu (C46)."""
        return Shares(np.abs(self._residuals(model)), self._ledger, self._noise)

    def rows(self, response: int | None, places: Sequence[int]) -> PreconditionedQueries:
        """Make queries about a regression on a few columns, in their units."""
        X, y = self._columns(places), self._response(response)
        objective = Objective(LeastSquares(), Mallows(1.0), len(places), fit_intercept=True)
        curator = Curator(Records(X, y, None), objective, self._ledger, self._noise)
        return PreconditionedQueries(curator)

    def selected(self, places: Sequence[int], names: tuple[str, ...]) -> Records:
        """Restrict the records to a few columns, in their own units."""
        X = np.asarray(self._records.X[:, list(places)], dtype=np.float64)
        return Records(X, self._records.y, names)

    def choose(
        self, model: Model, bound: float, candidates: NDArray[np.int64], mu: float, count: int = 1
    ) -> list[int]:
        """Choose columns by the size of their scores, one after the other: ``mu`` each (C106)."""
        receipt, rate = choice_receipt(mu)
        sizes: NDArray[np.int64] | None = None
        chosen: list[int] = []
        for _ in range(count):
            self._ledger.charge(GDP(mu), receipt.query)
            if sizes is None:
                sizes = np.abs(self._scores(self._residuals(model), bound))
            left = sizes[candidates]
            question = (receipt.query, mu, *model, bound, candidates)
            smallness = (left.max() - left).tolist()
            best = release_choice_with_noise(self._noise, question, receipt, smallness, rate)
            chosen.append(int(candidates[best]))
            candidates = np.delete(candidates, best)
        return chosen

    def _scores(self, residuals: Array, bound: float) -> NDArray[np.int64]:
        """Add up products of entries and residuals, both clipped and rounded to whole numbers."""
        if self._cells is None:
            self._cells = self._rounded_columns()
        lengths = to_steps(residuals, bound).astype(np.float32)
        total = np.zeros(self._records.n_covariates, dtype=np.int64)
        for first in range(0, self.n, BLOCK):
            block = slice(first, first + BLOCK)
            products = lengths[block] @ self._cells[block].astype(np.float32)
            total += products.astype(np.int64)
        return total

    def _rounded_columns(self) -> NDArray[np.int8]:
        """Round all entries once; a missing one is zero."""
        cells = np.empty(self._records.X.shape, dtype=np.int8)
        for first in range(0, self.n, BLOCK):
            block = slice(first, first + BLOCK)
            with np.errstate(all="ignore"):
                coded = np.subtract(self._records.X[block], self._units.centres, dtype=np.float64)
                coded /= self._units.spreads
            cells[block] = to_steps(coded, COLUMN_CLIP)
        return cells

    def _residuals(self, model: Model) -> Array:
        """Subtract fitted means from the response; NaN where an entry is missing."""
        with np.errstate(all="ignore"):
            line = model.params[0] + self._columns(model.places) @ model.params[1:]
            fitted = model.loss._means(line, model.loss.largest_mean)[0]
            return np.asarray(self._response(model.response) - fitted)

    def _columns(self, places: Sequence[int]) -> Array:
        """Copy a few columns in their units."""
        places = list(places)
        with np.errstate(all="ignore"):
            coded = np.subtract(
                self._records.X[:, places], self._units.centres[places], dtype=np.float64
            )
            coded /= self._units.spreads[places]
        return coded

    def _response(self, place: int | None) -> Array:
        """Copy the response, or a column in its place, in its units."""
        if place is not None:
            return self._columns([place])[:, 0]
        with np.errstate(all="ignore"):
            return self._units._coded_response(self._records.y)


def without_values(n: int, names: tuple[str, ...]) -> Records:
    """Make records of these sizes without a value: a plan needs no more."""
    return Records(np.full((n, len(names)), np.nan), np.full(n, np.nan), names)


def to_steps(values: Array, bound: float) -> NDArray[np.int8]:
    """Clip to the bound and round to a multiple of it over ``SCORE_STEPS``; NaN is zero."""
    with np.errstate(all="ignore"):
        steps = np.rint(np.clip(values / bound, -1.0, 1.0) * SCORE_STEPS)
        return np.where(np.isfinite(values), steps, 0.0).astype(np.int8)


def choice_receipt(mu: float) -> tuple[Receipt, tuple[int, int]]:
    """Make the receipt of a choice, and its rate; reads no record, costs nothing."""
    steps = score_steps()
    rate = laplace_rate(steps, choice_exponent(mu))
    return Receipt("choice of a column", "C106", mu, float(steps), steps / mu), rate
