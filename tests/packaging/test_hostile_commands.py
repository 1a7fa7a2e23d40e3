"""Whatever is typed and whatever a file contains: a sentence and a code, and nothing is charged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import dpfast
from dpfast.cli import main
from tests.surface import without_paths

SCHEMA = "".join(
    f"[columns.{name}]\nkind = 'numeric'\nlow = -1\nhigh = 1\n" for name in ("a", "b", "y")
)
DATA = ["data.csv", "--schema", "schema.toml"]
DESIGN = [*DATA, "--response", "y", "--loss", "log-cosh", "--scale", "0.5"]

#: Every command that spends, with arguments that are right.
SPENDING = {
    "fit": ["fit", *DESIGN, "--mu", "1"],
}
#: What each may be given that is wrong.
WRONG = {
    "fit": [["--level", "2"], ["--covariates", "zz"], ["--formula", "y ~ a"], ["--steps", "-1"],
            ["--method", "zz"], ["--loss", "zz"], ["--radius", "-1"],
            ["--tau", "0.5"], ["--loss", "quantile", "--tau", "2"], ["--bandwidth", "-1"],
            ["--loss", "quantile", "--bandwidth", "nan"], ["--group", "a"], ["--each", "person"],
            ["--group", "zz", "--each", "person"], ["--group", "a", "--each", "zz"],
            ["--group-size", "2"], ["--group", "a", "--each", "person", "--group-size", "2"]],
}  # fmt: skip
WRONG_FOR_ALL = [
    ["--mu", "nan"], ["--rho", "1"], ["--epsilon", "1"], ["--seed", "-1"],
    ["--delimiter", "ab"], ["--delimiter", ""], ["--delimiter", '"'], ["--delimiter", "\udcff"],
    ["--schema", "."], ["--schema", "data.csv"], ["--schema", "zz"], ["--schema", "\udcff"],
    ["--ledger", "zz"], ["--ledger", "data.csv"], ["--ledger", "."], ["--out", "."],
    ["--out", "zz/zz"],  ["--out", "data.csv"], ["--out", "\udcff/x"],
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).uniform(-1, 1, (3000, 3))
    lines = [";".join(f"{x:.3f}" for x in row) for row in rows]
    Path("data.csv").write_text("\ufeffa; b ;y\r\n" + "\r\n".join(lines) + "\r\n")
    Path("schema.toml").write_text(SCHEMA)
    dpfast.Ledger.open("budget.gdp", dpfast.GDP(30.0))
    return tmp_path


def spent():
    return len(dpfast.Ledger.open("budget.gdp").entries)


def refused(arguments, capsys):
    """The command refuses or is misused, in a sentence that is no defect's."""
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code in (1, 2, 3), arguments[-6:]
    assert "Traceback" not in captured.err and captured.err.strip(), arguments
    assert "should not happen" not in captured.err, (arguments, captured.err)
    return captured.err


