"""Parts of the records: what is in some of their slots, and their responses alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]
Slots = NDArray[np.unsignedinteger[Any]]

#: The slots of block k, which begins at a row and has so many: ``slots(k, start, size)``.
SlotsOf = Callable[[int, int, int], Slots]

#: Rows that are gathered at a time: they stay in the processor's cache until they are used, and
#: their memory is used again for the next.
GATHERED_BYTES = 1 << 20

#: Records that are kept of those that would have to be read again; part of those on a cluster.
KEPT_BYTES, SHARE_OF_CLUSTER = 1 << 27, 256


def rows_in(slots: Slots, low: int, high: int) -> NDArray[np.intp]:
    """The records in the slots from ``low`` to ``high - 1``, in their order."""
    return np.flatnonzero((slots >= low) & (slots < high))


def partition_capacity(table: Records, n_slots: int) -> int:
    """How many slots' records can be kept, by the number to be expected in them; public."""
    row = 8 * (table.n_covariates + 1)
    most = KEPT_BYTES
    if not hasattr(table, "X"):
        most = max(most, row * max(table.block_sizes))
    if table.elsewhere:
        most = max(most, row * table.n // SHARE_OF_CLUSTER)
    return int(min(n_slots, most * n_slots // ((row + 2) * table.n)))


class Block(Records):
    """The records that fell into one part, divided by how many were to be expected."""

    can_be_partitioned = False

    def __init__(self, table: Records, rows: NDArray[np.intp], n: int, n_all: int) -> None:
        self._table = table
        self._rows = rows
        self._lay_out(table, n, n_all)

    def _lay_out(self, table: Records, n: int, n_all: int) -> None:
        self.n = n
        self.n_covariates = table.n_covariates
        self.names = table.names
        self._step = gathered_at_a_time(table.n_covariates, n_all)
        self.block_sizes = (self._step,) * -(-n_all // self._step)
        self.excess = -(-n_all // n)

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The records of the part, some at a time, each time in the memory of those before."""
        X, y, rows = self._table.X, self._table.y, self._rows
        gathered = np.empty((min(self._step, len(rows)), X.shape[1]), X.dtype)
        for first in range(0, max(1, len(rows)), self._step):
            some = rows[first : first + self._step]
            yield gather(X, some, gathered[: len(some)]), y[some]

    def gathered(self) -> Records:
        """The same records gathered once, in one piece of memory, if they are in memory at all."""
        return Gathered(self)


class Gathered(Records):
    """The records of a part, copied from where they are."""

    can_be_partitioned = False

    def __init__(self, part: Block) -> None:
        table, rows = part._table, part._rows
        X = gather(table.X, rows, np.empty((len(rows), table.n_covariates), table.X.dtype))
        self.X, self.y = X, table.y[rows]
        self.n, self.n_covariates, self.names = part.n, part.n_covariates, part.names
        self.block_sizes = part.block_sizes

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """As of the part: pieces of the same rows."""
        step = self.block_sizes[0]
        for first in range(0, max(1, len(self.y)), step):
            yield self.X[first : first + step], self.y[first : first + step]


def gathered_at_a_time(n_covariates: int, n_all: int) -> int:
    """Rows of a part that are summed at a time, however they are stored: public."""
    return min(n_all, max(1, GATHERED_BYTES // (8 * max(1, n_covariates))))


def gather(X: Covariates, rows: NDArray[np.intp], out: Covariates) -> Covariates:
    """These rows of X, in the memory of ``out``."""
    if X.flags.c_contiguous:  # of another layout all of it would be copied first
        # indices are in range; the other modes copy once more
        return X.take(rows, axis=0, out=out, mode="clip")
    out[:] = X[rows]
    return out


class RandomPartition:
    """Records in memory, each in a slot."""

    def __init__(self, table: Records, slots: Slots) -> None:
        self._table = table
        self._slots = slots

    def part(self, low: int, high: int, n: int) -> Records:
        """The records in the slots from ``low`` to ``high - 1``, of which ``n`` are expected."""
        return Block(self._table, rows_in(self._slots, low, high), n, self._table.n)


def random_partition(table: Records, slots: Slots, n_slots: int) -> RandomPartition:
    """Records on this machine with their slots, gathered from where they are or kept as read."""
    if table.in_memory:
        return RandomPartition(table, slots)
    from dpfast.data.files.cached import StreamedPartition

    return StreamedPartition(table, lambda k, start, size: slots[start : start + size], n_slots)


class WithoutCovariates(Records):
    """The same records with their responses only, wherever they are kept."""

    can_be_partitioned = False

    def __init__(self, records: Records) -> None:
        self.n, self.n_covariates, self.names = records.n, 0, None
        self.block_sizes, self.excess = records.block_sizes, records.excess
        self._all = records

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Those of all records, without their covariates."""
        return (_responses(X, y) for X, y in self._all.blocks())


def _responses(X: Covariates, y: Array) -> tuple[Covariates, Array]:
    """No covariates, and the responses; that of a record with one that is not finite is NaN."""
    with np.errstate(all="ignore"):
        if not math.isfinite(X.sum(dtype=np.float64)):
            y = np.where(np.isfinite(X).all(axis=1), y.T, np.nan).T
    return X[:, :0], y
