"""Responses, weights and offsets as one array, which the kernels read (claims C70 and C71)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Mapped, Records, Wrapped, unpartitioned
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


def with_columns(
    records: Records, layout: WeightLayout, columns: Callable[[int], Columns], **facts: Any
) -> Records:
    """Return records whose blocks are joined with their weights and offsets in every query."""

    def joined() -> Iterator[tuple[Covariates, Array]]:
        for k, (X, y) in enumerate(records.blocks()):
            yield X, layout.of(y, *columns(k))

    return Wrapped(records, joined, **facts)


def weighted_records(
    records: Records, layout: WeightLayout, weight: Array | None, offset: Array | None
) -> Records:
    """Make records with weights and offsets of shape (n,) in memory."""
    if records.in_memory:
        joined = Records(records.X, layout.of(records.y, weight, offset), records.names)
        joined.coding = records.coding
        return joined
    of_arrays = hasattr(records, "X")
    if of_arrays:  # one array, which would be one block
        records = memmap_records(records.X, records.y, records.names)
    ends = np.concatenate([[0], np.cumsum(records.block_sizes)])
    columns = partial(_of_block, ends, (weight, offset))
    return with_columns(records, layout, columns, of_arrays=of_arrays)


def _of_block(ends: NDArray[np.int64], columns: Columns, k: int) -> Columns:
    """Return one block of columns in memory."""
    rows = slice(ends[k], ends[k + 1])
    return [None if column is None else column[rows] for column in columns]


def with_offsets(records: Records) -> Mapped:
    """Return records with their offsets as one more covariate, for private centres and scales."""
    return unpartitioned(records, _offset_beside, n_covariates=records.n_covariates + 1, names=None)


def _offset_beside(X: Covariates, y: Array) -> tuple[Covariates, Array]:
    return np.column_stack([X, np.clip(y[:, 2], -MAX_OFFSET, MAX_OFFSET)]), y[:, 0]
