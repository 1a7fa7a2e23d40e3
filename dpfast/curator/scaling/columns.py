"""Counts below thresholds, distances from centres and clipped moments, of many columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.data import Records
from dpfast.errors import InvalidInput
from dpfast.kernels import keys as kernel
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

Array = NDArray[np.float64]
Threshold = tuple[int, int]

#: A window's cells are 2^shift keys wide: exponents first, then 12 bits of the mantissa at a time.
WINDOW_SHIFTS = (52, 40, 28, 16)

#: Windows counted in one pass: their tables take 32 MB.
MOST_WINDOWS = 1024

_FIRST_KEY = -(1 << 63)
_CELL_BITS = 12


class Columns:
    """Answers where the columns of some records lie."""

    def __init__(self, records: Records, ledger: Ledger, noise: NoiseSource) -> None:
        most = sum(records.block_sizes)
        if not most < kernel.MOST_RECORDS:
            raise InvalidInput(
                "locations and scales can be bought of tables of fewer than "
                f"{kernel.MOST_RECORDS} records."
            )
        self.n, self._most = records.n, most
        self.n_columns = records.n_covariates + 1
        self.ledger = ledger
        self._records = records
        self._noise = source_of_noise(noise)
        self._windows: dict[tuple[int, Threshold], NDArray[np.int64]] = {}
        self._complete = 0  # records, as any coarsest window says
        self._measured: tuple[Any, Any] = (None, None)  # what was asked last, and its sums

    def refuse(
        self, counted: Sequence[tuple[int, float]], measured: Sequence[tuple[int, float]]
    ) -> None:
        """Refuse budgets at which so many counts, or distances of so many columns, would be."""
        for asked in counted:
            _counts_receipt(self._most, *asked)
        for asked in measured:
            _distances_receipt(self._most, *asked)

    def moments_receipt(self, m: int, mu: float) -> Receipt:
        """What :meth:`moments` of m columns would release; touches nothing."""
        if self._records.excess != 1:
            raise InvalidInput("of a sample there are no clipped moments.")
        sensitivity = clipped_moments(m, self.n)
        return gaussian_receipt("clipped moments", "D3", mu, sensitivity, 2.0, 2 * m)

    def below(
        self, asked: Sequence[Threshold], mu: float, later: Sequence[Threshold] = ()
    ) -> Answer:
        """Release in how many complete records a key is below a threshold: ``mu`` (claim D2)."""
        chains = [(column, _chain_of(key)) for column, key in asked]  # refuses others
        receipt, cost = _counts_receipt(self._most, len(asked), mu)
        self.ledger.charge(cost, receipt.query)
        self._count_windows(chains, later)
        values = [self._below(column, key) for column, key in asked]
        question = (receipt.query, mu, tuple(asked))
        return release_with_noise(self._noise, question, receipt, self._centred(values))

    def distances(
        self, columns: Sequence[int], centres: Array, nearest: Array, mu: float
    ) -> Answer:
        """Histograms in octaves of distances from centres, each in two cells: ``mu`` (claim D6)."""
        receipt, cost = _distances_receipt(self._most, len(columns), mu)
        self.ledger.charge(cost, receipt.query)
        every = np.zeros(self.n_columns), np.full(self.n_columns, np.inf)
        every[0][list(columns)], every[1][list(columns)] = centres, nearest
        asked = tuple(columns), *[some.tobytes() for some in every]
        if self._measured[0] != asked:  # the same again at another price is read once
            self._measured = asked, self._records.total(kernel.distances, *every)[list(columns)]
        question = (receipt.query, mu, tuple(columns), centres, nearest)
        value = self._measured[1].ravel() / float(kernel.WHOLE)  # exact: whole numbers below 2^51
        answer = release_with_noise(self._noise, question, receipt, value)
        return answer._replace(value=answer.value.reshape(-1, 2, kernel.OCTAVES))

    def moments(self, columns: Sequence[int], middles: Array, halves: Array, mu: float) -> Answer:
        """Release means and weighted mean squares of held columns, (2 m,): ``mu`` (claim D3)."""
        receipt = self.moments_receipt(len(columns), mu)
        self.ledger.charge(GDP(mu), receipt.query)
        every = np.zeros(self.n_columns), np.ones(self.n_columns)
        every[0][list(columns)], every[1][list(columns)] = middles, halves
        sums = self._records.total(kernel.moments, *every)[:, list(columns)]
        means = sums[0] / float(self.n * kernel.UNIT)
        squares = sums[1] / float(self.n * kernel.UNIT**2)
        value = np.concatenate([means, SQUARE_WEIGHT * squares])
        question = (receipt.query, mu, tuple(columns), middles, halves)
        return release_with_noise(self._noise, question, receipt, value)

    def _centred(self, values: Sequence[int]) -> Array:
        """Exact: halves and 32nds of whole numbers below 2^33."""
        half = 0.5 * self._complete
        centred = [value - half for value in values]
        return np.array([*centred, complete_weight(len(values)) * self._complete])

    def _below(self, column: int, key: int) -> int:
        shift, start = window = _window_of(key)
        return int(self._windows[column, window][(key - start) >> shift])

    def _count_windows(self, chains: Sequence[Any], later: Sequence[Threshold] = ()) -> None:
        """Count in those of these windows that were not asked for before."""
        if not [c for c, chain in chains if (c, chain[-1]) not in self._windows]:
            return  # and so are the coarser ones
        needed = [(column, window) for column, chain in chains for window in chain]
        needed += [(column, window) for column, key in later for window in _chain_of(key)]
        missing = [one for one in dict.fromkeys(needed) if one not in self._windows]
        for first in range(0, len(missing), MOST_WINDOWS):
            some = missing[first : first + MOST_WINDOWS]
            windows = np.array([(column, *window) for column, window in some], dtype=np.int64)
            columns, shifts, starts = windows.T.copy()
            below = self._records.total(kernel.key_cells, columns, starts, shifts)
            for (column, (shift, start)), inside in zip(some, below, strict=True):
                if start != _FIRST_KEY:
                    inside += self._below(column, start)
                self._windows[column, (shift, start)] = inside
                if shift == WINDOW_SHIFTS[0]:
                    self._complete = int(inside[-1])


@lru_cache(maxsize=256)
def _counts_receipt(most: int, m: int, mu: float) -> tuple[Receipt, GDP]:
    sensitivity = counts(m)
    scale = gaussian_scale(sensitivity, mu, m + 1)
    check_grid_range(most * max(1.0, complete_weight(m)), scale, m + 1)
    return Receipt("counts", "D2", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=256)
def _distances_receipt(most: int, m: int, mu: float) -> tuple[Receipt, GDP]:
    cells = m * 2 * kernel.OCTAVES
    sensitivity = distances(m)
    scale = gaussian_scale(sensitivity, mu, cells)
    check_grid_range(most, scale, cells)
    return Receipt("histogram of distances", "D6", mu, sensitivity, scale), GDP(mu)


@lru_cache(maxsize=1024)
def _window_of(key: int) -> tuple[int, int]:
    """Shift and first key of the coarsest window in which this key begins a cell."""
    for shift in WINDOW_SHIFTS:
        if key % (1 << shift) == 0:
            break
    else:
        raise InvalidInput("a threshold's key must be a multiple of 2^16.")
    if shift == WINDOW_SHIFTS[0]:
        return shift, _FIRST_KEY
    return shift, key >> (shift + _CELL_BITS) << (shift + _CELL_BITS)


@lru_cache(maxsize=1024)
def _chain_of(key: int) -> tuple[tuple[int, int], ...]:
    """The window of a threshold after the coarser ones in which each of them begins."""
    shift, start = _window_of(key)
    coarser = () if shift == WINDOW_SHIFTS[0] else _chain_of(start)
    return *coarser, (shift, start)
