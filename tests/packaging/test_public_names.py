"""One list of public names: the stub, what the package loads, and the documentation agree."""

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
from dpfast.lazy import RENAMED, stub_of
from tests.loops import each

ROOT = Path(__file__).resolve().parents[2]
STUBS = sorted((ROOT / "dpfast").rglob("__init__.pyi"))
STUB = stub_of(dpfast.__file__)


def test_the_stub_lists_forty_names_and_the_packages():
    assert {*dir(dpfast)} == {*dpfast.__all__, *STUB.submodules}
    assert len({*dpfast.__all__} - {"__version__"}) <= 40
    here = {path.stem if path.suffix else path.name for path in (ROOT / "dpfast").iterdir()}
    assert here >= STUB.submodules


@each("stub", STUBS, ids=lambda path: path.parent.name)
def test_names_of_a_stub_load_and_others_are_attribute_errors(stub):
    package = importlib.import_module(".".join(stub.parent.relative_to(ROOT).parts))
    declared = stub_of(package.__file__)
    for name in {*declared.homes} - declared.submodules:
        assert getattr(package, name) is not None
    assert {*package.__all__} <= {*declared.homes, "__version__"}
    assert {*package.__all__} <= {*dir(package)}
    # an import of a module binds its name in the package, and would hide a function of that name
    modules = {path.stem for path in stub.parent.glob("*.py")}
    assert not modules & ({*declared.homes} - declared.submodules)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = package.no_such_thing
    # type checkers take a name of a stub for the package's own where it is imported as itself
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names)


def test_a_name_of_a_room_is_told_to_who_looks_for_it_here():
    for room, name in (("optimize", "Newton"), ("plots", "coefficient_plot"), ("models", "Ball")):
        with pytest.raises(AttributeError, match=rf"It is dpfast\.{room}\.{name}\."):
            getattr(dpfast, name)
    with pytest.raises(AttributeError, match=r"no attribute 'no_such_thing'\.$"):
        _ = dpfast.no_such_thing


@each("name", RENAMED)
def test_an_earlier_name_gives_the_new_one_and_warns_in_its_callers_line(name):
    package, _, key = name.rpartition(".")
    home, _, new = RENAMED[name].rpartition(".")
    with pytest.warns(DeprecationWarning, match=re.escape(RENAMED[name])) as told:
        found = getattr(importlib.import_module(package), key)
    assert found is getattr(importlib.import_module(home), new)
    assert told[0].filename == __file__
    assert key not in dir(importlib.import_module(package))


def test_every_public_name_is_documented():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    named = set(re.findall(r"\bdpfast\.(\w+)", text))
    errors = {name for name, home in STUB.homes.items() if home == ".errors"}
    assert {*STUB.homes} - STUB.submodules - named - errors == set()


def test_what_the_documentation_names_exists():
    docs = ROOT / "docs"
    written = [*docs.glob("*.md"), *docs.glob("tutorials/*.md")]
    pages = [*written, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for page in pages:
        for dotted in set(re.findall(r"\bdpfast(?:\.[A-Za-z_]\w*)+", page.read_text("utf-8"))):
            first, *rest = dotted.split(".")
            if rest[-1] in ("md", "py", "toml") or dotted in RENAMED:
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
    rooms = sorted(STUB.submodules)[::step]
    if importlib.util.find_spec("sklearn") is None and "estimators" in rooms:
        rooms.remove("estimators")
    done = subprocess.run(
        [sys.executable, "-c", ROOMS, *rooms], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.split() == [f"dpfast.{room}" for room in rooms], done.stderr
