"""The stored report of planted bugs: one row a bug, brought up to date run by run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.privacy.mutant_catalogue import Mutant

REPORT = Path("bench/results/mutants.md")


class Verdict(NamedTuple):
    """What became of one mutant.

    ``killer`` is the first test that failed, empty if none did; ``fell_back`` says that it was
    not among those expected; ``problem`` why the mutant could not be tried.
    """

    mutant: Mutant
    killer: str
    seconds: float
    fell_back: bool = False
    problem: str = ""


class Row(NamedTuple):
    """What the report says of a bug: who noticed, and the fingerprint of what was planted."""

    killer: str
    fingerprint: str


def fingerprint(mutant: Mutant) -> str:
    """Changes when the planted text does, and then the row no longer counts.

    The file's path is left out: a file that only moves keeps the verdicts on its bugs.
    """
    text = "\0".join(part for edit in mutant.edits for part in edit)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def killer_name(verdict: Verdict) -> str:
    """The killer without its parameters, marked if it was not among those expected."""
    name = verdict.killer.split("[")[0] or ("BROKEN" if verdict.problem else "SURVIVED")
    return f"{name} (not expected)" if verdict.killer and verdict.fell_back else name


def stored(path: Path) -> dict[str, Row]:
    """Rows of the stored report by the mutant's name; none if there is no report."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split(" | ") for line in lines if line.startswith("| `")]
    plain = [[cell.strip(" `") for cell in row] for row in cells]
    return {row[0]: Row(row[-2], row[-1]) for row in plain}


def updated(rows: Mapping[str, Row], verdicts: Iterable[Verdict]) -> dict[str, Row]:
    """The rows with what a run found."""
    found = {
        v.mutant.name: Row(killer_name(v).replace("tests/", "", 1), fingerprint(v.mutant))
        for v in verdicts
    }
    return {**rows, **found}


def without_row(mutants: Iterable[Mutant], rows: Mapping[str, Row]) -> list[Mutant]:
    """Mutants that no run has tried in their present form."""
    return [m for m in mutants if m.name not in rows or rows[m.name][1] != fingerprint(m)]


def markdown(mutants: Iterable[Mutant], rows: Mapping[str, Row]) -> str:
    """The report: those of ``mutants`` that have a row, in their order."""
    shown = [(m, rows[m.name]) for m in mutants if m.name in rows]
    caught = [row.killer for _, row in shown if row.killer not in ("SURVIVED", "BROKEN")]
    lines = [
        "# Planted privacy bugs and the tests that notice them",
        "",
        f"`make mutants`: {len(caught)} of {len(shown)} killed, by {len(set(caught))} different "
        "tests. Each row names the first test that fails; others may fail as well. The last column "
        "tells whether a bug is still the one that was tried.",
        "",
        "| name | bug | where | killed by | planted |",
        "|---|---|---|---|---|",
    ]
    for m, row in shown:
        lines.append(f"| `{m.name}` | {m.bug} | `{m.path}` | `{row.killer}` | {row.fingerprint} |")
    return "\n".join(lines) + "\n"
