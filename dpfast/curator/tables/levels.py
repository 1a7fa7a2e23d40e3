"""Records whose level's released means are taken from them, and what is left (claim T8)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.curator import Curator
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.curator.tables.cells import MOST_RECORDS, UNIT
from dpfast.data.records import Covariates, Records
from dpfast.errors import InvalidInput
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.privacy.tables.sensitivity import cell_sums

Array = NDArray[np.float64]

#: Held rows are so much shorter than 1: no rounding makes them longer.
SHORTER = 1.0 - ROUNDING_SHARES


class Levels:
    """Records in declared levels, copied, and their columns less what was released of a level."""

    def __init__(
        self,
        records: Records,
        codes: NDArray[np.int64],
        n_levels: int,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int,
    ) -> None:
        blocks = [np.column_stack([X, y]).astype(np.float64) for X, y in records.blocks()]
        self._all, self._codes, self.n_levels = np.concatenate(blocks), codes, n_levels
        self.n, self.columns = self._all.shape
        if not self.n < MOST_RECORDS:
            raise InvalidInput(f"levels are of fewer than {MOST_RECORDS} records.")
        self._ledger, self._noise, self._threads = ledger, noise, threads

    def within_level(self, means: Array, kept: NDArray[np.bool_]) -> Array:
        """Columns less the means of their level; missing in levels that are not kept."""
        inside = (self._codes >= 0) & kept[np.maximum(self._codes, 0)]
        with np.errstate(all="ignore"):
            found = self._all - means[np.maximum(self._codes, 0)]
            inside &= np.isfinite(found).all(axis=1)
        return np.where(inside[:, None], found, np.nan)

    def mapped(self, means: Array, kept: NDArray[np.bool_], matrix: Array) -> Array:
        """The same under a map, row by row: of each record, a function of itself."""
        within = self.within_level(means, kept)
        found = np.zeros((self.n, matrix.shape[1]))
        with np.errstate(all="ignore"):
            for column, row in zip(within.T, matrix, strict=True):
                found += column[:, None] * row
        return found

    def gram(
        self,
        means: Array,
        matrix: Array,
        radius: float,
        mu: float,
        kept: NDArray[np.bool_] | None = None,
    ) -> Answer:
        """Mean product of what is mapped with itself, weighted (claim C14); costs ``mu``."""
        seen = _Mapped(self, means, matrix, kept)
        objective = Objective(LeastSquares(), Mallows(1.0), seen.n_covariates, fit_intercept=False)
        curator = Curator(seen, objective, self._ledger, self._noise, self._threads)
        curator._made_with = (means, matrix, kept)
        return PreconditionedQueries(curator).gram(radius, mu)

    def sums(self, means: Array, matrix: Array, radius: float, mu: float) -> Answer:
        """Sums by level of rows held to a norm, and counts: ``mu`` (claims T2 and T8)."""
        receipt = levels_receipt(self.n, self.n_levels, matrix.shape[1], mu)
        self._ledger.charge(GDP(mu), receipt.query)
        rows = self.mapped(means, np.ones(self.n_levels, dtype=bool), matrix)
        whole, inside = clip_rows(rows, radius), np.isfinite(rows).all(axis=1)
        levels = self._codes[inside]
        found = [
            np.bincount(levels, weights=some, minlength=self.n_levels)
            for some in (*(whole[inside].T / float(UNIT)), np.ones(len(levels)))
        ]
        noise, question = source_of_noise(self._noise), (receipt.query, mu, means, matrix, radius)
        return release_with_noise(
            noise, question, receipt, np.array(found, dtype=np.float64).T.ravel()
        )


class _Mapped(Records):
    """Rows of levels under a map, which are made when they are read: once that is paid for."""

    __slots__ = ("_made",)

    def __init__(
        self, levels: Levels, means: Array, matrix: Array, kept: NDArray[np.bool_] | None
    ) -> None:
        kept = np.ones(levels.n_levels, dtype=bool) if kept is None else kept
        self._made = partial(levels.mapped, means, kept, matrix)
        self.n, self.n_covariates, self.names = levels.n, matrix.shape[1], None
        self.block_sizes = (self.n,)

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """In one, without responses."""
        rows = self._made()
        yield rows, np.where(np.isnan(rows[:, 0]), np.nan, 0.0)


def clip_rows(rows: Array, radius: float) -> Array:
    """Whole multiples of the radius over ``UNIT``, of norms of at most that: sums are exact."""
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)
        units = rows / np.where(largest > 0.0, largest, 1.0)[:, None]  # squares stay within float64
        length = np.sqrt((units * units).sum(axis=1))
        shorter = np.minimum(length * (largest / radius), 1.0) / np.maximum(length, 1.0)
        return np.asarray(np.trunc(units * (shorter * SHORTER)[:, None] * float(UNIT)))


def levels_receipt(n: int, n_levels: int, k: int, mu: float) -> Receipt:
    """How sums by level of k columns would be released, in radii; touches nothing."""
    sensitivity = cell_sums(1.0, 1.0)  # counts are free beside them
    return gaussian_receipt("sums by level", "T8", mu, sensitivity, n, n_levels * (k + 1))
