"""Offsets as a column beside the covariates, for where columns lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.data.records import Records

#: Levels are found beside offsets, and their squares are numbers.
LARGEST = 1e30


class OffsetRecords(Records):
    """Records whose offsets are the last of their covariates."""

    def __init__(self, records: Records) -> None:
        self.n, self.n_covariates = records.n, records.n_covariates + 1
        self.block_sizes, self.excess = records.block_sizes, records.excess
        self._records = records

    def total(self, function: Any, *args: Any) -> Any:
        """As of :meth:`Records.total`."""
        return self._records.total(_told, function, *args)


def _told(X: Any, y: Any, function: Any, *args: Any) -> Any:
    offsets = np.clip(y[:, 2], -LARGEST, LARGEST)
    return function(np.column_stack([X, offsets]), y[:, 0], *args)
