"""The experiments of paper 3 run, at tiny sizes, and their verdicts follow from their numbers."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("matplotlib")
runner = pytest.importorskip("bench.figures.runner")
simulated = pytest.importorskip("bench.figures.paper3.simulated")

#: What samples of at most 640 records a coefficient can say: the recursion begins after the few
#: hundred that were tried, its error is not small yet, and algorithm 5 certifies nothing.
TINY = {"certificates": "in part", "figure-1": "in part", "figure-3": "no"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["certificates", "figure-1", "figure-3"])
def test_a_figure_runs(name, tmp_path):
    report = runner.draw(3, name, True, tmp_path, False)
    assert report["reproduced"] == TINY[name]
    assert (tmp_path / "paper3" / f"{name}.png").stat().st_size > 5000


@pytest.fixture
def stored(repository):
    folder = repository / "bench" / "results" / "figures" / "paper3"
    return lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def test_the_verdict_of_figure_2_follows_from_the_stored_numbers(stored):
    report = stored("figure-2")
    found, dimensions = report["data"], (5, 10, 20)
    assert simulated.judged(found, dimensions) == report["reproduced"]
    entry = found["d=10"][simulated.calls.LOCAL]
    entry["error"] = [10.0 * error for error in entry["error"]]
    assert simulated.judged(found, dimensions) == "no"


def test_the_verdict_of_figure_3_follows_from_the_stored_numbers(stored):
    report = stored("figure-3")
    found, dimensions = report["data"], (5, 10, 20)
    assert simulated.compared(found, dimensions)[0] == report["reproduced"]
    gap = found["gap at norm 1"]
    for factors, verdict in (((10.0, 1.0, 1.0), "in part"), ((10.0, 10.0, 10.0), "no")):
        found["gap at norm 1"] = [one * by for one, by in zip(gap, factors, strict=True)]
        assert simulated.compared(found, dimensions)[0] == verdict
