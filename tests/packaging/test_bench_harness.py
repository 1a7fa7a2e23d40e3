"""The bench command: its table, its measurements, its suites."""

from __future__ import annotations

import numpy as np
import pytest

from bench import instructions, public_tables, study
from bench.__main__ import HERE, index, main
from bench.harness import compare, interleaved
from bench.instructions import CASES, last_counts, series, since_tag, worse
from bench.table import rows_of, seconds_text, table
from tests.loops import each


def test_the_index_has_every_suite_and_every_study(capsys):
    """A suite is a folder of cases, a study a module with a command of its own."""
    suites = {path.parent.name for path in HERE.glob("*/test_*_bench.py")}
    assert {one.name for one in index().values() if one.module == "suite"} == suites
    modules = {one.module.partition(":")[0] for one in index().values()} - {"suite"}
    written = {
        ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
        for path in HERE.rglob("*.py")
        if "\nmain = study(" in path.read_text(encoding="utf-8")
    }
    assert modules == written
    assert main([]) == 0 and "PPML" in capsys.readouterr().out


def test_an_unknown_name_is_refused(capsys):
    assert main(["no-such-suite"]) == 2
    told = capsys.readouterr()
    assert "kernels" in told.out and "no-such-suite" in told.err


def test_a_suite_that_measures_nothing_fails(monkeypatch, capsys):
    monkeypatch.setattr("bench.__main__.measured", lambda *args, **kwargs: (0, {"benchmarks": []}))
    assert main(["fits"]) == 1 and "nothing was measured" in capsys.readouterr().err
    assert main(["fits", "-k", "none"]) == 1 and "'none'" in capsys.readouterr().err


@each(
    ("seconds", "text"),
    [(12.345, "12.3 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 us"), (7e-9, "7 ns"), (1.0, "1 s")],
)
def test_durations_have_units(seconds, text):
    assert seconds_text(seconds) == text


def test_table_shows_every_column_and_dashes():
    report = {
        "benchmarks": [
            {"name": "test_a", "stats": {"median": 0.002}, "extra_info": {}},
            {
                "name": "test_b",
                "stats": {"median": 1.0},
                "extra_info": {
                    "case": "gradient",
                    "n": 1_000_000,
                    "p": 10,
                    "seconds": 0.5,
                    "reference_seconds": 2.0,
                    "speedup": 4.0,
                    "limit": "34 GB/s",
                    "fraction": 0.85,
                    "accuracy": 1e-15,
                },
            },
        ]
    }
    heading, _, first, second = table(rows_of(report)).splitlines()
    assert heading.split() == [
        "case", "n", "p", "seconds", "reference", "s", "speedup", "limit", "fraction", "accuracy",
    ]  # fmt: skip
    assert first.split() == ["test_a", "-", "-", "2", "ms", "-", "-", "-", "-", "-"]
    assert second.split() == [
        "gradient", "1,000,000", "10", "500", "ms", "2", "s", "4.0x", "34", "GB/s", "0.85",
        "1.0e-15",
    ]  # fmt: skip


def test_a_study_prints_its_rows_and_stores_its_page(tmp_path, monkeypatch, capsys):
    def measure(asked):
        for k in range(asked.runs):
            yield {"n": 1000 * k, "share": np.float64(0.98765), "each": np.array([0.5, np.nan])}
        yield "A sentence."

    monkeypatch.setattr(study, "RESULTS", tmp_path)
    command = study.study("page", measure, "A title\n\nWords.\n", runs=2, quick=1, mu=(1.0, 2.0))
    assert command(["--quick", "--store", "--mu", "3"]) == 0 and not [*tmp_path.iterdir()]
    assert capsys.readouterr().out == "| 0 | 0.988 | 0.5 - |\nA sentence.\n"
    assert command(["--store"]) == 0
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    table = "| n | share | each |\n|---|---|---|\n| 0 | 0.988 | 0.5 - |\n| 1,000 | 0.988 | 0.5 - |"
    assert text.startswith("# A title\n\nWords.\n\n`python -m bench page")
    assert f"{table}\n\nA sentence.\n\n*Stored" in text
    with pytest.raises(SystemExit):
        command(["--store", "--only", "cells"])
    assert study.study("page", lambda asked: [], "")([]) == 1


