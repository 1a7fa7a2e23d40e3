"""Offsets as one more covariate, for private centres and scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.data.records import Records

#: Bound on offsets where private centres and scales are estimated: their squares are finite.
MAX_OFFSET = 1e30


class OffsetRecords(Records):
    """Records with their offsets as the last covariate."""

    def __init__(self, records: Records) -> None:
        self.n = records.n
        self.n_covariates = records.n_covariates + 1
        self.block_sizes = records.block_sizes
        self.excess = records.excess
        self._records = records

    def total(self, function: Any, *args: Any) -> Any:
        """Sum a function over the blocks as :meth:`Records.total` does."""
        return self._records.total(_call_with_offsets, function, *args)


def _call_with_offsets(X: Any, y: Any, function: Any, *args: Any) -> Any:
    offsets = np.clip(y[:, 2], -MAX_OFFSET, MAX_OFFSET)
    return function(np.column_stack([X, offsets]), y[:, 0], *args)
