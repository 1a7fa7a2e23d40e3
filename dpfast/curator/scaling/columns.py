"""Counts below thresholds, distances from centres and clipped moments, of many columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import charge, release_with_noise, source_of_noise
from dpfast.data import Records
from dpfast.errors import InvalidInput
from dpfast.kernels import keys as kernel, session
from dpfast.kernels.session import Bisection, Quantile, connect_bisection, connect_scales
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import check_grid_range, gaussian_scale
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.scaling.sensitivity import (
    SQUARE_WEIGHT,
    clipped_moments,
    complete_weight,
    counts,
    distances,
)

__all__ = ["Bisection", "Columns", "Quantile", "connect_bisection", "connect_scales"]

Array = NDArray[np.float64]
Threshold = tuple[int, int]

#: Cells of a window are 2^shift keys wide: exponents, then 12 bits of the mantissa at a time.
WINDOW_SHIFTS = (52, 40, 28, 16)

#: Windows counted in one pass: their tables take 32 MB.
MAX_WINDOWS = 1024

#: Entries of records in memory that are turned once for all queries: a copy of 2 MB at most.  In a
#: sweep a search took .65 to .75 of its time by windows up to here, .9 at 2^19 and 1.2 at 2^20.
MAX_TURNED = 1 << 18

_FIRST_KEY = -(1 << 63)
_CELL_BITS = 12


class Columns(session.ColumnQuestions):
    """Queries about the locations of the columns of some records.

    Counts below thresholds and distances are compiled: :meth:`below` and :meth:`distances` charge,
    read and release.
    """

    def __init__(self, records: Records, ledger: Ledger, noise: NoiseSource) -> None:
        max_records = sum(records.block_sizes)
        if not max_records < kernel.MOST_RECORDS:
            raise InvalidInput(
                "locations and scales can be estimated for tables of fewer than "
                f"{kernel.MOST_RECORDS} records."
            )
        self.n, self._max_records = records.n, max_records
        self.n_columns = records.n_covariates + 1
        self.ledger = ledger
        self._records = records
        self._noise = source_of_noise(noise)
        self._windows = {}
        in_memory = type(records) is Records
        few = max_records < kernel.CELLS or max_records * self.n_columns <= MAX_TURNED
        self._few = in_memory and few
        self._complete = 0  # complete records, the total of any coarsest window

    def refuse(
        self, counted: Sequence[tuple[int, float]], measured: Sequence[tuple[int, float]]
    ) -> None:
        """Refuse budgets that so many counts, or distances of so many columns, would refuse."""
        for request in counted:
            _counts_receipt(self._max_records, *request)
        for request in measured:
            _distances_receipt(self._max_records, *request)

    def moments_receipt(self, m: int, mu: float) -> Receipt:
        """Make the receipt of :meth:`moments` of m columns; reads no record."""
        if self._records.excess != 1:
            raise InvalidInput("of a sample there are no clipped moments.")
        sensitivity = clipped_moments(m, self.n)
        return gaussian_receipt("clipped moments", "D3", mu, sensitivity, 2.0, 2 * m)

    def moments(self, columns: Sequence[int], middles: Array, halves: Array, mu: float) -> Answer:
        """Release means and weighted mean squares of clipped columns, (2 m,): ``mu`` (claim D3)."""
        receipt = self.moments_receipt(len(columns), mu)
        charge(self.ledger, GDP(mu), receipt.query)
        arguments = np.zeros(self.n_columns), np.ones(self.n_columns)
        arguments[0][list(columns)], arguments[1][list(columns)] = middles, halves
        sums = self._records.total(kernel.moments, *arguments)[:, list(columns)]
        means = sums[0] / float(self.n * kernel.UNIT)
        squares = sums[1] / float(self.n * kernel.UNIT**2)
        value = np.concatenate([means, SQUARE_WEIGHT * squares])
        question = (receipt.query, mu, tuple(columns), middles, halves)
        return release_with_noise(self._noise, question, receipt, value)

    def _count_windows(
        self, thresholds: Sequence[Threshold], later: Sequence[Threshold] = ()
    ) -> None:
        """Count in the windows of thresholds that were not counted before."""
        needed = [
            (column, window) for column, key in (*thresholds, *later) for window in _chain_of(key)
        ]
        missing = [pair for pair in dict.fromkeys(needed) if pair not in self._windows]
        for first in range(0, len(missing), MAX_WINDOWS):
            group = missing[first : first + MAX_WINDOWS]
            windows = np.array([(column, *window) for column, window in group], dtype=np.int64)
            columns, shifts, starts = windows.T.copy()
            below = self._records.total(kernel.key_cells, columns, starts, shifts)
            for (column, (shift, start)), cells in zip(group, below, strict=True):
                if start != _FIRST_KEY:  # a coarser window, which was counted before it
                    coarser, first_key = _window_of(start)
                    cells += self._windows[column, (coarser, first_key)][
                        (start - first_key) >> coarser
                    ]
                self._windows[column, (shift, start)] = cells
                if shift == WINDOW_SHIFTS[0]:
                    self._complete = int(cells[-1])


@lru_cache(maxsize=256)
def _counts_receipt(max_records: int, m: int, mu: float) -> tuple[Receipt, GDP]:
    sensitivity = counts(m)
    scale = gaussian_scale(sensitivity, mu, m + 1)
    check_grid_range(max_records * max(1.0, complete_weight(m)), scale, m + 1)
    return Receipt("counts", "D2", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=256)
def _distances_receipt(max_records: int, m: int, mu: float) -> tuple[Receipt, GDP]:
    cells = m * 2 * kernel.OCTAVES  # at most
    sensitivity = distances(m)
    scale = gaussian_scale(sensitivity, mu, cells)
    check_grid_range(max_records, scale, cells)
    return Receipt("histogram of distances", "D6", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=1024)
def _window_of(key: int) -> tuple[int, int]:
    """Return shift and first key of the coarsest window in which this key begins a cell."""
    for shift in WINDOW_SHIFTS:
        if key % (1 << shift) == 0:
            break
    else:
        raise InvalidInput("a threshold's key must be a multiple of 2^16.")
    if shift == WINDOW_SHIFTS[0]:
        return shift, _FIRST_KEY
    return shift, key >> (shift + _CELL_BITS) << (shift + _CELL_BITS)


session.connect_columns(
    _counts_receipt, _distances_receipt, complete_weight, _window_of, kernel.TurnedRecords,
    kernel.distances, kernel.OCTAVES, float(kernel.WHOLE),
)  # fmt: skip


@lru_cache(maxsize=1024)
def _chain_of(key: int) -> tuple[tuple[int, int], ...]:
    """List the window of a threshold after the coarser ones, from the coarsest on."""
    shift, start = _window_of(key)
    coarser = () if shift == WINDOW_SHIFTS[0] else _chain_of(start)
    return *coarser, (shift, start)
