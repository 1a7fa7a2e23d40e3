"""One call for tables: a formula without a schema, in the columns' own units."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

import dpfast
from dpfast.data.formula import terms_of
from dpfast.errors import InvalidInput
from tests.loops import each

formulaic = pytest.importorskip("formulaic")
pandas = pytest.importorskip("pandas")

N = 3000
LEVELS = ["east", "north", "south"]


def table(n=N):
    rng = np.random.default_rng(3)
    educ, exper = rng.uniform(6.0, 20.0, n), rng.uniform(1.0, 45.0, n)
    region = rng.choice(LEVELS, n)
    line = 0.3 + 0.08 * educ + 0.03 * exper - 5e-4 * exper**2 + 0.2 * (region == "south")
    wage = np.exp(line + 0.002 * educ * exper + 0.3 * rng.standard_t(5, n))
    found = pandas.DataFrame({"wage": wage, "educ": educ, "exper": exper, "region": region})
    return found


TABLE = table()
LISTED = f"C(region, levels={LEVELS!r})"


@each(
    "formula",
    [
        "wage ~ educ + exper", "log(wage) ~ educ + exper + I(exper**2)", "wage ~ educ*exper - 1",
        f"wage ~ educ + {LISTED}", f"wage ~ educ:{LISTED} + educ", f"wage ~ {LISTED} - 1",
        f"wage ~ 0 + {LISTED}*educ", f"wage ~ I(educ/exper) + {LISTED}",
        f"wage ~ log(educ) + sqrt(exper) + educ:exper:{LISTED}",
    ],
)  # fmt: skip
def test_terms_are_those_of_formulaic(formula):
    """Names apart, the same columns, in the columns' own units, by the full-rank rule."""
    coding, left, _ = terms_of(formula, table=TABLE)
    y = left.covariates(TABLE)[:, 0]
    expected = formulaic.model_matrix(
        formula.replace("log(", "np.log(").replace("sqrt(", "np.sqrt("), TABLE, context={"np": np}
    )
    design = coding.design(TABLE)
    columns = np.asarray(expected.rhs, dtype=float)
    assert coding.fit_intercept == ("Intercept" in expected.rhs.columns)
    theirs = columns[:, int(coding.fit_intercept) :]
    assert design.X.shape == theirs.shape
    np.testing.assert_allclose(np.sort(design.X, axis=1), np.sort(theirs, axis=1), rtol=1e-12)
    np.testing.assert_allclose(y, np.asarray(expected.lhs, dtype=float).ravel(), rtol=1e-12)


@each(
    ("formula", "columns"),
    [
        ("log(wage) ~ educ + exper + I(exper**2)", lambda t: [t.educ, t.exper, t.exper**2]),
        ("log(wage) ~ educ*exper", lambda t: [t.educ, t.exper, t.educ * t.exper]),
        (
            f"log(wage) ~ educ + {LISTED}",
            lambda t: [t.educ, t.region == "north", t.region == "south"],
        ),
        ("wage ~ log(educ) + educ", lambda t: [np.log(t.educ), t.educ]),
    ],
)
def test_coefficients_are_in_natural_units(formula, columns):
    """At a huge budget least squares is what ordinary least squares gives of the columns."""
    X = np.column_stack([np.ones(N), *map(np.asarray, columns(TABLE))]).astype(float)
    y = np.log(TABLE.wage) if formula.startswith("log") else TABLE.wage
    exact = np.linalg.lstsq(X, np.asarray(y), rcond=None)[0]
    fit = dpfast.fit(formula, TABLE, "least-squares", privacy=1e4, noise=dpfast.SeededNoise(1))
    assert np.abs((fit.params - exact) / fit.bse).max() < 0.05
    np.testing.assert_allclose(fit.predict(TABLE[:50]), X[:50] @ fit.params, rtol=1e-9)
    few = pickle.loads(pickle.dumps(fit)).predict(TABLE[["region", "exper", "educ"]][:5])
    np.testing.assert_allclose(few, X[:5] @ fit.params, rtol=1e-9)


def test_products_and_powers_of_declared_columns_have_natural_units():
    """Those of the columns as they are, also without the terms of lower order."""
    levels = ["south", "north", "east"]
    schema = dpfast.Schema({
        "educ": dpfast.Numeric(0.0, 30.0), "exper": dpfast.Numeric(-10.0, 60.0),
        "region": dpfast.Categorical(levels), "wage": dpfast.Numeric(-50.0, 200.0),
    })  # fmt: skip
    noise, exactly = dpfast.SeededNoise(1), {"method": "auto", "privacy": 1e4}
    text = "wage ~ educ*exper + I(exper**2) + educ*C(region)"
    fit = dpfast.fit(text, TABLE, "least-squares", schema=schema, noise=noise, **exactly)
    labels = [np.asarray(TABLE.region == level) for level in levels[1:]]
    columns = {
        "educ": TABLE.educ, "exper": TABLE.exper, "I(exper ** 2)": TABLE.exper**2,
        "region[north]": labels[0], "region[east]": labels[1],
        "educ:exper": TABLE.educ * TABLE.exper,
        "educ:region[north]": TABLE.educ * labels[0], "educ:region[east]": TABLE.educ * labels[1],
    }  # fmt: skip
    assert sorted(fit.names[1:]) == sorted(columns)
    X = np.column_stack([np.ones(N), *[columns[name] for name in fit.names[1:]]]).astype(float)
    exact = np.linalg.lstsq(X, np.asarray(TABLE.wage), rcond=None)[0]
    assert np.abs((fit.params - exact) / fit.bse).max() < 0.3  # skewed
    np.testing.assert_allclose(fit.coded.predict(TABLE[:50]), fit.predict(TABLE[:50]), rtol=1e-9)
    alone = dpfast.fit("wage ~ educ:exper", TABLE, schema=schema, noise=noise, privacy=1e4)
    X = np.column_stack([np.ones(N), TABLE.educ * TABLE.exper])
    exact = np.linalg.lstsq(X, np.asarray(TABLE.wage), rcond=None)[0]
    assert np.abs((alone.params - exact) / alone.bse).max() < 0.3


