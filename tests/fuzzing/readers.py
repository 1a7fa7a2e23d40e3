"""Every reader of files and arrays under damaged contents, guided by the lines that these reach.

    python -m tests.fuzzing.readers [--examples 2000] [--seconds S] [--seed 0] [reader ...]

A reader may read what it is given, or refuse it by an error of ours or of the system.  The same
seed finds the same.  What is found is kept in build/fuzzing, and the last line of a process that
ended names its example.  Short in the suite, long in `.ci/nightly`.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import dpfast
from dpfast.bayesopt.state import load_state
from dpfast.data import as_records
from dpfast.data.files import read_labels, read_numbers, read_table
from dpfast.errors import DpfastError
from dpfast.inference.rendering.verification import verify_report
from dpfast.studies.requests import read_file
from tests.data.test_malformed_files import FORMATS, SCHEMA, X, Y, utf8
from tests.fuzzing.mutate import search

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "tests" / "packaging" / "written"
KEPT = ROOT / "build" / "fuzzing"


class Reader(NamedTuple):
    """Whole contents, what reads one, and the end of the file's name."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    suffix: str


def table(path: Path) -> None:
    SCHEMA.encode(read_table(path, SCHEMA), response="y")
    read_numbers(path, ["x", "y"])
    read_labels(path, "g")


def opened(path: Path) -> None:
    table(path)
    records = dpfast.open_parquet(path, response="y", schema=SCHEMA)
    assert sum(len(y) for _, y in records.blocks()) >= 0


