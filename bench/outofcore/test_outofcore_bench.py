"""Fits on data that are not in memory."""

from __future__ import annotations

import time

import pytest

from bench.harness import is_quick
from bench.outofcore.parquet_fit import measured
from bench.outofcore.reduction import cluster_constants, simulated

SIZE = 0.1 if is_quick() else 1.5


def test_a_fit_on_parquet(benchmark):
    pytest.importorskip("pyarrow")
    found = benchmark.pedantic(lambda: measured(SIZE), rounds=1)
    for label, row in found.items():
        benchmark.extra_info[label] = row
    row = found["parquet"]
    benchmark.extra_info.update(
        case=f"fit on {row['decoded_bytes'] / 1e9:.2f} GB of Parquet | decoding alone, peak "
        f"{row['peak_bytes'] / 1e6:.0f} MB",
        n=row["n"],
        p=21,
        seconds=row["fit_seconds"],
        reference_seconds=row["queries"] * row["decode_seconds"],
        speedup=1.0 / row["ratio"],
        limit="1.3x decoding",
        fraction=row["ratio"] / 1.3,
    )


@pytest.mark.parametrize("chunks", [1_000] if is_quick() else [1_000, 100_000])
def test_the_reduction_tree(benchmark, chunks):
    start = time.perf_counter()
    found = benchmark.pedantic(lambda: simulated(chunks, 20), rounds=1)
    benchmark.extra_info.update(
        case=f"tree over {chunks} chunks, rounding / what is allowed for",
        p=20,
        seconds=time.perf_counter() - start,
        accuracy=f"{found['error'] / found['allowed']:.2g}",
    )


def test_a_cluster_of_processes(benchmark):
    pytest.importorskip("distributed")
    found = benchmark.pedantic(lambda: cluster_constants(100 if is_quick() else 1000), rounds=1)
    benchmark.extra_info.update(
        case=f"one query of {found['chunks']} chunks on a local cluster, "
        f"{1e3 * found['seconds_per_chunk']:.2f} ms a chunk",
        seconds=found["seconds"],
    )
