"""Records seen through a declared domain: every row is projected before a kernel sees it."""

from __future__ import annotations

from functools import partial

import numpy as np

from dpfast.arguments import Array
from dpfast.data.records import Mapped, Records, unpartitioned
from dpfast.models import Domain


def projected(records: Records, domain: Domain) -> Mapped:
    """Return records that are projected onto a domain when they are first read."""
    mapping = partial(_projected, domain)
    return unpartitioned(records, mapping, kept=True)


def _projected(domain: Domain, X: Array, y: Array) -> tuple[Array, Array]:
    return domain.project(X), y


def thinned(records: Records, size: int) -> Records:
    """Copy about ``size`` records spread evenly over the first block."""
    X, y = next(records.blocks())
    stride = max(1, len(y) // size)
    return Records(np.ascontiguousarray(X[::stride]), np.ascontiguousarray(y[::stride]), None)
