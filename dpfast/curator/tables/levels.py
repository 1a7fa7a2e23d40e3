"""Records of declared levels, centred at the released means of their level (claim T8)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.curator import Curator
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.curator.tables.cells import MAX_RECORDS, UNIT
from dpfast.data.records import Covariates, Records, Wrapped
from dpfast.errors import InvalidInput
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_SHARES
from dpfast.privacy.tables.sensitivity import cell_sums

Array = NDArray[np.float64]

#: Held rows are so much shorter than 1: no rounding makes them longer.
SHRINKAGE = 1.0 - ROUNDING_SHARES


def in_any_level(y: Array, codes: NDArray[np.int64]) -> Array:
    """Set responses of records in no declared level to NaN, so that they contribute zero."""
    return np.where(codes < 0, np.nan, y)


class Levels:
    """Records in declared levels, copied, and their columns less the released means of a level."""

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
        if not self.n < MAX_RECORDS:
            raise InvalidInput(f"levels are of fewer than {MAX_RECORDS} records.")
        self._ledger, self._noise, self._threads = ledger, noise, threads

    def within_level(self, means: Array, kept_levels: NDArray[np.bool_]) -> Array:
        """Subtract the means of the level; rows of dropped levels are missing."""
        complete = (self._codes >= 0) & kept_levels[np.maximum(self._codes, 0)]
        with np.errstate(all="ignore"):
            centred = self._all - means[np.maximum(self._codes, 0)]
            complete &= np.isfinite(centred).all(axis=1)
        return np.where(complete[:, None], centred, np.nan)

    def mapped(self, means: Array, kept_levels: NDArray[np.bool_], matrix: Array) -> Array:
        """Map the centred rows; each row is a function of its record alone."""
        within = self.within_level(means, kept_levels)
        result = np.zeros((self.n, matrix.shape[1]))
        with np.errstate(all="ignore"):
            for column, row in zip(within.T, matrix, strict=True):
                result += column[:, None] * row
        return result

    def gram(
        self,
        means: Array,
        matrix: Array,
        radius: float,
        mu: float,
        kept_levels: NDArray[np.bool_] | None = None,
    ) -> Answer:
        """Release the weighted Gram matrix of the mapped rows; costs ``mu`` (claim C14)."""
        all_levels = np.ones(self.n_levels, dtype=bool)
        levels = all_levels if kept_levels is None else kept_levels

        def blocks() -> Iterator[tuple[Covariates, Array]]:  # read after the charge
            rows = self.mapped(means, levels, matrix)
            yield rows, np.where(np.isnan(rows[:, 0]), np.nan, 0.0)

        raw = Records(self._all, self._all[:, -1], None)
        records = Wrapped(raw, blocks, n_covariates=matrix.shape[1])
        objective = Objective(
            LeastSquares(), Mallows(1.0), records.n_covariates, fit_intercept=False
        )
        curator = Curator(records, objective, self._ledger, self._noise, self._threads)
        curator._made_with = (means, matrix, kept_levels)
        return PreconditionedQueries(curator).gram(radius, mu)

    def sums(self, means: Array, matrix: Array, radius: float, mu: float) -> Answer:
        """Release sums by level of norm-clipped rows, and counts: ``mu`` (claims T2 and T8)."""
        receipt = levels_receipt(self.n, self.n_levels, matrix.shape[1], mu)
        self._ledger.charge(GDP(mu), receipt.query)
        rows = self.mapped(means, np.ones(self.n_levels, dtype=bool), matrix)
        integers, complete = clip_rows(rows, radius), np.isfinite(rows).all(axis=1)
        levels = self._codes[complete]
        totals = [
            np.bincount(levels, weights=column, minlength=self.n_levels)
            for column in (*(integers[complete].T / float(UNIT)), np.ones(len(levels)))
        ]
        noise, question = source_of_noise(self._noise), (receipt.query, mu, means, matrix, radius)
        return release_with_noise(
            noise, question, receipt, np.array(totals, dtype=np.float64).T.ravel()
        )


def clip_rows(rows: Array, radius: float) -> Array:
    """Clip rows to the radius, in whole multiples of radius / ``UNIT``: their sums are exact."""
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)
        # divided by their largest entry first, so that no square overflows
        scaled = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
        length = np.sqrt((scaled * scaled).sum(axis=1))
        shorter = np.minimum(length * (largest / radius), 1.0) / np.maximum(length, 1.0)
        return np.asarray(np.trunc(scaled * (shorter * SHRINKAGE)[:, None] * float(UNIT)))


def levels_receipt(n: int, n_levels: int, k: int, mu: float) -> Receipt:
    """Make the receipt of sums by level of k columns, in radii; reads no record."""
    sensitivity = cell_sums(1.0, 1.0)  # counts are free beside them
    return gaussian_receipt("sums by level", "T8", mu, sensitivity, n, n_levels * (k + 1))
