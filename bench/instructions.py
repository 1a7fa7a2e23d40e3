"""Instructions per call of the kernels, counted by callgrind: the same number on a busy machine.

    python -m bench.instructions             count, and compare; exit 1 if there are 3% more
    python -m bench.instructions --append    and keep the counts as those of this commit

Counted is what happens inside compiled functions that see records, so that Python, imports and
their changing caches are left out and the counts repeat: of a call, or of a whole fit, of which
they say how often and how it reads them.  A case that names no function counts everything, Python
included, as the difference of two numbers of calls.  Rows of a random block are gathered by NumPy's
``take``, which is not counted.  Valgrind knows AVX2 but not AVX-512, so the counts are of the AVX2
variant.

The series, bench/results/instructions.jsonl, has a line for each commit that was kept; counts are
compared with the last line of the same compiler and the same Python, and with those of the last
tagged commit: steps that are each below 3% add up.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SERIES = Path(__file__).resolve().parent / "results" / "instructions.jsonl"

#: Relative change that is refused.
TOLERANCE = 0.03

#: Calls of one case, to be divided by.
CALLS = 3


class Case(NamedTuple):
    """Functions between whose start and end is counted, and Python whose last line is called."""

    counted: tuple[str, ...]
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
    return Case(("records_sums_of_view",), setup, f"kernel.sums(X, y, theta, {want}, 4096.0, 1)")


def over_keys(function: str, arguments: str) -> Case:
    """Integers over the columns of float64 records, the second of the fused variants."""
    setup = DATA.format(p=10) + "columns = np.arange(11)\nones = np.ones(11, dtype=np.int64)\n"
    return Case((f"__pyx_fuse_1*{function}",), setup, f"keys.{function}(X, y{arguments})")


def seen(what: str, call: str) -> Case:
    """What is seen of records through a map, of the logistic loss."""
    setup = DATA.format(p=10) + (
        "from dpfast.curator.preconditioned import _kernel_and_constants\n"
        "from dpfast.kernels.records import RecordView\n"
        "from dpfast.models import Clip, Mallows\n"
        "matrix = np.linalg.qr(np.cos(np.arange(121.0)).reshape(11, 11))[0].copy()\n"
        f"view = RecordView(matrix, {what!r}, 3, theta=np.full(11, 0.1))\n"
        "zero, edges = np.zeros(11), np.exp2(np.arange(-6.0, 20.0))\n"
        "clip = _kernel_and_constants(Clip, 3.0, 0.0, 11)[0]\n"
        "gram = _kernel_and_constants(Mallows, 3.0, 0.0, 11)[0]\n"
    )
    calls = {
        "lengths": "view.counts(X, y, edges, 1)",
        "score": "clip.sums(X, y, zero, GRADIENT, 4096.0, 1, view)",
        "score and meat": "clip.sums(X, y, zero, GRADIENT | MEAT, 4096.0, 1, view)",
        "gram": "gram.sums(X, y, zero, HESSIAN, 4096.0, 1, view)",
    }
    return Case(("records_sums_of_view", "records_lengths"), setup, calls[call])


#: What reads records in a fit.
READERS = (
    "records_sums_of_view",
    "records_lengths",
    "__pyx_fuse_1*key_cells",
    "__pyx_fuse_1*distances",
)


def fit(loss: str, n: int, p: int, counted: tuple[str, ...] = READERS) -> Case:
    """A fit with nothing declared."""
    setup = (
        "import numpy as np, dpfast\n"
        f"rng = np.random.default_rng(20)\nX = rng.normal(size=({n}, {p}))\n"
        f"t = X @ np.linspace(-0.25, 0.25, {p})\n"
        f"y = (rng.random({n}) < 1 / (1 + np.exp(-t))) * 1.0 if {loss!r} == 'logistic' else t\n"
        f"y = y if {loss!r} == 'logistic' else y + rng.standard_t(4, size={n})\n"
        "def fit():\n"
        "    noise = dpfast.SeededNoise(1)\n"
        "    records = dpfast.records(X, y, threads=1)\n"
        f"    return dpfast.fit(records, None, {loss!r}, privacy=1.0, noise=noise)\n"
        "fit()\n"
    )
    return Case(counted, setup, "fit()")


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
    "keys, distances, 4096 x 10": over_keys(
        "distances", ", 0.0 * ones, 1e-3 + 0.0 * ones, 100 * ones"
    ),
    "keys, moments, 4096 x 10": over_keys("moments", ", 0.0 * ones, 3.0 * ones"),
    "seen, lengths of scores, 4096 x 10": seen("score", "lengths"),
    "seen, lengths of curvatures, 4096 x 10": seen("curvature", "lengths"),
    "seen, clipped scores, 4096 x 10": seen("score", "score"),
    "seen, clipped scores and meat, 4096 x 10": seen("score", "score and meat"),
    "seen, Gram of curvatures, 4096 x 10": seen("curvature", "gram"),
    "fit, least squares, records alone, 20,000 x 10": fit("least-squares", 20_000, 10),
    "fit, logistic, records alone, 20,000 x 10": fit("logistic", 20_000, 10),
    "fit, logistic, everything, 1,000 x 4": fit("logistic", 1_000, 4, ()),
}


def counted(case: Case, calls: int) -> int:
    """Instructions of so many calls; of everything, those before the calls as well."""
    code = f"{case.setup}for _ in range({calls}):\n    {case.call}\n"
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "-q",
             *[f"--toggle-collect={name}" for name in case.counted], sys.executable, "-c", code],
            capture_output=True, text=True, check=True,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(["", *sys.path]),
                 "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        summary = re.search(r"^(?:summary|totals): (\d+)", Path(f"{folder}/out").read_text(), re.M)
    if summary is None or int(summary[1]) == 0:
        raise RuntimeError(f"callgrind counted nothing in {case.counted}: {result.stderr[-500:]}")
    return int(summary[1])


def instructions(name: str) -> int:
    """Instructions of one call."""
    case = CASES[name]
    if case.counted:  # a fit that was warmed up counts as well
        return round(counted(case, CALLS) / (CALLS + case.setup.endswith("fit()\n")))
    once = counted(case, 1)  # first: it compiles what is not yet
    return round((counted(case, 1 + CALLS) - once) / CALLS)


def built_with() -> str:
    """Of which compiler and which Python the counts are."""
    told = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False).stdout
    compiler = told.splitlines()[0] if told else "no compiler"
    return f"{compiler}; Python {platform.python_version()}"


def commit() -> str:
    return os.environ.get("GITHUB_SHA") or _git("rev-parse", "HEAD")


def series(path: Path = SERIES) -> list[dict[str, Any]]:
    """The lines, in order."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def last_counts(lines: list[dict[str, Any]], built: str) -> dict[str, int]:
    """The last of each case of this compiler and this Python."""
    found: dict[str, int] = {}
    for line in lines:
        if line["built"] == built:
            found |= line["counts"]
    return found


