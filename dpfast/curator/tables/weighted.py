"""Weighted counts, moments and distributions in cells, of rows or of persons (claims T9, T10)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.curator.tables.cells import MAX_RECORDS, UNIT
from dpfast.data.cell_records import CellRecords
from dpfast.errors import InvalidInput
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.tables.prefix_sums import column_norm, mapped_histograms
from dpfast.privacy.tables.sensitivity import (
    SQUARE_AT,
    SQUARE_WEIGHT,
    count_square_factor,
    histogram_square_factor,
    weighted_cell_counts,
    weighted_cell_distribution,
    weighted_cell_moments,
    weighted_factors,
)

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Weights are whole multiples of 1 over ``UNIT``; histograms are mapped in parts of so many bits,
#: so that all products are exact.
PART_BITS = 10


class WeightedCells:
    """Queries about the cells of a grouping, of rows with weights, or of persons.

    All answers are in units of the largest contribution of a person: ``unit`` in weighted rows.
    """

    def __init__(
        self, records: CellRecords, n_cells: int, ledger: Ledger, noise: NoiseSource
    ) -> None:
        if not records.n < MAX_RECORDS:
            raise InvalidInput(f"tables are made of fewer than {MAX_RECORDS} records.")
        self.n, self.n_cells, self.ledger = records.n, n_cells, ledger
        self.counted, self.clustered = records.counted, records.persons is not None
        self.group_size = records.group_size
        #: Bound on weights, public or released; None until it was estimated.
        self.bound = 1.0 if records.weights is None else records.largest_weight
        self._records, self._noise = records, source_of_noise(noise)

    @property
    def unit(self) -> float:
        """Weighted rows that the largest contribution of a person stands for."""
        assert self.bound is not None
        return self.bound * (self._records.group_size or 1)

    def counts_receipt(self, mu: float) -> Receipt:
        """Make the receipt of :meth:`counts`; reads no record."""
        name, size = "weighted counts by cell", 2 * self.n_cells
        return gaussian_receipt(name, "T9", mu, weighted_cell_counts(self.n), self.n, size)

    def moments_receipt(self, mu: float) -> Receipt:
        """Make the receipt of :meth:`moments`; reads no record."""
        q = self._records.n_covariates
        bound = self.n * max(SQUARE_WEIGHT, *weighted_factors(q))
        name, size = "weighted moments by cell", self.n_cells * (3 * q + 2)
        return gaussian_receipt(name, "T9", mu, weighted_cell_moments(q, self.n), bound, size)

    def distribution_receipt(self, n_bins: int, mu: float) -> Receipt:
        """Make the receipt of :meth:`distribution`; reads no record."""
        sensitivity = weighted_cell_distribution(column_norm(n_bins), self.n, n_bins)
        name, size = "weighted distribution by cell", 2 * self.n_cells * n_bins
        return gaussian_receipt(name, "T10", mu, sensitivity, self.n, size)

    def counts(self, mu: float) -> Answer:
        """Release sums of weights and, times their factor, of squares, shape (n_cells, 2)."""
        receipt = self.counts_receipt(mu)
        self.ledger.charge(GDP(mu), receipt.query)
        sums = self._sums()
        squares = count_square_factor() * sums.squared_weights
        return self._noisy(receipt, np.column_stack([sums.weights, squares]))

    def moments(self, mu: float) -> Answer:
        """Release sums, shifted squares, products with weights, squares of weights and counts.

        The answer has the shape (n_cells, 3 q + 2).
        """
        receipt = self.moments_receipt(mu)
        self.ledger.charge(GDP(mu), receipt.query)
        product, weight_square, count = weighted_factors(self._records.n_covariates)
        sums = self._sums()
        squared = sums.squared_weights[:, None]
        value = [
            sums.values,
            SQUARE_WEIGHT * (sums.squares - SQUARE_AT * squared),
            product * sums.products,
            weight_square * squared,
            count * sums.weights[:, None],
        ]
        return self._noisy(receipt, np.hstack(value))

    def weights_below(self, edges: Array, mu: float) -> Answer:
        """Release the distribution of the weights themselves by their logarithm (claim T10)."""
        logarithms = WeightedCells(self._records.of_weights(), 1, self.ledger, self._noise)
        return logarithms.distribution(edges, mu)

    def distribution(self, edges: Array, mu: float) -> Answer:
        """Release mapped histograms of weights and of squares, shape (2, n_cells, bins).

        ``edges`` are the upper edges of all bins but the last one, which has the rest.
        """
        n_bins = len(edges) + 1
        receipt = self.distribution_receipt(n_bins, mu)
        self.ledger.charge(GDP(mu), receipt.query)
        rows = self._rows()
        bins = np.searchsorted(edges, rows.X[:, 0], side="left")
        weights, squares = _histograms(rows, bins, self.n_cells, n_bins)
        value = np.stack([_mapped(weights), histogram_square_factor() * _mapped(squares)])
        return self._noisy(receipt, value, edges)

    def _noisy(self, receipt: Receipt, value: Array, *public: Array) -> Answer:
        """Add noise; the question has all public numbers that the answer depends on."""
        question = (receipt.query, receipt.mu, self.unit, *public)
        answer = release_with_noise(self._noise, question, receipt, value.ravel())
        return answer._replace(value=answer.value.reshape(value.shape))

    def _rows(self) -> _Rows:
        """Return the complete rows, with weights in whole numbers of at most ``UNIT`` a person."""
        records, bound = self._records, self.bound
        X, cells = records.X, records.cells
        complete = (cells >= 0.0) & (cells < self.n_cells) & np.isfinite(X).all(axis=1)
        shares = np.ones(len(cells))
        if records.weights is not None:
            assert bound is not None
            with np.errstate(all="ignore"):
                complete &= np.isfinite(records.weights) & (records.weights > 0.0)
                shares = np.minimum(records.weights / bound, 1.0)
        if records.persons is None:
            kept = np.flatnonzero(complete)
            persons = None
            weights = np.rint(shares[kept] * float(UNIT))
        else:
            kept, persons, divisors = _rows_of_persons(records, complete)
            # rounded down, so that the weights of a person add up to at most UNIT
            weights = np.floor(shares[kept] * np.floor(float(UNIT) / divisors))
        return _Rows(persons, cells[kept].astype(np.intp), weights, np.clip(X[kept], -1.0, 1.0))

    def _sums(self) -> _Sums:
        """Sum by cell: weights and values of a person in a cell first, then squares and products.

        All are sums of whole numbers below 2^53, and exact in any order.
        """
        rows, n_cells = self._rows(), self.n_cells
        values = np.rint(rows.X * rows.weights[:, None])  # no larger than the weight
        cells, place = rows.places(n_cells)
        weights = np.bincount(place, rows.weights, minlength=len(cells))
        values = _summed(place, values, len(cells))
        own = np.asarray(weights, dtype=np.float64)[:, None]
        squared: tuple[Array, ...] = (values * values, values * own, own * own)
        squares, products, squared_weights = [
            _summed_products(cells, part, n_cells) for part in squared
        ]
        return _Sums(
            np.bincount(cells, weights, minlength=n_cells) / float(UNIT),
            squared_weights[:, 0],
            _summed(cells, values, n_cells) / float(UNIT),
            squares,
            products,
        )


class _Rows(NamedTuple):
    """Complete rows: persons (None if rows are), cells, whole weights, and values in [-1, 1]."""

    persons: NDArray[np.intp] | None
    cells: NDArray[np.intp]
    weights: Array
    X: Array

    def places(self, n_cells: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the cells of all pairs of a person and a cell, and the pair of each row."""
        if self.persons is None:
            return self.cells, np.arange(len(self.cells))
        pairs, place = np.unique(
            self.persons.astype(np.int64) * n_cells + self.cells, return_inverse=True
        )
        return (pairs % n_cells).astype(np.intp), place.ravel()


