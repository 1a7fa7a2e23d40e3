"""Persons on the command line: what Python finds, and no row is told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.cli import main

RNG = np.random.default_rng(11)
PERSONS = 500
WHO = np.repeat(np.arange(PERSONS), RNG.integers(1, 5, PERSONS))
ROWS = len(WHO)
X = RNG.uniform(-1.0, 1.0, (ROWS, 2)).round(6)
Y = (0.5 + X @ [1.0, -0.5] + RNG.normal(size=PERSONS)[WHO] + RNG.normal(size=ROWS)).round(6)
T = (RNG.random(ROWS) < 0.5).astype(int)
LABELS = np.array([f"who-{k}" for k in WHO])
SCHEMA = "".join(
    f"[columns.{name}]\nkind = 'numeric'\nlow = {low}\nhigh = {-low}\n"
    for name, low in {"a": -1, "b": -1, "y": -8}.items()
)
FIT = ["--response", "y", "--covariates", "a,b", "--group", "id", "--each", "person", "--mu", "5"]
SEEDED = ["--seed", "0", "--json"]
ROBUST = ["--loss", "log-cosh", "--scale", "1"]

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a},{b},{y},{t}, {who}" for (a, b), y, t, who in zip(X, Y, T, LABELS, strict=True)]
    Path("x.csv").write_text("a,b,y,t,id\n" + "\n".join(lines) + "\n")
    columns = {"a": X[:, 0], "b": X[:, 1], "y": Y, "t": T, "id": LABELS}
    np.savez("x.npz", **columns)
    np.savez("odd.npz", **(columns | {"a": X[1:, 0], "t": T[1:]}))
    np.savez("few.npz", **(columns | {"id": LABELS[1:]}))
    Path("schema.toml").write_text(SCHEMA)
    dpfast.Ledger.open("budget", dpfast.GDP(20.0))
    return tmp_path


def found_by(capsys, *arguments):
    assert main([*arguments, *SEEDED]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("file", ["x.csv", "x.npz", "x.parquet"])
@pytest.mark.parametrize("schema", [False, True], ids=["raw", "schema"])
def test_persons_are_those_of_python(folder, capsys, file, schema):
    if file == "x.parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(
            arrow.table({"a": X[:, 0], "b": X[:, 1], "y": Y, "id": LABELS.tolist()}), file
        )
    persons = {"group": LABELS, "each": "person"}
    settings = {"privacy": 5.0, "noise": dpfast.SeededNoise(0)}
    declared = ["--schema", "schema.toml", *ROBUST] if schema else []
    found = found_by(capsys, "fit", file, *FIT, *declared)
    if schema:
        table = {"a": X[:, 0], "b": X[:, 1], "y": Y}
        design = dpfast.Schema.from_toml(SCHEMA).encode(table, ["a", "b"], "y")
        objective = dpfast.Objective("log-cosh", scale=1.0)
        expected = dpfast.fit(dpfast.records(design, **persons), None, objective, **settings)
    else:
        expected = dpfast.fit(dpfast.records(X, Y, **persons), None, standardize=True, **settings)
    np.testing.assert_array_equal(found["params"], expected.params)
    np.testing.assert_array_equal(found["bse"], expected.bse)
    assert found["n_records"] == PERSONS
    text = json.dumps(found)
    assert not re.search(rf"(?<![\d.]){ROWS}(?!\d)", text) and "who-" not in text


def test_a_number_of_rows_and_formulas(folder, capsys):
    pytest.importorskip("formulaic")
    sized = [*FIT[:4], "--group", "id", "--group-size", "2", "--mu", "5"]
    found = found_by(capsys, "fit", "x.csv", *sized)
    settings = {"privacy": 5.0, "noise": dpfast.SeededNoise(0), "standardize": True}
    expected = dpfast.fit(dpfast.records(X, Y, group=LABELS, group_size=2), None, **settings)
    np.testing.assert_array_equal(found["params"], expected.params)
    formula = ["--formula", "y ~ a + b", *FIT[4:]]
    found = found_by(capsys, "fit", "x.csv", *formula)
    settings["noise"] = dpfast.SeededNoise(0)
    persons = dpfast.fit(dpfast.records(X, Y, group=LABELS, each="person"), None, **settings)
    np.testing.assert_array_equal(found["params"], persons.params)
    table = {"a": X[:, 0], "b": X[:, 1], "y": Y, "id": LABELS}
    named = dpfast.fit(
        "y ~ a + b",
        dpfast.records(table, group="id", each="person"),
        privacy=5.0,
        noise=dpfast.SeededNoise(0),
    )
    np.testing.assert_array_equal(named.params, persons.params)


REFUSED = [
    ["x.csv", "--each", "person"],
    ["x.csv", "--group", "id"],
    ["x.csv", "--group", "id", "--each", "row"],
    ["x.csv", "--group", "id", "--each", "person", "--group-size", "2"],
    ["x.csv", "--group", "absent", "--each", "person"],
    ["x.csv", "--group", "id", "--each", "persons"],
    ["x.csv", "--group", "id", "--group-size", "0"],
    ["x.csv", "--group", "id", "--each", "person", "--sample-weight", "t", "--largest-weight", "1"],
    ["odd.npz", "--group", "id", "--each", "person"],
    ["few.npz", "--group", "id", "--each", "person"],
]


@pytest.mark.parametrize("schema", [False, True], ids=["raw", "schema"])
def test_what_is_wrong_of_persons_costs_nothing_and_tells_no_rows(folder, capsys, schema):
    declared = ["--schema", "schema.toml", *ROBUST] if schema else []
    for (file, *wrong), formula in [(case, f) for case in REFUSED for f in (False, True)]:
        columns = ["--formula", "y ~ a + b"] if formula else FIT[:4]
        right = ["fit", file, *columns, *declared, "--mu", "1", "--ledger", "budget"]
        assert main([*right, *wrong]) == 1, wrong
        told = capsys.readouterr().err
        assert "should not happen" not in told, told
        assert not any(word in told for word in (str(ROWS), str(ROWS - 1), "who-")), told
    assert dpfast.Ledger.open("budget").entries == ()


def test_persons_without_a_label_are_one(folder, capsys):
    lines = Path("x.csv").read_text().splitlines()
    lines[1:11] = [line.rsplit(",", 1)[0] + ("," * (k % 2)) for k, line in enumerate(lines[1:11])]
    Path("x.csv").write_text("\n".join(lines) + "\n")
    found = found_by(capsys, "fit", "x.csv", *FIT)
    assert found["n_records"] == len(set(WHO[10:].tolist())) + 1
