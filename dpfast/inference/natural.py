"""Coefficients in original units, by exact linear algebra from those of coded columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InferenceUnavailable
from dpfast.inference.degrees import Covariance
from dpfast.inference.rows import Change
from dpfast.kernels.linalg import congruence

if TYPE_CHECKING:
    from dpfast.inference.rows import Coded, RowReader


class NaturalRows(NamedTuple):
    """A reader of new rows that clips as the coded fit does and returns original units."""

    coded: RowReader
    constant: Array
    matrix: Array

    @property
    def coding(self) -> None:
        """None, because coefficients are in original units."""

    def covariates(self, X: Any) -> Array:
        """Compute covariates, shape (m, q), without the intercept's ones."""
        return self._natural(self.coded.covariates(X) - self.constant)

    def changes(
        self, X: Any, names: tuple[str, ...], contrasts: tuple[str, ...] = ()
    ) -> list[Change]:
        """Compute changes of the coded rows, in original units."""
        converted = []
        for name, _, slopes, levels in self.coded.changes(X, names, contrasts):
            if slopes is not None:
                converted.append(Change(name, 1.0, self._natural(slopes)))
            elif levels is not None:
                low, high = [self._natural(rows - self.constant) for rows in levels]
                converted.append(Change(name, 1.0, None, (low, high)))
        return converted

    def centres(self) -> list[tuple[str, Any]] | None:
        """Return the centres of the coded rows."""
        return self.coded.centres()

    def row(self, values: list[Any]) -> Any:
        """Make a new row as of the coded fit."""
        return self.coded.row(values)

    def _natural(self, rows: Array) -> Array:
        return np.asarray(np.linalg.solve(self.matrix, rows.T).T)


class NaturalMap(NamedTuple):
    """``natural = constant + matrix @ coded``; ``units``: ``coded = c + M natural``, of columns.

    Units may be any, so products may overflow: callers ignore floating-point errors, as runs do.
    """

    matrix: Array
    constant: Array
    units: tuple[Array, Array] | None = None

    def params(self, coded: Array) -> Array:
        """Convert coefficients, one vector or a matrix of rows."""
        return np.asarray(self.constant + coded @ self.matrix.T)

    def covariance(self, coded: Covariance) -> Covariance:
        """Compute ``T Cov T'``; the optimiser's remaining error is bounded entry by entry."""
        known, spread = coded.matrix, coded.spread
        out = np.isnan(known.diagonal())
        lost = bool(out.any())  # of columns that were left out
        if lost:
            known = np.where(out | out[:, None], 0.0, known)
        matrix = congruence(self.matrix, known)
        if lost:
            matrix[out], matrix[:, out] = np.nan, np.nan
        if spread is not None:
            inner = spread.units
            if inner is None:
                units = self.matrix
            else:
                units = self.matrix * inner if inner.ndim == 1 else self.matrix @ inner
            spread = spread._replace(units=units)
        return coded._replace(
            matrix=matrix,
            unfinished=np.abs(self.matrix) @ coded.unfinished,
            spread=spread,
        )


def natural_map(coding: Coded, fit_intercept: bool, free_scale: bool) -> NaturalMap:
    """Compute the map from coded coefficients to those in original units."""
    shift, columns = coding.natural_units()
    centre, spread = coding.response_units()
    q, first = len(shift), int(fit_intercept)
    size = first + q + int(free_scale)
    matrix, constant = np.zeros((size, size)), np.zeros(size)
    matrix[first : first + q, first : first + q] = spread * columns.T
    if fit_intercept:
        matrix[0, 1 : 1 + q] = spread * shift
    if free_scale:
        matrix[-1, -1] = 1.0
    if fit_intercept:
        matrix[0, 0], constant[0] = spread, centre
    elif centre != 0.0 or shift.any():
        raise InferenceUnavailable(
            "the columns were centred and the model has no intercept, which would be part of the "
            "coefficients in their own units. Fit with an intercept, or do not centre: "
            "dpfast.standardize(..., fit_intercept=False), Numeric(low, high, centre=0, unit=...)."
        )
    return NaturalMap(matrix, constant, (shift, columns))
