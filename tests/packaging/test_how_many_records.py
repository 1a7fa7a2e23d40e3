"""The page of how many records says what its script finds."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@cache
def script():
    spec = importlib.util.spec_from_file_location("how_many_records", DOCS / "how_many_records.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def stored():
    """Cells of the page's tables: name, coefficients, epsilon."""
    found = {}
    text = (DOCS / "how-many-records.md").read_text(encoding="utf-8")
    for name, body in re.findall(r"<!-- (.*?) -->\n(.*?)<!-- end -->", text, re.S):
        head, _, *rows = [line.strip("|").split("|") for line in body.strip().split("\n")]
        for row in rows:
            for title, cell in zip(head[1:], row[1:], strict=True):
                words = title.split()
                if words[:1] == ["epsilon"] and len(words) > 1:
                    key = name, int(row[0]), float(words[1])
                    found[key] = int(cell.replace(",", ""))
    return found


def test_every_cell_is_there_and_more_privacy_needs_more_records():
    loaded = script()
    wanted = {
        (f"{loss}, {kind}", p, epsilon)
        for loss in loaded.LOSSES
        for kind in ("ratio", "width")
        for p in loaded.COEFFICIENTS
        for epsilon in loaded.EPSILONS
    }
    assert set(stored()) == wanted
    for (name, p, epsilon), n in stored().items():
        larger = [other for other in loaded.EPSILONS if other > epsilon]
        assert all(stored()[name, p, other] <= 1.2 * n for other in larger)


@pytest.mark.filterwarnings("ignore::dpfast.errors.SimulationWarning")
@pytest.mark.parametrize(
    ("name", "p", "epsilon"),
    [
        ("log-cosh, ratio", 2, 0.1),  # a forecast
        pytest.param("logistic, ratio", 10, 0.1, marks=pytest.mark.slow),
        ("log-cosh, ratio", 2, 5.0),  # measured
        ("log-cosh, width", 5, 2.0),
    ],
)
def test_a_stored_cell_is_found_again(name, p, epsilon):
    """Seeded throughout: the same to a rounding step on every machine."""
    loss, kind = name.split(", ")
    ask = script().records_for_ratio if kind == "ratio" else script().records_for_width
    assert ask(loss, p, epsilon) == pytest.approx(stored()[name, p, epsilon], rel=0.11)
