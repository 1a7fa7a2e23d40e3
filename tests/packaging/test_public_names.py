"""One list of public names: the table, what type checkers are told, and the documentation agree."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpfast

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "dpfast" / "__init__.py"


def told_to_type_checkers() -> dict[str, str]:
    """Name: module, of the imports that only type checkers see."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: node.module
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


HOMES = {name: home for home, names in dpfast._HOMES.items() for name in names.split()}


def test_the_table_and_the_types_agree():
    told = told_to_type_checkers()
    rooms = {name for name, home in told.items() if home == "dpfast"}
    assert rooms == dpfast._ROOMS
    assert {name: home for name, home in told.items() if name not in rooms} == HOMES
    assert {*dir(dpfast)} == {*dpfast.__all__, *dpfast._ROOMS}
    assert len(dpfast.__all__) <= 40


def test_a_name_of_a_room_is_told_to_who_looks_for_it_here():
    for room, name in (("optimize", "Newton"), ("plots", "coefficient_plot"), ("models", "Ball")):
        with pytest.raises(AttributeError, match=rf"It is dpfast\.{room}\.{name}\."):
            getattr(dpfast, name)
    with pytest.raises(AttributeError, match=r"no attribute 'no_such_thing'\.$"):
        _ = dpfast.no_such_thing


def test_every_public_name_is_documented():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"\bdpfast\.(\w+)", text))
    errors = {name for name, home in HOMES.items() if home == "dpfast.errors"}
    assert {*HOMES} - named - errors == set()


def test_what_the_documentation_names_exists():
    docs = ROOT / "docs"
    written = [*docs.glob("*.md"), *docs.glob("tutorials/*.md")]
    pages = [*written, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        for dotted in set(re.findall(r"\bdpfast(?:\.[A-Za-z_]\w*)+", page.read_text("utf-8"))):
            first, *rest = dotted.split(".")
            if rest[-1] in ("md", "py", "toml"):
                continue
            thing, path = dpfast, first
            for name in rest:
                home, path = path, f"{path}.{name}"
                if inspect.isfunction(thing):  # in the module of its name
                    thing = importlib.import_module(home)
                if not hasattr(thing, name):
                    importlib.import_module(path)  # an ImportError names the page's mistake
                thing = getattr(thing, name)


#: Children of one interpreter that has not seen dpfast, only what takes long to load.
ROOMS = """
import os, sys
import numpy, scipy.linalg, scipy.optimize, scipy.special, scipy.stats
for room in sys.argv[1:]:
    child = os.fork()
    if not child:
        import dpfast
        print(getattr(dpfast, room).__name__, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_rooms_are_attributes_in_a_fresh_interpreter(step):
    """Each room in a fork of its own: one in three, and all of them."""
    rooms = sorted(dpfast._ROOMS)[::step]
    if importlib.util.find_spec("sklearn") is None and "estimators" in rooms:
        rooms.remove("estimators")
    done = subprocess.run(
        [sys.executable, "-c", ROOMS, *rooms], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == [f"dpfast.{room}" for room in rooms], done.stderr
