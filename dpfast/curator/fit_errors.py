"""Errors of a released line, record by record, and their moments (claim T12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from dpfast.arguments import Array
from dpfast.curator.answers import Answer
from dpfast.curator.hazards import made_rows
from dpfast.curator.tables.cells import Cells
from dpfast.data.records import Records
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

#: Probabilities are at least so far from 0 and 1, and means from 0, so that deviances are numbers.
LEAST_PROBABILITY, LEAST_MEAN = 1e-12, 1e-300


class Line(NamedTuple):
    """A released line: the intercept, slopes of the columns, and the kind of response.

    It is "number", "label" (0 or 1), "count" or "positive".  ``means`` maps predictors to means,
    entry by entry.
    """

    intercept: float
    slopes: Array
    response: str
    means: Callable[[Array], Array]


class FitErrors:
    """Queries about the errors of a released line; each record has two columns in [-1, 1]."""

    def __init__(self, records: Records, line: Line, ledger: Ledger, noise: NoiseSource) -> None:
        self._records, self._line = records, line
        self._settings = ledger, noise

    def receipt(self, mu: float) -> None:
        """Refuse a budget that :meth:`first` and :meth:`second` would refuse; costs nothing."""
        self._cells(lambda X, y: np.zeros((len(X), 2))).moments_receipt(mu)

    def first(self, largest: float, centre: float, half: float, mu: float) -> tuple[Answer, float]:
        """Release moments of ``2 |e| / largest - 1`` and ``(y - centre) / half``; costs ``mu``."""
        return self._moments(partial(sizes, self._line, largest, centre, half), mu)

    def second(
        self, mean: float, ratio: float, bounds: tuple[float, float], mu: float
    ) -> tuple[Answer, float]:
        """Release moments of ``(L - ratio L0) / b`` and ``2 L0 / b0 - 1``; costs ``mu``.

        L is the squared error, or the deviance, and L0 that of the released mean.
        """
        return self._moments(partial(losses, self._line, mean, ratio, bounds), mu)

    def _moments(self, make: Callable[[Array, Array], Array], mu: float) -> tuple[Answer, float]:
        """Release counts, sums and sums of squares; and the factor of the count."""
        cells = self._cells(make)
        return cells.moments(mu), cells.count_weight

    def _cells(self, make: Callable[[Array, Array], Array]) -> Cells:
        """Make the cells of the rows: all complete records are in the second one."""
        return Cells(made_rows(self._records, 2, make), 2, (True, True), *self._settings)


def means(line: Line, X: Any, y: Array) -> tuple[Array, Array]:
    """Return responses and means; column by column, so that each is of its own record."""
    with np.errstate(all="ignore"):
        predictor = np.full(len(X), line.intercept)
        for column, slope in zip(np.asarray(X).T, line.slopes.tolist(), strict=True):
            predictor += slope * column
        response = np.asarray(y, dtype=np.float64)
        if line.response == "label":
            response = np.where((response == 0.0) | (response == 1.0), response, np.nan)
        elif line.response == "count":  # negative counts are zero, as in the fit
            response = np.maximum(response, 0.0)
        elif line.response == "positive":
            response = np.where(response > 0.0, response, np.nan)
        return response, line.means(predictor)


def sizes(line: Line, largest: float, centre: float, half: float, X: Any, y: Array) -> Array:
    """Make the rows of the first query."""
    response, mean = means(line, X, y)
    with np.errstate(all="ignore"):
        error = np.minimum(np.abs(response - mean), largest)
        rows = [2.0 * error / largest - 1.0, np.clip((response - centre) / half, -1.0, 1.0)]
        return np.column_stack(rows)


def losses(
    line: Line, mean: float, ratio: float, bounds: tuple[float, float], X: Any, y: Array
) -> Array:
    """Make the rows of the second query."""
    response, fitted = means(line, X, y)
    with np.errstate(all="ignore"):
        loss = _loss(line, response, fitted)
        null = _loss(line, response, np.full(len(response), mean))
        change = np.clip((loss - ratio * null) / bounds[0], -1.0, 1.0)
        return np.column_stack([change, np.clip(2.0 * null / bounds[1] - 1.0, -1.0, 1.0)])


def _loss(line: Line, response: Array, mean: Array) -> Array:
    """Return squared errors, or deviances of labels, counts (Poisson) and gamma responses."""
    if line.response == "number":
        return np.asarray((response - mean) ** 2)
    if line.response == "label":
        probability = np.clip(mean, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        return -2.0 * np.log(np.where(response == 1.0, probability, 1.0 - probability))
    mean = np.clip(mean, LEAST_MEAN, 1.0 / LEAST_MEAN)
    ratio = response / mean
    if line.response == "count":
        return np.asarray(2.0 * (xlogy(response, ratio) - (response - mean)))
    return np.asarray(2.0 * (ratio - 1.0 - np.log(ratio)))
