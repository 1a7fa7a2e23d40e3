"""The clipped mean of per-record vectors against plain NumPy and against its matrix product.

One pass forms ``W' y_i`` for every record, clips it to a norm and averages.  The limit is the bare
product, which has to read all the values; "fraction" says how much of the pass it is.
"""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from bench.harness import compare, interleaved, is_quick
from dpfast.curator.blackbox.vectors import RecordValues

GRID = [(10_000, 40, 15)] if is_quick() else [(700, 150, 15), (9_000, 500, 103), (300_000, 150, 15)]


@pytest.mark.parametrize(("n", "points", "d"), GRID)
def test_clipped_mean(benchmark, n, points, d):
    rng = np.random.default_rng([n, d])
    values, weights = rng.normal(size=(points, n)), rng.normal(size=(points, d)) / points**0.5
    room = RecordValues(n, dpfast.Ledger(1.0), dpfast.SeededNoise(0))
    room.append(values, points)

    def product():
        return weights.T @ values

    def plain():
        vectors = values.T @ weights
        lengths = np.sqrt((vectors * vectors).sum(axis=1))
        return (vectors * np.minimum(1.0, 3.0 / lengths)[:, None]).mean(axis=0)

    def function():
        return room._clipped_mean(weights, 3.0)

    times = interleaved({"function": function, "product": product})
    compare(
        benchmark,
        function,
        case=f"clipped mean, {points} points",
        n=n,
        p=d,
        reference=plain,
        fraction=times["product"] / times["function"],
        accuracy=float(np.abs(function() - plain()).max()),
    )
