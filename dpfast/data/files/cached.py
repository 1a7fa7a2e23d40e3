"""What is kept of records that are read and decoded again for every query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.parts import (
    KEPT_BYTES,
    Block,
    RandomPartition,
    Slots,
    SlotsOf,
    gather,
    partition_capacity,
    rows_in,
)
from dpfast.data.records import Covariates, Records, Wrapped

Array = NDArray[np.float64]

#: Rows that are looked at a time where some are picked out.
STRETCH = 1 << 17

#: Tables up to this size are kept as they are read first, if they would have to be read again.
CACHE_BYTES = KEPT_BYTES


def fits_in_cache(table: Records, beside: int = 0) -> bool:
    """Whether the decoded records are so few, with so many numbers beside each; public."""
    return 8 * table.n * (table.n_covariates + 1 + beside) <= CACHE_BYTES


class CachedRecords(Wrapped):
    """Records that are decoded once: their blocks are kept as they are read first."""

    def __init__(self, records: Records) -> None:
        super().__init__(records)
        self._kept: list[tuple[Covariates, Array]] = []

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The same blocks every time."""
        if not self._kept:
            self._kept = list(self._raw.blocks())
        return iter(self._kept)


class StreamedSubset(Block):
    """A part that is too large to be kept: its records are picked out on every pass."""

    def __init__(self, table: Records, slots: SlotsOf, low: int, high: int, n: int) -> None:
        self._table, self._slots, self._low, self._high = table, slots, low, high
        self._lay_out(table, n, table.n)

    def gathered(self) -> Records:
        return self

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Pieces as of the same part in memory, wherever the blocks of the table end."""
        X, y = np.empty((self._step, self.n_covariates)), np.empty(self._step)
        held, empty = 0, True
        for block, responses in _picked(self._table, self._slots, self._low, self._high):
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
) -> Iterator[tuple[Covariates, Array]]:
    """The records in some slots, as the table is read once."""
    start = 0
    for k, (X, y) in enumerate(table.blocks()):
        of_block = slots(k, start, len(y))
        start += len(y)
        for first in range(0, len(y), STRETCH):
            stretch = slice(first, first + STRETCH)
            rows = rows_in(of_block[stretch], low, high)
            picked = gather(X[stretch], rows, np.empty((len(rows), X.shape[1]), X.dtype))
            yield picked, y[stretch][rows]


class StreamedPartition(RandomPartition):
    """Records that are read again for every query, each in a slot."""

    def __init__(self, table: Records, slots_of: SlotsOf, n_slots: int) -> None:
        self._table = table
        self._slots_of = slots_of
        self._n_slots = n_slots

    def part(self, low: int, high: int, n: int) -> Records:
        if high - low > partition_capacity(self._table, self._n_slots):
            return StreamedSubset(self._table, self._slots_of, low, high, n)
        expected = self._table.n * (high - low) / self._n_slots
        room = min(self._table.n, int(expected + 8.0 * expected**0.5) + 64)
        X: Covariates = np.empty((0, self._table.n_covariates))
        y, count = np.empty(0), 0
        for some in _picked(self._table, self._slots_of, low, high):
            end = count + len(some[1])
            if not count:
                X, y = [longer(part[:0], room) for part in some]
            if end > len(y):  # improbable; depends on the slots alone
                X, y = [longer(part, max(end, count + count // 8)) for part in (X, y)]
            X[count:end], y[count:end] = some
            count = end
        kept = Records(X[:count], y[:count], self._table.names)
        return Block(kept, np.arange(count), n, self._table.n)


def longer(array: Any, length: int) -> Any:
    """With room for so many rows."""
    found = np.empty((length, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found


def partition_by_keys(
    table: Records, keys: Any, scatter: Callable[..., Slots], n_slots: int
) -> RandomPartition:
    """Records that are read again, whose slots are made again, too, from a key for each block."""
    return StreamedPartition(table, lambda k, start, size: scatter(keys[k], size, n_slots), n_slots)