@pytest.mark.parametrize("name", SPENDING)
def test_commands_that_spend_charge_and_deliver_json(folder, capsys, name):
    arguments = [*SPENDING[name], "--ledger", "budget.gdp"]
    assert main([*arguments, "--out", "out.json"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.strip()
    assert spent() == 1
    report = json.loads(Path("out.json").read_text(), parse_constant=pytest.fail)
    assert "numeric" in report["source"]["schema"]
    assert not any(mark in json.dumps(report) for mark in ("array(", "<dpfast", "GDP(", "DP("))
    assert main([*SPENDING[name], "--seed", "1", "--json"]) == 0
    simulated = json.loads(capsys.readouterr().out)
    assert simulated["privacy"]["guarantee"] == "none (simulation)"


def test_wrong_options_cost_nothing(folder, capsys):
    before = set(os.listdir())
    for name, right in SPENDING.items():
        for wrong in [*WRONG[name], *WRONG_FOR_ALL]:
            refused([*right, "--ledger", "budget.gdp", *wrong], capsys)
    assert spent() == 0 and set(os.listdir()) == before


def test_a_budget_that_cannot_pay_has_its_own_code(folder, capsys):
    for name, right in SPENDING.items():
        dpfast.Ledger.open("small", dpfast.GDP(1e-3))
        assert main([*right, "--ledger", "small", "--out", "x.json"]) == 3, name
        assert not Path("x.json").exists()
        Path("small").unlink()
        for path in folder.glob("small*"):
            path.unlink()


CONTENTS = {
    "empty": b"", "a line": b"\n", "binary": bytes(range(256)) * 9, "nuls": bytes(999),
    "utf-16": "a,b,y\n1,2,3\n".encode("utf-16"), "latin": b"\xe4,b,y\n1,2,3\n",
    "no header": b"0.1,0.2,0.3\n", "header": b"a,b,y\n", "twice": b"a,a,b,y\n1,2,3,4\n",
    "two delimiters": b"u,v;w\n", "old line ends": b"a,b,y\r1,2,3\r", "gzip": b"\x1f\x8b\x08\0",
    "zip": b"PK\x03\x04" + bytes(99), "parquet": b"PAR1" + bytes(20) + b"PAR1",
    "json": b"{}", "quotes": b'"a,b,y\n1,2,3\n',
    "secret": b"PK secret-4711\n",
}  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize(
    "suffix", [".csv", ".csv.gz", ".npz", ".parquet", ".feather", ".arrow", ""]
)
@pytest.mark.values
def test_files_that_are_something_else(folder, capsys, content, suffix):
    if suffix in (".parquet", ".feather", ".arrow"):
        pytest.importorskip("pyarrow")
    path = folder / f"x{suffix}"
    path.write_bytes(content)
    for right in SPENDING.values():
        arguments = [word if word != "data.csv" else str(path) for word in right]
        told = refused([*arguments, "--ledger", "budget.gdp"], capsys)
        assert "secret" not in without_paths(told, folder)
    refused(["ledger", "show", str(path)], capsys)
    refused(["fit", "data.csv", "--schema", str(path), *DESIGN[3:], "--mu", "1"], capsys)
    assert spent() == 0


def test_folders_absent_files_and_files_that_may_not_be_read(folder, capsys):
    (folder / "dir.csv").mkdir()
    (folder / "dir.parquet").mkdir()
    Path("closed.csv").write_text("a,b,y\n1,2,3\n")
    os.chmod("closed.csv", 0)
    names = ["dir.csv", "dir.parquet", "absent.csv", ".", "", "\0", "a\0.csv", "x" * 5000, "\udcff"]
    names += ["closed.csv"] * (os.geteuid() != 0)
    for name in names:
        for right in SPENDING.values():
            refused([word if word != "data.csv" else name for word in right], capsys)
        refused(["ledger", "show", name], capsys)
        refused(["fit", "data.csv", "--schema", name, *DESIGN[3:], "--mu", "1"], capsys)
    for name in ("missing/x", ".", "\0", "x" * 5000):
        refused(["ledger", "create", name, "--mu", "1"], capsys)


WORDS = st.one_of(
    st.sampled_from(
        ["fit", "plan", "explain", "ledger", "create", "show", "run",
         "audit", "--mu", "--rho", "--json", "--p",
         "--n", "--width", "--out", "data.csv", "schema.toml", "--schema", "--column", "a", "y",
         "--response", "1", "0", "-1", "nan", "inf", "1e999", "1e-320", "--seed", "--plot",
         "--level", "--only", "--quick", "--ledger", "--scale", "--radius", "--loss", "logistic"]
    ),
    st.text(max_size=6),
)  # fmt: skip


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(WORDS, max_size=9))
def test_nothing_that_can_be_typed_ends_in_a_defect(folder, capsys, words):
    if "audit" in words or "demo" in words:
        words = [*words, "--only", "nothing of this name", "--no-such-option"]
    try:
        code = main([*words])
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code in (0, 1, 2, 3), words
    assert "should not happen" not in captured.err, (words, captured.err)


def test_a_defect_is_a_sentence_without_what_python_says(folder, capsys, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("secret 4711")

    monkeypatch.setattr(dpfast, "plan", broken)
    assert main(["plan", "--p", "3", "--mu", "1", "--n", "100"]) == 1
    told = capsys.readouterr().err
    assert "RuntimeError" in told and "4711" not in told


def test_an_interrupt_has_its_own_code(folder, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(dpfast, "plan", interrupted)
    assert main(["plan", "--p", "3", "--mu", "1", "--n", "100"]) == 130
    assert capsys.readouterr().err.startswith("dpfast: interrupted")


def test_a_reader_that_leaves_early_is_no_error_of_ours():
    reader, writer = os.pipe()
    os.close(reader)
    run = [sys.executable, "-m", "dpfast", "explain", "--mu", "1"]
    result = subprocess.run(run, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert result.returncode == 1 and result.stderr == ""


def test_help_lists_the_exit_codes(capsys):
    for arguments in (["--help"], ["fit", "--help"], ["ledger", "create", "--help"]):
        with pytest.raises(SystemExit):
            main(arguments)
        told = " ".join(capsys.readouterr().out.split())
        assert all(
            code in told for code in ("0 done", "1 refused", "3 the ledger", "4 budget spent")
        )
