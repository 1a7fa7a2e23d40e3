"""Records seen through a declared domain: every row is projected before a kernel sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.data import Records
from dpfast.models import Domain


class ProjectedRecords(Records):
    """The same records, projected onto a domain block by block when they are first read."""

    can_be_partitioned = False

    def __init__(self, source: Records, domain: Domain) -> None:
        self.n, self.n_covariates = source.n, source.n_covariates
        self.names = source.names
        self.block_sizes = source.block_sizes
        self._source = source
        self._domain = domain
        self._kept: Array | None = None

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if hasattr(self._source, "X"):
            return super().total(function, *arguments)
        return self._source.total(partial(_projected, self._domain, function), *arguments)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        if len(self.block_sizes) > 1:
            for X, y in self._source.blocks():
                yield self._domain.project(X), y
            return
        X, y = next(self._source.blocks())
        if self._kept is None:
            self._kept = self._domain.project(X)
        yield self._kept, y


def _projected(domain: Domain, function: Callable[..., Any], X: Array, y: Array, *rest: Any) -> Any:
    return function(domain.project(X), y, *rest)


def thinned(records: Records, size: int) -> Records:
    """Copy about ``size`` records spread evenly over the first block."""
    X, y = next(records.blocks())
    stride = max(1, len(y) // size)
    return Records(np.ascontiguousarray(X[::stride]), np.ascontiguousarray(y[::stride]), None)
