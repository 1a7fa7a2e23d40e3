"""Outer products of rows by area, of residuals from released coefficients of the area (T11)."""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.noisy_release import release_with_noise, source_of_noise
from dpfast.curator.tables.cells import UNIT
from dpfast.curator.tables.levels import Levels, clip_rows
from dpfast.privacy.budget import GDP
from dpfast.privacy.tables.sensitivity import cell_grams


class Areas(Levels):
    """Records in declared areas; rows ``(1, x) W`` and scaled residuals ``(y - x'b) / s``."""

    def rows(self, matrix: Array, coefficients: Array, spreads: Array) -> Array:
        """Map ``(1, x)`` by ``matrix`` and append residuals; each row is of its record alone.

        ``coefficients`` of the mapped row and ``spreads`` have a row for each area.  A record of no
        area is missing.
        """
        areas, d = np.maximum(self._codes, 0), len(matrix)
        rows = np.empty((self.n, d + 1))
        with np.errstate(all="ignore"):
            rows[:, :d] = matrix[0]
            for column, row in zip(self._all.T[:-1], matrix[1:], strict=True):
                rows[:, :d] += column[:, None] * row
            rows[:, d] = self._all[:, -1]
            for k in range(d):
                rows[:, d] -= rows[:, k] * coefficients[areas, k]
            rows[:, d] /= spreads[areas]
        rows[self._codes < 0] = np.nan
        return rows

    def grams(
        self,
        matrix: Array,
        coefficients: Array,
        spreads: Array,
        radius: float,
        mu: float,
        *,
        pooled: bool = False,
    ) -> Answer:
        """Release sums by area of ``v v'`` of rows clipped to the radius; costs ``mu`` (claim T11).

        In units of ``radius^2``: the lower triangle of each matrix, one after the other, with
        entries beside the diagonal times ``sqrt(2)``.  With ``pooled`` one matrix of all areas.
        """
        n_cells = 1 if pooled else self.n_levels
        receipt = grams_receipt(self.n, n_cells, len(matrix) + 1, mu)
        self._ledger.charge(GDP(mu), receipt.query)
        rows = self.rows(matrix, coefficients, spreads)
        complete = np.isfinite(rows).all(axis=1)
        integers = clip_rows(rows[complete], radius)
        cells = np.zeros(len(integers), dtype=np.int64) if pooled else self._codes[complete]
        sums = [
            np.bincount(cells, weights=entries, minlength=n_cells)
            for entries in outer_products(integers)
        ]
        value = np.array(sums).T / float(UNIT)
        question = (receipt.query, mu, matrix, coefficients, spreads, radius)
        noise = source_of_noise(self._noise)
        return release_with_noise(noise, question, receipt, value.ravel())


def outer_products(integers: Array) -> list[Array]:
    """Return the entries of ``v v'``, times ``UNIT``, in whole numbers; v is ``integers / UNIT``.

    The norm of all entries of a record is that of ``v v'``, but for rounding.
    """
    entries = []
    for i in range(integers.shape[1]):
        for j in range(i + 1):
            weight = (1.0 if i == j else math.sqrt(2.0)) / float(UNIT)
            entries.append(np.rint(integers[:, i] * integers[:, j] * weight))
    return entries


def grams_receipt(n: int, n_cells: int, columns: int, mu: float) -> Receipt:
    """Make the receipt of Gram matrices by area, in squared radii; reads no record."""
    entries = columns * (columns + 1) // 2
    return gaussian_receipt(
        "Gram matrices by area", "T11", mu, cell_grams(columns), n, n_cells * entries
    )
