"""Secret samples of the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.noisy_release import source_of_noise
from dpfast.data.parts import CACHE_BYTES, Block, RandomPartition, Slots
from dpfast.data.records import MIN_SAMPLING_FACTOR, Covariates, Records
from dpfast.data.reduction import additions
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import SLOTS, chunk_keys, number_of_slots, scatter, scatter_chunk


def _assign_slots(records: Any, source: NoiseSource, n_slots: int) -> Any:
    """Assign a random slot to each record; all rows of a person get the same slot."""
    if records.is_remote or (records.read_again and n_slots > SLOTS):
        keys = chunk_keys(len(records.block_sizes), source)
        if records.is_remote:
            return records.random_partition(keys, scatter_chunk, n_slots)
        from dpfast.data.files.cached import partition_by_keys

        return partition_by_keys(records, keys, scatter_chunk, n_slots)
    slots = scatter(records.n // records.rows_per_unit, source, n_slots)
    if records.rows_per_unit > 1:
        slots = np.repeat(slots, records.rows_per_unit)
    return random_partition(records, slots, n_slots)


def random_partition(table: Records, slots: Slots, n_slots: int) -> RandomPartition:
    """Partition records on this machine by their slots; records in memory are not copied."""
    if table.in_memory:
        return RandomPartition(table, slots)
    from dpfast.data.files.cached import StreamedPartition

    return StreamedPartition(table, lambda k, start, size: slots[start : start + size], n_slots)


class Sample(Block):
    """A secret sample of records, drawn when it is first looked at (claim C85)."""

    def __init__(self, records: Records, source: NoiseSource, width: int) -> None:
        n = records.n * width // number_of_slots(records.n)
        self._lay_out(records, n, records.n)
        self._records, self._source, self._width = records, source, width
        self.is_remote = records.is_remote
        self._drawn: Records | None = None

    @property
    def additions(self) -> int:
        """Number of additions that the depth of a sum counts.

        On a cluster, those over its chunks are added.
        """
        count = super().additions
        return count + additions(len(self._records.block_sizes)) if self.is_remote else count

    def _draw(self) -> Records:
        if self._drawn is None:
            slots = _assign_slots(self._records, self._source, number_of_slots(self._records.n))
            drawn = slots.part(0, self._width, self.n)
            fits_memory = 8 * self.n * (self.n_covariates + 1) <= CACHE_BYTES
            self._drawn = drawn.gathered() if fits_memory and not self.is_remote else drawn
        assert self._drawn is not None
        return self._drawn

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """Yield the blocks of the sample; it is drawn once."""
        return self._draw().blocks()

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Sum a function of the blocks of the sample; on a cluster the workers do it."""
        if self.is_remote:
            return self._draw().total(function, *arguments)
        return super().total(function, *arguments)


def sample(records: Records, source: NoiseSource, size: float) -> Sample | None:
    """Draw a secret sample of about ``size`` records; None if that is a large part of them."""
    n_slots = number_of_slots(records.n)
    width = math.ceil(min(1.0, size / records.n) * n_slots)
    if width * MIN_SAMPLING_FACTOR > n_slots or not records.can_be_partitioned:
        return None
    return Sample(records, source_of_noise(source), width)
