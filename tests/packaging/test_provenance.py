"""Stored results say which code they ran, and `bench stale` what is older than its code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bench import provenance
from bench.provenance import ROOT, Stored, closure, digest, stored
from tests.loops import each

#: Stored before there were digests, and not drawn again since: the list only gets shorter.
WITHOUT = {
    "paper2": "comparison lower-bounds rates",
    "paper3": "certificates figure-1 figure-2 figure-3 figure-4 figure-5 figure-6 figure-7",
    "paper4": "figure-1 figure-2-noise figure-2-svm-ct figure-2-svm-houses figure-5",
}


def said(text):
    return "\0".join(provenance._said(ast.parse(text)))


@pytest.mark.parametrize(
    "other",
    [
        "def f(x):\n    return x + 1\n",
        'def f(x):\n    """Other words."""\n    return x + 1  # a comment\n',
        '"""A module."""\n\n\ndef f(\n    x,\n):\n    return (x + 1)\n',
    ],
)
def test_words_and_layout_do_not_count(other):
    assert said(other) == said('def f(x):\n    """Words."""\n\n    return x + 1\n')


@each("other", ["return x + 2", "return x - 1", "return 1 + x", "return +x + 1"])
def test_what_is_computed_counts(other):
    assert said(f"def f(x):\n    {other}\n") != said("def f(x):\n    return x + 1\n")


def names(path):
    return {str(one.relative_to(ROOT)) for one in closure(ROOT / path)}


def test_the_closure_follows_names_to_the_modules_they_come_from():
    found = names("bench/figures/paper2/comparison.py")
    assert "bench/figures/paper2/rivals.py" in found  # imported by a module it imports
    assert "dpfast/optimize/nonconvex/spider.py" in found  # from dpfast import Spider
    assert "dpfast/nonconvex/minimize.py" in found  # dpfast.minimize
    assert "bench/rivals/literature/amplification.py" in found  # within a function
    assert {"csrc/records.pyx", "csrc/records/gradient.h", "csrc/losses/robust.h"} <= names(
        "bench/figures/paper1/comparisons.py"
    )
    # what these figures do not call is not theirs
    assert not any("bayesopt" in one or "effects" in one for one in found)
    assert "bench/figures/runner.py" not in found


def test_a_change_of_what_is_called_makes_a_digest_another(monkeypatch):
    path = ROOT / "bench/figures/paper2/comparison.py"
    before, real = digest(path), provenance._print
    monkeypatch.setattr(provenance, "_print", lambda one: real(one) + "!" * ("spider" in one.name))
    assert digest(path) != before
    other = ROOT / "bench/figures/paper4/problems.py"  # which has nothing to do with it
    changed = digest(other)
    monkeypatch.setattr(provenance, "_print", real)
    assert digest(other) == changed


def test_a_stored_result_knows_whether_it_is_old(monkeypatch, tmp_path):
    monkeypatch.setattr(provenance, "STAMPS", tmp_path / "stamps.json")
    source = ROOT / "bench" / "schedules.py"
    provenance.keep(tmp_path / "schedules.md", "a table\n", str(source))
    assert (tmp_path / "schedules.md").read_text() == "a table\n"
    found = {one.name: one for one in stored()}["schedules.md"]
    assert found.state == ""
    assert Stored("a", source, "0" * 16, 1.0).state == "older than its code"
    assert "before" in Stored("a", source, None, 1.0).state
    gone = tmp_path / "gone.py"
    assert "nothing" in Stored("a", gone, found.code, 1.0).state


def test_no_figure_is_without_a_digest_but_those_named_above():
    without = {one.name for one in stored() if "/" in one.name and one.code is None}
    known = {f"{paper}/{name}" for paper, names in WITHOUT.items() for name in names.split()}
    assert without <= known


def test_stored_results_have_a_source():
    """That is of this code: `python -m bench stale` says which are older, and draws them."""
    found = stored()
    assert found and all(one.code is None or (one.source and one.source.exists()) for one in found)


def test_a_benchmark_that_stores_is_the_code_of_its_result(tmp_path, monkeypatch):
    """Not the file of the function that stores it, which no change of a fit touches."""
    from argparse import Namespace

    from bench.rivals import tables

    kept = []
    monkeypatch.setattr(tables, "keep", lambda path, text, source: kept.append(source))
    for name in ("bench.tables --target", "bench.rivals"):
        tables.store(name, Namespace(store=True, runs=1), tmp_path / "x.md", "text")
    assert [Path(one).name for one in kept] == ["tables.py", "__main__.py"]
    assert Path(kept[0]).parent.name == "bench"
