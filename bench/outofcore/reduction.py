"""The reduction tree at sizes no test can run: its rounding, simulated; its costs, measured.

python bench/outofcore/reduction.py     prints what docs/scale.md quotes
"""

from __future__ import annotations

import json
import math
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dpfast.data.reduction import FAN_IN, additions, tree_sum

#: Bytes of a float, and what a result or a task is wrapped in on its way (measured below).
OVERHEAD = 700


def simulated(chunks: int, p: int) -> dict[str, float]:
    """Add random sums of chunks; compare the rounding with what the sensitivity allows for.

    The sums are those a hostile data set could have: all sizes, both signs, no cancellation left
    to luck.  Sixteen entries stand for all.
    """
    rng = np.random.default_rng(chunks + p)
    entries = 16
    parts = rng.choice([-1.0, 1.0], size=(chunks, entries)) * 2.0 ** rng.uniform(
        -30, 0, size=(chunks, entries)
    )
    total = tree_sum(iter(parts))
    one_by_one = np.zeros(entries)
    for part in parts:
        one_by_one = one_by_one + part
    u = Fraction(1, 2**53)
    depth = additions(chunks)
    allowed = float(depth * u / (1 - depth * u))
    sizes = np.abs(parts).sum(axis=0)
    exact = [math.fsum(parts[:, j]) for j in range(entries)]
    return {
        "chunks": chunks,
        "depth": depth,
        "allowed": allowed,
        "error": float(np.max(np.abs(total - exact) / sizes)),
        "error_one_by_one": float(np.max(np.abs(one_by_one - exact) / sizes)),
    }


def traffic(chunks: int, p: int) -> dict[str, float]:
    """Bytes that one query with gradient and curvature moves; an upper bound: no sum stays put."""
    result = 8 * (p + p * p) + OVERHEAD
    inner, level = 0, chunks
    while level > 1:
        level = -(-level // FAN_IN)
        inner += level
    return {"between workers": result * (chunks + inner), "to the client": result}


def cluster_constants(chunks: int, workers: int = 2) -> dict[str, Any]:
    """Seconds per chunk of a query whose arithmetic is negligible, on a local cluster."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from dpfast.data import as_records

    x = da.ones((chunks * 10, 20), chunks=(10, 20))
    records = as_records(x, x.sum(axis=1))
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        Client(local),
    ):
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            records.total(column_sums)
            seconds.append(time.perf_counter() - start)
    return {
        "chunks": chunks,
        "seconds": min(seconds),
        "seconds_per_chunk": min(seconds) / chunks,
    }


def column_sums(X: Any, y: Any) -> Any:
    return X.sum(axis=0)


def kernel_seconds(n: int = 1 << 19, p: int = 20) -> float:
    """Seconds per record of a gradient and a Hessian on one thread, records in memory."""
    from dpfast.kernels.records import GRADIENT, HESSIAN, RecordKernel

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, p)), rng.normal(size=n)
    kernel = RecordKernel(1, 1.5, 1.0, 1, 4.0, False)
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        kernel.sums(X, y, np.zeros(p), GRADIENT | HESSIAN, float(n), 1)
        best = min(best, time.process_time() - start)
    return best / n


if __name__ == "__main__":
    report = {
        "tree": [simulated(chunks, 20) for chunks in (16, 1_000, 100_000)],
        "traffic, p = 20": {chunks: traffic(chunks, 20) for chunks in (1_000, 100_000)},
        "kernel seconds per record, p = 20, one thread": kernel_seconds(),
        "cluster": cluster_constants(1000),
    }
    print(json.dumps(report, indent=1))
