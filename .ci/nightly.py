"""What is too long for every push, part by part, each with a budget of minutes.

    .ci/nightly                      every part; the log is build/nightly.log
    .ci/nightly bench fuzz           two of them
    .ci/nightly --sixth 2 slow       the third sixth of slow tests; default: by the day of the year
    .ci/nightly --list               parts, their minutes and commands

A part that fails or is not done within its budget makes the exit code 1; the others still run.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SUITES = sorted({path.parent.name for path in ROOT.glob("bench/*/test_*_bench.py")})
SLOW = ".venv/bin/python -m pytest -q -m slow -n 2 --dist loadscope --no-loadscope-reorder"


class Part(NamedTuple):
    """Minutes for all commands of a part together; ``{sixth}`` is a number from 0 to 5."""

    minutes: float
    commands: tuple[str, ...]


PARTS = {
    "bench": Part(
        40.0,
        (
            "make .venv/.bench",
            *(f".venv/bin/python -m bench {suite} --quick" for suite in SUITES),
        ),
    ),
    "results": Part(60.0, ("make .venv/.bench", ".venv/bin/python -m bench evidence --quick")),
    "slow": Part(60.0, ("make .venv/.built", f"{SLOW} --sixth {{sixth}}")),
    "sanitizers": Part(40.0, (".ci/sanitizers",)),
    "fuzz": Part(
        60.0,
        (
            ".ci/fuzz 2",
            ".venv/bin/python -m tests.fuzzing.readers --seconds 1200 --seed {sixth}000",
        ),
    ),
    "mutants": Part(
        60.0, (".venv/bin/python -m tests.privacy.mutants --compiled --sixth {sixth} --jobs 2",)
    ),
    "operator": Part(
        30.0,
        (
            ".venv/bin/python -m tests.privacy.simulated_operator 50000 --seed {sixth}00000",
            ".venv/bin/python -m tests.privacy.simulated_operator 10000 --seed {sixth}00000 "
            "--memory 0.25 --search 0.4",
        ),
    ),
    "allocations": Part(
        20.0, ("make .venv/.built", ".venv/bin/python -m tests.privacy.failing_allocations")
    ),
    "coverage": Part(30.0, ("make coverage",)),
    "proofs": Part(20.0, ("make proofs",)),
    "oldest": Part(40.0, (".ci/oldest",)),
    "newest": Part(40.0, (".ci/prereleases",)),
}


def run(command: str, seconds: float, log: Path) -> str:
    """Run a command with all that it starts; how it ended: "", or why it failed."""
    with log.open("ab") as file:
        file.write(f"\n$ {command}\n".encode())
        file.flush()
        process = subprocess.Popen(
            ["bash", "-c", command], cwd=ROOT, stdout=file, stderr=file, start_new_session=True
        )
        try:
            code = process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "not done within the budget"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return f"exit code {code}" if code else ""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=".ci/nightly", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--sixth", type=int, choices=range(6), help="of the slow tests")
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "nightly.log")
    parser.add_argument("--list", action="store_true", help="name the parts and stop")
    asked = parser.parse_args(argv)
    unknown = [name for name in asked.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    sixth = datetime.now().timetuple().tm_yday % 6 if asked.sixth is None else asked.sixth
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in asked.parts or PARTS:
        part = PARTS[name]
        commands = [command.format(sixth=sixth) for command in part.commands]
        if asked.list:
            print(f"{name:<12}{part.minutes:4.0f} min", *commands, sep="\n    ")
            continue
        start = time.monotonic()
        against = []
        for command in commands:
            left = 60.0 * part.minutes - (time.monotonic() - start)
            why = run(command, left, asked.log) if left > 0.0 else "not begun within the budget"
            against += [f"{command}: {why}"] * bool(why)
        line = f"{datetime.now():%Y-%m-%d %H:%M} {name:<12}{(time.monotonic() - start) / 60:6.1f} "
        line += f"of {part.minutes:.0f} min  {'; '.join(against) or 'passed'}"
        print(line, flush=True)
        with asked.log.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        failed += bool(against)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
