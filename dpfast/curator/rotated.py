"""Of many records: rows turned under a map, and sums by the lengths that were kept of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import NOTHING, Answer
from dpfast.curator.joint import Layout
from dpfast.curator.preconditioned import _known, compiled
from dpfast.data.records import Records
from dpfast.data.scaling.maps import Linearization, RowClipping, TransformedView
from dpfast.data.scaling.units import ReleasedScales
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordView

Array = NDArray[np.float64]

#: Additions that a record may pass through times records up to which rows are summed without their
#: map: sensitivities are larger by 3 u times this at most, 2^-9.
LONGEST_SUM = 2.0**42

#: Where radii, and largest and least lengths under a map, lie for that; and what the one over the
#: other, times p^1.5, may be, so that roundings of rows are less than lengths are rounded up by.
ORDINARY = 1e-50, 1e50
LARGEST_STRAIN = 2.0**25


class RotatedRows:
    """Rows ``a Q``, Q orthogonal, under half a matrix (claim C80).

    Once some query has asked for them, squared lengths of the rows are kept: what is asked next
    needs these alone, as sums of multiples of ``(1, z)`` are mapped afterwards (claim C94).
    """

    def __init__(self, turn: Array, half: Array, records: Records, layout: Layout) -> None:
        self._turn, self._half = turn, half
        self.squares: Array | None = None
        self._records, self._layout = records, layout
        #: The layout of sums without the map, if lengths are kept.
        self.unmapped = self._planned(layout)

    def _planned(self, layout: Layout) -> Layout | None:
        records, (columns, p) = self._records, self._half.shape
        if type(records) is not Records or records.y.ndim > 1 or columns != p:
            return None
        sizes = np.linalg.svd(self._half, compute_uv=False)
        if not ORDINARY[0] <= sizes[-1] <= sizes[0] <= ORDINARY[1]:
            return None
        strain = math.ceil(min(1.001 * sizes[0] / sizes[-1], LARGEST_STRAIN))
        if strain * p**1.5 > LARGEST_STRAIN:
            return None
        unmapped = layout._replace(seen=False)
        deepest = max(map(unmapped.depth, (GRADIENT, GRADIENT | MEAT, HESSIAN))) // layout.excess
        # each of a sum's roundings strained, and those of the products with the map
        more = (strain**2 - 1) * deepest + strain**2 * (2 * math.ceil(p**1.5) + 4)
        unmapped = unmapped._replace(additions=layout.additions + more)
        return unmapped if unmapped.depth(GRADIENT | MEAT) * layout.n <= LONGEST_SUM else None

    def rotated(
        self, at: Linearization | None, held: RowClipping
    ) -> tuple[Array, Linearization | None, RowClipping]:
        """The map of turned rows, and what is asked about them."""
        back = self._turn.T
        at = at and at._replace(theta=back @ at.theta)
        return self._half, at, held.mapped(back)

    def back(self, answer: Answer) -> Answer:
        """What was released of turned rows, as of rows that are not: noise has no direction."""
        if answer is NOTHING:
            return answer
        value = self._turn @ answer.value
        if value.ndim == 2:
            value = value @ self._turn.T
            value = 0.5 * (value + value.T)
        return answer._replace(value=value)

    def _keeps(self, view: TransformedView) -> bool:
        return (
            self.unmapped is not None
            and view.at is not None
            and view.row_clipping.leverage_weights is None
        )

    def _without_map(self, view: TransformedView) -> bool:
        """Whether no more of rows is needed than their lengths, if these, and they are kept."""
        return self._keeps(view) and (self.squares is not None or view.what == "residual")

    def layout(self, view: TransformedView, radius: float, cap: float) -> Layout:
        """In which sums are made: without the map where that can be."""
        ordinary = not cap and ORDINARY[0] <= radius <= ORDINARY[1]
        unmapped = self.unmapped if ordinary and self._without_map(view) else None
        return unmapped or self._layout

    def asked(
        self,
        ask: Callable[[RecordView], Any],
        view: TransformedView,
        units: ReleasedScales | None,
        layout: Layout | None = None,
    ) -> Any:
        """What the kernels say of a view: sums in this layout, or counts where there is none."""
        if layout is self.unmapped if layout else self._without_map(view):
            assert view.at is not None and view.matrix is not None
            at = view.at._replace(theta=view.matrix @ view.at.theta)
            plain = view._replace(matrix=_known(len(view.matrix))[1], at=at)
            found = ask(compiled(plain, units, squares=self.squares))
            return mapped(found, self._half) if isinstance(found, tuple) else found
        room = None
        if self._keeps(view) and self.squares is None:
            room = np.empty(len(self._records.y))
        found = ask(compiled(view, units, keep=room))
        self.squares = self.squares if room is None else room
        return found


def rotate(matrix: Array, records: Records, layout: Layout) -> RotatedRows | None:
    """Of finite maps."""
    turn, half = np.linalg.qr(matrix.T)
    if not (np.isfinite(turn).all() and np.isfinite(half).all()):
        return None
    return RotatedRows(turn, np.ascontiguousarray(half.T), records, layout)


def mapped(sums: tuple[Array | None, ...], matrix: Array) -> tuple[Array | None, ...]:
    """Sums of rows as those of rows under a map."""
    gradient, *products = sums
    found = [None if one is None else matrix.T @ one @ matrix for one in products]
    found = [one if one is None else 0.5 * (one + one.T) for one in found]
    return None if gradient is None else matrix.T @ gradient, *found
