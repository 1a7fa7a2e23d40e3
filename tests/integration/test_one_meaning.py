"""A formula means the same at every door, with and without a schema: that of the exact fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dpfast
from tests.loops import each

pytest.importorskip("formulaic")
pytest.importorskip("pandas")

N = 12_000
LEVELS = ["north", "south", "west"]
GROUPS = ["u", "v"]


def table():
    rng = np.random.default_rng(11)
    age, educ = rng.uniform(16.0, 80.0, N), rng.integers(0, 21, N) * 1.0
    z = rng.normal(size=N)
    region, group = rng.choice(LEVELS, N), rng.choice(GROUPS, N)
    log_pay = 1.0 + 0.01 * age + 0.08 * educ + 0.3 * (region == "west") + 0.4 * rng.normal(size=N)
    return {
        "age": age, "educ": educ, "z": z, "region": region, "group": group,
        "pay": np.exp(log_pay), "dose": 0.05 * age + z + rng.normal(size=N),
        "high": 1.0 * (log_pay > 2.3), "event": 1.0 * (rng.random(N) < 0.7),
    }  # fmt: skip


TABLE = table()
RANGES = {
    "age": dpfast.Numeric(16, 80, units="years"), "educ": dpfast.Numeric(0, 20),
    "z": dpfast.Numeric(-6, 6), "pay": dpfast.Numeric(0, 200), "dose": dpfast.Numeric(-10, 20),
    "high": dpfast.Binary(1, 0), "event": dpfast.Numeric(0, 1),
}  # fmt: skip
LABELS = {"region": dpfast.Categorical(LEVELS), "group": dpfast.Categorical(GROUPS)}

#: Nothing but levels is declared; the ages, too; everything, so that units are public.
SCHEMAS = {
    "levels": dpfast.Schema(LABELS),
    "a part": dpfast.Schema(LABELS | {"age": RANGES["age"]}),
    "all": dpfast.Schema(LABELS | RANGES),
}

#: Right sides, and their columns.
RIGHT = {
    "age + educ": lambda t: [t["age"], t["educ"]],
    "abs(age) + educ": lambda t: [t["age"], t["educ"]],
    "log(age) + region": lambda t: [np.log(t["age"]), *labels(t)],
    "exp(age / 40) + sqrt(educ)": lambda t: [np.exp(t["age"] / 40), np.sqrt(t["educ"])],
    "age + I(age**2) + educ": lambda t: [t["age"], t["age"] ** 2, t["educ"]],
    "age*educ": lambda t: [t["age"], t["educ"], t["age"] * t["educ"]],
    "I(educ**2) + log(1 + educ)": lambda t: [t["educ"] ** 2, np.log1p(t["educ"])],
    "abs(age - 40)": lambda t: [np.abs(t["age"] - 40.0)],
}
LEFT = {"pay": lambda t: t["pay"], "log(pay)": lambda t: np.log(t["pay"])}


def labels(t):
    return [1.0 * (t["region"] == level) for level in LEVELS[1:]]


def exact(left, right, rows=slice(None)):
    """Coefficients of ordinary least squares of the columns as they are."""
    X = np.column_stack([np.ones(N), *RIGHT[right](TABLE)])[rows]
    return np.linalg.lstsq(X, LEFT[left](TABLE)[rows], rcond=None)[0]


def agrees(found, errors, expected, most=1.0):
    """Whether estimates are the expected numbers up to this many standard errors."""
    off = np.abs(np.asarray(found) - expected) / np.asarray(errors)
    assert np.isfinite(off).all() and off.max() < most, (off, found, expected)


@each("right", list(RIGHT))
@each("left", list(LEFT))
@each("known", list(SCHEMAS))
def test_least_squares_are_those_of_the_columns(right, left, known):
    """Coefficients, the covariance's units, and predictions; up to the noise of mu = 10."""
    options = {"privacy": 10.0, "noise": dpfast.SeededNoise(3)}
    fit = dpfast.fit(f"{left} ~ {right}", TABLE, schema=SCHEMAS[known], **options)
    agrees(fit.params, fit.bse, exact(left, right))
    X = np.column_stack([np.ones(N), *RIGHT[right](TABLE)])
    np.testing.assert_allclose(fit.predict(TABLE), X @ fit.params, rtol=1e-6, atol=1e-6)
    low, high = np.asarray(fit.conf_int()).T
    assert ((low < exact(left, right)) & (exact(left, right) < high)).all()


