"""Random parts of the records, by their slots, and records without covariates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Mapped, Records, Wrapped, unpartitioned

Array = NDArray[np.float64]
Slots = NDArray[np.unsignedinteger[Any]]

#: Function of a block's number, first row and length that returns its rows' slots.
SlotsOf = Callable[[int, int, int], Slots]

#: Bytes of rows that are copied at a time: they stay in the processor's cache until they are used.
GATHERED_BYTES = 1 << 20

#: Bytes of records that are cached if every query would read them again.
CACHE_BYTES = 1 << 27

#: A part of up to one in so many records on a cluster is cached there.
CLUSTER_CACHE_FACTOR = 256


def rows_in(slots: Slots, low: int, high: int) -> NDArray[np.intp]:
    """Return the records in the slots from ``low`` to ``high - 1``, in order."""
    return np.flatnonzero((slots >= low) & (slots < high))


def partition_capacity(table: Records, n_slots: int) -> int:
    """Return the public number of slots whose expected records can be cached."""
    row = 8 * (table.n_covariates + 1)
    capacity_bytes = CACHE_BYTES
    if not hasattr(table, "X"):
        capacity_bytes = max(capacity_bytes, row * max(table.block_sizes))
    if table.is_remote:
        capacity_bytes = max(capacity_bytes, row * table.n // CLUSTER_CACHE_FACTOR)
    return int(min(n_slots, capacity_bytes * n_slots // ((row + 2) * table.n)))


class Block(Records):
    """Records of a random part; sums are divided by their expected number.

    ``rows`` are their numbers in the table, or make pieces of so many of them.
    """

    can_be_partitioned = False

    def __init__(
        self,
        table: Records,
        rows: NDArray[np.intp] | Callable[[int], Iterator[tuple[Covariates, Array]]],
        n: int,
        n_all: int,
    ) -> None:
        self._table = table
        self._rows = rows
        self._lay_out(table, n, n_all)

    def _lay_out(self, table: Records, n: int, n_all: int) -> None:
        self.n = n
        self.n_covariates = table.n_covariates
        self.names = table.names
        self._step = gather_length(table.n_covariates, n_all)
        self.block_sizes = (self._step,) * -(-n_all // self._step)
        self.excess = -(-n_all // n)

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield the records of the part piece by piece; the pieces share memory."""
        return self._rows(self._step) if callable(self._rows) else self._gathered(self._rows)

    def _gathered(self, rows: NDArray[np.intp]) -> Iterator[tuple[Covariates, Array]]:
        X = self._table.X
        y = self._table.y
        gathered = np.empty((min(self._step, len(rows)), X.shape[1]), X.dtype)
        for first in range(0, max(1, len(rows)), self._step):
            part_rows = rows[first : first + self._step]
            yield gather(X, part_rows, gathered[: len(part_rows)]), y[part_rows]

    def gathered(self) -> Records:
        """Copy the records once into one piece of memory, if they are in memory at all."""
        table, rows = self._table, self._rows
        if callable(rows):
            return self
        X = gather(table.X, rows, np.empty((len(rows), table.n_covariates), table.X.dtype))
        return Wrapped(self, partial(pieces, X, table.y[rows], self._step))


def pieces(X: Covariates, y: Array, step: int) -> Iterator[tuple[Covariates, Array]]:
    """Yield some rows of arrays at a time, so that no copy of a whole is made of them."""
    for first in range(0, max(1, len(y)), step):
        yield X[first : first + step], y[first : first + step]


def gather_length(n_covariates: int, n_all: int) -> int:
    """Return the public number of a part's rows that are summed at once, for any storage."""
    return min(n_all, max(1, GATHERED_BYTES // (8 * max(1, n_covariates))))


def gather(X: Covariates, rows: NDArray[np.intp], out: Covariates) -> Covariates:
    """Copy these rows of X into the memory of ``out``."""
    if X.flags.c_contiguous:  # take would copy all of another layout
        # indices are in range, and mode="raise" would copy once more
        return X.take(rows, axis=0, out=out, mode="clip")
    out[:] = X[rows]
    return out


class RandomPartition:
    """Records in memory, each in a random slot."""

    def __init__(self, table: Records, slots: Slots) -> None:
        self._table = table
        self._slots = slots

    def part(self, low: int, high: int, n: int) -> Records:
        """Return the records in the slots from ``low`` to ``high - 1``; ``n`` are expected."""
        return Block(self._table, rows_in(self._slots, low, high), n, self._table.n)


def without_covariates(records: Records) -> Mapped:
    """Return the same records with their responses only."""
    return unpartitioned(records, _responses, n_covariates=0, names=None)


def _responses(X: Covariates, y: Array) -> tuple[Covariates, Array]:
    """Return no covariates, and the responses; NaN where a covariate is not finite."""
    with np.errstate(all="ignore"):
        if not math.isfinite(X.sum(dtype=np.float64)):
            y = np.where(np.isfinite(X).all(axis=1), y.T, np.nan).T
    return X[:, :0], y
