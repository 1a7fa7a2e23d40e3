"""Stored results say where they come from, and `bench evidence` how to have them again."""

from __future__ import annotations

import json
import re

import pytest

from bench import evidence, stored
from bench.stored import RESULTS, ROOT, told

#: The first is brought up to date bug by bug; the series has the commit in each of its lines.
OTHERWISE = {"mutants.md", "instructions.jsonl"}


def test_every_stored_result_says_commit_command_date_and_versions():
    pages = [*RESULTS.glob("*.md"), ROOT / "docs" / "replicability.md"]
    stamps = {path.name: told(path.read_text("utf-8")) for path in pages}
    stamps |= {
        f"{path.parent.name}/{path.stem}": json.loads(path.read_text("utf-8"))["stored"]
        for path in RESULTS.glob("figures/paper*/*.json")
    }
    for name in OTHERWISE & set(stamps):
        del stamps[name]
    for name, one in stamps.items():
        assert set(one) == {"commit", "command", "date", "versions"} and all(one.values()), name
        assert re.fullmatch(r"[0-9a-f]{7,}(\+changes)?", one["commit"]), name
        assert re.fullmatch(r"2\d{3}-\d\d-\d\d", one["date"]), name
        assert "python -m bench" in one["command"], name
    assert {one.name for one in evidence.results()} == set(stamps)


def test_a_page_ends_with_its_stamp(tmp_path, monkeypatch):
    started = ["/somewhere/python", "-m", "bench.counts", "--data", "/home/someone", "--runs", "2"]
    monkeypatch.setattr(stored.sys, "orig_argv", started)
    stored.keep(tmp_path / "counts.md", "| a |\n|---|\n| 1 |\n")
    text = (tmp_path / "counts.md").read_text("utf-8")
    assert text.startswith("| a |\n|---|\n| 1 |\n\n*Stored ") and "someone" not in text
    assert told(text)["command"] == "python -m bench.counts --data FOLDER --runs 2"
    assert "numpy " in told(text)["versions"] and told("| a |") == {}


def test_a_table_takes_the_place_of_the_one_in_its_page(tmp_path):
    page = tmp_path / "releases.md"
    page.write_text("# Head\n\n```\nold\n```\n\nNotes.\n", encoding="utf-8")
    for _ in range(2):
        stored.put(page, "case  seconds")
        text = page.read_text(encoding="utf-8")
        assert text.startswith("# Head\n\n```\ncase  seconds\n```\n\nNotes.\n\n*Stored ")
        assert text.count("*Stored ") == 1


@pytest.fixture
def two(monkeypatch):
    """Two results, the first of which these sources have stored; what was started."""
    some = [
        evidence.Result(name, name, 1.5, {"commit": commit})
        for name, commit in (("counts", "now"), ("trees", "before"))
    ]
    runs = []

    class Done:
        returncode, stderr = 1, "line\nlast line"

    def run(command, **options):
        runs.append(command[-1])
        return Done

    monkeypatch.setattr(evidence, "results", lambda: some)
    monkeypatch.setattr(evidence, "data_folder", lambda: ROOT)
    monkeypatch.setattr(evidence, "stamp", lambda: {"commit": "now"})
    monkeypatch.setattr(evidence.subprocess, "run", run)
    return runs


def test_evidence_resumes_says_its_hours_and_goes_on_after_a_failure(two, capsys):
    assert evidence.main(["--list"]) == 0 and two == []
    assert "1 of 2 stored results are left at commit now: some 1.5 hours" in capsys.readouterr().out
    assert evidence.main([]) == 1 and two == ["trees"]
    assert "last line" in capsys.readouterr().out
    assert evidence.main(["--quick"]) == 1 and two[1:] == ["--quick", "--quick"]
    assert evidence.main(["counts"]) == 0 and len(two) == 3


def test_evidence_is_of_a_commit(two, monkeypatch, capsys):
    monkeypatch.setattr(evidence, "stamp", lambda: {"commit": "now+changes"})
    assert evidence.main([]) == 2 and two == []
    assert "commit them first" in capsys.readouterr().err
    monkeypatch.setattr(evidence, "stamp", lambda: {"commit": "now"})
    monkeypatch.setattr(evidence, "data_folder", lambda: None)
    assert evidence.main([]) == 2 and two == []
    assert "DPFAST_DATA" in capsys.readouterr().err
