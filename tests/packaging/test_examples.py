"""The scripts in `examples` run as they stand, and print what they are about."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))

#: Of each script, what it has to print, and the files it has to leave.
PRINTS = {
    "csv_to_table.py": (["Together: 0.848528-GDP", "left for later: GDP(mu=0.43"],
                        ["table.md", "table.tex", "wages.csv", "wages.ledger"]),
    "first_regression.py": (["effect of the dose: between 0.", "yes  the charges add up"],
                            ["fit.html"]),
    "inside_a_package.py": (["the package keeps its promises"], []),
    "logistic_regression.py": (["odds ratio of the treatment: ", "refused: resid has a value"],
                               []),
    "tune_boosting.py": (["half of the wages are predicted to a factor of 1.", "GDP(mu=0.44721"],
                         []),
    "survival.py": (["simulated, log hazard ratios 0.7 and -0.4"], []),
}  # fmt: skip


def test_every_script_is_swept_and_listed():
    assert sorted(PRINTS) == SCRIPTS
    listed = re.findall(r"`(\w+\.py)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == SCRIPTS


@pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == "tune_boosting.py" else [])
    for name in SCRIPTS
])  # fmt: skip
def test_an_example_runs(name, tmp_path, monkeypatch, capsys):
    """Noise is genuine, and what is looked for does not depend on it."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    said = capsys.readouterr().out
    words, files = PRINTS[name]
    for word in words:
        assert word in said, said
    assert sorted(path.name for path in tmp_path.iterdir()) == files
