"""Counts, moments and distributions in the cells of a declared grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.data import Records
from dpfast.errors import InvalidInput
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.tables.prefix_sums import column_norm, mapped_histograms
from dpfast.privacy.tables.sensitivity import (
    SQUARE_AT,
    SQUARE_WEIGHT,
    cell_counts,
    cell_distribution,
    cell_moments,
    count_weight,
)

Array = NDArray[np.float64]

#: Values are rounded to multiples of 1 over this, so that their sums are whole numbers (claim T4).
UNIT = 1 << 20

#: Sums of so many of them are exact.
MAX_RECORDS = 1 << 32


class Cells:
    """Queries about the cells of a grouping."""

    def __init__(
        self,
        records: Records,
        n_cells: int,
        squared: Sequence[bool],
        ledger: Ledger,
        noise: NoiseSource,
    ) -> None:
        if not sum(records.block_sizes) < MAX_RECORDS:
            raise InvalidInput(f"tables are made of fewer than {MAX_RECORDS} records.")
        self.n, self.n_cells = records.n, n_cells
        self.ledger = ledger
        self._records = records
        self._squared = np.flatnonzero(squared)
        self._noise = source_of_noise(noise)

    def counts_receipt(self, mu: float) -> Receipt:
        """Make the receipt of :meth:`counts`; reads no record."""
        return gaussian_receipt("counts by cell", "T1", mu, cell_counts(), self.n, self.n_cells)

    def moments_receipt(self, mu: float) -> Receipt:
        """Make the receipt of :meth:`moments`; reads no record."""
        q, a = self._records.n_covariates, len(self._squared)
        sensitivity = cell_moments(a, q - a, self.n)
        bound, size = self.n * max(SQUARE_WEIGHT, self.count_weight), self.n_cells * (q + a + 1)
        return gaussian_receipt("moments by cell", "T3", mu, sensitivity, bound, size)

    def distribution_receipt(self, n_bins: int, mu: float) -> Receipt:
        """Make the receipt of :meth:`distribution`; reads no record."""
        sensitivity, size = cell_distribution(column_norm(n_bins)), self.n_cells * n_bins
        return gaussian_receipt("distribution by cell", "T5", mu, sensitivity, self.n, size)

    @property
    def count_weight(self) -> float:
        """Factor of the counts in :meth:`moments`; public."""
        a = len(self._squared)
        return count_weight(a, self._records.n_covariates - a)

    def counts(self, mu: float) -> Answer:
        """Release how many records are in each cell, shape (n_cells,) (claim T1)."""
        receipt = self.counts_receipt(mu)
        self.ledger.charge(GDP(mu), receipt.query)
        counted = self._records.total(_counts, self.n_cells).astype(np.float64)
        return release_with_noise(self._noise, (receipt.query, mu), receipt, counted)

    def moments(self, mu: float) -> Answer:
        """Release the moments of each cell, shape (n_cells, q + a + 1) (claims T3 and T4)."""
        receipt = self.moments_receipt(mu)
        self.ledger.charge(GDP(mu), receipt.query)
        counted, sums, high, low = self._records.total(_moments, self.n_cells, self._squared)
        counted = counted.astype(np.float64)[:, None]
        squares = (high * float(UNIT) + low) / float(UNIT) ** 2
        value = np.hstack(
            [
                sums / float(UNIT),
                SQUARE_WEIGHT * (squares - SQUARE_AT * counted),
                self.count_weight * counted,
            ]
        )
        answer = release_with_noise(self._noise, (receipt.query, mu), receipt, value.ravel())
        return answer._replace(value=answer.value.reshape(value.shape))

    def distribution(self, edges: Array, mu: float) -> Answer:
        """Release ``R h`` of each cell's histogram h, shape (n_cells, bins) (claim T5).

        ``edges`` are the upper edges of all bins but the last one, which has the rest.
        """
        n_bins = len(edges) + 1
        receipt = self.distribution_receipt(n_bins, mu)
        self.ledger.charge(GDP(mu), receipt.query)
        value = mapped_histograms(self._records.total(_histograms, self.n_cells, edges))
        question = (receipt.query, mu, edges)
        answer = release_with_noise(self._noise, question, receipt, value.ravel())
        return answer._replace(value=answer.value.reshape(value.shape))


# what a cluster's workers are told by name


def _counts(X: Any, y: Any, n_cells: int) -> NDArray[np.int64]:
    cells, _ = _complete_rows(X, y, n_cells)
    return np.bincount(cells, minlength=n_cells).astype(np.int64)


def _moments(X: Any, y: Any, n_cells: int, squared: NDArray[np.intp]) -> Any:
    """Count the records of each cell; sum their integers, and both halves of the squares."""
    cells, rows = _complete_rows(X, y, n_cells)
    scaled = np.rint(np.clip(rows, -1.0, 1.0) * float(UNIT))
    squares = scaled[:, squared] ** 2  # below 2^40: exact
    high = np.floor(squares / float(UNIT))
    counted = np.bincount(cells, minlength=n_cells).astype(np.int64)
    parts = [
        _sum_by_cell(cells, values, n_cells)
        for values in (scaled, high, squares - high * float(UNIT))
    ]
    return counted, *parts


def _histograms(X: Any, y: Any, n_cells: int, edges: Array) -> NDArray[np.int64]:
    """Count the records of each cell by bin: a value is not above the upper edge of its bin."""
    cells, rows = _complete_rows(X, y, n_cells)
    n_bins = len(edges) + 1
    bins = cells * n_bins + np.searchsorted(edges, rows[:, 0], side="left")
    counts = np.bincount(bins, minlength=n_cells * n_bins).astype(np.int64)
    return counts.reshape(n_cells, n_bins)


def _complete_rows(X: Any, y: Any, n_cells: int) -> tuple[NDArray[np.intp], Array]:
    """Return the cells of the complete records, and their rows."""
    complete = (y >= 0.0) & (y < n_cells) & np.isfinite(X).all(axis=1)
    return y[complete].astype(np.intp), X[complete]


def _sum_by_cell(cells: NDArray[np.intp], integers: Array, n_cells: int) -> NDArray[np.int64]:
    """Sum the columns of an array of whole numbers by cell; exact, in any order."""
    sums = np.empty((n_cells, integers.shape[1]), dtype=np.int64)
    for j in range(integers.shape[1]):
        sums[:, j] = np.bincount(cells, weights=integers[:, j], minlength=n_cells)
    return sums
