"""Measure every stored result again, which is what a release rests on.

    python -m bench evidence                  all of them; it says first how many hours that takes
    python -m bench evidence paper3/ counts   those whose names have such a part
    python -m bench evidence --list           what is left, and its hours
    python -m bench evidence --quick          a small run of each, which stores nothing

What these sources have stored is not measured twice: an interrupted run resumes.  Hours of figures
are those that they took, of pages rough guesses, on two cores.  Public tables come from
``$DPFAST_DATA`` and from packages.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.__main__ import index
from bench.public_tables import data_folder
from bench.stored import RESULTS, ROOT, stamp, told

__all__ = ["Result", "main", "results"]


class Result(NamedTuple):
    """A stored result, the command that measures it again, its hours, and its stamp."""

    name: str
    command: str
    hours: float
    stored: dict[str, str]


def page_of(name: str) -> Path:
    """Where a study or a suite is stored, if it is."""
    return ROOT / "docs" / "replicability.md" if name == "replicability" else RESULTS / f"{name}.md"


def results() -> list[Result]:
    """Everything that can be measured again, pages first."""
    found = [
        Result(
            f"{one.name}.md",
            f"{one.name} --store",
            one.hours,
            told(page_of(one.name).read_text("utf-8")),
        )
        for one in index().values()
        if page_of(one.name).exists()
    ]
    for path in sorted((RESULTS / "figures").glob("paper*/*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        command = f"figures --paper {report['paper']} {path.stem} --jobs 1"
        name = f"{path.parent.name}/{path.stem}"
        found.append(Result(name, command, report["seconds"] / 3600.0, report["stored"]))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit code is 1 if a command failed."""
    parser = argparse.ArgumentParser(prog="python -m bench evidence", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--quick", action="store_true", help="small runs; nothing is stored")
    parser.add_argument("--list", action="store_true", help="say what is left, and stop")
    asked = parser.parse_args(argv)
    commit = stamp()["commit"]
    wanted = [
        one for one in results() if not asked.names or any(part in one.name for part in asked.names)
    ]
    left = [one for one in wanted if asked.quick or one.stored.get("commit") != commit]
    hours = sum(one.hours for one in left)
    print(
        f"{len(left)} of {len(wanted)} stored results are left at commit {commit}: "
        + ("minutes, as small runs" if asked.quick else f"some {hours:.1f} hours"),
        flush=True,
    )
    if asked.list:
        for one in left:
            print(f"{one.name:<36} {one.hours:5.1f} h  python -m bench {one.command}")
        return 0
    if commit.endswith("+changes") and not asked.quick:
        print("the sources have changes that no commit has; commit them first", file=sys.stderr)
        return 2
    if data_folder() is None and not asked.quick:  # rows of a table would be gone
        print("the public tables are not here: set DPFAST_DATA to their folder", file=sys.stderr)
        return 2
    failed = []
    for one in left:
        start = time.monotonic()
        command = [*shlex.split(one.command), *(["--quick"] if asked.quick else [])]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "bench", *command],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        failed += [one.name] * (done.returncode != 0)
        why = (done.stderr.strip() or "no message").splitlines()[-1] if done.returncode else ""
        print(f"{one.name:<36} {time.monotonic() - start:7.0f} s  {why}", flush=True)
    print(f"{len(left) - len(failed)} done, {len(failed)} failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))
