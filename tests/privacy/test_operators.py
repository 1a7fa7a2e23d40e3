"""The tool that makes generic mistakes: its files and tests exist, and its sample repeats."""

from __future__ import annotations

import json
import sqlite3

from tests.loops import each
from tests.privacy.operators import RELATED, ROOT, reasons, related_tests, sample, survivors


@each("file", RELATED)
def test_every_file_and_its_tests_exist(file):
    assert (ROOT / file).exists()
    assert related_tests(file) == list(RELATED[file])


def test_reasons_are_about_files_that_are_changed():
    for (file, line), reason in reasons().items():
        assert file in RELATED
        assert line
        assert len(reason.split()) > 3


def session(path):
    with sqlite3.connect(path) as book:
        book.execute("CREATE TABLE work_items (job_id TEXT)")
        book.execute(
            "CREATE TABLE mutation_specs (job_id TEXT, operator_name TEXT, start_pos_row INT, "
            "start_pos_col INT, occurrence INT)"
        )
        for k in range(50):
            book.execute("INSERT INTO work_items VALUES (?)", (f"job{k}",))
            book.execute("INSERT INTO mutation_specs VALUES (?, 'a', ?, 0, 0)", (f"job{k}", k))
    return path


def left(path):
    with sqlite3.connect(path) as book:
        return {row[0] for row in book.execute("SELECT job_id FROM work_items")}


def test_a_sample_follows_its_seed(tmp_path):
    first, second, third = (session(tmp_path / name) for name in "abc")
    assert sample(first, 7, 1) == sample(second, 7, 1) == 7
    assert left(first) == left(second)
    assert sample(third, 0, 1) == 50
    assert len(left(third)) == 50


def test_survivors_are_named_by_the_line_that_they_make():
    diff = "--- a\n+++ b\n-    return x + 1\n+    return x - 1\n"
    hint = "--- a\n+++ b\n-def f(x: int | str) -> None:\n+def f(x: int // str) -> None:\n"
    rows = [
        [{}, {"test_outcome": "survived", "diff": hint}],  # nothing evaluates it
        [{}, {"test_outcome": "survived", "diff": diff}],
        [{}, {"test_outcome": "killed", "diff": diff}],
        [{}, None],
    ]
    assert survivors("\n".join(json.dumps(row) for row in rows)) == ["return x - 1"]
