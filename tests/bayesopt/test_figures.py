"""The experiments of paper 4 run, at tiny sizes, and say what they found."""

from __future__ import annotations

import json

import pytest

from bench.figures import runner

pytest.importorskip("matplotlib")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["figure-3", "figure-4"])
def test_experiments_with_known_gradients_run(tmp_path, name):
    code = runner.main(["--paper", "4", name, "--quick", "--jobs", "1", "--out", str(tmp_path)])
    assert code == 0
    report = json.loads((tmp_path / "paper4" / f"{name}.json").read_text())
    assert report["reproduced"] in runner.VERDICTS
    assert report["statement"]
    assert (tmp_path / "paper4" / f"{name}.png").stat().st_size > 1000


@pytest.mark.slow
def test_every_experiment_runs(tmp_path):
    assert runner.main(["--paper", "4", "--quick", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert len(list((tmp_path / "paper4").glob("*.json"))) == 9


def test_stored_reports_name_what_they_claim():
    """The committed reports belong to the figures there are, and none failed to run."""
    stored = sorted((runner.RESULTS / "paper4").glob("*.json"))
    figures = runner.figures_of(4)
    assert {path.stem for path in stored} == set(figures)
    for path in stored:
        report = json.loads(path.read_text())
        assert not report["quick"]
        assert report["statement"] == figures[path.stem].statement
