"""Weights and offsets through formulas, estimators and the command line: the same fits."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from dpfast.cli import main
from dpfast.errors import InvalidInput
from tests.loops import each

N = 600
RNG = np.random.default_rng(4)
X = RNG.uniform(-1.0, 1.0, (N, 2))
W, OFFSETS = RNG.uniform(0.2, 3.0, N), RNG.normal(size=N)
Y = 0.5 + X @ [1.0, -0.5] + OFFSETS + 0.3 * RNG.normal(size=N)
TABLE = {"a": X[:, 0], "b": X[:, 1], "y": Y, "w": W, "o": OFFSETS}
NUMBER = dpfast.Numeric(-1.0, 1.0)
SCHEMA = dpfast.Schema({"a": NUMBER, "b": NUMBER, "y": dpfast.Numeric(-8.0, 8.0)})
LOG_COSH = dpfast.Objective("log-cosh", scale=0.5)
BESIDE = {"sample_weight": W, "largest_weight": 3.0, "offset": OFFSETS}
NAMED = {"sample_weight": "w", "largest_weight": 3.0, "offset": "o"}

pytestmark = pytest.mark.filterwarnings("ignore")


def options(**more):
    return {"privacy": 5.0, "noise": dpfast.SeededNoise(0)} | more


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["raw", "schema"])
def test_a_formula_takes_names_of_columns(schema):
    pytest.importorskip("formulaic")
    loss = {} if schema is None else {"loss": LOG_COSH}
    found = dpfast.fit(
        "y ~ a + b", dpfast.records(TABLE, **NAMED), schema=schema, **options(**loss)
    )
    if schema is None:
        expected = dpfast.fit(
            dpfast.records(X, Y, names=["a", "b"], **BESIDE), None, standardize=True, **options()
        )
    else:
        design = schema.encode(TABLE, ["a", "b"], "y")
        expected = dpfast.fit(dpfast.records(design, **BESIDE), None, LOG_COSH, **options())
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.model == expected.model
    with pytest.raises(InvalidInput, match="no column 'absent'"):
        dpfast.fit(
            "y ~ a", dpfast.records(TABLE, offset="absent"), schema=schema, **options(**loss)
        )


ESTIMATORS = {
    "DPHuberRegressor": ("log-cosh", Y, {"scale": 0.5}),
    "DPLinearRegression": ("least-squares", Y, {}),
    "DPQuantileRegressor": ("quantile", Y, {"scale": 0.5}),
    "DPLogisticRegression": ("logistic", (Y > 0.5).astype(float), {}),
}


@each("name", ESTIMATORS)
def test_an_estimator_takes_weights_as_scikit_learn_does(name):
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    from dpfast import estimators

    loss, y, settings = ESTIMATORS[name]
    model = getattr(estimators, name)(**options(**settings), largest_weight=3.0)
    assert has_fit_parameter(model, "sample_weight")
    assert clone(model).largest_weight == 3.0
    model.fit(X, y, sample_weight=W)
    records = dpfast.records(X, y, sample_weight=W, largest_weight=3.0)
    objective = dpfast.Objective(loss, **settings) if settings else loss
    expected = dpfast.fit(records, None, objective, **options())
    np.testing.assert_array_equal(model.result_.params, expected.params)
    ledger = dpfast.Ledger(100.0)
    without = getattr(estimators, name)(**options(**settings, ledger=ledger))
    if name != "DPLinearRegression":
        given = options(**settings, ledger=ledger, weights=dpfast.Mallows(9.0))
        papers = getattr(estimators, name)(**given)
        with pytest.raises(InvalidInput, match="needs largest_weight"):
            papers.fit(X, y, sample_weight=W)
    with pytest.raises(InvalidInput, match="not the name of one"):
        without.fit(X, y, sample_weight="w")
    assert not ledger.entries


def written(folder, kind):
    if kind == "csv":
        rows = np.column_stack(list(TABLE.values())).tolist()
        lines = [",".join(TABLE), *[",".join(map(repr, row)) for row in rows]]
        (folder / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    else:
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(arrow.table(TABLE), folder / "data.parquet")
    return f"data.{kind}"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("declared", [False, True], ids=["raw", "schema"])
def test_the_command_line_names_columns(tmp_path, monkeypatch, capsys, kind, declared):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, kind)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    typed = ["fit", path, "--mu", "5", "--seed", "0", "--json", "--response", "y",
             "--covariates", "a,b", "--sample-weight", "w", "--offset", "o"]  # fmt: skip
    robust = ["--loss", "log-cosh", "--scale", "0.5"]
    typed += ["--schema", "schema.toml", *robust] if declared else []
    assert main([*typed, "--largest-weight", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    if declared:
        design = SCHEMA.encode(TABLE, ["a", "b"], "y")
        expected = dpfast.fit(dpfast.records(design, **BESIDE), None, LOG_COSH, **options())
    else:
        expected = dpfast.fit(
            dpfast.records(X, Y, names=["a", "b"], **BESIDE), None, standardize=True, **options()
        )
    np.testing.assert_array_equal(found["params"], expected.params)
    assert "sample weights clipped to [0, 3] and an offset" in found["model"]
    assert main(typed) == 0
    assert "sample weights and an offset" in json.loads(capsys.readouterr().out)["model"]
    assert main([*typed, "--method", "newton", *robust]) == 1
    assert "--largest-weight" in capsys.readouterr().err
    assert main([*typed, "--largest-weight", "3", "--offset", "absent"]) == 1
    assert "has no column 'absent'" in capsys.readouterr().err