def test_public_tables_are_read_as_they_are_listed(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    every = public_tables.tables("linear", "instruments")
    assert len(every) == 30 and {len(one.groups) for one in every} == {1, 3}
    (tmp_path / "own.csv").write_text("y,a,b\n1,2,u\n2,3,v\n0,4,u\n4,,v\n", encoding="utf-8")
    monkeypatch.setenv("DPFAST_DATA", str(tmp_path))
    own = public_tables.Table("own", "own.csv", "y", (("a", "a^2", "b=u"),), True, 1.0)
    absent = own._replace(source="none.csv")
    assert [*public_tables.available([own, absent])] == [own]
    X, y = public_tables.read(own)
    assert X.tolist() == [[2.0, 4.0, 1.0], [3.0, 9.0, 0.0]]
    np.testing.assert_array_equal(y, np.log([1.0, 2.0]))


def test_interleaving_alternates():
    order = []
    calls = {name: (lambda name=name: order.append(name)) for name in "ab"}
    medians = interleaved(calls, rounds=5, budget=0.0)
    assert set(medians) == {"a", "b"}
    assert "".join(order[-10:]) == "ab" * 5


def test_compare_fills_the_row(benchmark):
    compare(
        benchmark,
        lambda: sum(range(100)),
        case="sum",
        n=100,
        reference=lambda: 0,
        rounds=2,
        limit="x",
    )
    info = benchmark.extra_info
    assert (info["case"], info["n"], info["limit"]) == ("sum", 100, "x")
    assert info["speedup"] == info["reference_seconds"] / info["seconds"]
    assert "p" not in info


def test_a_slowdown_must_exceed_the_noise():
    from bench.compare import judge

    steady = [1.0, 1.01] * 5
    assert not judge("same", steady, steady).failed
    assert judge("slower", steady, [1.3, 1.31] * 5).failed
    assert not judge("a little slower", steady, [1.1, 1.11] * 5).failed
    assert not judge("noisy", [1.0, 1.2] * 5, [1.3, 1.5] * 5).failed


def test_probes_run_and_are_measured():
    from bench.probes import measure, probes

    found = dict(probes())
    assert len(found) > 8
    assert 0 < measure(found["Newton direction, p = 4"]) < 1e-2


@each("name", CASES)
def test_what_instructions_are_counted_of_runs(name):
    """As it is written to an interpreter of its own, under valgrind."""
    exec(f"{CASES[name].setup}{CASES[name].call}\n", {})


def test_instructions_are_compared_with_the_last_of_the_same_compiler():
    lines = [
        {"commit": "a", "built": "cc 1", "counts": {"x": 100, "y": 50}},
        {"commit": "b", "built": "cc 2", "counts": {"x": 90}},
        {"commit": "c", "built": "cc 1", "counts": {"x": 110}},
    ]
    old = last_counts(lines, "cc 1")
    assert old == {"x": 110, "y": 50} and last_counts(lines, "cc 3") == {}
    assert worse({"x": 113, "y": 51, "z": 1}, old) == []
    assert worse({"x": 114, "y": 52}, old) == ["x", "y"]


def test_every_line_of_the_series_is_of_cases_there_are():
    lines = series()
    assert lines
    for line in lines:
        assert line["built"] and line["counts"] and all(n > 0 for n in line["counts"].values())
    assert set(lines[-1]["counts"]) <= set(CASES)


def test_small_steps_since_the_last_tag_add_up(monkeypatch):
    """Three steps of 2%: none is refused by the last line, and all of them by the tag's."""
    lines = [
        {"commit": name, "built": "cc", "counts": {"case": count}}
        for name, count in (("a", 100), ("b", 102), ("c", 104))
    ]
    told = {"describe": "v1", "rev-list": "a\nolder"}
    monkeypatch.setattr(instructions, "_git", lambda command, *_: told[command])
    new = {"case": 106}
    assert not worse(new, last_counts(lines, "cc"))
    assert since_tag(lines, "cc") == {"case": 100}
    assert worse(new, since_tag(lines, "cc")) == ["case"]
    told["describe"] = ""
    assert since_tag(lines, "cc") == {}
