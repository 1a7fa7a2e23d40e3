"""What the commands do, what they print for machines, and how they refuse."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.cli import main

SCHEMA = """
[columns.wage]
kind = "numeric"
low = 0
high = 100
centre = 20
unit = 5
[columns.age]
kind = "numeric"
low = 18
high = 90
[columns.sex]
kind = "categorical"
levels = ["F", "M"]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, sex = rng.uniform(18, 90, 2000), rng.choice(["F", "M"], 2000)
    wage = 20 + 2.5 * (age - 54) / 36 + 5 * (sex == "M") + rng.normal(size=2000)
    rows = [f"{w:.3f},{a:.1f},{s},ignored" for w, a, s in zip(wage, age, sex, strict=True)]
    (tmp_path / "data.csv").write_text("wage,age,sex,note\n" + "\n".join(rows) + "\nbroken\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return tmp_path


ROBUST = ["--loss", "log-cosh", "--scale", "0.3"]
FIT = ["fit", "data.csv", "--schema", "schema.toml", *ROBUST, "--response", "wage"]


def test_fit_prints_a_table_and_writes_json(folder, capsys):
    assert main([*FIT, "--mu", "2", "--out", "fit.json", "--seed", "1"]) == 0
    assert "sex[M]" in capsys.readouterr().out
    report = json.loads((folder / "fit.json").read_text())
    assert report["names"] == ["intercept", "age", "sex[M]"]
    assert report["params"] == pytest.approx([16.25, 2.5 / 36, 5.0], rel=0.02)
    assert report["n_records"] == 2001 and report["privacy"]["mu"] == 2.0
    low, high = np.transpose(report["conf_int"])
    assert (low < report["params"]).all() and (high > report["params"]).all()
    assert dpfast.Schema.from_toml(report["source"]["schema"]).columns.keys() >= {"wage", "age"}


def test_a_formula_has_every_term_without_a_schema(folder, capsys):
    """Labels of listed levels and splines of public knots, as dpfast.fit has them of a table."""
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(0)
    table = {"wage": np.exp(rng.normal(size=3000)), "age": rng.uniform(20, 60, 3000)}
    table["region"] = rng.choice(["n", "s"], 3000)
    rows = zip(*table.values(), strict=True)
    text = "".join(f"{float(wage)!r},{float(age)!r},{region}\n" for wage, age, region in rows)
    Path("wages.csv").write_text(f"wage,age,region\n{text}")
    formula = (
        "log(wage) ~ bs(age, knots=[40], lower_bound=20, upper_bound=60)"
        " + C(region, levels=['n', 's'])"
    )
    fixed = ["--mu", "2", "--seed", "1", "--json"]
    assert main(["fit", "wages.csv", "--formula", formula, *fixed]) == 0
    found = json.loads(capsys.readouterr().out)
    fit = dpfast.fit(formula, table, privacy=2.0, noise=dpfast.SeededNoise(1))
    np.testing.assert_allclose(found["params"], fit.params, rtol=1e-9)
    for wrong, told in (
        ("wage ~ C(region)", "--schema"), ("wage ~ poly(age, 2)", r"I\(x\*\*2\)"),
        ("wage ~ bs(age, df=3)", r"knots=\["), ("wage ~ absent", "no column 'absent'"),
        ("wage ~ age + `1`", "a column named 1 reads as the intercept"),
    ):  # fmt: skip
        assert main(["fit", "wages.csv", "--formula", wrong, "--mu", "1"]) == 1
        assert re.search(told, capsys.readouterr().err)
    assert main(["explain", "--mu", "1", "--plot", "a.xyz"]) == 1
    assert "name a .png" in capsys.readouterr().err


def test_a_formula_names_any_column_of_a_file_between_backticks(folder, capsys):
    """What is between them is a name, not what it would say of other columns."""
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3000))
    rows = np.column_stack([a, b, 3.0 * a + b, a + rng.normal(size=3000)])
    np.savetxt("t.csv", rows, delimiter=",", header="a,b,a|b - b,SALE PRICE ($)", comments="")
    formula = "`SALE PRICE ($)` ~ `a|b - b` + b"
    assert main(["fit", "t.csv", "--formula", formula, "--mu", "2", "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["intercept", "a|b - b", "b"]
    assert found["params"] == pytest.approx([0.0, 1 / 3, -1 / 3], abs=0.1)


def test_fit_with_a_formula_for_machines(folder, capsys):
    pytest.importorskip("formulaic")
    formula = ["--formula", "wage ~ age + I(age**2)", *ROBUST, "--json"]
    arguments = ["fit", "data.csv", "--schema", "schema.toml", *formula]
    assert main([*arguments, "--epsilon", "3", "--delta", "1e-6", "--no-inference"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["names"] == ["intercept", "age", "I(age ** 2)"]
    assert "bse" not in report and report["privacy"]["guarantee"] == "GDP"


def test_several_fits_on_one_budget(folder, capsys):
    assert main([*FIT, "--mu", "1", "--ledger", "budget.json"]) == 1
    assert "dpfast ledger create budget.json" in capsys.readouterr().err
    assert main(["ledger", "create", "budget.json", "--mu", "1.5"]) == 0
    assert main(["ledger", "create", "budget.json", "--mu", "9"]) == 1  # granted once
    assert main([*FIT, "--mu", "1", "--ledger", "budget.json"]) == 0
    assert main([*FIT, "--mu", "1.2", "--ledger", "budget.json"]) == 3
    capsys.readouterr()
    assert main(["ledger", "show", "budget.json", "--json"]) == 0
    book = json.loads(capsys.readouterr().out)
    assert book["total"] == {"type": "GDP", "mu": 1.5} and len(book["entries"]) == 1
    assert book["entries"][0]["spend"] == {"type": "GDP", "mu": 1.0}
    assert main(["ledger", "show", "budget.json"]) == 0
    assert "remaining" in capsys.readouterr().out


MEDIAN = '{"analysis": "quantiles", "column": "age", "share": 0.1}'


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*FIT], "one budget"),
        ([*FIT, "--mu", "1", "--rho", "1"], "one budget"),
        ([*FIT, "--epsilon", "1"], "go together"),
        ([*FIT, "--mu", "1", "--formula", "wage ~ age"], "either --formula or --response"),
        ([*FIT, "--mu", "1", "--covariates", "hair"], "does not declare"),
        ([*FIT, "--mu", "-1"], "mu must be positive"),
        ([*FIT, "--mu", "1", "--level", "95"], "such as --level 0.95; received 95.0.\n"),
        ([*FIT, "--mu", "1", "--method", "sgd"], '"gradient-descent"; received'),
        ([*FIT, "--mu", "1", "--loss", "ols"], "'welsch']; received 'ols'. Did you mean"),
        ([*FIT, "--mu", "1", "--each", "persons"], "--each must be one of"),
        (["fit", "absent.csv", *FIT[2:], "--mu", "1"], "no data file"),
        (["fit", "data.csv", "--schema", "no.toml", *FIT[4:], "--mu", "1"], "no schema file"),
        (["fit", "data.csv", "--mu", "1"], "either --formula or --response"),
        (["ledger", "show", "absent.json"], "no ledger"),
        (["plan", "--p", "3", "--mu", "1"], "two of --n N, a budget"),
        (["audit", "--only", "nothing of this name"], "no audited call"),
        (["fit", "one.csv", "--response", "y", "--covariates", "x", "--mu", "1"], "dpfast: n = 9 "),
        (["verify", "absent.html"], "is not there"),
        ([*FIT, "--mu", "1", "--radius", "-1"], "dpfast: --radius must"),
        ([*FIT, "--mu", "1", "--seed", "-1"], "dpfast: --seed must"),
        (["run", MEDIAN, "--data", "data.csv", "--ledger", "book"], "dpfast: give --schema"),
    ],
)
def test_a_refusal_is_a_sentence_and_a_code(folder, capsys, arguments, named):
    Path("one.csv").write_text("x,y\n" + "1,2\n" * 9)
    dpfast.Ledger.open("book", dpfast.GDP(1.0))
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("dpfast: ") and named in captured.err
    assert captured.out == "" and "dpfast." not in captured.err


