"""Parts of the records: what is in some of their slots, and their responses alone.

Who deals the slots is the curator's business.  Records that are read again for every query are
read once for the slots that are soon asked for, and these are kept, within a public bound.
"""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates, Records
from dpfast.data.reduction import tree_sum
from dpfast.errors import InvalidInput

__all__ = [
    "Block",
    "Dealt",
    "Near",
    "WithoutCovariates",
    "dealt",
    "dealt_by_keys",
    "gathered_at_a_time",
    "in_memory",
    "on_disk",
    "rows_in",
    "slots_kept",
]

Array = NDArray[np.float64]
Slots = NDArray[np.unsignedinteger[Any]]

#: The slots of block k, which begins at a row and has so many: ``slots(k, start, size)``.
SlotsOf = Callable[[int, int, int], Slots]

#: Rows that are gathered at a time: they stay in the processor's cache until they are used, and
#: their memory is used again for the next.
GATHERED_BYTES = 1 << 20

#: Rows that are looked at a time where some are picked out.
STRETCH = 1 << 17

#: A sample is one in so many records at most: more of them take as long to gather as is gained.
LEAST_OF_ALL = 8

#: Records that are kept of those that would have to be read again; part of those on a cluster.
KEPT_BYTES, SHARE_OF_CLUSTER = 1 << 27, 256

#: Tables up to this size are kept as they are read first, if they would have to be read again.
NEAR_BYTES = KEPT_BYTES


def rows_in(slots: Slots, low: int, high: int) -> NDArray[np.intp]:
    """The records in the slots from ``low`` to ``high - 1``, in their order."""
    return np.flatnonzero((slots >= low) & (slots < high))


