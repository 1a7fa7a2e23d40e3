"""Whether a stored result is what the code says now: a small seeded run of it, its probe.

    python -m bench stale                   results whose probe gives other numbers
    python -m bench stale paper3/ unseen    only those whose names have such a part
    python -m bench stale --redraw 60       draw such figures again, quick ones first, for an hour

The probe of a figure is its quick run, that of a table a command of ``TABLES``.  With a result some
of its probe's numbers are stored, but none that are times; a refactoring gives the same, and what
changes what is computed gives others.  Those of today are kept in ``build`` while no source
changes.  What measures a machine has no probe.  The exit code is 1 if anything is old.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

__all__ = ["MEASURED", "TABLES", "Probe", "Stored", "keep", "main", "probe_of", "stored"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
STAMPS = RESULTS / "stamps.json"
KNOWN = ROOT / "build" / "probes.json"

#: The small run of each table: a module and its options.
TABLES = {
    "constants-minimize.md": "bench.constants_minimize --runs 1 --only none",
    "constants.md": "bench.constants --runs 1 --only FIRST_PART",
    "counts.md": "bench.counts --quick",
    "coverage.md": 'bench.coverage --quick --sizes 500 --designs "linear, default R"',
    "effects.md": 'bench.effects --runs 2 --only "a trial"',
    "one_shot.md": "bench.one_shot --runs 1 --only logistic",
    "persons.md": 'bench.persons --runs 1 --only "group_size 5"',
    "planned.md": 'bench.planned --fits 1 --only "15 scales"',
    "quantile-coverage.md": "bench.quantile_coverage --quick",
    "release_defaults.md": "bench.releases.defaults --runs 2 --epsilon 1 --only raw",
    "replicability.json": "bench.replicability --runs 1 --only card",
    "rivals.md": "bench.rivals --runs 1 --only card",
    "rivals_logistic.md": "bench.rivals.logistic --runs 1 --only mroz",
    "scarce.md": "bench.rivals.scarce --runs 2 --only card",
    "schedules.md": "bench.schedules --quick",
    "tables.md": 'bench.tables --runs 1 --budgets 1 --only "SLID, wages"',
    "trees.md": "bench.trees --quick",
    "tuning.md": "bench.tuning --quick",
    "unseen.md": "bench.unseen --runs 1 --part 60",
}

#: Times, instructions, bytes and packages of a machine, at the commit that stored them.
MEASURED = {
    *("acquisition.md", "kernels-zen4.md", "kernels.md", "latency.md", "mutants.md"),
    *("outofcore.md", "passes.md", "quantile-kernels.md", "releases.md"),
    *("rivals_packages.md", "sidechannel.md"),
}

#: Names of numbers that are times or sizes, in a figure's data and a table's head.
TIMES = re.compile(r"seconds|\btimes?\b|\bfast|\bms\b|memory|bytes", re.IGNORECASE)

#: The library whose roundings follow the processor computes probes as on this one, which searches
#: by noisy comparisons tell from others.
ALIKE = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}

#: How many numbers are stored, and how far others may be: those of another machine are.
SAMPLED, NEAR = 50, 1e-3

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?%?(?![\w])")


class Probe(NamedTuple):
    """Numbers of a small run: how many there are, and some of them, evenly spread."""

    count: int
    sample: list[float]

    def unlike(self, other: Probe) -> str:
        """Empty, or how many numbers of another probe are others, and how far."""
        if self.count != other.count:
            return f"{other.count} instead of {self.count}"
        far = [
            abs(a - b) / max(abs(a), abs(b))
            for a, b in zip(self.sample, other.sample, strict=True)
            if not math.isclose(a, b, rel_tol=NEAR, abs_tol=1e-9)
            and not (math.isnan(a) and math.isnan(b))
        ]
        if not far:
            return ""
        return f"{len(far)} of {len(self.sample)}, by {100 * np.median(far):.2g}% in the median"


def _sampled(values: Sequence[float]) -> Probe | None:
    """Some of all numbers, to five digits; None of none."""
    places = np.unique(np.linspace(0, len(values) - 1, SAMPLED).round().astype(int))
    some = [float(f"{values[i]:.5g}") for i in places] if values else []
    return Probe(len(values), some) if values else None


def _numbers(data: Any, name: str = "") -> Iterator[float]:
    """Numbers of a figure's data, but those whose name is of a time."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _numbers(value, str(key))
    elif isinstance(data, (list, tuple, np.ndarray)):
        for value in data:
            yield from _numbers(value, name)
    elif isinstance(data, (int, float, np.number, np.bool_)) and not TIMES.search(name):
        yield float(data)


def _cells(text: str) -> Iterator[float]:
    """Numbers of the Markdown tables in a text, but of columns that are times."""
    head: list[str] = []
    for line in text.splitlines():
        cells = line.split("|")[1:-1] if line.startswith("|") else []
        head = (head or cells) if cells else []
        for title, cell in zip(head, cells, strict=False):
            if not TIMES.search(title):
                yield from (float(x.strip("%").replace(",", "")) for x in NUMBER.findall(cell))


#: Prints the probe of a figure.
FIGURE = """
import json, sys
from bench.provenance import _of_figure
print("\\n" + json.dumps(_of_figure(sys.argv[1])))
"""


