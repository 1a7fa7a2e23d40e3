"""Responses, weights and offsets as one array, which the kernels read (claims C70 and C71)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Records, Wrapped
from dpfast.data.streams import memmap_records

Array = NDArray[np.float64]

#: Weights for which no bound was declared are parts of this, as any weights are of the largest.
BOUNDLESS = 1e100

#: Weights and offsets of a block of records, where there are any.
Columns = Sequence[Array | None]


class WeightLayout(NamedTuple):
    """How they are put together."""

    largest_weight: float | None
    spread: float
    of_predictor: bool

    def of(self, y: Array, weight: Array | None, offset: Array | None) -> Array:
        """Responses (n,), or (n, 3) with weights, as parts of the largest, and offsets."""
        with np.errstate(all="ignore"):
            if offset is not None and not self.of_predictor:
                y, offset = y - offset / self.spread, None
            if weight is None and offset is None:
                return y
            found = np.zeros((len(y), 3))
            found[:, 0], found[:, 1] = y, 1.0
            if weight is not None:
                weight = np.where(np.isfinite(weight), weight, 0.0)  # or it would be the whole fit
                found[:, 1] = weight / (self.largest_weight or BOUNDLESS)
                found[~(weight > 0.0), 0] = np.nan
            if offset is not None:
                usable = np.isfinite(offset)
                found[:, 2] = np.where(usable, offset, 0.0)
                found[~usable, 0] = np.nan
            return found


def packed(join: WeightLayout, weighted: bool, offset: bool, columns: Array) -> Array:
    """A join of columns side by side: responses, then weights and offsets, where there are any."""
    weight = columns[:, 1] if weighted else None
    return join.of(columns[:, 0], weight, columns[:, -1] if offset else None)


class WeightedRecords(Records):
    """Arrays with weights or offsets."""

    def __init__(self, records: Records, y: Array) -> None:
        super().__init__(records.X, y, records.names)
        self.coding = records.coding


class WeightedBlocks(Wrapped):
    """Records whose blocks get their weights and offsets in every query."""

    def __init__(
        self, records: Records, join: WeightLayout, columns: Callable[[int], Columns]
    ) -> None:
        super().__init__(records)
        self._join, self._columns = join, columns

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The blocks in order, with responses as the kernels read them."""
        for k, (X, y) in enumerate(self._raw.blocks()):
            yield X, self._join.of(y, *self._columns(k))


class WeightedArrays(WeightedBlocks):
    """The same of arrays in a mapped file, whose rows are in place."""


def weighted_records(
    records: Records, join: WeightLayout, weight: Array | None, offset: Array | None
) -> Records:
    """Records with weights and offsets of shape (n,) in memory."""
    if records.in_memory:
        return WeightedRecords(records, join.of(records.y, weight, offset))
    kind = WeightedBlocks
    if hasattr(records, "X"):  # of which the whole is one block
        records, kind = memmap_records(records.X, records.y, records.names), WeightedArrays
    ends = np.concatenate([[0], np.cumsum(records.block_sizes)])
    return kind(records, join, partial(_of_block, ends, (weight, offset)))


def _of_block(ends: NDArray[np.int64], columns: Columns, k: int) -> Columns:
    """One block's part of columns in memory."""
    some = slice(ends[k], ends[k + 1])
    return [None if column is None else column[some] for column in columns]
