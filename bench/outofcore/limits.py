"""Fits on data larger than the process, beside decoding alone, and what a cluster costs

Log-cosh with intervals, three Newton steps or the default fit, which reads all random blocks in one
pass and then full gradients; 20 covariates of three digits, zstd.  "Fit / decoding" is the fit
beside as many passes of decoding and nothing else, measured in alternation, median of three: at
most 1.3 is aimed at for Parquet.  Peak memory is that of the whole process: Python, the libraries
and about three decoded row groups; the default fit keeps the records of its random blocks, too.
Then the rounding of the reduction tree over random sums of chunks, beside what the sensitivity
allows for, and a query of chunks without arithmetic on a local cluster.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.util import find_spec

from bench.harness import processor
from bench.outofcore.parquet_fit import measured
from bench.outofcore.reduction import cluster_constants, simulated
from bench.study import Block, study

NAMES = {"parquet": "Parquet", "default": "Parquet, default fit"}


def found(asked: argparse.Namespace) -> Iterator[Block]:
    for size in (0.05,) if asked.quick else (0.5, 1.5):
        for label, row in measured(size).items():
            yield {
                "read from": NAMES[label], "n": row["n"],
                "data": f"{row['decoded_bytes'] / 1e6:,.0f} MB",
                "queries": f"{row['queries']:.0f}",
                "decoding once": f"{row['decode_seconds']:.2f} s",
                "fit": f"{row['fit_seconds']:.2f} s", "fit / decoding": f"{row['ratio']:.2f}",
                "peak memory": f"{row['peak_bytes'] / 1e6:,.0f} MB",
                "data / peak": f"{row['decoded_bytes'] / row['peak_bytes']:.1f}",
            }  # fmt: skip
    for chunks in (1_000,) if asked.quick else (1_000, 100_000):
        yield simulated(chunks, 20)
    if find_spec("distributed"):
        yield cluster_constants(100 if asked.quick else 1000)
    yield f"{processor()}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.2f} at the end."


main = study("outofcore", found, __doc__)
