"""Formulas over a schema."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest

pytest.importorskip("formulaic")

import dpfast
from dpfast.data.formula import terms_of
from dpfast.data.schema import Binary, Categorical, Numeric, Schema
from dpfast.errors import InvalidInput
from tests.data.designs import design_from_formula
from tests.loops import each

SCHEMA = Schema(
    {
        "y": Numeric(-5, 5, centre=0, unit=1),
        "a": Numeric(0, 4, centre=0, unit=2),
        "b": Numeric(-1, 1),
        "g": Categorical(["u", "v", "w"]),
        "z": Binary(1, 0),
    }
)
RNG = np.random.default_rng(3)
N = 40
TABLE = {
    "y": RNG.normal(size=N),
    "a": RNG.uniform(0, 4, N),
    "b": RNG.uniform(-1, 1, N),
    "g": RNG.choice(["u", "v", "w"], N),
    "z": RNG.integers(0, 2, N),
}


def test_terms_mean_what_they_say():
    design = design_from_formula("y ~ a + I(a**2) + np.log(1 + a) + b:C(g) - 1", TABLE, SCHEMA)
    a, b = TABLE["a"], TABLE["b"]
    v, w = (TABLE["g"] == "v") * 1.0, (TABLE["g"] == "w") * 1.0
    expected = {
        "a": a,
        "I(a ** 2)": a**2,
        "np.log(1 + a)": np.log1p(a),
        "b:g[u]": b * (TABLE["g"] == "u"),  # nothing else spans b
        "b:g[v]": b * v,
        "b:g[w]": b * w,
    }
    found = dict(zip(design.names, design.X.T, strict=True))
    assert set(found) == set(expected)
    for name, column in expected.items():
        np.testing.assert_allclose(found[name], column, atol=1e-15)
    assert not design.fit_intercept
    _, y = terms_of("y ~ a", SCHEMA).records(TABLE)
    np.testing.assert_array_equal(y, TABLE["y"])


def test_treatment_coding_is_that_of_formulaic():
    """With main effects present, the design is that of the well-known implementation."""
    formulaic = pytest.importorskip("formulaic")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    frame["g"] = pandas.Categorical(frame["g"], ["u", "v", "w"])
    formula = "a + g + b + b:g + a:b"
    theirs = np.asarray(formulaic.model_matrix(formula, frame))
    ours = design_from_formula(formula, TABLE, SCHEMA)
    assert ours.fit_intercept
    X = np.column_stack([np.ones(N), ours.X])
    assert X.shape == theirs.shape
    order = [int(np.argmin(np.abs(theirs - column[:, None]).sum(axis=0))) for column in X.T]
    assert sorted(order) == list(range(X.shape[1]))
    np.testing.assert_allclose(X, theirs[:, order], atol=1e-15)


FORMULAS = """
a | g | C(g) | h | a + b | a*b | a:b | a + a:b | g + a | g + h | g*h | g:h | g + g:h | h + g:h
g - 1 | C(g) - 1 | g + 0 | 0 + g + h | 0 + g:h | g*h - 1 | g:h - 1 | a - 1 | a + g - 1 | a:g - 1
C(g):a | C(g):a - 1 | a + C(g):a | g + g:a | g*a | g*a - 1 | g:a + h:a | 0 + g:a + h:a
g:h:a | g*h*a | g*h*a - 1 | g + h:a | h + g:h:a | a:b:g | a*b*g | g:h + a | g:h + g:a
g:h:k | g*h*k | g + h:k | g:h + h:k | g:h + h:k + g:k | g + g:h:k | (g + h + k)**2 | (g + h)**2 - 1
g/h | g/a | g/(a + b) | a/g | (g + a)**2 | g*(a + b) | (g + h):(a + b) | z*g | z:g | z:a + g
I(a**2) + a | I(a**2):g | I(a*b):C(g) + g | log(1 + a):g | np.log(1 + a) + C(h) | exp(b)*g - 1
sqrt(a)*C(g) + h - 1 | abs(b):g:h | g*h*k - 1 | g:a + I(a**2):h | C(g):C(h) | C(g)*C(h) + a
C(g)/C(h) - 1 | k + g:h | a + k:a + g:h:a
"""
FORMULAS = [formula.strip() for formula in FORMULAS.replace("\n", "|").split("|")][1:-1]


@each("formula", FORMULAS)
def test_the_columns_are_those_of_statsmodels(formula):
    """The same columns as patsy, which makes the design matrices of statsmodels: full rank."""
    patsy = pytest.importorskip("patsy")
    levels = {"g": ["u", "v", "w"], "h": ["p", "q"], "k": ["1", "2"]}
    cells = [(g, h, k) for g in levels["g"] for h in levels["h"] for k in levels["k"]] * 8
    table = dict(zip("ghk", np.array(cells).T, strict=True))
    rng = np.random.default_rng(5)
    table |= {"a": rng.uniform(0, 4, len(cells)), "b": rng.uniform(-1, 1, len(cells))}
    table["z"] = rng.integers(0, 2, len(cells))
    schema = Schema(
        {name: Categorical(levels[name]) for name in "ghk"}
        | {name: SCHEMA[name] for name in ("a", "b", "z")}
    )
    ours = design_from_formula(formula, table, schema)
    scope = {"log": np.log, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs, "np": np}
    theirs = patsy.dmatrix(formula, table | scope)
    expected = {
        _plain(name): theirs[:, j] for j, name in enumerate(theirs.design_info.column_names)
    }
    found = dict(zip(map(_plain, ours.names), ours.X.T, strict=True))
    if ours.fit_intercept:
        found["Intercept"] = np.ones(len(cells))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], atol=1e-14)
    X = np.column_stack(list(found.values()))
    assert np.linalg.matrix_rank(X) == X.shape[1]
    low, high = ours.bounds.T
    assert (low <= ours.X).all() and (high >= ours.X).all()


def _plain(name):
    """A column's name without the marks that differ, its factors sorted."""
    name = name.replace("C(", "(").replace("[T.", "[").replace(" ", "")
    return ":".join(sorted(re.sub(r"^\((\w)\)", r"\1", part) for part in name.split(":")))