def since_tag(lines: list[dict[str, Any]], built: str) -> dict[str, int]:
    """The counts at the last tag; none where nothing is tagged."""
    tag = _git("describe", "--tags", "--abbrev=0")
    before = set(_git("rev-list", tag).split()) if tag else set()
    return last_counts([line for line in lines if line["commit"] in before], built)


def _git(*command: str) -> str:
    told = subprocess.run(
        ["git", *command], capture_output=True, text=True, check=False, cwd=SERIES.parent
    )
    return told.stdout.strip() if told.returncode == 0 else ""


def worse(new: dict[str, int], old: dict[str, int]) -> list[str]:
    """Cases with more instructions than are tolerated."""
    return [case for case in new if case in old and new[case] > (1.0 + TOLERANCE) * old[case]]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--append", action="store_true", help="keep the counts")
    parser.add_argument("-k", dest="keyword", default="", help="only cases with this in their name")
    arguments = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed; nothing was counted", file=sys.stderr)
        return 0
    built, new = built_with(), {}
    old, tagged = last_counts(series(), built), since_tag(series(), built)
    for case in CASES:
        if arguments.keyword not in case:
            continue
        new[case] = instructions(case)
        change = f"{new[case] / old[case] - 1.0:+8.2%}" if case in old else "     new"
        since = f"{new[case] / tagged[case] - 1.0:+8.2%} since the tag" if case in tagged else ""
        print(f"{case:68} {new[case]:>13,} {change} {since}", flush=True)
    refused = [*dict.fromkeys(worse(new, old) + worse(new, tagged))]
    for case in refused:
        print(f"more than {TOLERANCE:.0%} more instructions: {case}", file=sys.stderr)
    if arguments.append:
        with SERIES.open("a", encoding="utf-8") as file:
            line = {"commit": commit(), "built": built, "counts": new}
            file.write(json.dumps(line) + "\n")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
