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
from typing import NamedTuple

from bench.figures.runner import data_folder
from bench.stored import RESULTS, ROOT, stamp, told

__all__ = ["Result", "main", "results"]

#: Page, hours, command, and the options that make it small.
PAGES = """
acquisition.md | 0.1 | bench acquisition --store | --quick
certificates.md | 0.2 | bench.releases.smooth --store | --repetitions 1
constants-minimize.md | 1 | bench.constants_minimize --runs 4 --store | --runs 1 --only none
constants.md | 3 | bench.constants --runs 6 --store | --runs 1 --only FIRST_PART
counts.md | 0.5 | bench.counts --runs 200 | --quick
coverage.md | 0.5 | bench.coverage --fits 2000 | --quick --sizes 500 --designs "linear, default R"
effects.md | 1 | bench.effects --runs 100 --store | --runs 2 --only "a trial"
instruments.md | 0.1 | bench.instruments --runs 40 --store | --runs 1 --only card
kernels.md | 0.4 | bench limits --store | --quick
kernels-zen4.md | 0.1 | bench.instruction_sets --store | --quick
latency.md | 0.1 | bench latency --store | --quick
one_shot.md | 0.1 | bench.one_shot --runs 20 --store | --runs 1 --only logistic
like.md | 0.1 | bench.like --runs 20 --store | --runs 1 --only "CPS 2024"
outofcore.md | 0.3 | bench outofcore --store | --store --quick
passes.md | 0.2 | bench passes --store | --quick
persons.md | 0.1 | bench.persons --runs 24 --store | --runs 1 --only "group_size 5"
planned.md | 0.2 | bench.planned --fits 20 --store | --fits 1 --only "15 scales"
quantile-coverage.md | 1 | bench.quantile_coverage --fits 400 | --quick
quantile-kernels.md | 0.1 | bench.quantile_kernels | --quick
release_defaults.md | 1 | bench.releases.defaults --runs 8 --store | --runs 2 --epsilon 1 --only raw
releases.md | 0.1 | bench releases --store | --quick
replicability.md | 0.1 | bench.replicability --store | --runs 1 --only card
rivals.md | 2 | bench.rivals --runs 10 --store | --runs 1 --only card
rivals_inference.md | 0.2 | bench.rivals.inference --runs 40 --store | --runs 1
rivals_logistic.md | 0.5 | bench.rivals.logistic --runs 10 --store | --runs 1 --only mroz
rivals_packages.md | 0.3 | bench.rivals.packages --runs 3 --store | --runs 1 --only card
scarce.md | 0.3 | bench.rivals.scarce --store | --runs 2 --only card
schedules.md | 0.3 | bench.schedules --fits 60 | --quick
sidechannel.md | 0.1 | bench.sidechannel --store | --quick
sparse.md | 0.8 | bench.sparse --runs 200 | --quick
tables.md | 0.5 | bench.tables --runs 40 --store | --runs 1 --budgets 1 --only "SLID, wages"
trees.md | 0.5 | bench.trees --replications 8 | --quick
tuning.md | 0.5 | bench.tuning --replications 20 | --quick
unseen.md | 1 | bench.unseen --runs 6 --store | --runs 1 --part 60
waves.md | 0.1 | bench.waves --store | --quick
"""


class Result(NamedTuple):
    """A stored result, what measures it again, and how long that takes.

    Attributes
    ----------
    name : str
        Such as "counts.md" or "paper1/figure-8".
    command, quick : str
        A module and its options: the whole measurement, and a small one that stores nothing.
    hours : float
    stored : dict of str to str
        Its stamp.
    """

    name: str
    command: str
    quick: str
    hours: float
    stored: dict[str, str]


def results() -> list[Result]:
    """Everything that can be measured again, pages first."""
    found = []
    for line in PAGES.strip().splitlines():
        name, hours, command, small = line.split(" | ")
        quick = f"{command.partition(' --')[0]} {small}"
        folder = ROOT / "docs" if name == "replicability.md" else RESULTS
        stored = told((folder / name).read_text(encoding="utf-8"))
        found.append(Result(name, command, quick, float(hours), stored))
    for path in sorted((RESULTS / "figures").glob("paper*/*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        command = f"bench figures --paper {report['paper']} {path.stem} --jobs 1"
        name = f"{path.parent.name}/{path.stem}"
        hours = report["seconds"] / 3600.0
        found.append(Result(name, command, f"{command} --quick", hours, report["stored"]))
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
            print(f"{one.name:<36} {one.hours:5.1f} h  python -m {one.command}")
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
        command = shlex.split(one.quick if asked.quick else one.command)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", *command],
            cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        failed += [one.name] * (done.returncode != 0)
        why = (done.stderr.strip() or "no message").splitlines()[-1] if done.returncode else ""
        print(f"{one.name:<36} {time.monotonic() - start:7.0f} s  {why}", flush=True)
    print(f"{len(left) - len(failed)} done, {len(failed)} failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))
