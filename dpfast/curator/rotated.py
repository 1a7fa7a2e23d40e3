"""Sums of many records under a map: rows are rotated, and their lengths are reused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import NOTHING, Answer
from dpfast.curator.joint import Layout
from dpfast.data.records import Records
from dpfast.data.scaling.maps import Linearization, RowClipping, TransformedView, zero_and_identity
from dpfast.data.scaling.units import ReleasedScales
from dpfast.kernels import session
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordView

#: Largest product of a record's additions and the number of records at which rows are summed
#: without their map: sensitivities then grow by 3 u times this at most, 2^-9.
MAX_STRAINED_ADDITIONS = 2.0**42

#: Range of radii and singular values of a map at which rows are summed without it: their squares
#: neither overflow nor underflow.
SAFE_RANGE = 1e-50, 1e50
#: Largest condition number of the map, times p^1.5, for that: roundings of the rows are then less
#: than the amount by which lengths are rounded up.
MAX_STRAIN = 2.0**25


class RotatedRows:
    """Rotated rows ``a Q``, Q orthogonal, under a triangular matrix (claim C80).

    A query stores the squared lengths of the rows.  Later queries need only these: sums of
    multiples of ``(1, z)`` are mapped afterwards (claim C94).
    """

    def __init__(self, rotation: Array, triangle: Array, records: Records, layout: Layout) -> None:
        self._rotation, self._triangle = rotation, triangle
        self.squares: Array | None = None
        self._records, self._layout = records, layout
        #: The layout of sums without the map, if lengths are kept.
        self.unmapped = self._layout_without_map(layout)

    def _layout_without_map(self, layout: Layout) -> Layout | None:
        records, (columns, p) = self._records, self._triangle.shape
        if type(records) is not Records or records.y.ndim > 1 or columns != p:
            return None
        sizes = np.linalg.svd(self._triangle, compute_uv=False)
        if not SAFE_RANGE[0] <= sizes[-1] <= sizes[0] <= SAFE_RANGE[1]:
            return None
        strain = math.ceil(min(1.001 * sizes[0] / sizes[-1], MAX_STRAIN))
        if strain * p**1.5 > MAX_STRAIN:
            return None
        unmapped = layout._replace(mapped=False)
        deepest = max(map(unmapped.depth, (GRADIENT, GRADIENT | MEAT, HESSIAN))) // layout.excess
        # the map strains each rounding of a sum, and its products add their own
        extra = (strain**2 - 1) * deepest + strain**2 * (2 * math.ceil(p**1.5) + 4)
        unmapped = unmapped._replace(additions=layout.additions + extra)
        return (
            unmapped
            if unmapped.depth(GRADIENT | MEAT) * layout.n <= MAX_STRAINED_ADDITIONS
            else None
        )

    def rotated(
        self, at: Linearization | None, row_clipping: RowClipping
    ) -> tuple[Array, Linearization | None, RowClipping]:
        """Return the map of rotated rows, and the parameter and clipping in their coordinates."""
        back = self._rotation.T
        at = at and at.mapped(back)
        return self._triangle, at, row_clipping.mapped(back)

    def back(self, answer: Answer) -> Answer:
        """Rotate a released answer back; the noise is isotropic."""
        if answer is NOTHING:
            return answer
        value = self._rotation @ answer.value
        if value.ndim == 2:
            value = value @ self._rotation.T
            value = 0.5 * (value + value.T)
        return answer._replace(value=value)

    def _keeps(self, view: TransformedView) -> bool:
        return (
            self.unmapped is not None
            and view.at is not None
            and view.row_clipping.leverage_weights is None
        )

    def _without_map(self, view: TransformedView) -> bool:
        """Say whether stored lengths are all that a query of this view needs."""
        return self._keeps(view) and (self.squares is not None or view.what == "residual")

    def layout(self, view: TransformedView, radius: float, cap: float) -> Layout:
        """Return the layout of the sums: without the map where possible."""
        ordinary = not cap and SAFE_RANGE[0] <= radius <= SAFE_RANGE[1]
        unmapped = self.unmapped if ordinary and self._without_map(view) else None
        return unmapped or self._layout

    def asked(
        self,
        query: Callable[[RecordView], Any],
        view: TransformedView,
        units: ReleasedScales | None,
        layout: Layout | None = None,
    ) -> Any:
        """Compute kernel sums of a view in this layout, or counts if there is none."""
        if layout is self.unmapped if layout else self._without_map(view):
            assert view.at is not None and view.matrix is not None
            at = view.at.mapped(view.matrix)
            plain = view._replace(matrix=zero_and_identity(len(view.matrix))[1], at=at)
            result = query(session.compiled(plain, units, squares=self.squares))
            if not isinstance(result, tuple):
                return result
            return *mapped(result[:3], self._triangle), *result[3:]  # counts are of no coordinates
        squares = None
        if self._keeps(view) and self.squares is None:
            squares = np.empty(len(self._records.y))
        result = query(session.compiled(view, units, keep=squares))
        self.squares = self.squares if squares is None else squares
        return result


def rotate(matrix: Array, records: Records, layout: Layout) -> RotatedRows | None:
    """Make rotated rows of a finite map; None for other maps."""
    rotation, triangle = np.linalg.qr(matrix.T)
    if not (np.isfinite(rotation).all() and np.isfinite(triangle).all()):
        return None
    return RotatedRows(rotation, np.ascontiguousarray(triangle.T), records, layout)


def mapped(sums: tuple[Array | None, ...], matrix: Array) -> tuple[Array | None, ...]:
    """Map sums of rows to the sums of mapped rows."""
    gradient, *products = sums
    means = [None if product is None else matrix.T @ product @ matrix for product in products]
    means = [product if product is None else 0.5 * (product + product.T) for product in means]
    return None if gradient is None else matrix.T @ gradient, *means