def slots_kept(table: Records, n_slots: int) -> int:
    """How many slots' records can be kept, by the number to be expected in them; public.

    As much as :data:`KEPT_BYTES`, or as a block that is decoded, or on a cluster as a part of what
    is there, if that is more.
    """
    row = 8 * (table.n_covariates + 1)
    most = KEPT_BYTES
    if not hasattr(table, "X"):
        most = max(most, row * max(table.block_sizes))
    if table.elsewhere:
        most = max(most, row * table.n // SHARE_OF_CLUSTER)
    return int(min(n_slots, most * n_slots // ((row + 2) * table.n)))


def can_be_near(table: Records, beside: int = 0) -> bool:
    """Whether the decoded records are so few, with so many numbers beside each; public."""
    return 8 * table.n * (table.n_covariates + 1 + beside) <= NEAR_BYTES


class Near(Records):
    """Records that are decoded once: their blocks are kept as they are read first."""

    __slots__ = ("_far", "_kept", "can_be_dealt", "coding", "excess", "read_again", "together")

    def __init__(self, records: Records) -> None:
        self.n, self.n_covariates = records.n, records.n_covariates
        self.names, self.block_sizes = records.names, records.block_sizes
        self.can_be_dealt, self.coding = records.can_be_dealt, records.coding
        self.excess, self.together = records.excess, records.together
        self.read_again = records.read_again
        self._far = records
        self._kept: list[tuple[Covariates, Array]] = []

    @property
    def reads(self) -> int | None:  # type: ignore[override]
        return self._far.reads

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The same blocks every time."""
        if not self._kept:
            self._kept = list(self._far.blocks())
        return iter(self._kept)


class Block(Records):
    """The records that fell into one part, divided by how many were to be expected.

    Nobody learns how many they are: sums are divided by the public ``n``, and ``excess`` and the
    numbers of blocks allow for all records of the table.

    Parameters
    ----------
    table : Records
        Where the rows are, in memory.
    rows : ndarray of int
    n : int
        Number of records to be expected, public.
    n_all : int
        Number of records that were dealt, public: the table may hold some of them only.
    """

    __slots__ = ("_rows", "_step", "_table", "excess")

    can_be_dealt = False

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

    def kept(self) -> Records:
        """The same records gathered once, in one piece of memory, if they are in memory at all."""
        return Gathered(self)


class Gathered(Records):
    """The records of a part, copied from where they are."""

    __slots__ = ()

    can_be_dealt = False

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


class Sifted(Block):
    """A part that is too large to be kept: its records are picked out on every pass."""

    __slots__ = ("_high", "_low", "_slots")

    def __init__(self, table: Records, slots: SlotsOf, low: int, high: int, n: int) -> None:
        self._table, self._slots, self._low, self._high = table, slots, low, high
        self._lay_out(table, n, table.n)

    def kept(self) -> Records:
        return self

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Pieces as of the same part in memory, wherever the blocks of the table end."""
        X, y = np.empty((self._step, self.n_covariates)), np.empty(self._step)
        held, empty = 0, True
        for block, responses, _ in _picked(self._table, self._slots, self._low, self._high):
            if responses.ndim != y.ndim:  # with weights and offsets
                y = np.empty((self._step, responses.shape[1]))
            done = 0
            while done < len(responses):
                take = min(len(responses) - done, self._step - held)
                X[held : held + take] = block[done : done + take]
                y[held : held + take] = responses[done : done + take]
                held, done = held + take, done + take
                if held == self._step:
                    yield X, y
                    held, empty = 0, False
        if held or empty:
            yield X[:held], y[:held]


def _picked(
    table: Records, slots: SlotsOf, low: int, high: int
) -> Iterator[tuple[Covariates, Array, Slots]]:
    """The records in some slots, with their slots, as the table is read once."""
    start = 0
    for k, (X, y) in enumerate(table.blocks()):
        of_block = slots(k, start, len(y))
        start += len(y)
        for first in range(0, len(y), STRETCH):
            stretch = slice(first, first + STRETCH)
            mine = of_block[stretch]
            rows = rows_in(mine, low, high)
            picked = gather(X[stretch], rows, np.empty((len(rows), X.shape[1]), X.dtype))
            yield picked, y[stretch][rows], mine[rows]


class Dealt:
    """Records in memory, each in a slot.

    Attributes
    ----------
    room : int
        Slots whose records can be in memory at a time; public.
    """

    def __init__(self, table: Records, slots: Slots, n_slots: int) -> None:
        self._table = table
        self._slots = slots
        self.room = n_slots

    def part(self, low: int, high: int, n: int, ahead: int) -> Records:
        """The records in the slots from ``low`` to ``high - 1``, of which ``n`` are expected.

        ``ahead``: how many slots after these will be asked for next.
        """
        return Block(self._table, rows_in(self._slots, low, high), n, self._table.n)


class DealtStream(Dealt):
    """Records that are read again for every query, each in a slot.

    Those of the slots that are asked for next are kept as the table is read, once for all of them.
    What is kept is bounded by the number of records to be expected, which is public.  How many
    there are is random and hardly ever more than a few standard deviations above it; the memory
    then grows by that much, and nothing else happens.
    """

    def __init__(self, table: Records, slots_of: SlotsOf, n_slots: int) -> None:
        self._table = table
        self._slots_of = slots_of
        self.room = slots_kept(table, n_slots)
        self._n_slots = n_slots
        self._kept: tuple[Records, Slots] | None = None
        self._window = (0, 0)
        self._collecting = threading.Lock()

    def part(self, low: int, high: int, n: int, ahead: int) -> Records:
        if high - low > self.room:
            return Sifted(self._table, self._slots_of, low, high, n)
        with self._collecting:
            first, last = self._window
            if not first <= low < high <= last:
                self._collect(low, min(high + ahead, low + self.room, self._n_slots))
            assert self._kept is not None
            kept, slots = self._kept
        return Block(kept, rows_in(slots, low, high), n, self._table.n)

    def _collect(self, low: int, high: int) -> None:
        self._kept, self._window = None, (0, 0)  # first, so that both are never in memory
        expected = self._table.n * (high - low) / self._n_slots
        room = min(self._table.n, int(expected + 8.0 * expected**0.5) + 64)
        X: Covariates = np.empty((0, self._table.n_covariates))
        y, slots, count = np.empty(0), np.empty(0, np.uint8), 0
        for some in _picked(self._table, self._slots_of, low, high):
            end = count + len(some[1])
            if not count:
                X, y, slots = [longer(part[:0], room) for part in some]
            if end > len(y):  # improbable; depends on the slots alone
                X, y, slots = [longer(part, max(end, count + count // 8)) for part in (X, y, slots)]
            X[count:end], y[count:end], slots[count:end] = some
            count = end
        self._kept = Records(X[:count], y[:count], self._table.names), slots[:count]
        self._window = low, high


def longer(array: Any, length: int) -> Any:
    """With room for so many rows."""
    found = np.empty((length, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found


def dealt(table: Records, slots: Slots, n_slots: int) -> Dealt:
    """Records on this machine with their slots, gathered from where they are or kept as read."""
    if in_memory(table):
        return Dealt(table, slots, n_slots)
    return DealtStream(table, lambda k, start, size: slots[start : start + size], n_slots)


def dealt_by_keys(table: Records, keys: Any, scatter: Callable[..., Slots], n_slots: int) -> Dealt:
    """Records that are read again, whose slots are made again, too, from a key for each block."""
    return DealtStream(table, lambda k, start, size: scatter(keys[k], size, n_slots), n_slots)


def in_memory(records: Records) -> bool:
    """Whether they are arrays whose rows can be had one by one."""
    return hasattr(records, "X") and not (on_disk(records.X) or on_disk(records.y))


def on_disk(array: Any) -> bool:
    """Whether an array's memory is a file, whose rows are dear to gather one by one."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return isinstance(array, mmap.mmap)


class WithoutCovariates(Records):
    """The same records with their responses only, wherever they are kept.

    All covariates are read once, however many questions there are: of arrays, and of records that
    would be decoded again, if their responses are within the bound on what is kept.
    """

    __slots__ = ("_all", "_found", "excess")

    can_be_dealt = False

    def __init__(self, records: Records) -> None:
        self.n = records.n
        self.n_covariates = 0
        self.names = None
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self._all = records
        self._found: list[tuple[Covariates, Array]] | None = None

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Those of all records, without their covariates."""
        return (_responses(X, y) for X, y in self._all.blocks())

    def total(
        self, function: Callable[..., Any], *arguments: Any, own: Sequence[Any] | None = None
    ) -> Any:
        """As of all records; one whose covariates are not finite contributes zero here, too."""
        if own is not None:
            raise InvalidInput("a model of a constant has no arguments of single blocks.")
        records = self._all
        decoded = records.read_again and 8 * self.n <= KEPT_BYTES
        if not (decoded or hasattr(records, "X")):
            return records.total(_of_responses, function, *arguments)
        if self._found is None:
            blocks = self.blocks()
            if decoded:  # nothing else of a block stays
                blocks = ((np.empty((len(y), 0)), y.copy()) for _, y in blocks)
            self._found = list(blocks)
        if len(self._found) == 1:
            return function(*self._found[0], *arguments)
        return tree_sum(function(X, y, *arguments) for X, y in self._found)


def _of_responses(X: Covariates, y: Array, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*_responses(X, y), *arguments)


def _responses(X: Covariates, y: Array) -> tuple[Covariates, Array]:
    """No covariates, and the responses; that of a record with one that is not finite is NaN.

    Whether it is so is decided by each record alone; no sum is finite that has such a term.
    """
    with np.errstate(all="ignore"):
        if not math.isfinite(X.sum(dtype=np.float64)):
            y = np.where(np.isfinite(X).all(axis=1), y.T, np.nan).T
    return X[:, :0], y
