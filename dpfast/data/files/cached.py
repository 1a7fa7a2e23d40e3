"""Caches for records that every query would read and decode again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.data.parts import (
    CACHE_BYTES,
    Block,
    RandomPartition,
    Slots,
    SlotsOf,
    gather,
    partition_capacity,
    rows_in,
)
from dpfast.data.records import Covariates, Records, Wrapped

#: Rows that are searched at a time for those in some slots.
SEARCH_CHUNK = 1 << 17


def fits_in_cache(table: Records, n_further: int = 0) -> bool:
    """Test whether decoded records, with further columns, fit in the cache; public."""
    return 8 * table.n * (table.n_covariates + 1 + n_further) <= CACHE_BYTES


def kept(records: Records) -> Records:
    """Return records that are kept after the first read, if they are few enough: public."""
    return Wrapped(records, records.blocks, kept=True) if fits_in_cache(records) else records


def _selected_pieces(
    table: Records, slots: SlotsOf, low: int, high: int, step: int
) -> Iterator[tuple[Covariates, Array]]:
    """Select the records of a part in every pass, in the pieces that one in memory has."""
    X = np.empty((step, table.n_covariates))
    y = np.empty(step)
    filled = 0
    nothing_yielded = True
    for block, responses in _selected(table, slots, low, high):
        if responses.ndim != y.ndim:  # with weights and offsets
            y = np.empty((step, responses.shape[1]))
        done = 0
        while done < len(responses):
            take = min(len(responses) - done, step - filled)
            X[filled : filled + take] = block[done : done + take]
            y[filled : filled + take] = responses[done : done + take]
            filled += take
            done += take
            if filled == step:
                yield X, y
                filled = 0
                nothing_yielded = False
    if filled or nothing_yielded:
        yield X[:filled], y[:filled]


def _selected(
    table: Records, slots: SlotsOf, low: int, high: int
) -> Iterator[tuple[Covariates, Array]]:
    """Select the records in some slots during one pass over the table."""
    start = 0
    for k, (X, y) in enumerate(table.blocks()):
        block_slots = slots(k, start, len(y))
        start += len(y)
        for first in range(0, len(y), SEARCH_CHUNK):
            chunk = slice(first, first + SEARCH_CHUNK)
            rows = rows_in(block_slots[chunk], low, high)
            selected = gather(X[chunk], rows, np.empty((len(rows), X.shape[1]), X.dtype))
            yield selected, y[chunk][rows]


class StreamedPartition(RandomPartition):
    """Random partition of records that are read again for every query."""

    def __init__(self, table: Records, slots_of: SlotsOf, n_slots: int) -> None:
        self._table = table
        self._slots_of = slots_of
        self._n_slots = n_slots

    def part(self, low: int, high: int, n: int) -> Records:
        if high - low > partition_capacity(self._table, self._n_slots):
            # too large for the cache
            rows = partial(_selected_pieces, self._table, self._slots_of, low, high)
            return Block(self._table, rows, n, self._table.n)
        expected = self._table.n * (high - low) / self._n_slots
        capacity = min(self._table.n, int(expected + 8.0 * expected**0.5) + 64)
        X: Covariates = np.empty((0, self._table.n_covariates))
        y = np.empty(0)
        count = 0
        for selected in _selected(self._table, self._slots_of, low, high):
            end = count + len(selected[1])
            if not count:
                X, y = [_extended(part[:0], capacity) for part in selected]
            if end > len(y):  # beyond 8 standard deviations; depends on the slots alone
                X, y = [_extended(part, max(end, count + count // 8)) for part in (X, y)]
            X[count:end], y[count:end] = selected
            count = end
        cached = Records(X[:count], y[:count], self._table.names)
        return Block(cached, np.arange(count), n, self._table.n)


def _extended(array: Any, length: int) -> Any:
    """Copy an array into a longer one."""
    extended = np.empty((length, *array.shape[1:]), array.dtype)
    extended[: len(array)] = array
    return extended


def partition_by_keys(
    table: Records, keys: Any, scatter: Callable[..., Slots], n_slots: int
) -> RandomPartition:
    """Partition records whose slots are drawn again in each pass, from one key per block."""
    return StreamedPartition(table, lambda k, start, size: scatter(keys[k], size, n_slots), n_slots)