def test_there_are_enough_formulas_with_dropped_columns():
    assert len(FORMULAS) >= 60
    assert {"C(g) - 1", "C(g):a", "C(g):C(h)"} <= set(FORMULAS)


@each(
    "term",
    ["a", "I(a*b)", "I(a - b)", "I(a/(2 + b))", "I((a - b)**3)", "I(b**2)", "I(-b)", "exp(b)",
     "sqrt(a)", "abs(b)", "log(0.5 + a)", "a:b", "a + a:C(g)", "z:b", "I(2*a + 1)"],
)  # fmt: skip
def test_bounds_hold_and_are_approached(term):
    n = 4001
    table = {
        "a": np.tile([0.0, 4.0, 1.0], n)[:n],
        "b": np.linspace(-1.0, 1.0, n),
        "g": np.tile(["v", "w"], n)[:n],
        "z": np.ones(n),
    }
    design = design_from_formula(term, table, SCHEMA)
    low, high = design.bounds.T
    assert (low - 1e-12 <= design.X).all() and (high + 1e-12 >= design.X).all()
    reach = np.ptp(design.X, axis=0) / (high - low)
    assert (reach > (0.3 if term in ("I(a/(2 + b))", "I(a - b)") else 0.45)).all()


@each(
    "formula",
    ["y ~ center(a)", "y ~ scale(a)", "y ~ bs(a, df=5)", "y ~ a.mean()", "y ~ I(a - a.mean())",
     "y ~ I(a - np.mean(a))", "y ~ np.sort(a)", "y ~ a[0]", "y ~ I([1])", "y ~ C(a)",
     "y ~ C(g, contr.sum)", "y ~ I(a/0)", "y ~ I(a**0.5)", "y ~ I(2)", "y ~ x",
     "y ~ g + I(g + 1)", "y ~ a | b", "y ~ I(a + log(0))",
     "y ~ I(a, b)", "y ~ C(g, h=1)", "a + y ~ b", "g ~ b", "y ~ 1", "y ~ ("],
)  # fmt: skip
def test_whatever_could_look_at_other_records_is_refused(formula):
    with pytest.raises(InvalidInput):
        design_from_formula(formula, TABLE, SCHEMA)


@each("term", ["log(a)", "I(1/a)", "I(b/a)", "exp(-sqrt(1 - a))", "log(a - 2)", "I((a*1e300)**2)"])
def test_a_function_without_a_finite_range_has_no_declared_unit(term):
    """Its values are those without a schema; missing where they are not finite."""
    declared = design_from_formula(f"y ~ {term}", TABLE, SCHEMA)
    free = terms_of(f"y ~ {term}", table=TABLE).coding.design(TABLE)
    np.testing.assert_array_equal(declared.X, free.X)
    assert not np.isfinite(declared.bounds).any()
    weighted = dpfast.Objective("log-cosh", dpfast.Mallows(1.0), scale=1.0)
    with pytest.raises(InvalidInput, match="no finite range"):
        dpfast.fit(f"y ~ {term}", TABLE, weighted, schema=SCHEMA, privacy=1.0)


