"""Predictions take the table a fit was made from, by name, in its own units; so does the scale."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import dpfast
from dpfast import Binary, Categorical, Numeric, Schema
from dpfast.cli import main
from dpfast.fit_requests.rows import NewRows
from tests.loops import each

N = 400
SCHEMA = Schema(
    {
        "wage": Numeric(0, 100, centre=20, unit=5),
        "age": Numeric(18, 90),
        "years": Numeric(0, 40, centre=10, unit=4),
        "sex": Categorical(["F", "M"]),
        "sick": Binary("yes", "no"),
    }
)


def raw_table(n=N):
    rng = np.random.default_rng(0)
    age, years, sex = rng.uniform(18, 90, n), rng.uniform(0, 40, n), rng.choice(["F", "M"], n)
    wage = 20 + age / 5 - years / 2 + 3 * (sex == "M") + rng.normal(size=n)
    sick = np.where(rng.random(n) < 1 / (1 + np.exp(2 - age / 30)), "yes", "no")
    return {"wage": wage, "age": age, "years": years, "sex": sex, "sick": sick}


TABLE = raw_table()


def kinds():
    reversed_columns = {name: TABLE[name] for name in reversed(TABLE)}
    yield reversed_columns
    yield {name: values.tolist() for name, values in TABLE.items()}
    yield pytest.importorskip("pandas").DataFrame(reversed_columns)
    yield pytest.importorskip("polars").DataFrame(reversed_columns)
    yield pytest.importorskip("pyarrow").table(reversed_columns)


def least_squares(*columns):
    """Predictions of the plain regression in the units of the table."""
    X = np.column_stack(columns)
    return X @ np.linalg.lstsq(X, TABLE["wage"], rcond=None)[0]


#: Huber with a corner far away.
HUBER = dpfast.Objective("huber", weights=dpfast.Bounded(50.0), scale=1e4)
UNIT = dpfast.Objective("huber", scale=1.0)


@pytest.mark.parametrize("way", ["schema", "formula", "minimum"])
def test_predictions_are_those_of_the_regression_in_its_own_units(way):
    """Coding is affine, so a least-squares fit predicts the same with and without it."""
    male = TABLE["sex"] == "M"
    columns = np.ones(N), TABLE["age"], TABLE["years"], male
    if way == "formula":
        pytest.importorskip("formulaic")
        design = "wage ~ 0 + sex + age:sex + years"
        ages = TABLE["age"] * male, TABLE["age"] * ~male
        columns = male, ~male, *ages, TABLE["years"]
    else:
        design = SCHEMA.encode(TABLE, ["sex", "years", "age"], response="wage")
    fit = dpfast.nonconvex.nonprivate_minimize if way == "minimum" else dpfast.nonprivate_fit
    of_formula = {"schema": SCHEMA} if way == "formula" else {}
    y = TABLE if way == "formula" else None
    result = fit(design, y, HUBER, **of_formula)
    expected = least_squares(*columns)
    for table in kinds():
        np.testing.assert_allclose(result.predict(table), expected, rtol=1e-6)
    if way != "minimum":
        interval = result.predict_interval(TABLE)
        np.testing.assert_allclose(interval.mean(axis=1), expected, rtol=1e-6)
        half = np.diff(interval)[:, 0] / 2 / 1.96
        np.testing.assert_array_less(half, 5 * np.std(TABLE["wage"] - expected) / N**0.5)
        np.testing.assert_array_less(np.std(TABLE["wage"] - expected) / N**0.5 / 5, half)


def test_one_row_and_rows_that_cannot_be_coded():
    design = SCHEMA.encode(TABLE, ["age", "sex"], response="wage")
    result = dpfast.nonprivate_fit(design, None, HUBER)
    young = result.predict({"age": [18], "sex": ["F"]})
    assert result.predict({"age": [-5], "sex": ["F"]}) == young  # clipped, as in the fit
    rows = {"age": [30, None, 30], "sex": ["M", "F", "?"]}
    pandas = pytest.importorskip("pandas")
    assert np.isnan(result.predict(pandas.DataFrame(rows))).tolist() == [False, True, True]
    with pytest.raises(dpfast.InvalidInput, match=r"Write \[value\]"):
        result.predict({"age": 18, "sex": "F"})


def test_a_probability_of_a_logistic_fit():
    design = SCHEMA.encode(TABLE, ["age"], response="sick")
    result = dpfast.nonprivate_fit(design, None, "logistic")
    chance = result.predict({"age": [20, 80], "wage": [0, 0]})
    assert 0.0 < chance[0] < 0.4 < 0.6 < chance[1] < 1.0
    coded = result.coded.params @ [1.0, (80 - 54) / 36]
    assert chance[1] == pytest.approx(1 / (1 + np.exp(-coded)))


def test_columns_are_matched_by_name_or_refused_by_name():
    design = SCHEMA.encode(TABLE, ["age", "years"], response="wage")
    result = dpfast.nonprivate_fit(design, None, HUBER)
    with pytest.raises(dpfast.InvalidInput, match="no column 'years'"):
        result.predict({"age": TABLE["age"], "experience": TABLE["years"]})
    with pytest.raises(
        dpfast.InvalidInput, match=r"Pass a table with the columns \['age', 'years'\]"
    ):
        result.predict(design.X)
    with pytest.raises(dpfast.InvalidInput, match="must be numbers"):
        result.predict({"age": TABLE["sex"], "years": TABLE["years"]})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_fit_of_a_plain_frame_matches_columns_by_name(library):
    module = pytest.importorskip(library)
    frame = module.DataFrame({name: TABLE[name] for name in ("age", "years")})
    y = TABLE["wage"]
    for options in ({}, {"names": ["a", "b"]}):
        records = dpfast.records(frame, y, **options)
        result = dpfast.fit(records, None, UNIT, privacy=1.0, standardize=False)
        expected = result.predict(frame.to_numpy())
        np.testing.assert_allclose(result.predict(frame[["years", "age"]]), expected, rtol=1e-12)
        np.testing.assert_allclose(result.predict({n: TABLE[n] for n in frame.columns}), expected)
        for wrong in (frame[["age"]], {n: TABLE[n] for n in ("age", "years", "wage")}):
            with pytest.raises(dpfast.InvalidInput, match="not in the fit"):
                result.predict(wrong)


def test_columns_of_a_frame_without_text_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.column_stack([TABLE["age"], TABLE["years"]]))
    result = dpfast.fit(frame, TABLE["wage"], UNIT, privacy=1.0, standardize=False)
    np.testing.assert_allclose(result.predict(frame[[1, 0]]), result.predict(frame), rtol=1e-12)


def test_a_fit_of_arrays_takes_arrays():
    """Names alone do not say how the columns were coded."""
    X, y = SCHEMA.encode(TABLE, ["age", "years"], response="wage").arrays()
    records = dpfast.records(X, y, names=["age", "years"])
    result = dpfast.fit(records, None, UNIT, privacy=1.0, standardize=False)
    assert result.predict(X).shape == (N,)
    for bad in ([["patient 4711", 1.0]], [[1.0], [2.0, 3.0]], [[object(), 1.0]]):
        with pytest.raises(dpfast.InvalidInput, match="X must hold real numbers") as caught:
            result.predict(bad)
        assert "4711" not in str(caught.value) and caught.value.__cause__ is None
    with pytest.raises(dpfast.InvalidInput, match="made from arrays"):
        result.predict(TABLE)


def test_results_of_a_schema_hold_no_records(tmp_path):
    sizes = set()
    for n in (50, 500):
        design = SCHEMA.encode(raw_table(n), ["age", "sex"], response="wage")
        result = dpfast.fit(
            design,
            None,
            dpfast.Objective("huber", scale=1.0),
            privacy=1.0,
            method=dpfast.optimize.Newton(steps=3),
        )
        for version in (result, result.coded):
            version.n_records, version.privacy, version.method = 0, None, ""
            version._covariance = version._covariance._replace(
                remarks=(), spread=None
            )  # words about this run
        sizes.add(len(pickle.dumps(result)))
        again = pickle.loads(pickle.dumps(result))
        np.testing.assert_array_equal(again.predict(TABLE), result.predict(TABLE))
    assert len(sizes) == 1


CODED = SCHEMA.encode(TABLE, ["age", "sex"], response="wage")


@pytest.mark.parametrize("free", [False, True])
def test_the_scale_is_in_the_units_of_the_response(free):
    """The same noise gives the same fit as the coded scale on plain arrays, which have no units."""
    X, y = CODED.arrays()
    own, coded = (
        (np.float32(1.5), 0.3)
        if not free
        else (dpfast.FreeScale(0.5, 50), dpfast.FreeScale(0.1, 10))
    )
    results = [
        dpfast.fit(
            *data,
            dpfast.Objective("log-cosh", scale=scale),
            privacy=1.0,
            noise=dpfast.SeededNoise(0),
            method="newton",
        )
        for data, scale in (((CODED, None), own), ((X, y), coded))
    ]
    with_units, plain = results[0].coded, results[1]
    p = len(plain.params) - free
    np.testing.assert_allclose(with_units.params[:p], plain.params[:p], rtol=1e-9)
    np.testing.assert_allclose(with_units.bse[:p], plain.bse[:p], rtol=1e-9)
    assert "Units: coded as declared, (wage - 20) / 5" in with_units.summary()
    assert "coded" not in plain.summary()
    if free:
        assert with_units.scale == pytest.approx(5 * plain.scale)
        np.testing.assert_allclose(with_units.conf_int()[-1], 5 * plain.conf_int()[-1])
        np.testing.assert_allclose(with_units.iterates[:, -1], 5 * plain.iterates[:, -1])


def methods_with_a_scale():
    """Whether it draws noise, and the method."""
    pair = dpfast.ApproxDP(1.0, 1e-6)
    methods = {
        "nonprivate_fit": lambda *d, scale: dpfast.nonprivate_fit(
            *d, dpfast.Objective("huber", scale=scale)
        ),
        "minimize": lambda *d, scale, **o: dpfast.minimize(
            *d, dpfast.Objective("tukey", scale=scale), privacy=1.0, **o
        ),
        "release_parameter": lambda *d, scale, **o: dpfast.release_parameter(
            *d,
            dpfast.Objective("log-cosh", scale=scale, ridge=1.0),
            privacy=pair,
            domain=dpfast.models.Ball(3.0),
            **o,
        ),
    }
    for name, method in methods.items():
        yield pytest.param(name != "nonprivate_fit", method, id=name)


@pytest.mark.parametrize(("is_noisy", "method"), list(methods_with_a_scale()))
def test_every_method_takes_the_scale_in_the_units_of_the_response(is_noisy, method):
    results = [
        method(*data, scale=scale, **({"noise": dpfast.SeededNoise(0)} if is_noisy else {}))
        for data, scale in (((CODED, None), 1.5), (CODED.arrays(), 0.3))
    ]
    coded = getattr(results[0], "coded", results[0])
    np.testing.assert_allclose(coded.params, results[1].params, rtol=1e-6)


def test_records_of_a_file_keep_their_schema(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(arrow.table(TABLE), tmp_path / "wages.parquet", row_group_size=100)
    records = dpfast.open_parquet(
        tmp_path / "wages.parquet", covariates=["age", "sex"], response="wage", schema=SCHEMA
    )
    loss = dpfast.Objective("log-cosh", scale=1.5)
    results = [
        dpfast.fit(data, None, loss, privacy=1.0, noise=dpfast.SeededNoise(0))
        for data in (records, CODED)
    ]
    np.testing.assert_allclose(results[0].params, results[1].params, rtol=1e-9)
    np.testing.assert_allclose(results[0].predict(TABLE), results[1].predict(TABLE), rtol=1e-9)
    with pytest.raises(dpfast.InvalidInput, match="Pass a table"):
        results[0].predict(CODED.X)


@pytest.mark.parametrize(
    "run",
    [
        lambda: dpfast.fit(CODED, None, "logistic", privacy=1.0),
        lambda: dpfast.nonprivate_fit(CODED, None, "logistic"),
        lambda: dpfast.minimize(CODED, None, "logistic", privacy=1.0),
    ],
)
def test_labels_need_a_response_declared_as_labels(run):
    """A number coded to [-1, 1] is no label: every record would contribute zero."""
    with pytest.raises(dpfast.InvalidInput, match="Binary"):
        run()


def test_text_labels_without_a_schema_are_refused():
    """By their type.  A list or a column of objects has none: its words are missing values."""
    with pytest.raises(dpfast.InvalidInput):
        dpfast.fit(np.ones((2, 1)), np.array(["yes", "no"]), "logistic", privacy=1.0)


def test_misuse_of_a_design_is_refused():
    with pytest.raises(dpfast.InvalidInput, match="its own response"):
        dpfast.fit(CODED, TABLE["wage"], dpfast.Objective("huber", scale=1.0), privacy=1.0)
    with pytest.raises(dpfast.InvalidInput, match="its own response"):
        dpfast.fit(
            SCHEMA.encode(TABLE, ["age"]), None, dpfast.Objective("huber", scale=1.0), privacy=1.0
        )
    for bad in (-1.0, 0.0, True, "1"):
        with pytest.raises(dpfast.InvalidInput, match="scale must"):
            dpfast.fit(CODED, None, dpfast.Objective("huber", scale=bad), privacy=1.0)


@pytest.mark.parametrize("terms", [["--formula", "wage ~ age + sex"], ["--response", "wage"]])
def test_the_command_line_takes_the_scale_in_the_units_of_the_response(tmp_path, terms, capsys):
    """With a formula and without: one conversion."""
    if terms[0] == "--formula":
        pytest.importorskip("formulaic")
    schema = Schema({name: SCHEMA[name] for name in ("wage", "age", "sex")})
    (tmp_path / "schema.toml").write_text(schema.to_toml())
    np.savez(tmp_path / "data.npz", **{name: TABLE[name] for name in schema.columns})
    files = [str(tmp_path / "data.npz"), "--schema", str(tmp_path / "schema.toml")]
    options = ["--loss", "log-cosh", "--scale", "1.5", "--mu", "1", "--seed", "0", "--json"]
    assert main(["fit", *files, *terms, *options]) == 0
    params = json.loads(capsys.readouterr().out)["params"]
    own = dpfast.fit(
        CODED,
        None,
        dpfast.Objective("log-cosh", scale=1.5),
        privacy=1.0,
        noise=dpfast.SeededNoise(0),
    ).params
    np.testing.assert_allclose(params, own, rtol=1e-9)


def test_persons_with_several_rows_keep_the_coding():
    result = dpfast.fit(
        dpfast.records(CODED, group=np.arange(N) // 2, group_size=2),
        None,
        dpfast.Objective("log-cosh", scale=1.5),
        privacy=1.0,
    )
    assert result.coded.coding is CODED.coding
    assert np.isfinite(result.predict(TABLE)).all()


def test_a_formula_without_intercept_and_an_objective_with_one_do_not_mix():
    from dpfast.data.coding import Main
    from dpfast.models import Mallows, Objective, resolve_loss

    coding = SCHEMA.coding(((Main("sex", True),),), ["sex", "wage"], "wage", False)
    design = coding.design(TABLE)
    objective = Objective(resolve_loss("tukey"), Mallows(2.0), 2, scale=1.0)
    with pytest.raises(dpfast.InvalidInput, match="its formula drops it"):
        dpfast.minimize(design, None, objective, privacy=1.0)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_columns_of_the_same_name_are_matched_by_position_or_refused(library):
    module = pytest.importorskip(library)

    def table(first, second, names):
        if library == "pandas":
            return module.DataFrame(np.column_stack([first, second]), columns=names)
        return module.Table.from_arrays([module.array(first), module.array(second)], names)

    age, years = TABLE["age"], TABLE["years"]
    twins = table(age, years, ["x", "x"])
    result = dpfast.fit(
        twins, TABLE["wage"], dpfast.Objective("huber", scale=1), privacy=1.0, standardize=False
    )
    expected = result.predict(np.column_stack([age, years]))
    np.testing.assert_allclose(result.predict(table(age, years, ["x", "x"])), expected)
    three = dpfast.nonprivate_fit(
        np.ones((9, 1)), np.ones(9), dpfast.Objective("huber", scale=1.0, ridge=1.0)
    )
    three._new_rows = NewRows(columns=("x", "z", "x"))
    mixed = pytest.importorskip("pandas").DataFrame(np.ones((2, 3)), columns=["x", "x", "z"])
    with pytest.raises(dpfast.InvalidInput, match="same name"):
        three.predict(mixed)
    with pytest.raises(dpfast.InvalidInput, match="2 columns named 'age'"):
        SCHEMA.encode(table(age, years, ["age", "age"]), ["age"])


@each("bad", [[["4711", "b"]], [[10**400, 1]], [[1j, 1]], np.ones((1, 2)) * 1j])
def test_what_is_no_array_of_numbers_is_not_quoted(bad):
    result = dpfast.fit(
        np.ones((9, 2)), np.ones(9), dpfast.Objective("huber", scale=1.0), privacy=1.0
    )
    with pytest.raises(dpfast.InvalidInput, match="X must hold real numbers") as caught:
        result.predict(bad)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("loss", ["least-squares", "log-cosh"])
@pytest.mark.parametrize("with_schema", [False, True])
def test_an_interval_of_a_new_response_holds_one(loss, with_schema):
    """Of 4,000 new responses 95% are within it, with room for the noise of the scale."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=4000)
    table = {"x": x, "y": 50.0 + 6.0 * x + 4.0 * rng.normal(size=4000)}
    noise = dpfast.SeededNoise(1)
    if with_schema:
        schema = dpfast.Schema({"x": dpfast.Numeric(-4, 4), "y": dpfast.Numeric(0, 100)})
        fit = dpfast.fit("y ~ x", table, loss, schema=schema, privacy=1.0, noise=noise)
    else:
        fit = dpfast.fit("y ~ x", table, loss, privacy=1.0, noise=noise)
    new = {"x": rng.normal(size=4000)}
    response = 50.0 + 6.0 * new["x"] + 4.0 * rng.normal(size=4000)
    low, high = fit.predict_interval(new, new_response=True).T
    assert 0.935 < np.mean((low < response) & (response < high)) < 0.965
    assert fit.scale == pytest.approx(4.0, rel=0.1)
    np.testing.assert_allclose(0.5 * (low + high), fit.predict_interval(new).mean(axis=1))


def test_a_new_response_of_a_link_or_quantile_has_no_interval():
    x = np.random.default_rng(3).normal(size=2000)
    for loss, y in (("logistic", x > 0.0), ("poisson", np.exp(x) // 1), (dpfast.Quantile(0.5), x)):
        fit = dpfast.fit(x[:, None], np.asarray(y, float), loss, privacy=4.0)
        with pytest.raises(dpfast.errors.InferenceUnavailable, match="fit_quantiles"):
            fit.predict_interval([[0.0]], new_response=True)
