"""Run a benchmark suite and print its table.

python -m bench kernels            one suite
python -m bench releases --store   one that has a page, whose table is measured again
python -m bench all --quick        every suite, small sizes
python -m bench fits --json F      also keep pytest-benchmark's JSON, for `pytest-benchmark compare`
python -m bench limits --store     the kernels against the machine (bench/kernel_limits.py)
python -m bench.instruction_sets   the kernels' instruction sets on this processor
python -m bench outofcore --store  fits larger than memory (bench/outofcore/limits.py)
python -m bench.rivals.packages    installed packages, private and not (bench/rivals/packages.py)
python -m bench passes --store     default fits against reading once, and peers (bench/passes.py)
python -m bench figures --paper N  the papers' experiments (bench/figures/runner.py)
python -m bench evidence           every stored result again (bench/evidence.py)
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.stored import RESULTS, put
from bench.table import rows_of, table

HERE = Path(__file__).resolve().parent


def suites() -> list[str]:
    """Every folder beside this file that holds benchmark cases."""
    return sorted({path.parent.name for path in HERE.glob("*/test_*_bench.py")})


def run(
    suite: str, *, quick: bool, keyword: str | None, json_file: Path
) -> tuple[int, dict[str, Any]]:
    """Run one suite under pytest-benchmark; return the exit code and the JSON it wrote."""
    command = [
        sys.executable, "-m", "pytest", str(HERE / suite),
        "--benchmark-enable", "--benchmark-only", "--benchmark-disable-gc",
        f"--benchmark-json={json_file}", "--benchmark-quiet",
        "-q", "--no-header", "-p", "no:cacheprovider", "-W", "default",
    ]  # fmt: skip
    if keyword is not None:
        command += ["-k", keyword]
    environment = dict(os.environ)
    if quick:
        environment["DPFAST_BENCH_QUICK"] = "1"
    code = subprocess.run(
        command, cwd=HERE.parent, env=environment, stdout=sys.stderr, check=False
    ).returncode
    text = json_file.read_text() if json_file.exists() else ""
    return code, json.loads(text) if text.strip() else {"benchmarks": []}


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["figures"]:
        from bench.figures.runner import main as draw_figures

        return draw_figures(argv[1:])
    if argv[:1] == ["evidence"]:
        from bench.evidence import main as redraw

        return redraw(argv[1:])
    if argv[:1] == ["limits"]:
        from bench.kernel_limits import main as measure_limits

        return measure_limits(argv[1:])
    if argv[:1] == ["passes"]:
        from bench.passes import main as measure_passes

        return measure_passes(argv[1:])
    if argv[:1] == ["outofcore"] and "--store" in argv:
        from bench.outofcore.limits import main as measure_outofcore

        return measure_outofcore([argument for argument in argv[1:] if argument != "--store"])
    available = suites()
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Run a benchmark suite and print its table."
    )
    parser.add_argument("suite", nargs="?", default="all", choices=[*available, "all"])
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep pytest-benchmark's JSON")
    parser.add_argument("--store", action="store_true", help="put the table into the suite's page")
    parser.add_argument("-k", dest="keyword", metavar="EXPR", help="only cases matching EXPR")
    arguments = parser.parse_args(argv)

    chosen = available if arguments.suite == "all" else [arguments.suite]
    worst = 0
    merged: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for suite in chosen:
            code, report = run(
                suite,
                quick=arguments.quick,
                keyword=arguments.keyword,
                json_file=Path(folder) / f"{suite}.json",
            )
            if code == 5 and arguments.keyword is not None:  # nothing here matches the keyword
                code = 0
            if code == 0 and not report["benchmarks"] and arguments.keyword is None:
                print(f"{suite}: nothing was measured; each case was skipped", file=sys.stderr)
                code = 1
            worst = max(worst, code)
            print(f"\n{suite}" + (" (quick)" if arguments.quick else ""))
            print(table(rows_of(report)), flush=True)
            if arguments.store and not arguments.quick and code == 0:
                put(RESULTS / f"{suite}.md", table(rows_of(report)))
            merged = {**report, "benchmarks": merged.get("benchmarks", []) + report["benchmarks"]}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(merged, indent=1))
    if not merged["benchmarks"] and not worst:
        print(f"no case matches {arguments.keyword!r}", file=sys.stderr)
        worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main())
