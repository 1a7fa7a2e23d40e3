"""The default fit on a cluster of two processes: transitions of the scheduler, bytes, seconds.

python bench/outofcore/cluster_fit.py [RECORDS [CHUNKS]]

Beside it the same method without random blocks, whose steps all are graphs of all chunks.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # as a script, from anywhere

COVARIATES = 10


def made(block_info: Any = None) -> Any:
    """A chunk, on its worker."""
    first, last = block_info[None]["array-location"][0]
    rng = np.random.default_rng(first)
    X = rng.normal(size=(last - first, COVARIATES))
    return np.column_stack([X, X[:, 0] + rng.normal(size=last - first)])


def measured(client: Any, data: Any, blocks: bool) -> dict[str, float]:
    """One fit."""
    import dpfast

    def transitions() -> int:
        found: int = client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.transition_counter
        )
        return found

    client.run(lambda dask_worker: dask_worker.transfer_outgoing_log.clear())
    before, start = transitions(), time.perf_counter()
    dpfast.fit(
        dpfast.records(data[:, :COVARIATES], data[:, COVARIATES], threads=1),
        None,
        dpfast.Objective("log-cosh", scale=1.0),
        privacy=1.0,
        method=dpfast.optimize.AdaptiveNewton(blocks=blocks),
    )
    seconds = time.perf_counter() - start
    logs = client.run(
        lambda dask_worker: [
            size for entry in dask_worker.transfer_outgoing_log for size in entry["keys"].values()
        ]
    )
    return {
        "transitions": transitions() - before,
        "seconds": seconds,
        "transferred_bytes": float(sum(map(sum, logs.values()))),
    }


def main(n: int, chunks: int) -> None:
    from dask import array
    from distributed import Client, LocalCluster, wait

    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with local, Client(local) as client:
        sizes = (n // chunks,) * chunks
        data = array.map_blocks(
            made, chunks=(sizes, (COVARIATES + 1,)), dtype=float, meta=np.empty((0, 0))
        ).persist()
        wait(data)
        for name, blocks in (("random blocks", True), ("all records", False)):
            print(name, json.dumps(measured(client, data, blocks)))


if __name__ == "__main__":
    given = [int(float(x)) for x in sys.argv[1:3]]
    main(*given, *(2_000_000, 200)[len(given) :])