@each("door", ["fit", "study", "fits", "quantiles", "functional", "treatment", "exact"])
@each("known", list(SCHEMAS))
def test_every_door_reads_the_logarithm_of_a_response(door, known):
    """At one formula; where a door has another estimand, it is that of its own columns."""
    schema, formula = SCHEMAS[known], "log(pay) ~ age + I(age**2) + educ"
    right, noise = "age + I(age**2) + educ", {"noise": dpfast.SeededNoise(5)}
    expected = exact("log(pay)", right)
    if door == "fit":
        fit = dpfast.fit(formula, TABLE, schema=schema, privacy=10.0, **noise)
    elif door == "study":
        study = dpfast.Study(TABLE, privacy=20.0, schema=schema, **noise)
        fit = study.fit(formula, share=0.3)
        planned = study.plan([{"analysis": "fit", "formula": formula, "share": 0.1}])
        assert np.isfinite(planned.rows[0].width)
    elif door == "exact":
        fit = dpfast.nonprivate_fit(formula, TABLE, schema=schema)
        np.testing.assert_allclose(fit.params, expected, rtol=1e-6)
    elif door == "fits":
        by_group = dpfast.tables.fits(formula, TABLE, "group", schema=schema, privacy=10.0, **noise)
        for level, fit in zip(GROUPS, by_group.fits, strict=True):
            agrees(fit.params, fit.bse, exact("log(pay)", right, TABLE["group"] == level))
    elif door == "quantiles":
        fits = dpfast.fit_quantiles(formula, TABLE, [0.5], schema=schema, privacy=20.0, **noise)
        fit = fits.fits[0]  # errors are symmetric: the median is the mean
        agrees(fit.params, fit.bse, expected, 3.0)
        return
    elif door == "functional":
        found = dpfast.release_functional(
            formula, TABLE, "least-squares", "educ", schema=schema,
            privacy=dpfast.ApproxDP(8.0, 1e-6), **noise,
        )  # fmt: skip
        low, high = np.ravel(found.conf_int())[:2]
        assert low < expected[3] < high and high - low < 0.02
        return
    else:
        found = dpfast.effects.treatment_effect(formula, "event", TABLE, privacy=10.0, **noise)
        assert abs(found.estimate) < 4.0 * found.bse < 0.1
        return
    agrees(fit.params, fit.bse, expected)


@each("known", list(SCHEMAS))
def test_instruments_levels_and_hazards_read_it_too(known):
    schema, noise = SCHEMAS[known], {"noise": dpfast.SeededNoise(7)}
    two = dpfast.effects.two_stage(
        "log(pay) ~ dose + educ | z + educ", TABLE, schema=schema, privacy=10.0, **noise
    )
    Z = np.column_stack([np.ones(N), TABLE["z"], TABLE["educ"]])
    X = np.column_stack([np.ones(N), TABLE["dose"], TABLE["educ"]])
    beta = np.linalg.solve(Z.T @ X, Z.T @ np.log(TABLE["pay"]))
    places = [two.names.index(name) for name in ("intercept", "dose", "educ")]
    agrees(two.params[places], two.bse[places], beta)
    within = dpfast.tables.absorbed(
        "log(pay) ~ log(age) + educ | region", TABLE, schema=schema, privacy=10.0, **noise
    )
    X = np.column_stack([
        np.log(TABLE["age"]), TABLE["educ"], *(1.0 * (TABLE["region"] == r) for r in LEVELS)
    ])  # fmt: skip
    beta = np.linalg.lstsq(X, np.log(TABLE["pay"]), rcond=None)[0]
    agrees(within.params, within.bse, beta[:2])
    options = {"event": "event", "cuts": [2.0, 5.0, 10.0, 30.0], "privacy": 10.0, **noise}
    hazards = [
        dpfast.effects.cox("pay ~ log(age) + educ", TABLE, schema=which, **options)
        for which in (schema, None)
    ]
    agrees(hazards[0].params, hazards[0].bse, np.asarray(hazards[1].params))


