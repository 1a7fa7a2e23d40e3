"""Counts over float keys and integer moments in plain NumPy: sorts, searches, masks of the table.

Written differently from ``csrc/keys.pyx`` on purpose: no keys of single entries are looked up in a
table; the entries are compared as floating-point numbers with the first double of each cell.
"""

from __future__ import annotations

import numpy as np


def double_of(key: int) -> float:
    """The double with this key; a NaN's, or infinity, beyond the last finite one."""
    bits = np.array([abs(key)], dtype=np.uint64)
    return float(np.copysign(bits.view(np.float64)[0], key))


def complete(X, y):
    Z = np.column_stack([np.asarray(X, dtype=np.float64), y])
    return Z[np.isfinite(Z).all(axis=1)]


def below(X, y, column, key):
    """How many complete records have an entry whose key is below this one."""
    entries = np.sort(complete(X, y)[:, column])
    largest = np.finfo(float).max
    if key > (2047 << 52) - 1:
        return len(entries)
    if key <= -(2047 << 52):
        return 0
    threshold = double_of(key)
    assert abs(threshold) <= largest
    return int(np.searchsorted(entries, threshold, side="left"))


def key_cells(X, y, columns, starts, shifts):
    counts = np.empty((len(columns), 4096), dtype=np.int64)
    for w, (column, start, shift) in enumerate(zip(columns, starts, shifts, strict=True)):
        edges = [int(start) + (cell << int(shift)) for cell in range(4097)]
        counts[w] = np.diff([below(X, y, int(column), edge) for edge in edges])
    return counts


def kinds(X, y):
    Z = complete(X, y)
    return np.array([len(Z), *(~np.isin(Z, (0.0, 1.0))).sum(axis=0)])


def moments(X, y, middles, halves):
    with np.errstate(all="ignore"):
        u = np.clip((complete(X, y) - middles) / halves, -1.0, 1.0)
    k = np.rint(u * 2.0**15).astype(object)  # whole numbers of any size
    return np.array([k.sum(axis=0), (k * k).sum(axis=0)]).astype(np.int64).reshape(2, -1)
