"""The catalogue of planted privacy bugs is in order; ``make mutants`` runs all of it."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.loops import each
from tests.privacy.mutant_catalogue import MUTANTS, Mutant
from tests.privacy.mutant_report import (
    REPORT,
    Verdict,
    fingerprint,
    killer_name,
    markdown,
    stored,
    updated,
    without_row,
)
from tests.privacy.mutants import ROOT, BrokenRun, mutated, table

ROWS = stored(ROOT / REPORT)

CLEAN = ("tests/privacy/test_mutants.py",)


def test_there_are_enough_and_each_has_a_name():
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert len({mutant.edits for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.name.replace("-", "").isalnum() and mutant.name.islower()


@each("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_applies_exactly_once(mutant):
    """Whoever changes a line that a mutant replaces brings its pattern along."""
    text = (ROOT / mutant.path).read_text(encoding="utf-8")
    changed = mutated(text, mutant)
    assert changed != text
    tried = ROWS.get(mutant.name, ("", ""))[1] == fingerprint(mutant)  # and could be read then
    if mutant.path.endswith(".py") and not tried:
        ast.parse(changed)


@each("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_expected_to_notice_exist(mutant):
    assert mutant.tests
    for selection in mutant.tests:
        path, _, name = selection.partition("::")
        assert (ROOT / path).exists(), path
        assert path not in CLEAN
        assert not name or f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), selection


@each("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_test_that_noticed_is_still_there(mutant):
    path, _, name = ROWS[mutant.name].killer.partition("::")
    if name:  # others are noticed by the build
        text = (ROOT / "tests" / path).read_text(encoding="utf-8")
        assert f"def {name.removesuffix(' (not expected)')}(" in text


@pytest.mark.parametrize("text", ["x = 2\n", "x = 1\nx = 1\n"])
def test_a_pattern_that_does_not_apply_once_is_an_error(text):
    mutant = Mutant("m", "b", "p.py", ("tests",), (("x = 1", "x = 3"),))
    with pytest.raises(BrokenRun, match=r"places in p\.py"):
        mutated(text, mutant)


def test_reports_name_killers_and_survivors():
    mutant = MUTANTS[0]
    killed = Verdict(mutant, "tests/a.py::test_b[x-y]", 1.0)
    assert killer_name(killed) == "tests/a.py::test_b"
    assert "not expected" in killer_name(killed._replace(fell_back=True))
    survived = Verdict(mutant, "", 1.0, True)
    assert killer_name(survived) == "SURVIVED"
    assert killer_name(survived._replace(problem="no build")) == "BROKEN"
    assert table([killed, survived]).count(mutant.name) == 2
    other = survived._replace(mutant=MUTANTS[1])
    assert "1 of 2 killed" in markdown(MUTANTS, updated({}, [killed, other]))


def test_a_run_of_some_keeps_the_rows_of_the_others(tmp_path):
    """What is written is read back; a bug that was changed counts as not tried."""
    first, second = MUTANTS[:2]
    rows = updated({}, [Verdict(first, "tests/a.py::test_b[x | y]", 1.0)])
    path = tmp_path / "report.md"
    path.write_text(markdown(MUTANTS, rows), encoding="utf-8")
    assert stored(path) == rows
    assert stored(tmp_path / "none.md") == {}
    assert without_row(MUTANTS[:2], stored(path)) == [second]
    both = updated(stored(path), [Verdict(second, "tests/c.py::test_d", 1.0)])
    assert without_row(MUTANTS[:2], both) == []
    changed = first._replace(edits=(("a", "b"),))
    assert without_row([changed, second], both) == [changed]


@each("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_bug_was_tried_and_noticed(mutant):
    """``python -m tests.privacy.mutants --untried --write`` after a bug is added or changed."""
    assert mutant.name in ROWS, "not tried yet"
    assert ROWS[mutant.name].fingerprint == fingerprint(mutant), "changed since it was tried"
    assert ROWS[mutant.name].killer not in ("SURVIVED", "BROKEN")


@pytest.mark.slow
def test_a_planted_bug_is_noticed_by_an_expected_test(tmp_path):
    """From the copy of the tree to the exit code; builds the extensions, about a minute."""
    name = "uniform-shares-exceed-the-total"
    command = [sys.executable, "-m", "tests.privacy.mutants", "--only", name, "--cache", tmp_path]
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 killed" in done.stdout
    assert "test_planned_charges_never_exceed_the_total" in done.stdout
    assert "not expected" not in done.stdout