def test_the_table_follows_the_formula_or_is_data():
    formula = "log(wage) ~ educ + I(exper**2)"
    options = {"privacy": 1.0, "loss": "log-cosh"}
    one, two = (
        dpfast.fit(formula, *given, **named, **options, noise=dpfast.SeededNoise(7))
        for given, named in (((TABLE,), {}), ((), {"data": TABLE}))
    )
    np.testing.assert_array_equal(one.params, two.params)
    for given, said in (((formula, TABLE), "pass one of them"), ((TABLE, None), "to a formula")):
        with pytest.raises(InvalidInput, match=said):
            dpfast.fit(*given, data=TABLE, privacy=1.0)
    people = dpfast.records(TABLE.assign(person=np.arange(N) // 2), group="person", group_size=2)
    assert dpfast.fit(formula, people, privacy=1.0).names == one.names
    ledger = dpfast.Ledger((4.0, 1e-6))
    assert dpfast.fit(formula, TABLE, privacy=(1.0, 1e-7), ledger=ledger).n_records == N
    assert ledger.entries[0].charged == dpfast.GDP.within((1.0, 1e-7))


def test_levels_are_public_and_never_read_from_the_values():
    other = TABLE.copy()
    other.loc[0, "region"] = "a secret"
    for rows in (TABLE, other):
        with pytest.raises(InvalidInput, match="private fact"):
            dpfast.fit("wage ~ C(region)", rows, privacy=1.0)
        assert terms_of(f"wage ~ {LISTED}", table=rows)[0].columns["region"].levels == tuple(LEVELS)
    design = terms_of(f"wage ~ {LISTED}", table=other)[0].design(other)
    assert np.isnan(design.X[0]).all() and np.isfinite(design.X[1:]).all()
    # a level that nobody has is a column all the same
    wide = f"wage ~ C(region, levels={[*LEVELS, 'west']!r})"
    names = terms_of(wide, table=TABLE)[0].design(TABLE).names
    assert names == ("region[north]", "region[south]", "region[west]")


def test_an_enum_of_polars_declares_its_levels():
    """Nobody makes one without listing them, and what pandas makes of it does no longer say so."""
    polars = pytest.importorskip("polars")
    area = polars.Series(TABLE.region.tolist(), dtype=polars.Enum([*LEVELS, "west"]))
    rows = polars.DataFrame({"wage": TABLE.wage.to_numpy(), "area": area})
    for term in ("area", "C(area)"):
        names = terms_of(f"wage ~ {term}", table=rows)[0].design(rows).names
        assert names == ("area[north]", "area[south]", "area[west]")
    back = rows.to_pandas()
    with pytest.raises(InvalidInput, match=r"category.*C\(area, levels=\[...\]\)"):
        dpfast.fit("wage ~ area", back, privacy=1.0)


def test_values_decide_about_their_record_alone():
    """What has no logarithm, or is no number, is missing: nothing is raised and nothing warns."""
    bad = TABLE.copy()
    bad.loc[:4, "wage"] = [-1.0, 0.0, np.nan, np.inf, 1e308]
    bad.loc[5:7, "exper"] = [1e200, -np.inf, 0.0]
    coding, left, _ = terms_of("log(wage) ~ educ + I(exper**2) + I(educ/exper)", table=bad)
    y = left.covariates(bad)[:, 0]
    design = coding.design(bad)
    assert np.isfinite(np.delete(design.X, [5, 6, 7], axis=0)).all()
    assert not np.isfinite(y[:4]).any() and np.isfinite(y[4:]).all()
    fit = dpfast.fit("log(wage) ~ educ + I(exper**2) + I(educ/exper)", bad, privacy=5.0)
    assert np.isfinite(fit.params).all() and math.isfinite(fit.bse.sum())


def test_a_schema_has_the_last_word_about_levels():
    schema = dpfast.Schema({"wage": dpfast.Numeric(0, 50), "region": dpfast.Categorical(LEVELS)})
    fit = dpfast.fit(f"wage ~ {LISTED}", TABLE, privacy=1.0, schema=schema)
    assert fit.names[1:] == ("region[north]", "region[south]")
    with pytest.raises(InvalidInput, match="other levels are declared"):
        dpfast.fit("wage ~ C(region, levels=['a', 'b'])", TABLE, privacy=1.0, schema=schema)


def test_a_path_is_read_by_its_columns(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "wages.parquet"
    TABLE[["wage", "exper", "educ"]].to_parquet(path)
    noise = {"privacy": 1.0, "noise": dpfast.SeededNoise(3)}
    fit = dpfast.fit("wage ~ educ + exper - 1", path, "least-squares", **noise)
    assert fit.names == ("educ", "exper")
    fit = dpfast.fit("wage ~ educ + exper", str(path), "least-squares", privacy=1.0)
    assert fit.names == ("intercept", "educ", "exper")
    for call, told in (
        (lambda: dpfast.fit("wage ~ educ + C(exper)", path, privacy=1.0), r"levels=\[\.\.\.\]"),
        (lambda: dpfast.fit("wage ~ age", path, privacy=1.0), "no column 'age'"),
        (
            lambda: dpfast.fit(
                "wage ~ educ",
                dpfast.open_parquet(path, covariates=["educ"], response="wage"),
                privacy=1.0,
            ),
            r"dpfast\.fit\(opened, loss=",
        ),
    ):
        with pytest.raises(InvalidInput, match=told):
            call()
