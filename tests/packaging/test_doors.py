"""The page says of every function what it takes of ``dpfast.records``, as the functions do."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOORS = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "doors.py"))


def rows() -> dict[str, list[str]]:
    text = DOORS["PAGE"].read_text(encoding="utf-8")
    table = text.split(DOORS["MARKS"][0])[1].split(DOORS["MARKS"][1])[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert cells[0][1:] == [*DOORS["BESIDE"]]
    return {row[0]: row[1:] for row in cells[2:]}


def test_the_page_has_every_door():
    assert [*rows()] == [*DOORS["DOORS"]]


@pytest.mark.parametrize("door", DOORS["DOORS"])
def test_a_door_takes_what_the_page_says(door):
    """A ledger with nothing left answers for a door that takes it: refusals come first."""
    found = ["yes" if DOORS["takes"](door, beside) else "-" for beside in DOORS["BESIDE"]]
    assert found == rows()[door]
