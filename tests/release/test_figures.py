"""The experiments of paper 3 run, at tiny sizes."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
runner = pytest.importorskip("bench.figures.runner")


@pytest.mark.parametrize("name", ["certificates", "figure-1", "figure-3"])
def test_a_figure_runs(name, tmp_path):
    report = runner.draw(3, name, True, tmp_path, False)
    assert report["reproduced"] == "yes"
    assert (tmp_path / "paper3" / f"{name}.png").stat().st_size > 5000