def _printed(*command: str) -> str:
    """Output of a small run."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        cwd=ROOT, env=os.environ | ALIKE, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return done.stdout


def _of_figure(name: str) -> Probe | None:
    if not ALIKE.items() <= os.environ.items():
        found = json.loads(_printed("-c", FIGURE, name).splitlines()[-1])
        return found and Probe(*found)
    from bench.figures.runner import Run, figures_of

    paper, _, figure = name.removeprefix("paper").partition("/")
    function = figures_of(int(paper))[figure].function
    assert function is not None
    return _sampled(list(_numbers(function(Run(f"{paper}/{figure}", True)).data)))


def _of_table(name: str) -> Probe | None:
    return _sampled(list(_cells(_printed("-m", *shlex.split(TABLES[name])))))


@cache
def _sources() -> str:
    """Digest of all code, and of what it is run with."""
    found = hashlib.sha256(f"{sys.version} {np.__version__}".encode())
    for folder in ("bench", "csrc", "dpfast"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".pyx", ".pxd", ".pxi", ".h"}:
                found.update(path.read_bytes())
    return found.hexdigest()


def probe_of(name: str) -> Probe | None:
    """Numbers of the small run of a result, made by the code of today.

    Parameters
    ----------
    name : str
        Such as "paper1/figure-8" or "unseen.md".

    Returns
    -------
    Probe or None
        None where there are none: its data are not here.
    """
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    if known.get("sources") != _sources():
        known = {"sources": _sources()}
    if name in known:
        return Probe(*known[name])
    found = (_of_figure if "/" in name else _of_table)(name)
    if found is not None:
        KNOWN.parent.mkdir(exist_ok=True)
        new = KNOWN.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({**known, name: found}))
        new.replace(KNOWN)
    return found


def keep(path: Path, text: str) -> None:
    """Store a table, with the numbers of its probe.

    Parameters
    ----------
    path : Path
    text : str
    """
    path.write_text(text, encoding="utf-8")
    if path.name in MEASURED:
        return
    found = probe_of(path.name)
    stamps = path.parent / STAMPS.name
    known = json.loads(stamps.read_text()) if stamps.exists() else {}
    known[path.name] = {"command": TABLES[path.name], "probe": found}
    stamps.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


class Stored(NamedTuple):
    """A stored result.

    Attributes
    ----------
    name : str
        Such as "paper1/figure-8" or "coverage.md".
    probe : Probe or None
        Numbers of its probe when it was stored; None if they were not.
    command : str or None
        What made them; None of a figure.
    seconds : float
        What the result took; 0 if unknown.
    """

    name: str
    probe: Probe | None
    command: str | None = None
    seconds: float = 0.0

    def state(self) -> tuple[bool, str]:
        """Whether it is old; why, or why nobody can tell, or nothing."""
        if self.name in MEASURED:
            return False, f"measured a machine: {_commit(self.name)}"
        if self.probe is None:
            return True, "stored without a probe"
        if "/" not in self.name and self.command != TABLES.get(self.name):
            return True, f"its probe was {self.command}"
        try:
            found = probe_of(self.name)
        except Exception as error:  # the others are still worth knowing
            return True, f"its small run fails: {error!r}"
        if found is None:
            return False, "not known here: its data are missing"
        other = self.probe.unlike(found)
        return bool(other), f"its small run gives other numbers: {other}" if other else ""


def stored() -> list[Stored]:
    """Every stored figure and table."""
    found = []
    for path in sorted((RESULTS / "figures").glob("paper*/*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        probe = Probe(*report["probe"]) if report.get("probe") else None
        found.append(Stored(f"{path.parent.name}/{path.stem}", probe, seconds=report["seconds"]))
    stamps = json.loads(STAMPS.read_text()) if STAMPS.exists() else {}
    tables = {name for name in TABLES if (RESULTS / name).exists()}
    for name in sorted({path.name for path in RESULTS.glob("*.md")} | tables):
        stamp = stamps.get(name, {})
        probe = Probe(*stamp["probe"]) if stamp.get("probe") else None
        found.append(Stored(name, probe, stamp.get("command")))
    return found


def _commit(name: str) -> str:
    """Commit and date of a table, where Git tells."""
    command = ["git", "log", "-1", "--format=%h, %cs", "--", f"bench/results/{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of an unknown commit"


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is old; with a time, draw such figures again."""
    parser = argparse.ArgumentParser(prog="python -m bench stale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="PART", help="default: all")
    parser.add_argument("--redraw", type=float, metavar="MINUTES", help="draw figures for so long")
    asked = parser.parse_args(argv)
    old, count = [], 0
    for one in stored():
        if asked.names and not any(part in one.name for part in asked.names):
            continue
        count += 1
        is_old, why = one.state()
        old += [one] * is_old
        if why:
            print(f"{one.name:<36} {why}", flush=True)
    print(f"{len(old)} of {count} stored results are old")
    if asked.redraw is None:
        return int(bool(old))
    from bench.figures.runner import main as draw

    end, failed = time.monotonic() + 60.0 * asked.redraw, 0
    for one in sorted(old, key=lambda one: one.seconds):
        paper, _, name = one.name.removeprefix("paper").partition("/")
        if name and time.monotonic() + one.seconds < end:
            failed += draw(["--paper", paper, name, "--jobs", "1"])
    return int(failed > 0)
