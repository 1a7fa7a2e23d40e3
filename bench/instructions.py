"""Instructions per call of the kernels, counted by callgrind: the same number on a busy machine.

    python -m bench.instructions             count, compare with the stored table, exit 1 if more
    python -m bench.instructions --store     keep the counts

Counted is what happens inside the C function that sums the records, so that Python, imports and
their changing caches are left out and the counts repeat exactly.  Valgrind
knows AVX2 but not AVX-512, so the counts are of the AVX2 variant.
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

STORED = Path(__file__).resolve().parent / "results" / "instructions.json"

#: Relative change that counts as one.
TOLERANCE = 0.02

#: Where counting starts and stops; and the calls of one case, to be divided by.
COUNTED, CALLS = "records_sums", 3

CASES = {
    "gradient, log-cosh, 4096 x 10": ("1, 1.345", 10, "GRADIENT"),
    "gradient, logistic, 4096 x 10": ("3, 1.0", 10, "GRADIENT"),
    "gradient + Hessian + meat, log-cosh, 4096 x 10": ("1, 1.345", 10, "GRADIENT | HESSIAN | MEAT"),
    "gradient + Hessian + meat, log-cosh, 4096 x 50": ("1, 1.345", 50, "GRADIENT | HESSIAN | MEAT"),
}

CODE = """
import numpy as np
from dpfast.kernels.records import GRADIENT, HESSIAN, MEAT, RecordKernel
grid = np.arange(4096 * {p}, dtype=float).reshape(4096, {p})
X, y, theta = np.sin(grid), (np.cos(grid[:, 0]) > 0).astype(float), np.full({p}, 0.1)
kernel = RecordKernel({loss}, 1.0, 1, 3.0, False)
for _ in range({calls}):
    kernel.sums(X, y, theta, {want}, 4096.0, 1)
"""


def instructions(case: str) -> int:
    """Instructions of one call."""
    loss, p, want = CASES[case]
    code = CODE.format(p=p, loss=loss, want=want, calls=CALLS)
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "-q",
             f"--toggle-collect={COUNTED}", sys.executable, "-c", code],
            capture_output=True, text=True, check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        summary = re.search(r"^(?:summary|totals): (\d+)", Path(f"{folder}/out").read_text(), re.M)
    if summary is None or int(summary[1]) == 0:
        raise RuntimeError(f"callgrind counted nothing in {COUNTED}: {result.stderr[-500:]}")
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
        print(f"{case:50} {counted[case]:>12,}  {100 * change:+6.2f}%", flush=True)
    if arguments.store:
        STORED.write_text(json.dumps(counted, indent=1) + "\n")
    return int(worse and not arguments.store)


if __name__ == "__main__":
    sys.exit(main())
