"""Run what ``bench/index.tsv`` lists; without a name it is printed, with the hours of each.

python -m bench                      the index
python -m bench counts --store       a study: measure it, and store its page
python -m bench fits [-k EXPR]       a suite of pytest-benchmark cases; --json F keeps its JSON
python -m bench figures --paper N    the papers' experiments (bench/figures/runner.py)
python -m bench evidence             every stored result again (bench/evidence.py)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from bench.stored import RESULTS, put
from bench.table import rows_of, table

HERE = Path(__file__).resolve().parent


class Entry(NamedTuple):
    """A line of the index: a suite, or a module with the name of its function, and hours."""

    name: str
    module: str
    hours: float
    question: str


def index() -> dict[str, Entry]:
    """Everything that can be run, by its name."""
    lines = (HERE / "index.tsv").read_text(encoding="utf-8").splitlines()
    cells = (line.split("\t") for line in lines)
    return {name: Entry(name, module, float(h), what) for name, module, h, what in cells}


def measured(suite: str, *, quick: bool, keyword: str | None) -> tuple[int, dict[str, Any]]:
    """Run a suite under pytest-benchmark; return the exit code and the JSON it wrote."""
    environment = os.environ | ({"DPFAST_BENCH_QUICK": "1"} if quick else {})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        command = [
            sys.executable, "-m", "pytest", str(HERE / suite), f"--benchmark-json={file}",
            "--benchmark-enable", "--benchmark-only", "--benchmark-disable-gc",
            "--benchmark-quiet", "-q", "--no-header", "-p", "no:cacheprovider", "-W", "default",
        ]  # fmt: skip
        command += [] if keyword is None else ["-k", keyword]
        code = subprocess.run(
            command, cwd=HERE.parent, env=environment, stdout=sys.stderr, check=False
        ).returncode
        text = file.read_text() if file.exists() else ""
    return code, json.loads(text) if text.strip() else {"benchmarks": []}


def run_suite(suite: str, argv: list[str]) -> int:
    """Print the table of a suite; one that measures nothing has failed."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {suite}")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep pytest-benchmark's JSON")
    parser.add_argument("--store", action="store_true", help="put the table into its page")
    parser.add_argument("-k", dest="keyword", metavar="EXPR", help="only cases matching EXPR")
    asked = parser.parse_args(argv)
    code, report = measured(suite, quick=asked.quick, keyword=asked.keyword)
    if not report["benchmarks"]:
        why = "each case was skipped" if asked.keyword is None else f"-k {asked.keyword!r}"
        print(f"{suite}: nothing was measured; {why}", file=sys.stderr)
        return code or 1
    print(table(rows_of(report)), flush=True)
    if asked.store and not asked.quick and not code:
        put(RESULTS / f"{suite}.md", table(rows_of(report)))
    if asked.json is not None:
        asked.json.write_text(json.dumps(report, indent=1))
    return code


def main(argv: list[str] | None = None) -> int:
    name, *rest = (sys.argv[1:] if argv is None else argv) or [""]
    known = index()
    if name in ("figures", "evidence"):
        module = import_module("bench.figures.runner" if name == "figures" else "bench.evidence")
        return int(module.main(rest))
    if name == "all":
        suites = [entry.name for entry in known.values() if entry.module == "suite"]
        return max(run_suite(suite, rest) for suite in suites)
    if name in known:
        if known[name].module == "suite":
            return run_suite(name, rest)
        path, _, function = known[name].module.partition(":")
        return int(getattr(import_module(path), function or "main")(rest))
    lines = [f"{one.name:18} {one.hours:4.1f} h  {one.question}" for one in known.values()]
    print("\n".join([*(__doc__ or "").splitlines()[2:], "", *lines]))
    if name:
        print(f"\nnothing is named {name!r}", file=sys.stderr)
    return 2 * bool(name)


if __name__ == "__main__":
    sys.exit(main())
