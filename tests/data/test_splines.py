"""Splines with public knots: those of formulaic, in every kind of table, saved and read again."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpfast
from dpfast.data.formula import terms_of
from dpfast.errors import InvalidInput
from tests.data.designs import design_from_formula
from tests.loops import each

formulaic = pytest.importorskip("formulaic")
pandas = pytest.importorskip("pandas")

N = 4000
RNG = np.random.default_rng(2)
TABLE = pandas.DataFrame({"age": RNG.uniform(18, 90, N), "w": RNG.integers(0, 2, N)}).assign(
    g=RNG.choice(["u", "v"], N)
)
TABLE["pay"] = 2.0 + np.sin(TABLE.age / 15.0) + 0.5 * TABLE.w + 0.3 * RNG.normal(size=N)
SCHEMA = dpfast.Schema(
    {
        "age": dpfast.Numeric(18, 90),
        "w": dpfast.Binary(1, 0),
        "g": dpfast.Categorical(["u", "v"]),
        "pay": dpfast.Numeric(0, 5),
    }
)
ENDS = "lower_bound=18, upper_bound=90"

#: What people type, and the columns that span the same.
SAME = {
    f"bs(age, knots=[30, 45.5, 60], degree=3, {ENDS})": None,
    f"bs(age, knots=(40, 60), degree=2, {ENDS})": None,
    f"bs(age, knots=[], degree=1, {ENDS})": None,
    f"bs(age, {ENDS})": None,
    f"bs(age, knots=[50], degree=0, {ENDS})": None,
    f"bs(age, knots=50, include_intercept=True, {ENDS})": f"bs(age, knots=[50], {ENDS})",
    f"bs(age, knots=[50], include_intercept=True, {ENDS}) - 1": None,
    f"bs(age, knots=[50], {ENDS}) * w": None,
    f"w * cr(age, knots=[40], {ENDS}) - 1": None,
    f"C(g):bs(age, knots=[50], {ENDS})": None,
    f"cr(age, knots=[30, 60], {ENDS}) - 1": None,
    f"cr(age, knots=[30, 60], {ENDS})": f"cr(age, knots=[30, 60], {ENDS}) - 1",
    f"cr(age, knots=[30], {ENDS}) * C(g)": f"cr(age, knots=[30], {ENDS}):C(g) - 1",
    f"ns(age, knots=[30, 60], {ENDS})": f"cr(age, knots=[30, 60], {ENDS}) - 1",
}  # fmt: skip


@each("formula", SAME)
def test_columns_span_what_those_of_formulaic_do_and_are_independent(formula):
    ours = design_from_formula(formula, TABLE, SCHEMA)
    theirs = np.asarray(formulaic.model_matrix(SAME[formula] or formula, TABLE))
    X = np.column_stack([np.ones(N), ours.X]) if ours.fit_intercept else ours.X
    rank = np.linalg.matrix_rank(theirs)
    assert np.linalg.matrix_rank(X) == X.shape[1] == rank
    assert np.linalg.matrix_rank(np.column_stack([X, theirs])) == rank
    assert (ours.bounds[:, 0] <= ours.X).all() and (ours.bounds[:, 1] >= ours.X).all()
    if SAME[formula] is None and "*" not in formula and ":" not in formula:
        np.testing.assert_allclose(X, theirs, atol=1e-12)
    listed = formula.replace("C(g)", "C(g, levels=['u', 'v'])")
    free, *_ = terms_of(f"pay ~ {listed}", table=TABLE)
    declared = ours.coding.covariates(TABLE)
    if " w" not in formula and "w *" not in formula:
        np.testing.assert_array_equal(free.covariates(TABLE), declared)


def test_ends_are_those_that_a_schema_declares():
    short, long = (
        design_from_formula(f"bs(age, knots=[50]{ends})", TABLE, SCHEMA)
        for ends in ("", f", {ENDS}")
    )
    assert short.X.tobytes() == long.X.tobytes()
    assert short.names == tuple(f"bs(age)[{j}]" for j in range(1, 5))


def test_any_value_is_coded_record_by_record_in_silence():
    odd = [18.0, 90.0, -1e300, 1e300, np.nan, np.inf, -np.inf]
    for term in ("bs(age, knots=[50])", "ns(age, knots=[50])", "cr(age, knots=[50]) - 1"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = design_from_formula(term, {"age": odd}, SCHEMA).X
        np.testing.assert_array_equal(found[2:4], found[:2])
        assert np.isnan(found[4:]).all()
        for i, value in enumerate(odd):
            alone = design_from_formula(term, {"age": [value]}, SCHEMA).X
            np.testing.assert_array_equal(alone[0], found[i])


@each(
    ("term", "told"),
    [("bs(age, df=4)", r"bs\(x, knots=\[...\], degree=3, lower_bound"),
     ("cr(age, df=3)", r"cr\(x, knots="),
     ("bs(age, 4)", "all else by name"), ("bs(log(age), knots=[3])", "of one column"),
     ("bs(age, knots=[50])", r"lower_bound=\.\.\., upper_bound"),
     ("bs(age, knots=k)", "numbers themselves"), ("bs(age, knots=[50], dx=2)", "has no argument"),
     ("bs(age, knots=range(3))", "numbers themselves"), (f"ns(age, {ENDS})", "1 to 100"),
     (f"bs(age, knots=[60, 50], {ENDS})", "increase"), (f"bs(age, knots=[18], {ENDS})", "increase"),
     (f"bs(age, knots=['a'], {ENDS})", "increase"), (f"bs(age, knots=[1e200], {ENDS})", "increase"),
     (f"bs(age, knots=[50], degree=9, {ENDS})", "0 to 5"),
     (f"bs(age, knots=[50], degree=True, {ENDS})", "0 to 5"),
     (f"bs(age, knots=[50], extrapolation='extend', {ENDS})", "clip"),
     ("ns(age, knots=[1e-320], lower_bound=0, upper_bound=1)", "too close"),
     ("bs(g, knots=[1]) + C(g, levels=['u', 'v'])", "categorical"),
     (f"cr(age, knots=[50], constraints='center', {ENDS})", "no argument 'constraints'"),
     ("bs(absent, knots=[1])", "absent"),
     (f"bs(age, knots=[50], {ENDS}) + bs(age, knots=[40], {ENDS})", "knots of both")],
)  # fmt: skip
def test_what_is_not_public_is_refused_and_costs_nothing(term, told):
    ledger = dpfast.Ledger(1.0)
    with pytest.raises(InvalidInput, match=told):
        dpfast.fit(f"pay ~ {term}", TABLE, privacy=1.0, ledger=ledger)
    assert not ledger.entries


def test_coefficients_are_those_of_a_regression_on_the_columns(tmp_path):
    """Without privacy's noise; a saved fit predicts the same, and a schema's fit its own units."""
    term = f"bs(age, knots=[40, 60], {ENDS})*w"
    options = {"privacy": 1e4, "noise": dpfast.SeededNoise(1)}
    fit = dpfast.fit(f"pay ~ {term}", TABLE, "least-squares", **options)
    matrix = formulaic.model_matrix(term, TABLE)
    expected = np.linalg.lstsq(np.asarray(matrix), TABLE.pay.to_numpy(), rcond=None)[0]
    by_name = {
        name.replace(f"age, knots=[40, 60], {ENDS}", "age"): value
        for name, value in zip(matrix.columns, expected, strict=True)
    }
    by_name["intercept"] = by_name.pop("Intercept")
    assert set(by_name) == set(fit.names)
    np.testing.assert_allclose(fit.params, [by_name[name] for name in fit.names], atol=2e-3)
    dpfast.saved.save(fit, tmp_path / "fit.json")
    again, rows = dpfast.saved.load(tmp_path / "fit.json"), {"age": [0.0, 50.0], "w": [1, 0]}
    assert again.predict(rows).tobytes() == fit.predict(rows).tobytes()
    declared = dpfast.fit(
        "pay ~ bs(age, knots=[40, 60]) + w", TABLE, "least-squares", schema=SCHEMA, **options
    )
    plain = dpfast.fit(f"pay ~ bs(age, knots=[40, 60], {ENDS}) + w", TABLE, "least-squares",
                       **options)  # fmt: skip
    np.testing.assert_allclose(declared.natural.params, plain.params, atol=2e-3)


FORMULA = f"log(pay + 2) ~ ns(age, knots=[40, 60], {ENDS})*w + C(g, levels=['u', 'v']) + I(age**2)"


@pytest.mark.parametrize("kind", ["parquet", "dask"])
@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.values
def test_a_formula_reads_partitions_and_files(kind, schema, tmp_path):
    """The fit of the same table in memory, of which no column is gathered."""
    formula = FORMULA if schema is None else "pay ~ cr(age, knots=[40])*w + C(g) + I(age**2) - 1"
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        TABLE.to_parquet(tmp_path / "table.parquet", row_group_size=N // 3)
        source = str(tmp_path / "table.parquet")
    else:
        source = pytest.importorskip("dask.dataframe").from_pandas(TABLE, npartitions=3)

    def fitted(data):
        noise = dpfast.SeededNoise(3)
        return dpfast.fit(formula, data, "least-squares", schema=schema, privacy=3.0, noise=noise)

    found, expected = fitted(source), fitted(TABLE)
    assert found.names == expected.names and found.n_records == N
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.conf_int(), expected.conf_int(), rtol=1e-6, atol=1e-8)
    rows = {"age": [20.0, 95.0], "w": [0, 1], "g": ["u", "v"]}
    np.testing.assert_allclose(found.predict(rows), expected.predict(rows), rtol=1e-6)
    ledger = dpfast.Ledger(1.0)
    for wrong in ("pay ~ absent", "pay ~ g + log(g)", "~ age", "pay ~ bs(age, df=3)", "g ~ age"):
        with pytest.raises(InvalidInput):
            dpfast.fit(wrong, source, schema=schema, privacy=1.0, ledger=ledger)
    assert not ledger.entries
