"""Every option of every command that spends, wrong in turn: refused for free, and in public words.

The commands and options are read off the parser, so that a new one is covered at once.
"""

from __future__ import annotations

import argparse

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.cli.parser import make_parser
from tests.surface import without_paths

SCHEMA = """
[columns.x]
kind = "numeric"
low = -1
high = 1
[columns.y]
kind = "numeric"
low = -2
high = 2
"""

WRONG = ["", "x", "-1", "0", "7", "nan", "inf", "1e300", "1e-300", "95", ",", "absent", "ledger",
         "data.csv", "/dev/null", "é\u2028"]  # fmt: skip

REGRESSION = {"--response": "y", "--loss": "log-cosh", "--scale": "0.5"}

#: Right options of each command that spends.
RIGHT = {
    "fit": REGRESSION | {"--mu": "1"},
    "run": {"--data": "data.csv"},
}


def commands():
    """Commands with a ledger, and their actions."""
    (found,) = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return {
        name: [a for a in parser._actions if "--help" not in a.option_strings]
        for name, parser in found.choices.items()
        if any("--ledger" in a.option_strings for a in parser._actions)
    }


OPTIONS = [
    (name, (action.option_strings or [action.dest])[-1])
    for name, actions in commands().items()
    for action in actions
    if action.nargs != 0
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{x + e:.3f},{e > x:d}" for x, e in rng.uniform(-1, 1, (60, 2))]
    rows[3] = "patient 4711,4711.0815"
    (tmp_path / "data.csv").write_text("x,y,t\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    request = '{"analysis": "means", "columns": "x", "share": 0.1}'
    (tmp_path / "request.json").write_text(request, encoding="utf-8")
    return tmp_path


def run(name, options, book):
    """Exit code of a command, and what its ledger was charged."""
    first = "request" if name == "run" else "data"
    path = options.get(first, "request.json" if name == "run" else "data.csv")
    typed = [f"{key}={value}" for key, value in options.items() if key != first]
    try:
        code = main([name, *typed, "--json", "--", path])
    except SystemExit as stopped:  # wrong usage
        code = stopped.code
    return code, len(dpfast.Ledger.open(book).entries)


def right_of(name, book):
    return {"--schema": "schema.toml", "--seed": "0", "--ledger": book} | RIGHT[name]


def ledger(folder, name):
    total = dpfast.ApproxDP(1e6, 0.5) if "--epsilon" in RIGHT[name] else dpfast.GDP(1e6)
    dpfast.Ledger.open(folder / "ledger", total)
    return "ledger"


def test_every_command_that_spends_is_swept():
    assert {*commands()} == {*RIGHT}


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_options_are_right(folder, capsys, name):
    book = ledger(folder, name)
    assert run(name, right_of(name, book), book) == (0, 1)
    assert "4711" not in without_paths(capsys.readouterr().err, folder)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
@pytest.mark.one_in(3)
def test_a_wrong_option_costs_nothing(folder, capsys, name, option):
    book, paid = ledger(folder, name), 0
    before = (folder / "data.csv").read_bytes(), (folder / "schema.toml").read_bytes()
    for value in WRONG:
        if (option, value) in {("--ledger", "ledger"), ("--steps", "1e300")}:
            continue
        code, charged = run(name, right_of(name, book) | {option: value}, book)
        said = capsys.readouterr()
        assert code in (0, 1, 2, 3), (value, code, said.err)
        assert charged == paid or code == 0, (value, said.err)
        assert "4711" not in without_paths(said.err, folder) and "Traceback" not in said.err
        paid = charged
    assert before == ((folder / "data.csv").read_bytes(), (folder / "schema.toml").read_bytes())