class _Sums(NamedTuple):
    """Sums by cell in units of the largest contribution; squares are of persons' sums."""

    weights: Array
    squared_weights: Array
    values: Array
    squares: Array
    products: Array


def _rows_of_persons(
    records: CellRecords, complete: NDArray[np.bool_]
) -> tuple[NDArray[np.intp], NDArray[np.intp], Array]:
    """Return the rows that count, their persons, and the number of rows that share a person's unit.

    Of more than ``group_size`` rows the first complete ones count.
    """
    assert records.persons is not None
    kept = np.flatnonzero(complete)
    persons = records.persons[kept]
    if records.group_size is None:
        return kept, persons, np.bincount(persons, minlength=records.n)[persons].astype(float)
    order = np.argsort(persons, kind="stable")
    starts = np.flatnonzero(np.diff(persons[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    among = rank < records.group_size
    return kept[among], persons[among], np.full(int(among.sum()), float(records.group_size))


def _summed(places: NDArray[np.intp], integers: Array, size: int) -> Array:
    """Sum the columns of whole numbers by place; exact, in any order."""
    sums = [np.bincount(places, column, minlength=size) for column in integers.T]
    return np.array(sums, dtype=np.float64).T if sums else np.empty((size, 0))


def _summed_products(places: NDArray[np.intp], integers: Array, size: int) -> Array:
    """Sum whole numbers of at most ``UNIT`` squared by place, in two exact halves, over that."""
    high = np.floor(integers / float(UNIT))
    low = integers - high * float(UNIT)
    halves = _summed(places, high, size), _summed(places, low, size)
    return np.asarray((halves[0] * float(UNIT) + halves[1]) / float(UNIT) ** 2)


def _histograms(
    rows: _Rows, bins: NDArray[np.intp], n_cells: int, n_bins: int
) -> tuple[Integers, Integers]:
    """Sum weights, and weights times the person's own weight in the cell, by cell and bin."""
    cells, place = rows.places(n_cells)
    in_cell = np.bincount(place, rows.weights, minlength=len(cells))[place]
    squares = np.floor(rows.weights * in_cell / float(UNIT))
    at, size = rows.cells * n_bins + bins, n_cells * n_bins
    first, second = [
        np.bincount(at, weights, minlength=size).astype(np.int64).reshape(n_cells, n_bins)
        for weights in (rows.weights, squares)
    ]
    return first, second


def _mapped(histograms: Integers) -> Array:
    """Map histograms of whole weights in parts that are exact, and add the parts in units."""
    mask, total = (1 << PART_BITS) - 1, np.zeros(histograms.shape)
    for k in (0, 1):
        part = (histograms >> (PART_BITS * k)) & mask
        total += mapped_histograms(part) * 2.0 ** (PART_BITS * k)
    return np.asarray(total / float(UNIT) + mapped_histograms(histograms >> (2 * PART_BITS)))