@each("known", list(SCHEMAS))
@each("loss", ["logistic", "poisson"])
def test_models_with_a_link_are_of_the_columns(loss, known):
    response = "high" if loss == "logistic" else "educ"
    formula, options = f"{response} ~ age + log(pay)", {"privacy": 10.0}
    fits = [
        dpfast.fit(formula, TABLE, loss, schema=which, noise=dpfast.SeededNoise(2), **options)
        for which in (SCHEMAS[known], None)
    ]
    agrees(fits[0].params, fits[0].bse, np.asarray(fits[1].params))
    ratio = fits[0].ratios("age").estimate[0]
    assert ratio == pytest.approx(np.exp(fits[0].params["age"]))


@each("kind", ["csv", "parquet"])
@each("known", ["a part", "all"])
def test_files_at_the_command_line_and_in_a_study(kind, known, tmp_path, capsys):
    import pandas

    from dpfast.cli import main

    path, schema = str(tmp_path / f"data.{kind}"), tmp_path / "schema.toml"
    getattr(pandas.DataFrame(TABLE), f"to_{kind}")(path, index=False)
    schema.write_text(SCHEMAS[known].to_toml())
    expected = exact("log(pay)", "age + educ")
    formula = "log(pay) ~ abs(age) + educ"
    words = [
        "fit",
        path,
        "--formula",
        formula,
        "--schema",
        str(schema),
        "--mu",
        "10",
        "--seed",
        "1",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    agrees(found["params"], found["bse"], expected)
    ledger = str(tmp_path / f"{kind}-{known}.ledger")
    assert main(["ledger", "create", ledger, "--mu", "20"]) == 0
    asked = json.dumps({"analysis": "fit", "formula": formula, "mu": 10.0})
    capsys.readouterr()
    words = ["run", asked, "--data", path, "--ledger", ledger, "--schema", str(schema)]
    assert main([*words, "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["answer"]
    agrees(found["params"], found["bse"], expected)


def test_values_outside_a_range_are_clipped_before_a_function():
    """As declared: the fit is that of the clipped column, and a row beyond is one at its end."""
    schema = dpfast.Schema({"age": dpfast.Numeric(30, 60), "pay": dpfast.Numeric(1, 200)})
    options = {"privacy": 20.0, "noise": dpfast.SeededNoise(1)}
    fit = dpfast.fit("log(pay) ~ log(age)", TABLE, schema=schema, **options)
    X = np.column_stack([np.ones(N), np.log(np.clip(TABLE["age"], 30, 60))])
    y = np.log(np.clip(TABLE["pay"], 1, 200))
    agrees(fit.params, fit.bse, np.linalg.lstsq(X, y, rcond=None)[0])
    assert fit.predict({"age": [99.0]})[0] == fit.predict({"age": [60.0]})[0]


def test_no_intercept_and_persons_means():
    """Nothing is centred where no intercept could take it up."""
    schema, noise = SCHEMAS["all"], dpfast.SeededNoise(4)
    fit = dpfast.fit("pay ~ age + educ - 1", TABLE, schema=schema, privacy=10.0, noise=noise)
    X = np.column_stack([TABLE["age"], TABLE["educ"]])
    agrees(fit.params, fit.bse, np.linalg.lstsq(X, TABLE["pay"], rcond=None)[0])
    people = dpfast.records(
        TABLE | {"who": np.arange(N) // 4}, group="who", each="person", effects="person"
    )
    within = dpfast.fit("log(pay) ~ age + educ", people, schema=schema, privacy=10.0, noise=noise)

    def less_means(values):
        rows = np.asarray(values).reshape(-1, 4)
        return (rows - rows.mean(axis=1, keepdims=True)).ravel()

    X = np.column_stack([less_means(TABLE["age"]), less_means(TABLE["educ"])])
    beta = np.linalg.lstsq(X, less_means(np.log(TABLE["pay"])), rcond=None)[0]
    agrees(within.params, within.bse, beta)


def test_a_design_of_a_schema_is_reported_in_own_units():
    """Also with weights, whose rows are coded; ``coded`` has what was fitted."""
    design = SCHEMAS["all"].encode(TABLE, ["age", "educ", "region"], response="pay")
    loss = dpfast.Objective("log-cosh", dpfast.Mallows(2.0), scale=20.0)
    fit = dpfast.fit(design, None, loss, privacy=20.0, noise=dpfast.SeededNoise(0))
    plain = dpfast.nonprivate_fit(design, None, loss)
    agrees(fit.params, fit.bse, np.asarray(plain.params))
    assert fit.coded.params["age"] == pytest.approx(fit.params["age"] * 32.0 / 100.0)
    assert fit.natural is fit and fit.coding is None and fit.coded.coding is design.coding
