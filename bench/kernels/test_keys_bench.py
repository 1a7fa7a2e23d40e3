"""Counts over keys, distances and moments against plain NumPy, and against one read of X and y.

"fraction" is the time of a sum of all entries, which is bound by memory, over that of the pass.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench.harness import compare, interleaved, is_quick
from dpfast.kernels import keys

GRID = [(10_000, 10)] if is_quick() else [(10_000, 10), (1_000_000, 10), (100_000, 100)]
FIRST = np.int64(-(1 << 63))
NEAREST = 2.0**-10


def numpy_cells(Z):
    Z = Z[np.isfinite(Z).all(axis=1)]
    bits = Z.view(np.int64)
    cells = (np.where(bits >= 0, bits, FIRST - bits) >> 52) + 2048
    counts = np.array([np.bincount(column, minlength=4096) for column in cells.T])
    return np.column_stack([np.zeros(len(counts), dtype=np.int64), counts.cumsum(axis=1)])


def numpy_distances(Z):
    Z = Z[np.isfinite(Z).all(axis=1)]
    bits = np.abs(Z).view(np.int64)
    cells, parts = (bits >> 52) - 1013, keys.PARTS[(bits >> 43) & 511]
    table = np.zeros((Z.shape[1], 2, keys.OCTAVES))
    for j, side in enumerate((Z < 0.0).T.astype(int)):
        seen = np.abs(Z[:, j]) > NEAREST
        for later in (0, 1):
            where = side[seen], cells[seen, j] + later
            np.add.at(table[j], where, parts[seen, j, later])
    return table


def numpy_moments(Z):
    Z = Z[np.isfinite(Z).all(axis=1)]
    k = np.rint(np.clip(Z / 3.0, -1.0, 1.0) * keys.UNIT).astype(np.int64)
    return np.array([k.sum(axis=0), (k * k).sum(axis=0)])


@pytest.mark.parametrize("name", ["cells", "distances", "moments"])
@pytest.mark.parametrize(("n", "q"), GRID)
def test_columns(benchmark, n, q, name):
    rng = np.random.default_rng([n, q])
    Z = rng.normal(size=(n, q + 1))
    X, y = np.ascontiguousarray(Z[:, :-1]), np.ascontiguousarray(Z[:, -1])
    columns, ones = np.arange(q + 1), np.ones(q + 1, dtype=np.int64)

    def function():
        if name == "cells":
            return keys.key_cells(X, y, columns, FIRST * ones, 52 * ones)
        if name == "distances":
            return keys.distances(X, y, np.zeros(q + 1), np.full(q + 1, NEAREST), 40 * ones)
        return keys.moments(X, y, 0.0 * ones, 3.0 * ones)

    def plain():
        made = {"cells": numpy_cells, "distances": numpy_distances, "moments": numpy_moments}
        return made[name](Z)

    times = interleaved({"function": function, "read": lambda: X.sum() + y.sum()})
    compare(
        benchmark,
        function,
        case=f"columns, {name}",
        n=n,
        p=q,
        reference=plain,
        fraction=times["read"] / times["function"],
        accuracy=float(np.abs(function() - plain()).max()),
    )
