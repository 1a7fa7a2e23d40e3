"""Tests, ratios, effects and joint intervals, beside statsmodels' on the same coefficients."""

from __future__ import annotations

import numpy as np
import pytest

import dpfast
from dpfast.errors import InferenceUnavailable
from tests.loops import each

sm = pytest.importorskip("statsmodels.api")

N = 4000
NAMES = ["educ", "exper", "sex"]
POINTS = np.array([[0.0, 0.0, 0.0], [0.5, -0.3, 1.0], [-1.0, 0.9, 0.0]])


def data():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, (N, 2)), rng.random(N) < 0.4])
    return X, 0.3 + X @ [0.8, 0.6, -0.5], rng


def logistic():
    """A fit at a budget that leaves no noise worth the name, and statsmodels' of the same data."""
    X, t, rng = data()
    y = (rng.random(N) < 1 / (1 + np.exp(-t))).astype(float)
    ours = dpfast.fit(
        dpfast.records(X, y, names=NAMES), None,
        dpfast.Objective("logistic", weights=dpfast.Bounded(9.0)), privacy=1e5,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    theirs = sm.Logit(y, sm.add_constant(X)).fit(disp=0, cov_type="HC0")
    return ours, theirs


def linear():
    X, t, rng = data()
    y = t + 0.5 * rng.normal(size=N)
    ours = dpfast.fit(
        dpfast.records(X, y, names=NAMES), None,
        dpfast.Objective("huber", weights=dpfast.Bounded(2.1), scale=5.0), privacy=1e5,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    return ours, sm.OLS(y, sm.add_constant(X)).fit(cov_type="HC0")


FITS = {"logistic": logistic(), "linear": linear()}


@pytest.mark.parametrize("kind", FITS)
def test_tests_by_name_are_those_of_statsmodels(kind):
    ours, theirs = FITS[kind]
    for text, other in {
        "educ = exper": "x1 = x2",
        "2*educ + exper = 1": "2*x1 + x2 = 1",
        "educ - 0.5 = sex": "x1 - 0.5 = x3",
    }.items():
        mine, their = ours.t_test(text), theirs.t_test(other)
        np.testing.assert_allclose(mine.bse, np.ravel(their.sd), rtol=5e-3)
        np.testing.assert_allclose(mine.zvalues, np.ravel(their.tvalue), rtol=5e-3, atol=5e-3)
        np.testing.assert_allclose(mine.pvalues, np.ravel(their.pvalue), rtol=0.02, atol=1e-4)
    joint = ours.wald_test("educ = exper, 2*educ + exper = 1")
    other = theirs.wald_test("x1 = x2, 2*x1 + x2 = 1", use_f=False, scalar=True)
    assert joint.df == 2
    assert joint.statistic == pytest.approx(other.statistic, rel=5e-3)
    assert joint.pvalue == pytest.approx(other.pvalue, rel=0.05, abs=1e-6)
    listed = ours.wald_test(["educ = exper", {"educ": 2.0, "exper": 1.0}], [0.0, 0.0])
    assert listed.df == 2


def test_odds_ratios_are_exponentials():
    ours, theirs = FITS["logistic"]
    odds = ours.ratios(level=0.9)
    np.testing.assert_allclose(odds.estimate, np.exp(theirs.params), rtol=2e-3)
    np.testing.assert_allclose(odds.interval, np.exp(theirs.conf_int(alpha=0.1)), rtol=2e-3)
    np.testing.assert_array_equal(odds.pvalues, ours.pvalues)
    one = ours.ratios("educ - exper")
    assert one.estimate == pytest.approx(np.exp(ours.params[1] - ours.params[2]))
    with pytest.raises(dpfast.InvalidInput, match="equation"):
        ours.ratios("educ = 1")


@pytest.mark.parametrize("kind", FITS)
def test_marginal_effects_are_those_of_statsmodels(kind):
    ours, theirs = FITS[kind]
    found = ours.marginal_effects(POINTS, level=0.9)
    assert found.names == tuple(NAMES)
    for row, point in enumerate(POINTS):
        if kind == "linear":
            estimate, errors = theirs.params[1:], theirs.bse[1:]
            ends = theirs.conf_int(alpha=0.1)[1:]
        else:
            at = dict(enumerate([1.0, *point]))
            margin = theirs.get_margeff(atexog=at)
            estimate, errors = margin.margeff, margin.margeff_se
            ends = margin.conf_int(alpha=0.1)
        np.testing.assert_allclose(found.estimate[row], estimate, rtol=5e-3)
        np.testing.assert_allclose(found.bse[row], errors, rtol=5e-3)
        np.testing.assert_allclose(found.interval[row], ends, atol=2e-3)
    p = np.abs(found.estimate / found.bse)
    assert ((found.pvalues < 0.01) == (p > 2.576)).all()


def people(n=4000):
    """Wages of persons who do not exist: bent in age, and schooling worth more in one region."""
    rng = np.random.default_rng(3)
    table = {
        "age": rng.uniform(18, 80, n), "educ": rng.uniform(6, 20, n),
        "region": rng.choice(["east", "north", "west"], n), "union": rng.choice(["no", "yes"], n),
    }  # fmt: skip
    bent = -5.0 + 0.16 * table["age"] - 0.0016 * table["age"] ** 2 + 0.1 * table["educ"]
    table["pay"] = 20.0 + 5.0 * bent + rng.normal(size=n)
    table["high"] = (rng.random(n) < 1.0 / (1.0 + np.exp(-bent))).astype(int)
    return table


PEOPLE = people()
DECLARED = dpfast.Schema(
    {
        "age": dpfast.Numeric(16, 80), "educ": dpfast.Numeric(5, 21), "pay": dpfast.Numeric(0, 60),
        "region": dpfast.Categorical(["east", "north", "west"]), "high": dpfast.Binary(1, 0),
        "union": dpfast.Binary("yes", "no"),
    }
)  # fmt: skip
LEVELS = "C(region, levels=['east', 'north', 'west'])"
ENDS = "knots=[30, 45], lower_bound=16, upper_bound=80"

#: Right sides without a schema, and with one: powers, products, functions, splines, levels.
BENT = {
    "squares": ("age + I(age**2) + educ", False),
    "products": (f"age*educ + {LEVELS}", False),
    "products of levels": (f"log(age) + age:{LEVELS}", False),
    "functions": ("exp(age/40) + sqrt(educ + 1) + abs(educ - 10) + I(educ/age - (-educ))", False),
    "B-splines": (f"bs(age, {ENDS}) + educ", False),
    "natural splines": (f"cr(age, {ENDS}) * educ", False),
    "declared squares": ("age + I(age**2) + educ*region + union", True),
    "declared splines": ("bs(age, knots=[30, 45]) + educ*union + log(educ + 2)", True),
}
NUMBERS = ("age", "educ")


@each("kind", BENT)
@each("response", ["high", "pay"])
def test_a_marginal_effect_is_the_slope_of_predictions(kind, response):
    """Through all terms; of a level the difference from the reference.  Seen by differences.

    Effects have no shrinkage, which predictions may have: so the budget is large.
    """
    right, declared = BENT[kind]
    loss = "logistic" if response == "high" else dpfast.Objective("log-cosh", scale=1.0)
    fit = dpfast.fit(
        f"{response} ~ {right}", PEOPLE, loss, schema=DECLARED if declared else None,
        privacy=100.0, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert "Predictions keep" not in fit.method
    row = {"age": [40.0], "educ": [12.0], "region": ["north"], "union": ["yes"]}
    found = fit.marginal_effects(row)
    assert len(found.names) == len(set(found.names))
    expected = []
    for name in found.names:
        variable, _, level = name.rstrip("]").partition("[")
        numeric = variable in NUMBERS
        if numeric:
            values = [row[variable][0] - 1e-4, row[variable][0] + 1e-4]
        else:
            values = {"region": ["east", level], "union": ["no", "yes"]}[variable]
        low, high = (fit.predict(row | {variable: [value]})[0] for value in values)
        expected.append((high - low) / (2e-4 if numeric else 1.0))
    np.testing.assert_allclose(found.estimate[0], expected, rtol=1e-5, atol=1e-7)


def test_standard_errors_of_effects_are_those_of_the_delta_method():
    """As a difference quotient of the predictions in the coefficients says."""
    fit = dpfast.fit(
        f"high ~ age + I(age**2) + {LEVELS}*educ", PEOPLE, "logistic", privacy=20.0,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    row = {"age": [40.0], "educ": [12.0], "region": ["north"]}
    found, params, cov = fit.marginal_effects(row), fit.params.copy(), fit.cov_params()
    steps, gradients = 1e-4 * np.sqrt(np.diag(np.asarray(cov))), []
    for k, step in enumerate(steps):
        ends = []
        for sign in (-1.0, 1.0):
            moved = np.array(params)
            moved[k] += sign * step
            fit.params = moved
            ends.append(fit.marginal_effects(row).estimate[0])
        gradients.append((ends[1] - ends[0]) / (2.0 * step))
    G = np.array(gradients).T
    expected = np.sqrt(np.einsum("ij,jk,ik->i", G, np.asarray(cov), G))
    assert {*found.names} == {"age", "educ", "region[north]", "region[west]"}
    np.testing.assert_allclose(found.bse[0], expected, rtol=1e-4)


def test_effects_without_rows_are_at_the_centre_and_say_where():
    noise = dpfast.SeededNoise(0)
    formula = f"high ~ age + I(age**2) + {LEVELS}"
    fit = dpfast.fit(formula, PEOPLE, "logistic", privacy=20.0, noise=noise)
    found = fit.marginal_effects()
    assert list(found.at) == ["age", "region"] and found.at["region"] == "east"
    assert found.at["age"] == pytest.approx(dict(fit.released_units())["age"][0])
    row = {name: [value] for name, value in found.at.items()}
    np.testing.assert_array_equal(found.estimate, fit.marginal_effects(row).estimate)
    shown = " ".join(repr(found).split())
    assert "at the centre, age = " in shown and "region = east" in shown
    declared = dpfast.fit(
        "high ~ age + union", PEOPLE, "logistic", schema=DECLARED, privacy=20.0, noise=noise
    ).marginal_effects()
    assert declared.at == {"age": 48.0, "union": "no"}
    spline = dpfast.fit(f"pay ~ cr(age, {ENDS})", PEOPLE, privacy=20.0, noise=noise)
    assert spline.marginal_effects().at == {"age": 48.0}
    array = dpfast.fit(PEOPLE["age"][:, None], PEOPLE["pay"], privacy=20.0, noise=noise)
    assert list(array.marginal_effects().at) == ["x1"]
    for unknown in (
        FITS["linear"][0],
        dpfast.fit("pay ~ log(age) + educ", PEOPLE, privacy=20.0, noise=noise),
    ):
        with pytest.raises(InferenceUnavailable, match="no centre of"):
            unknown.marginal_effects()


def test_nothing_moves_beyond_the_range_to_which_a_column_is_held():
    fit = dpfast.fit(
        "pay ~ bs(age, knots=[30, 45]) + educ", PEOPLE, dpfast.Objective("log-cosh", scale=1.0),
        schema=DECLARED, privacy=20.0, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    rows = {"age": [90.0, 40.0], "educ": [12.0, 30.0]}
    estimate = fit.marginal_effects(rows).estimate
    assert (estimate == 0.0).tolist() == [[True, False], [False, True]]
    lacking = fit.marginal_effects({"age": [np.nan], "educ": [12.0]}).estimate
    assert np.isnan(lacking[0, 0])


@each("kind", FITS)
@each("asked", ["overall", "mean", None])
def test_averages_over_the_records_are_refused_with_the_reason(kind, asked):
    with pytest.raises(InferenceUnavailable, match="query about them"):
        FITS[kind][0].marginal_effects(asked)


@pytest.mark.parametrize("kind", FITS)
def test_predictions_have_the_intervals_of_statsmodels(kind):
    ours, theirs = FITS[kind]
    other = theirs.get_prediction(sm.add_constant(POINTS, has_constant="add"))
    ends = other.conf_int(alpha=0.05)
    np.testing.assert_allclose(ours.predict_interval(POINTS), ends, atol=2e-3)


def test_questions_are_asked_in_coded_and_in_natural_units():
    schema = dpfast.Schema({"age": dpfast.Numeric(20, 80), "pay": dpfast.Numeric(0, 100)})
    rng = np.random.default_rng(0)
    ages = rng.uniform(20, 80, N)
    table = {"age": ages, "pay": 10.0 + ages + rng.normal(size=N)}
    fit = dpfast.fit(
        schema.encode(table, response="pay"), None, dpfast.Objective("log-cosh", scale=1.0),
        privacy=50.0, noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    natural, fit, at = fit, fit.coded, {"age": np.array([30.0, 70.0])}
    assert natural.t_test("age = 1").pvalues[0] > 1e-3
    np.testing.assert_allclose(fit.t_test("age").zvalues, natural.t_test("age").zvalues, rtol=1e-9)
    per_year = natural.marginal_effects(at)
    np.testing.assert_allclose(per_year.estimate, natural.params[1])
    per_unit = fit.marginal_effects(at)  # pay for one coded unit of age, 30 years
    np.testing.assert_allclose(per_unit.estimate, 30.0 * per_year.estimate)
    np.testing.assert_allclose(per_unit.bse, 30.0 * per_year.bse)
    both = [f.predict_interval(at) for f in (fit, natural)]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-6)


def test_a_free_scale_is_no_column():
    X, t, rng = data()
    fit = dpfast.fit(
        dpfast.records(X, t + rng.normal(size=N), names=NAMES), None,
        dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 10.0)), privacy=5.0,
        noise=dpfast.SeededNoise(0),
    )  # fmt: skip
    assert fit.marginal_effects(POINTS).estimate.shape == (3, 3)
    assert fit.predict_interval(POINTS).shape == (3, 2)
    assert fit.t_test("scale = 1").estimate[0] == fit.params[-1]
