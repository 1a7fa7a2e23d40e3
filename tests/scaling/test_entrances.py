"""Formula, estimators and command line buy what ``dpfast.fit`` buys, and nothing else."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.data.files import read_numbers
from dpfast.errors import InvalidInput
from tests.loops import each
from tests.surface import without_paths

N = 4000
RNG = np.random.default_rng(21)
AGE, YEARS = RNG.integers(18, 90, N) * 1.0, RNG.integers(1, 17, N) * 1.0
HOURS = 20.0 + 0.1 * AGE + 0.8 * YEARS + 8.0 * RNG.standard_t(5, size=N)
OVER = (HOURS > 38.0) * 1.0
TABLE = {"age": AGE, "years": YEARS, "hours": HOURS, "over": OVER}
LOSSES = ["log-cosh", "least-squares", "logistic", "quantile"]


def direct(loss, seed=3):
    y = OVER if loss == "logistic" else HOURS
    return dpfast.fit(
        dpfast.records(np.column_stack([AGE, YEARS]), y, names=["age", "years"]), None, loss,
        privacy=1.0, standardize=True, noise=dpfast.SeededNoise(seed),
    )  # fmt: skip


def response(loss):
    return "over" if loss == "logistic" else "hours"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{a:g},{b:g},{c!r},{d:g},patient 4711" for a, b, c, d in
             zip(AGE, YEARS, HOURS.tolist(), OVER, strict=True)]  # fmt: skip
    (tmp_path / "t.csv").write_text("age,years,hours,over,note\n" + "\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("loss", LOSSES)
def test_a_formula_without_a_schema(loss):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    expected = direct(loss)
    for table in (TABLE, pandas.DataFrame(TABLE)):
        found = dpfast.fit(
            f"{response(loss)} ~ age + years", table, loss, privacy=1.0,
            noise=dpfast.SeededNoise(3),
        )  # fmt: skip
        np.testing.assert_array_equal(found.params, expected.params)
        assert found.names == expected.names
        assert found.released_units() == expected.released_units() != []
        if loss != "logistic":
            turned = {"years": YEARS[:5], "other": AGE[:5], "age": AGE[:5]}
            np.testing.assert_allclose(
                found.predict(turned), expected.predict(np.column_stack([AGE, YEARS])[:5])
            )


@each(
    ("formula", "said"),
    [
        ("hours ~ C(age)", "Declare them"),
        ("age + years", "left side"),
        ("hours ~ absent", "no column 'absent'"),
        ("hours ~ note", "'note' must be numbers"),
    ],
)
def test_a_formula_that_needs_a_schema_is_refused_before_the_charge(formula, said):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    ledger = dpfast.Ledger(1.0)
    table = pandas.DataFrame(TABLE | {"note": ["patient 4711"] * N})
    with pytest.raises(InvalidInput, match=said) as refusal:
        dpfast.fit(formula, table, privacy=1.0, ledger=ledger)
    assert ledger.entries == () and "4711" not in str(refusal.value)


def test_a_formula_without_an_intercept_is_scaled_and_not_centred():
    pytest.importorskip("formulaic")
    found = dpfast.fit("hours ~ age + years - 1", TABLE, "least-squares", privacy=2.0)
    assert found.names == ("age", "years")
    assert [centre for _, (centre, _) in found.released_units()] == [0.0, 0.0, 0.0]


@each("loss", LOSSES)
def test_estimators_with_nothing_declared(loss):
    pytest.importorskip("sklearn")
    from dpfast.estimators import (
        DPHuberRegressor,
        DPLinearRegression,
        DPLogisticRegression,
        DPQuantileRegressor,
    )

    X, expected = np.column_stack([AGE, YEARS]), direct(loss)
    options = {"noise": dpfast.SeededNoise(3), "score_privacy": 2.0}
    if loss == "log-cosh":
        model = DPHuberRegressor(1.0, **options)
    elif loss == "least-squares":
        model = DPLinearRegression(1.0, **options)
    elif loss == "quantile":
        model = DPQuantileRegressor(1.0, **options)
    else:
        model = DPLogisticRegression(1.0, standardize=True, **options)
    y = OVER if loss == "logistic" else HOURS
    model.fit(X, y)
    np.testing.assert_array_equal(np.ravel(model.coef_), expected.params[1:3])
    assert np.ravel(model.intercept_) == expected.params[0]
    assert 0.5 < model.score(X, y) < 1.0
    if loss != "logistic":
        np.testing.assert_allclose(model.predict(X[:9]), expected.predict(X[:9]))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("written", ["--formula", "--covariates"])
@pytest.mark.one_in(2)
def test_the_command_line_reads_a_raw_file(folder, capsys, loss, written):
    if written == "--formula":
        pytest.importorskip("formulaic")
        columns = ["--formula", f"{response(loss)} ~ age + years"]
    else:
        columns = ["--response", response(loss), "--covariates", "age, years"]
    command = ["fit", "t.csv", *columns, "--loss", loss, "--mu", "1", "--seed", "3"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = direct(loss)
    assert found["params"] == expected.params.tolist()
    assert found["names"] == list(expected.names)
    assert found["source"]["schema"] is None
    units = {name: (v["centre"], v["unit"]) for name, v in found["released_units"].items()}
    assert units == dict(expected.released_units())
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "Centre and scale: " in said and "age " in said and "one record replaced" in said


def test_the_command_line_reads_types_where_the_format_has_them(folder, capsys):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table(TABLE | {"note": ["patient 4711"] * N}), "t.parquet")
    dpfast.Ledger.open("book", dpfast.GDP(2.0))
    command = ["fit", "t.parquet", "--response", "hours", "--mu", "1", "--ledger", "book"]
    assert main([*command, "--covariates", "age,note"]) == 1
    said = without_paths(capsys.readouterr().err, folder)
    assert "'note' must be numbers" in said and "4711" not in said
    assert dpfast.Ledger.open("book").entries == ()
    assert main([*command, "--covariates", "age,years", "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["params"] == direct("least-squares").params.tolist()
    assert len(dpfast.Ledger.open("book").entries) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--response", "hours"], "--covariates"),
        (["--response", "hours", "--covariates", "age,absent"], "no column 'absent'"),
        (["--response", "hours", "--covariates", "age,age"], "named twice"),
        (["--response", "hours", "--covariates", "age,hours"], "named twice"),
        ([], "--formula or --response"),
    ],
)
def test_wrong_columns_are_refused_before_the_charge(folder, capsys, options, said):
    dpfast.Ledger.open("book", dpfast.GDP(2.0))
    assert main(["fit", "t.csv", *options, "--mu", "1", "--ledger", "book"]) == 1
    assert said in capsys.readouterr().err
    assert dpfast.Ledger.open("book").entries == ()


def test_cells_that_are_no_numbers_are_missing(folder):
    lines = (folder / "t.csv").read_text().split("\n")
    lines[7] = "patient 4711,3,40,1,x"
    (folder / "u.csv").write_text("\n".join(lines))
    found = read_numbers(folder / "u.csv", ["age", "hours", "note"])
    assert np.isnan(found["age"][6]) and np.isfinite(found["age"][[5, 7]]).all()
    assert np.isnan(found["note"]).all()  # types come from the format: a CSV file has none
    assert list(found) == ["age", "hours", "note"]
