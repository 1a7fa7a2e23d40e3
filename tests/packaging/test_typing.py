"""A user's script that touches every public name: it runs, and strict type checkers accept it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpfast

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("user_script.py")
WRONG = """
number: int = dpfast.GDP(1.0)
fit = dpfast.fit("y ~ x", {}, privacy=1.0, scal=3)
"""


def test_the_script_touches_every_public_name():
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    touched = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "dpfast"
    }
    assert {*dir(dpfast)} - {"__version__"} <= touched


def test_the_script_runs(capsys):
    for module in ("sklearn", "matplotlib"):
        pytest.importorskip(module)
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert "GDP" in capsys.readouterr().out


@pytest.mark.slow
def test_mypy_strict_accepts_it(tmp_path):
    pytest.importorskip("mypy")
    shutil.copy(SCRIPT, tmp_path / "good.py")
    (tmp_path / "bad.py").write_text(SCRIPT.read_text(encoding="utf-8") + WRONG)
    found = {}
    for name in ("good.py", "bad.py"):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull,
             "--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache"), name],
            cwd=tmp_path, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True,
        )  # fmt: skip
        found[name] = [line for line in done.stdout.splitlines() if line.startswith(name)]
    assert found["good.py"] == []
    assert (
        len([line for line in found["bad.py"] if "error:" in line]) == 2
    )  # it does look at the types


@pytest.mark.slow
def test_pyright_strict_accepts_it(tmp_path):
    """Needs the npm or the PyPI package, neither of which is required to work on dpfast."""
    if importlib.util.find_spec("pyright") is not None:
        command = [sys.executable, "-m", "pyright"]
    elif shutil.which("pyright"):
        command = ["pyright"]
    else:
        pytest.skip("needs pyright")
    (tmp_path / "good.py").write_text(SCRIPT.read_text(encoding="utf-8"))
    (tmp_path / "bad.py").write_text(SCRIPT.read_text(encoding="utf-8") + WRONG)
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)],
                "pythonVersion": "3.11"}  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [*command, "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    where = [Path(found["file"]).name for found in diagnostics]
    assert where == ["bad.py"], diagnostics
