"""The page on the architecture: its pictures are of this source, and `fit` goes the drawn way."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import dpfast
from tests.test_architecture import FILES, dpfast_imports, module_of, name_of, room_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", DOCS / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.imports = cache(module.imports)  # of which every picture asks again
    return module


def test_every_picture_of_the_page_is_drawn(pictures, tmp_path):
    pictures.draw(tmp_path)
    wanted = set(re.findall(r"\(pictures/(.*?)\)", PAGE))
    assert {path.name for path in tmp_path.iterdir()} == wanted
    for path in tmp_path.iterdir():
        ElementTree.parse(path)  # well-formed


def test_the_rooms_and_arrows_are_those_of_the_imports(pictures):
    """Two readers of the imports, the house's test and the picture's, agree."""
    graph = {}
    for path in FILES:
        room = room_of(name_of(path))
        if room and not room.startswith("__"):
            used = {room_of(module) for module in dpfast_imports(path)} - {room, ""}
            graph.setdefault(room, set()).update(used)
    assert pictures.imports() == graph
    svg = pictures.rooms_svg()
    assert set(re.findall(r"font-weight='bold' text-anchor='middle'>(\w+)<", svg)) == set(graph)
    drawn = set(re.findall(r"<title>(\w+) imports (\w+)</title>", svg))
    assert drawn <= {(room, other) for room in graph for other in graph[room]}

    def closure(edges):
        reached = {room: {b for a, b in edges if a == room} for room in graph}
        for middle in graph:
            for room in graph:
                if middle in reached[room]:
                    reached[room] |= reached[middle]
        return reached

    assert closure(drawn) == closure({(room, other) for room in graph for other in graph[room]})
    height = pictures.layers(graph)
    assert all(height[room] > height[other] for room in graph for other in graph[room])


def test_no_box_covers_another(pictures):
    boxes = [
        tuple(map(float, found))
        for found in re.findall(
            r"<rect x='([\d.]+)' y='([\d.]+)' width='(\d+)' height='(\d+)'", pictures.rooms_svg()
        )
    ]
    assert len(boxes) == len(pictures.rooms())
    for i, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, *_ in boxes[:i]:
            assert abs(x - other_x) >= width or abs(y - other_y) >= height


def found(name: str) -> object:
    """What a station's name stands for."""
    module = module_of(f"dpfast.{name}")
    thing: object = importlib.import_module(module)
    for part in f"dpfast.{name}".removeprefix(module).split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def codes(thing: Any) -> set[CodeType]:
    """The code that runs when it is called: of subclasses' methods, too; none if it is compiled."""
    if isinstance(thing, type):
        thing = thing.__init__
    thing = getattr(thing, "__wrapped__", thing)
    thing = getattr(thing, "__func__", thing)
    if not isinstance(thing, FunctionType):
        return set()
    owner, _, name = thing.__qualname__.rpartition(".")
    kinds = [getattr(sys.modules[thing.__module__], owner)] if owner else []
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    methods = [getattr(vars(kind).get(name), "__func__", vars(kind).get(name)) for kind in kinds]
    return {thing.__code__} | {m.__code__ for m in methods if isinstance(m, FunctionType)}


@pytest.fixture(scope="module")
def called(pictures) -> list[str]:
    """Stations in the order of their first calls in one fit."""
    stations = {s.name for s in (*pictures.RECORD, *pictures.BUDGET)}
    wanted = {code: name for name in stations for code in codes(found(name))}
    rng = np.random.default_rng()
    X, y = rng.normal(size=(1237, 2)), rng.normal(size=1237)
    mu = 0.9 + 0.01 * rng.random()  # what is remembered of other fits must not shorten the way
    units = dpfast.standardize(X, y, privacy=1.0)
    seen: list[str] = []

    def watch(frame: Any, event: str, argument: Any) -> None:
        name = wanted.get(frame.f_code)
        if event == "call" and name is not None and name not in seen:
            seen.append(name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        dpfast.fit(X, y, "log-cosh", privacy=mu, ledger=dpfast.Ledger(3.0), standardize=units)
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize("way", ["RECORD", "BUDGET"])
def test_fit_goes_the_drawn_way(pictures, called, way):
    """The first calls of the stations come in their order; compiled ones only have to exist."""
    drawn = [station.name for station in getattr(pictures, way)]
    compiled = [name for name in drawn if not codes(found(name))]
    assert set(compiled) <= {
        "kernels.records.RecordKernel.sums",
        "curator.noisy_release.release_jointly_with_noise",
        "curator.answers.JointAnswer",
        "curator.preconditioned.PreconditionedQueries",
        "kernels.sampler.release",
        "kernels.sampler.ExactSampler.normals",
    }
    seen = [name for name in called if name in drawn]
    assert seen == [name for name in drawn if name not in compiled]
