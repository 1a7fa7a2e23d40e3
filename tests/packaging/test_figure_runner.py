"""The runner of the papers' experiments."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.figures import runner


@pytest.fixture
def one_figure(monkeypatch):
    monkeypatch.setattr(runner, "FIGURES", {})
    monkeypatch.setattr(runner, "papers", lambda: [9])

    @runner.Figure(paper=9, name="figure-1", title="a title", statement="a statement")
    def figure_1(run):
        value = run.rng("x").normal(size=3)
        rows = run.sweep((1, 2, 3), 4, lambda x, k: {"several": x + k, "one": x})
        rows = {"several": rows["several"].T, "one": rows["one"][:, 0]}
        plot = [
            runner.Panel((1, 2, 3), rows, {"xlabel": "n", "title": "a"}, "xy", {"one": "ks--"}),
            runner.Panel(["a", "b", "c"], {"one": value}, at={"": 0.0}, spread={"one": value}),
        ]
        return runner.Outcome({"value": value, "n": np.int64(3)}, "in part", "a remark", plot)

    return figure_1


def test_a_figure_leaves_a_seeded_report(one_figure, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    reports = []
    for folder in ("a", "b"):
        assert runner.main(["--paper", "9", "--jobs", "1", "--out", str(tmp_path / folder)]) == 0
        reports.append(json.loads((tmp_path / folder / "paper9" / "figure-1.json").read_text()))
        assert (tmp_path / folder / "paper9" / "figure-1.png").stat().st_size > 0
    assert reports[0]["data"] == reports[1]["data"]
    assert len(reports[0]["data"]["value"]) == 3
    assert reports[0]["stored"]["command"] == "python -m bench figures --paper 9 figure-1"
    assert reports[0]["statement"] == "a statement" and reports[0]["reproduced"] == "in part"
    assert "in part" in capsys.readouterr().out


def test_an_unknown_figure_is_refused(one_figure, capsys):
    with pytest.raises(SystemExit):
        runner.main(["--paper", "9", "figure-2"])
    assert "figure-1" in capsys.readouterr().err


def test_a_verdict_is_one_of_the_known_ones():
    with pytest.raises(ValueError, match="in part"):
        runner.Outcome({}, "maybe", "")


def test_the_data_folder_can_be_named(monkeypatch, tmp_path):
    monkeypatch.setenv("DPFAST_DATA", str(tmp_path))
    assert runner.data_folder() == tmp_path
    monkeypatch.setenv("DPFAST_DATA", str(tmp_path / "absent"))
    assert runner.data_folder() is None
