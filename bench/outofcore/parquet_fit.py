"""A fit on Parquet data larger than the process: peak memory, and time beside decoding alone.

python bench/outofcore/parquet_fit.py [GIGABYTES]     writes, measures in a new process, removes

The numbers have three digits and are compressed (zstd), as in a survey.  Decoding random bits that
were stored as they are is nearly a copy, beside which no arithmetic is small.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # as a script, from anywhere

COVARIATES, ROWS = 20, 1 << 17
NAMES = [f"x{j}" for j in range(COVARIATES)]


def write(folder: str, gigabytes: float) -> int:
    """Files of one row group each, of about this size in total; returns their number."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    size = 8 * ROWS * (COVARIATES + 1)
    count = max(2, round(gigabytes * 1e9 / size))
    for k in range(count):
        columns = {name: rng.normal(size=ROWS) for name in NAMES}
        columns = {name: column.round(2) for name, column in columns.items()}
        columns["y"] = columns["x0"] - columns["x1"] + rng.standard_t(4, size=ROWS)
        parquet.write_table(
            pyarrow.table(columns),
            f"{folder}/{k:05}.parquet",
            compression="zstd",
            use_dictionary=False,
        )
    return count


def measure(folder: str, method: str) -> dict[str, float]:
    """In this process: seconds of decoding and of fitting, and the peak of resident memory.

    ``method``: "newton" for three steps on all records, "auto" for the default fit.
    """
    import dpfast

    records = dpfast.open_parquet(folder, covariates=NAMES, response="y")
    decode, blocks = records._decode, range(len(records.block_sizes))
    asked = []

    def counted(k: int) -> object:
        asked.append(k)
        return decode(k)

    def decoding() -> float:
        start = time.perf_counter()
        for k in blocks:
            decode(k)
        return time.perf_counter() - start

    records._decode = counted  # type: ignore[assignment]
    decoding()
    passes = [decoding()]
    ratios, seconds = [], []
    for _ in range(3):
        asked.clear()
        start = time.perf_counter()
        chosen = dpfast.optimize.Newton(steps=3) if method == "newton" else method
        dpfast.fit(
            records, None, dpfast.Objective("log-cosh", scale=1.2), privacy=1.0, method=chosen
        )
        seconds.append(time.perf_counter() - start)
        passes.append(decoding())
        queries = len(asked) / len(blocks)
        ratios.append(seconds[-1] / (queries * 0.5 * (passes[-1] + passes[-2])))
    return {
        "n": records.n,
        "queries": queries,
        "decode_seconds": float(np.median(passes)),
        "fit_seconds": float(np.median(seconds)),
        "ratio": float(np.median(ratios)),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "decoded_bytes": 8 * records.n * (COVARIATES + 1),
    }


def measured(gigabytes: float) -> dict[str, dict[str, float]]:
    """Written to a temporary folder and measured in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "data").mkdir()
        write(f"{folder}/data", gigabytes)
        found = {}
        for label, method in (("parquet", "newton"), ("default", "auto")):
            output = subprocess.run(
                [sys.executable, __file__, "--measure", f"{folder}/data", method],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            found[label] = json.loads(output)
        return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3])))
    else:
        size = float(sys.argv[1]) if len(sys.argv) > 1 else 1.5
        print(json.dumps(measured(size), indent=1))