def test_a_fit_from_a_formula():
    n = 4000
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(0, 4, n), "g": rng.choice(["u", "v"], n)}
    table["y"] = 1 + 0.5 * table["a"] + (table["g"] == "v") + 0.1 * rng.normal(size=n)
    loss = dpfast.Objective("log-cosh", scale=0.1)
    options = {"schema": SCHEMA, "privacy": 2.0, "noise": dpfast.SeededNoise(0)}
    fit = dpfast.fit("y ~ a + C(g)", table, loss, **options)
    assert fit.names == ("intercept", "a", "g[v]", "g[w]")
    assert fit.params[:3] == pytest.approx([1.0, 0.5, 1.0], abs=0.05)
    with pytest.raises(InvalidInput, match="one response"):
        dpfast.fit("a", table, loss, **options)


def test_a_missing_value_reaches_no_other_record():
    table = dict(TABLE, a=np.where(np.arange(N) == 3, math.nan, TABLE["a"]))
    design = design_from_formula("y ~ a*b", table, SCHEMA)
    bad = ~np.isfinite(design.X).all(axis=1)
    assert bad.tolist() == [i == 3 for i in range(N)]


@each("formula", ["y ~ a:b", "y ~ I(a + 1e300**2)"])
@each("value", [1.0, 1e200])
def test_a_bound_that_overflows_is_refused_whatever_the_values_are(formula, value):
    wide = Numeric(0, 1e200, centre=0, unit=1)
    schema = Schema({"a": wide, "b": wide, "y": Numeric(0, 1)})
    table = {"a": [1.0, value], "b": [1.0, value], "y": [0.0, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidInput, match=r"no finite (bound|number)"):
            design_from_formula(formula, table, schema)


def test_names_between_backticks_are_columns_at_every_door():
    """With spaces, dashes and bars, which no bar of the formula is."""
    rng, n = np.random.default_rng(0), 4_000
    z, level = rng.normal(size=n), rng.integers(0, 3, n)
    x = z + rng.normal(size=n)
    table = {"pay|month": x + level, "an x": x, "a-z": z, "the level": level}
    table |= {"my weeks": np.ceil(rng.exponential(20.0, n)), "died": (rng.random(n) < 0.6) * 1.0}
    schema = dpfast.Schema({"the level": dpfast.Categorical([0, 1, 2])})
    told = {"schema": schema, "privacy": 2.0}
    fits = (
        dpfast.effects.two_stage("`pay|month` ~ `an x` | `a-z`", table, privacy=2.0),
        dpfast.tables.absorbed("`pay|month` ~ `an x` | `the level`", table, **told),
        dpfast.tables.fits("`pay|month` ~ `an x`", table, "the level", **told),
        dpfast.effects.cox("`my weeks` ~ `an x`", table, event="died", cuts=[9, 30], privacy=2.0),
    )
    assert all(fit.names[-1] == "an x" for fit in fits)
    declared = dpfast.Schema(
        {name: dpfast.Numeric(-9.0, 9.0) for name in ("pay|month", "an x")}
        | {"the level": dpfast.Categorical([0, 1, 2])}
    )
    by_level = dpfast.tables.fits(
        "`pay|month` ~ `an x`", table, "the level", schema=declared, privacy=2.0
    )
    assert by_level.names[-1] == "an x"
    with pytest.raises(dpfast.InvalidInput, match="stands one column"):
        dpfast.tables.absorbed("y ~ x | `a` + `b`", table, **told)


@pytest.mark.parametrize("formula", ["y ~ a + b", "y ~ a", "y ~ a:b - 1", "log(y) ~ exp(a)"])
def test_float64_columns_are_read_where_they_are_and_stay(formula):
    """Columns in their own units are not copied one by one; what is coded in place is the fit's."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 3))
    values[:, 2] = np.exp(values[:, 0])
    tables = [
        dict(zip("aby", values.T.copy(), strict=True)),
        pytest.importorskip("pandas").DataFrame(values, columns=[*"aby"]),
        {name: np.frombuffer(row.tobytes()) for name, row in zip("aby", values.T, strict=True)},
    ]  # the last one's arrays cannot be written
    for table in tables:
        for schema in (None, dpfast.Schema({"a": dpfast.Numeric(-4, 4)})):
            noise = dpfast.SeededNoise(0)
            fit = dpfast.fit(formula, table, schema=schema, privacy=50.0, noise=noise)
            assert np.isfinite(fit.params).any()
            found = np.column_stack([np.asarray(table[name]) for name in "aby"])
            np.testing.assert_array_equal(found, values)


def test_columns_side_by_side_are_those_of_numpy():
    from dpfast.data.encoding import _side_by_side

    for n in (0, 1, 4095, 4096, 9000):
        rng = np.random.default_rng(n)
        parts = [rng.normal(size=(n, k))[::-1] for k in (1, 3, 1)]
        np.testing.assert_array_equal(_side_by_side(parts), np.column_stack(parts))
