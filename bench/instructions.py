"""Instructions per call of the kernels, counted by callgrind: the same number on a busy machine.

    python -m bench.instructions             count, compare with the stored table, exit 1 if more
    python -m bench.instructions --store     keep the counts

Counted is what happens inside one function: the C function that sums the records, or the compiled
function that counts over keys, so that Python, imports and their changing caches are left out and
the counts repeat.  Rows of a random block are gathered by NumPy's ``take``, which is not counted.
Valgrind knows AVX2 but not AVX-512, so the counts are of the AVX2 variant.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

STORED = Path(__file__).resolve().parent / "results" / "instructions.json"

#: Relative change that counts as one.
TOLERANCE = 0.02

#: Calls of one case, to be divided by.
CALLS = 3


class Case(NamedTuple):
    """Where counting starts and stops, and Python whose last line is called."""

    counted: str
    setup: str
    call: str


DATA = """
import numpy as np
from dpfast.kernels import keys
from dpfast.kernels.records import GRADIENT, HESSIAN, MAJORIZER, MEAT, RecordKernel
grid = np.arange(4096 * {p}, dtype=float).reshape(4096, {p})
X, y, theta = np.sin(grid), (np.cos(grid[:, 0]) > 0).astype(float), np.full({p}, 0.1)
"""


def sums(loss: str, p: int, want: str, beside: bool = False) -> Case:
    """Sums over records; ``beside`` the response are weights and offsets."""
    setup = DATA.format(p=p) + f"kernel = RecordKernel({loss}, 1.0, 1, 3.0, False)\n"
    if beside:
        setup += "y = np.column_stack((y, 0.5 + 0.5 * y, 0.1 * y))\n"
    return Case("records_sums", setup, f"kernel.sums(X, y, theta, {want}, 4096.0, 1)")


def over_keys(function: str, arguments: str) -> Case:
    """Integers over the columns of float64 records, the second of the fused variants."""
    setup = DATA.format(p=10) + "columns = np.arange(11)\nones = np.ones(11, dtype=np.int64)\n"
    return Case(f"__pyx_fuse_1*{function}", setup, f"keys.{function}(X, y{arguments})")


LOG_COSH, LOGISTIC = "1, 1.345", "3, 1.0"
EVERYTHING = "GRADIENT | HESSIAN | MEAT"
CASES = {
    "gradient, log-cosh, 4096 x 10": sums(LOG_COSH, 10, "GRADIENT"),
    "gradient, logistic, 4096 x 10": sums(LOGISTIC, 10, "GRADIENT"),
    "gradient + Hessian + meat, log-cosh, 4096 x 10": sums(LOG_COSH, 10, EVERYTHING),
    "gradient + Hessian + meat, log-cosh, 4096 x 50": sums(LOG_COSH, 50, EVERYTHING),
    "Hessian alone, logistic, 4096 x 10": sums(LOGISTIC, 10, "HESSIAN"),
    "majorizer alone, log-cosh, 4096 x 10": sums(LOG_COSH, 10, "MAJORIZER"),
    "Hessian + meat, log-cosh, 4096 x 10": sums(LOG_COSH, 10, "HESSIAN | MEAT"),
    "gradient, weights and offsets, log-cosh, 4096 x 10": sums(LOG_COSH, 10, "GRADIENT", True),
    "gradient, weights and offsets, logistic, 4096 x 10": sums(LOGISTIC, 10, "GRADIENT", True),
    "gradient + Hessian + meat, weights and offsets, log-cosh, 4096 x 10": sums(
        LOG_COSH, 10, EVERYTHING, True
    ),
    "keys, cells of 11 columns, 4096 x 10": over_keys(
        "key_cells", ", columns, np.int64(-(1 << 63)) * ones, 52 * ones"
    ),
    "keys, distances, 4096 x 10": over_keys("distances", ", 0.0 * ones, 1e-3 + 0.0 * ones"),
    "keys, moments, 4096 x 10": over_keys("moments", ", 0.0 * ones, 3.0 * ones"),
}


def instructions(name: str) -> int:
    """Instructions of one call."""
    case = CASES[name]
    code = f"{case.setup}for _ in range({CALLS}):\n    {case.call}\n"
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "-q",
             f"--toggle-collect={case.counted}", sys.executable, "-c", code],
            capture_output=True, text=True, check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "0"},
        )  # fmt: skip
        summary = re.search(r"^(?:summary|totals): (\d+)", Path(f"{folder}/out").read_text(), re.M)
    if summary is None or int(summary[1]) == 0:
        raise RuntimeError(f"callgrind counted nothing in {case.counted}: {result.stderr[-500:]}")
    return round(int(summary[1]) / CALLS)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--store", action="store_true", help="keep the counts")
    arguments = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed; nothing was counted", file=sys.stderr)
        return 0
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    counted, worse = {}, False
    for case in CASES:
        counted[case] = instructions(case)
        change = counted[case] / stored[case] - 1.0 if case in stored else 0.0
        worse |= change > TOLERANCE
        print(f"{case:68} {counted[case]:>12,}  {100 * change:+6.2f}%", flush=True)
    if arguments.store:
        STORED.write_text(json.dumps(counted, indent=1) + "\n")
    return int(worse and not arguments.store)


if __name__ == "__main__":
    sys.exit(main())