def sparse(path: Path) -> None:
    """Rows of pointers, columns and values that are the bytes of a file."""
    content = path.read_bytes()
    cut = [int(part) for part in np.frombuffer(content[:8].ljust(8, b"\0"), "<i4")]
    first, second = (max(0, min(part, len(content))) for part in cut)
    pointers, columns, values = content[8:first], content[first:second], content[second:]
    X = SimpleNamespace(
        indptr=np.frombuffer(pointers[: len(pointers) // 4 * 4], "<i4"),
        indices=np.frombuffer(columns[: len(columns) // 4 * 4], "<i4"),
        data=np.frombuffer(values[: len(values) // 8 * 8], "<f8"),
        shape=(8, 3), format="csr", ndim=2, dtype=np.dtype("f8"), tocsr=lambda: X,
    )  # fmt: skip
    for _, y in dpfast.data.streams.csr_records(X, np.arange(8.0), None).blocks():
        assert len(y) <= 8


def whole_sparse() -> bytes:
    pointers = np.array([0, 2, 2, 3, 5, 5, 6, 7, 8], "<i4").tobytes()
    columns = np.array([0, 2, 1, 0, 1, 2, 0, 1], "<i4").tobytes()
    first = 8 + len(pointers)
    head = np.array([first, first + len(columns)], "<i4").tobytes()
    return head + pointers + columns + np.linspace(-1.0, 1.0, 8).tobytes()


def arrow(path: Path) -> None:
    """Arrow text whose offsets and bytes are those of a file, beside columns that are whole."""
    import pyarrow as pa

    content = path.read_bytes().ljust(4 * (len(X) + 1) + 8, b"\0")
    at = 4 * (len(X) + 1)
    buffers = [None, pa.py_buffer(content[:at]), pa.py_buffer(content[at:])]
    try:
        text = pa.Array.from_buffers(pa.string(), len(X), buffers)
    except pa.ArrowInvalid:
        return  # the library makes no such array
    SCHEMA.encode(pa.table({"x": X, "g": text, "d": text, "y": Y}), response="y")


def whole_arrow() -> bytes:
    text = utf8([b"north" if i % 3 else b"a place in the far south" for i in range(len(X))])
    return b"".join(buffer.to_pybytes() for buffer in text.buffers()[1:])


def request(path: Path) -> None:
    dpfast.Study(None, privacy=1.0, n=60_000, schema=SCHEMA).quote(read_file(str(path)))


REQUESTS = [
    {"analysis": "fit", "formula": "y ~ x + I(x**2)", "share": 0.5, "loss": "huber"},
    {"analysis": "quantiles", "column": "x", "probabilities": [0.1, 0.5], "mu": 0.1},
    {"analysis": "means", "columns": "x", "by": "g", "share": 0.1, "name": "a table"},
]


def ledger(path: Path) -> None:
    """What a file says is within its total, and reading it changes nothing."""
    before = path.read_bytes()
    book = dpfast.Ledger.open(path)
    if type(book.total) is dpfast.GDP:
        mus = [entry.spend.mu for entry in book.entries if type(entry.spend) is dpfast.GDP]
        assert sum(Fraction(repr(mu)) ** 2 for mu in mus) <= Fraction(repr(book.total.mu)) ** 2
    assert path.read_bytes() == before, "a reader wrote to the file"


def whole_ledger() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        book = dpfast.Ledger.open(Path(folder) / "ledger", 1.0)
        for mu in (0.3, 0.4):
            book.charge(dpfast.GDP(mu), "a fit")
        return (Path(folder) / "ledger").read_bytes()


def stored(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [path.read_bytes() for name in names for path in sorted(WRITTEN.glob(name))]


def columns(path: Path) -> None:
    """Arrays of a NumPy archive as records: any shape, any type."""
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    as_records(arrays.get("x"), arrays.get("y"))


def of_format(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [FORMATS[name]() for name in names]


READERS = {
    "csv": Reader(of_format("plain.csv"), table, ".csv"),
    "gzip": Reader(of_format("packed.csv.gz"), table, ".csv.gz"),
    "parquet": Reader(of_format("plain.parquet", "packed.parquet"), opened, ".parquet"),
    "feather": Reader(of_format("plain.feather", "packed.feather"), table, ".feather"),
    "npz": Reader(of_format("plain.npz", "packed.npz"), table, ".npz"),
    "csr": Reader(lambda: [whole_sparse()], sparse, ".csr"),
    "arrow": Reader(lambda: [whole_arrow()], arrow, ".buffers"),
    "schema": Reader(of_format("schema.toml"), dpfast.Schema.from_toml, ".toml"),
    "request": Reader(lambda: [json.dumps(r).encode() for r in REQUESTS], request, ".json"),
    "saved": Reader(stored("*/fit.json", "*/result.json"), dpfast.saved.load, ".json"),
    "ledger": Reader(lambda: [whole_ledger(), *stored("*/ledger.json")()], ledger, ".ledger"),
    "report": Reader(stored("*/report.html", "*/study.html"), verify_report, ".html"),
    "search": Reader(stored("*/search"), lambda path: load_state(str(path)), ".state"),
}


def child(name: str, seed: int, examples: int) -> int:
    """Search with one reader in this process; print what is found."""
    reader = READERS[name]
    with tempfile.TemporaryDirectory() as folder:

        def read(content: bytes) -> None:
            path = Path(folder) / f"file{reader.suffix}"
            path.write_bytes(content)
            reader.read(path)

        def begun(number: int) -> None:
            print(f"example {number} of {name}, seed {seed}", file=sys.stderr, flush=True)

        found, lines = search(
            read, reader.seeds(), seed, examples, allowed=(DpfastError, OSError),
            folder=ROOT / "dpfast", begun=begun,
        )  # fmt: skip
    for finding in found:
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{name}-{seed}-{finding.number}{reader.suffix}").write_bytes(finding.content)
        print(f"{name}, seed {seed}, example {finding.number}: {finding.what}")
    print(f"{name}: {examples} examples of seed {seed} reach {lines} lines", flush=True)
    return int(bool(found))


def run(names: list[str], seed: int, examples: int) -> list[str]:
    """Search with readers in a process of their own; return what is wrong."""
    command = [sys.executable, "-m", "tests.fuzzing.readers", *names, "--child"]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--examples", str(examples)],
        capture_output=True, text=True, cwd=ROOT, env=environment(),
    )  # fmt: skip
    print(done.stdout, end="", flush=True)
    if not done.returncode:
        return []
    ended = f"{', '.join(names)} ended with {done.returncode}: {done.stderr[-400:]}"
    return [done.stdout if done.returncode == 1 and done.stdout else ended]


def environment() -> dict[str, str]:
    import os

    return os.environ | {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing.readers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.0, help="go on with the next seeds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    names: Any = asked.readers or list(READERS)
    if asked.child:
        warnings.simplefilter("ignore")
        return max([child(name, asked.seed, asked.examples) for name in names])
    end, seed, wrong = time.monotonic() + asked.seconds, asked.seed, []
    while not wrong:
        wrong += run(names, seed, asked.examples)
        seed += 1
        if time.monotonic() >= end:
            break
    print(*wrong, sep="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
