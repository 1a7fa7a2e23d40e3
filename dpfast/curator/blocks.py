"""Secret samples of the records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.noisy_release import source_of_noise
from dpfast.data.parts import CACHE_BYTES, Block, random_partition
from dpfast.data.records import MIN_SAMPLING_FACTOR, Covariates, Records
from dpfast.data.reduction import additions
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.random_parts import SLOTS, chunk_keys, number_of_slots, scatter, scatter_chunk

Array = NDArray[np.float64]


def _dealt(records: Any, source: NoiseSource, n_slots: int) -> Any:
    """Records with a slot each, a person's all with the same."""
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
        """On a cluster, as many more as if each of its chunks were a piece."""
        own = super().additions
        return own + additions(len(self._records.block_sizes)) if self.is_remote else own

    def _found(self) -> Records:
        if self._drawn is None:
            slots = _dealt(self._records, self._source, number_of_slots(self._records.n))
            drawn = slots.part(0, self._width, self.n)
            few = 8 * self.n * (self.n_covariates + 1) <= CACHE_BYTES
            self._drawn = drawn.gathered() if few and not self.is_remote else drawn
        assert self._drawn is not None
        return self._drawn

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """The same records every time."""
        return self._found().blocks()

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """As of any part; of records on a cluster it stays there."""
        if self.is_remote:
            return self._found().total(function, *arguments)
        return super().total(function, *arguments)


def sample(records: Records, source: NoiseSource, wanted: float) -> Sample | None:
    """A secret sample of about so many records; None where that is a large part of them."""
    n_slots = number_of_slots(records.n)
    width = math.ceil(min(1.0, wanted / records.n) * n_slots)
    if width * MIN_SAMPLING_FACTOR > n_slots or not records.can_be_partitioned:
        return None
    return Sample(records, source_of_noise(source), width)
