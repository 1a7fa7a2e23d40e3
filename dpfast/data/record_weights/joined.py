"""Responses, weights and offsets as one array, which the kernels read (claims C70 and C71)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Mapped, Records, Wrapped
from dpfast.data.streams import memmap_records

Array = NDArray[np.float64]

#: Divisor of weights without a declared bound.
UNBOUNDED_WEIGHT = 1e100

#: Bound on offsets where private centres and scales are estimated: their squares are finite.
MAX_OFFSET = 1e30

#: Weights and offsets of a block of records, where there are any.
Columns = Sequence[Array | None]


class WeightLayout(NamedTuple):
    """Layout of responses, weights and offsets in one array."""

    largest_weight: float | None
    spread: float
    of_predictor: bool

    def of(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """Join responses, weights as parts of the largest, and offsets: shape (n,) or (n, 3)."""
        with np.errstate(all="ignore"):
            if offset is not None and not self.of_predictor:
                y = y - offset / self.spread
                offset = None
            if weight is None and offset is None:
                return y
            joined = np.zeros((len(y), 3))
            joined[:, 0] = y
            joined[:, 1] = 1.0
            if weight is not None:
                # an infinite weight would outweigh all others
                weight = np.where(np.isfinite(weight), weight, 0.0)
                joined[:, 1] = weight / (self.largest_weight or UNBOUNDED_WEIGHT)
                joined[~(weight > 0.0), 0] = np.nan
            if offset is not None:
                usable = np.isfinite(offset)
                joined[:, 2] = np.where(usable, offset, 0.0)
                joined[~usable, 0] = np.nan
            return joined


def packed(layout: WeightLayout, weighted: bool, offset: bool, columns: Array) -> Array:
    """Join columns that lie side by side: responses, then weights and offsets if there are any."""
    weight = columns[:, 1] if weighted else None
    return layout.of(columns[:, 0], weight, columns[:, -1] if offset else None)


class WeightedBlocks(Wrapped):
    """Records whose blocks are joined with their weights and offsets in every query."""

    def __init__(
        self, records: Records, layout: WeightLayout, columns: Callable[[int], Columns]
    ) -> None:
        super().__init__(records)
        self._layout = layout
        self._columns = columns

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield the blocks in order, with responses in the kernels' layout."""
        for k, (X, y) in enumerate(self._raw.blocks()):
            yield X, self._layout.of(y, *self._columns(k))


class WeightedArrays(WeightedBlocks):
    """Weighted arrays in a mapped file, whose rows are in place."""


def weighted_records(
    records: Records, layout: WeightLayout, weight: Array | None, offset: Array | None
) -> Records:
    """Make records with weights and offsets of shape (n,) in memory."""
    if records.in_memory:
        joined = Records(records.X, layout.of(records.y, weight, offset), records.names)
        joined.coding = records.coding
        return joined
    kind = WeightedBlocks
    if hasattr(records, "X"):  # one array, which would be one block
        records = memmap_records(records.X, records.y, records.names)
        kind = WeightedArrays
    ends = np.concatenate([[0], np.cumsum(records.block_sizes)])
    return kind(records, layout, partial(_of_block, ends, (weight, offset)))


def _of_block(ends: NDArray[np.int64], columns: Columns, k: int) -> Columns:
    """Return one block of columns in memory."""
    rows = slice(ends[k], ends[k + 1])
    return [None if column is None else column[rows] for column in columns]


def with_offsets(records: Records) -> Mapped:
    """Return records with their offsets as one more covariate, for private centres and scales."""
    return Mapped(records, _offset_beside, records.n_covariates + 1)


def _offset_beside(X: Covariates, y: Array) -> tuple[Covariates, Array]:
    return np.column_stack([X, np.clip(y[:, 2], -MAX_OFFSET, MAX_OFFSET)]), y[:, 0]
