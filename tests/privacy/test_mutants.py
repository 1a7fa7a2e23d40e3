"""The catalogue of planted privacy bugs is in order; ``make mutants`` runs all of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests import mutations
from tests.loops import each
from tests.privacy import mutants
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
from tests.privacy.mutants import ROOT, BrokenRun, mutated, stored_verdicts, table

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


@pytest.mark.parametrize(("code", "killed"), [(0, 0), (1, 1), (-9, 1), (None, 1), (3, 0), (4, 0)])
def test_a_stored_killer_has_noticed_only_if_it_failed(tmp_path, monkeypatch, code, killed):
    """Not where it passes, is not found, or could not begin; the file is as it was afterwards."""
    mutant = Mutant("m", "b", "dpfast/p.py", ("tests",), (("x = 1", "x = 2"),))
    files = {"dpfast/p.py": "x = 1\n", "output.txt": "why"}
    row = updated({}, [Verdict(mutant, "tests/a.py::test_b[c]", 1.0, fell_back=True)])
    for path, text in (files | {str(REPORT): markdown([mutant], row)}).items():
        (tmp_path / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / path).write_text(text, encoding="utf-8")

    def tried(tree, tests):
        assert tests == ("tests/a.py::test_b",) and (tree / "dpfast/p.py").read_text() == "x = 2\n"
        return code

    monkeypatch.setattr(mutants, "ROOT", tmp_path / "root")
    monkeypatch.setattr(mutations, "exit_code", tried)
    monkeypatch.setattr(mutations, "warm", lambda: None)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    (found,) = stored_verdicts([mutant], tmp_path / "tree")
    assert bool(found.killer) == killed and bool(found.problem) == (code in (3, 4))
    assert (tmp_path / "tree" / "dpfast" / "p.py").read_text() == "x = 1\n"


def test_a_night_builds_a_sixth_of_the_bugs_in_c():
    """Six nights try each of them once, and no bug in Python."""
    command = [sys.executable, "-m", "tests.privacy.mutants", "--compiled", "--list"]
    nights = [
        subprocess.run(
            [*command, "--sixth", str(sixth)], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for sixth in range(6)
    ]
    compiled = [f"{m.name}: {m.bug}" for m in MUTANTS if m.path.startswith("csrc/")]
    assert sorted(line for night in nights for line in night) == sorted(compiled)
    assert len(compiled) >= 24 and max(map(len, nights)) <= len(compiled) // 6 + 1


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--stored"], ["--cache"]], ids=str)
def test_a_planted_bug_is_noticed_by_an_expected_test(tmp_path, how):
    """From the copy of the tree to the exit code; one builds the extensions, about a minute."""
    name, how = "uniform-shares-exceed-the-total", how + [tmp_path] * (how == ["--cache"])
    command = [sys.executable, "-m", "tests.privacy.mutants", "--only", name, *how]
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 killed" in done.stdout
    assert "test_planned_charges_never_exceed_the_total" in done.stdout
    assert "not expected" not in done.stdout