@pytest.mark.filterwarnings("always::dpfast.errors.BudgetWarning")
def test_a_warning_is_a_sentence_too(folder, capsys):
    assert main([*FIT, "--epsilon", "30", "--delta", "0.1"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line[:14] for line in told] == ["dpfast: delta ", "dpfast: epsilo"]


def test_wrong_usage_has_its_own_code(folder, capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "{}"])  # no ledger
    assert end.value.code == 2
    assert "--ledger" in capsys.readouterr().err


def test_plan_and_explain(folder, capsys):
    pytest.importorskip("matplotlib")
    plan = ["plan", "--p", "4", "--loss", "log-cosh", "--scale", "1", "--mu", "1"]
    assert main([*plan, "--width", "0.02", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["width"] <= 0.02 and found["n"] > 10_000
    assert main([*plan, "--n", "3000000", "--radius", "3", "--plot", "plan.png"]) == 0
    assert main(["explain", "--rho", "0.5", "--plot", "curve.png"]) == 0
    assert "in plain words" in capsys.readouterr().out
    assert all((folder / name).stat().st_size > 3000 for name in ("plan.png", "curve.png"))


def test_the_audit_reports_for_people_and_machines(capsys):
    only = ["audit", "--only", "Mallows(radius=1.5), gradient +"]
    assert main([*only, "--quick"]) == 0
    assert "passed" in capsys.readouterr().out
    assert main([*only, "--json", "--pairs", "2"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["passed"] and report["pairs"] == 2
    assert max(call["ratio"] for call in report["calls"]) <= 1.0
    assert len(report["calls"]) >= 3


def test_every_call_of_the_audit_passes(capsys):
    assert main(["audit", "--json"]) == 0
    found = {call["name"] for call in json.loads(capsys.readouterr().out)["calls"]}
    assert {"dpfast.fit", "dpfast.minimize", "dpfast.curator.Curator.joint"} <= found


def test_an_audit_that_finds_a_leak_fails(monkeypatch, capsys):
    from dpfast.audit import selfcheck

    leaky = selfcheck.Example("leaky", "mean", lambda data: data[1].mean(), False, dpfast.GDP(1.0))
    monkeypatch.setattr(selfcheck, "examples", lambda: [leaky])
    assert main(["audit"]) == 1
    captured = capsys.readouterr()
    assert "LEAK in leaky" in captured.out and "do not use" in captured.err


def test_the_installed_command_runs_without_a_traceback():
    run = [sys.executable, "-W", "error", "-m", "dpfast", "explain", "--mu", "1"]
    result = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "69.1% success" in result.stdout and result.stderr == ""


def test_persons_of_a_file_are_those_of_python(folder, capsys):
    """Labels are text, and spaces around them are no part of them."""
    rng = np.random.default_rng(2)
    persons = rng.permutation(np.repeat(np.arange(900), 3))
    x = rng.normal(size=2700)
    y = 1.0 + 0.5 * x + rng.normal(size=2700)
    spaces = rng.choice(["", " "], 2700)
    lines = zip(spaces, persons, spaces, y, x, strict=True)
    text = "".join(f"{a}P{i:03d}{b},{v:.6f},{u:.6f}\n" for a, i, b, v, u in lines)
    (folder / "rows.csv").write_text("who,y,x\n" + text)
    X, v = np.round(x, 6)[:, None], np.round(y, 6)
    command = ["fit", "rows.csv", "--response", "y", "--covariates", "x", "--mu", "1"]
    command += ["--seed", "1", "--json", "--group", "who"]
    for options, given in (
        (["--each", "person"], {"each": "person"}),
        (["--group-size", "3"], {"group_size": 3}),
    ):
        assert main([*command, *options]) == 0
        found = json.loads(capsys.readouterr().out)
        noise = dpfast.SeededNoise(1)
        rows = dpfast.records(X, v, names=["x"], group=persons, **given)
        told = dpfast.fit(rows, None, privacy=1.0, standardize=True, noise=noise)
        assert found["params"] == told.params.tolist()
        assert found["n_records"] == told.to_dict()["n_records"] < 2701
    assert main(command) == 1
    assert "--group-size" in capsys.readouterr().err
    assert main([*command[:-2], "--group", "hair", "--each", "person"]) == 1
    assert "no column" in capsys.readouterr().err


def test_a_formula_takes_persons_by_the_name_of_their_column():
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(3)
    table = {"who": np.repeat(np.arange(700), 2), "x": rng.normal(size=1400)}
    table["y"] = table["x"] + rng.normal(size=1400)
    one, two = (
        dpfast.fit(
            "y ~ x", dpfast.records(table, each="person", group=group), "log-cosh", privacy=1.0,
            noise=dpfast.SeededNoise(0),
        )
        for group in ("who", table["who"])
    )  # fmt: skip
    assert one.params.tolist() == two.params.tolist() and one.n_records == 700


def of_text(folder):
    (folder / "x.csv").write_text("y,x\n" + "\n".join(f"{i % 7},old" for i in range(3000)))
    return "x.csv"


def with_commas(folder):
    (folder / "x.TXT").write_text("y;x\n" + "\n".join(f"{i % 7},5;{i % 9},1" for i in range(3000)))
    return "x.TXT"


def of_nothing(folder):
    """pandas and Arrow give a column of missing cells the type null."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"y": [float(i % 7) for i in range(3000)], "x": arrow.nulls(3000)}
    parquet.write_table(arrow.table(columns), folder / "x.parquet")
    return "x.parquet"


@pytest.mark.parametrize("make", [of_text, with_commas, of_nothing])
def test_a_fit_of_no_usable_record_ends_with_a_code_of_its_own(tmp_path, monkeypatch, capsys, make):
    """All of mu was spent, and the code was 0.  Whether a cell is a number is a value: it is told
    by the released number of records that count, and 3 of its standard deviations are above 0."""
    monkeypatch.chdir(tmp_path)
    fit = [
        "fit",
        make(tmp_path),
        "--response",
        "y",
        "--covariates",
        "x",
        "--mu",
        "1",
        "--seed",
        "3",
    ]
    assert main([*fit, "--json"]) == 5
    printed = capsys.readouterr()
    told = json.loads(printed.out)  # what was paid for arrives
    said = "no more records count", "stopped after "
    assert any(one.startswith(said) for one in told["warnings"])
    assert "0 usable records" in printed.err and "--decimal ," in printed.err
    main(["ledger", "create", "l.ledger", "--mu", "1"])
    request = '{"analysis": "fit", "formula": "y ~ x", "share": 0.5}'
    assert main(["run", request, "--data", fit[1], "--ledger", "l.ledger", "--seed", "3"]) == 5
    assert "0 usable records" in capsys.readouterr().err
    if make is with_commas:
        assert main([*fit, "--decimal", ","]) == 0
        run = ["run", request, "--data", fit[1], "--decimal", ",", "--delimiter", ";"]
        main(["ledger", "create", "m.ledger", "--mu", "1"])
        assert main([*run, "--ledger", "m.ledger", "--seed", "3"]) == 0
        assert "usable" not in capsys.readouterr().err
        assert main([*fit, "--decimal", ";"]) == 1
        assert "--decimal, the mark before" in capsys.readouterr().err


def test_fits_by_level_end_with_it_where_no_level_has_a_usable_record(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=4000), rng.normal(size=4000)
    rows = [f"{a:.3f},{b:.3f},old,{'qr'[i % 2]}" for i, (a, b) in enumerate(zip(x, y, strict=True))]
    (tmp_path / "x.csv").write_text("\n".join(["x,y,t,k", *rows]))
    columns = {name: dpfast.Numeric(-4, 4) for name in "xyt"}
    schema = dpfast.Schema(columns | {"k": dpfast.Categorical(["q", "r"])})
    (tmp_path / "s.toml").write_text(schema.to_toml())
    main(["ledger", "create", "l.ledger", "--mu", "4"])
    # the last has usable records, but too few in each level
    for response, least, code in (("y", 0, 0), ("t", 0, 5), ("y", 3000, 0)):
        request = f'''{{"analysis": "fits", "formula": "{response} ~ x", "by": "k",
        "least": {least}, "share": 0.25}}'''
        run = ["run", request, "--data", "x.csv", "--schema", "s.toml", "--ledger", "l.ledger"]
        assert main([*run, "--seed", "3"]) == code
        assert ("0 usable records" in capsys.readouterr().err) == (code == 5)
