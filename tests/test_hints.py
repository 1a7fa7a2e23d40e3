"""What people type out of habit is answered with what to type instead, and costs nothing."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import dpfast
from dpfast.errors import InvalidInput
from dpfast.hints import (
    ARGUMENTS,
    CALLED,
    CALLS as WRITTEN,
    NAMES,
    OF_LEDGER,
    OF_METHODS,
    OF_REQUESTS,
    OF_SCHEMA,
    OF_STUDY,
    TERMS,
)
from tests.loops import each
from tests.test_messages import resolved

pytest.importorskip("formulaic")
pandas = pytest.importorskip("pandas")

X = np.random.default_rng(0).normal(size=(400, 2))
Y = 1.0 + X @ [1.0, -0.5] + np.cos(9.0 * X[:, 0])
TABLE = pandas.DataFrame({"wage": np.exp(Y / 4), "educ": X[:, 0], "exper": X[:, 1]}).assign(
    region=np.where(X[:, 0] > 0, "north", "south")
)
LEDGER = dpfast.Ledger(100.0)
WAVES = dpfast.tables.Waves(1.0, waves=4, ledger=LEDGER)
PAID = {"privacy": 1.0, "ledger": LEDGER}


def fitted():
    return dpfast.fit(X, Y, dpfast.Objective("huber", scale=1.0), privacy=2.0)


#: A bad call, and what its answer tells people to type.
CALLS = {
    'fit(df, "wage")': (lambda: dpfast.fit(TABLE, "wage", **PAID), r"dpfast\.fit\('response ~ x1"),
    'fit(df, "wage ~ educ")': (
        lambda: dpfast.fit(TABLE, "wage ~ educ", **PAID), "formula comes first",
    ),
    'fit("y ~ x", df)': (lambda: dpfast.fit("wage ~ educ", TABLE), r"privacy=\(1\.0, 1e-6\)"),
    "Waves(1.0)": (lambda: dpfast.tables.Waves(1.0), r"argument: 'waves'. Write .*waves=4\)"),
    "Waves()": (lambda: dpfast.tables.Waves(waves=4), "Waves.. needs privacy="),
    "fit(X, y)": (lambda: dpfast.fit(X, Y), "needs privacy="),
    'fit("y ~ x")': (lambda: dpfast.fit("wage ~ educ", **PAID), "a formula needs a table"),
    "fit(y, X)": (lambda: dpfast.fit(Y, X, **PAID), "X comes first, then y"),
    "y ~ .": (lambda: dpfast.fit("wage ~ .", TABLE, **PAID), "Write the columns"),
    "y ~ . - x": (lambda: dpfast.fit("wage ~ . - educ", TABLE, **PAID), "Write the columns"),
    "y = x": (lambda: dpfast.fit("wage = educ", TABLE, **PAID), "write '~' for '='"),
    "no such column": (lambda: dpfast.fit("wage ~ age", TABLE, **PAID), "it has .*educ"),
    "no response": (lambda: dpfast.fit("~ educ", TABLE, **PAID), "response ~ terms"),
    "y ~ 1": (lambda: dpfast.fit("wage ~ 1", TABLE, **PAID), "no covariate"),
    "two parts": (lambda: dpfast.fit("wage ~ educ | exper", TABLE, **PAID), "without '|'"),
    "C of text": (
        lambda: dpfast.fit("wage ~ C(region)", TABLE, **PAID), r"C\(region, levels=\[\.\.\.\]\)",
    ),
    "text": (
        lambda: dpfast.fit("wage ~ region", TABLE, **PAID), r"C\(region, levels=\[\.\.\.\]\)",
    ),
    "splines": (lambda: dpfast.fit("wage ~ bs(educ, df=3)", TABLE, **PAID), r"knots=\["),
    "scale()": (
        lambda: dpfast.fit("wage ~ scale(educ)", TABLE, **PAID),
        "estimated inside the total",
    ),
    "np.random": (lambda: dpfast.fit("wage ~ np.sum(educ)", TABLE, **PAID), "log, exp, sqrt"),
    "x**0.5": (lambda: dpfast.fit("wage ~ I(educ**0.5)", TABLE, **PAID), "from 1 to 8"),
    "poly": (lambda: dpfast.fit("wage ~ poly(educ, 2)", TABLE, **PAID), r"x \+ I\(x\*\*2\)"),
    "educ^2": (lambda: dpfast.fit("wage ~ educ^2", TABLE, **PAID), r"Write I\(educ\*\*2\)"),
    "educ**2": (lambda: dpfast.fit("wage ~ educ**2", TABLE, **PAID), r"Write I\(educ\*\*2\)"),
    "I(educ^2)": (lambda: dpfast.fit("wage ~ I(educ^2)", TABLE, **PAID), r"\*\* for a power"),
    "factor()": (lambda: dpfast.fit("wage ~ factor(region)", TABLE, **PAID), r"levels=\['a'"),
    "as.factor()": (lambda: dpfast.fit("wage ~ as.factor(region)", TABLE, **PAID), "levels="),
    "C(x, Sum)": (lambda: dpfast.fit("wage ~ C(region, Sum)", TABLE, **PAID), "reference first"),
    "Treatment()": (
        lambda: dpfast.fit("wage ~ C(region, Treatment('b'))", TABLE, **PAID), "reference first",
    ),
    "s(educ)": (lambda: dpfast.fit("wage ~ s(educ)", TABLE, **PAID), r"bs\(x, knots="),
    "log10": (lambda: dpfast.fit("wage ~ np.log10(educ)", TABLE, **PAID), r"log\(x\)"),
    "log1p": (lambda: dpfast.fit("np.log1p(wage) ~ educ", TABLE, **PAID), r"log\(1 \+ x\)"),
    "offset()": (lambda: dpfast.fit("wage ~ offset(educ)", TABLE, **PAID), r"dpfast\.records"),
    "Q()": (lambda: dpfast.fit("wage ~ Q('educ')", TABLE, **PAID), "`my column`"),
    "(1 | region)": (lambda: dpfast.fit("wage ~ educ + (1|region)", TABLE, **PAID), "absorbed"),
    "x > 3": (lambda: dpfast.fit("wage ~ I(educ > 3)", TABLE, **PAID), r"table\.assign"),
    "np.where": (lambda: dpfast.fit("wage ~ np.where(educ, 1, 0)", TABLE, **PAID), r"\.assign"),
    "lag()": (lambda: dpfast.fit("wage ~ lag(educ)", TABLE, **PAID), r"table\.assign"),
    "table.x": (lambda: dpfast.fit("wage ~ table.educ", TABLE, **PAID), "name of the column"),
    'table["x"]': (lambda: dpfast.fit("wage ~ t['educ']", TABLE, **PAID), "name of the column"),
    "x.mean()": (lambda: dpfast.fit("wage ~ educ.mean()", TABLE, **PAID), "would be a release"),
    "y ~ y": (lambda: dpfast.fit("wage ~ wage + educ", TABLE, **PAID), "Leave it out on the right"),
    "y ~ x, data=t": (lambda: dpfast.fit("wage ~ educ, data=t", TABLE, **PAID), r"x1 \+ x2"),
    "y x": (lambda: dpfast.fit("wage educ", TABLE, **PAID), r"'response ~ x1 \+ x2'"),
    "bs(x, 4)": (lambda: dpfast.fit("wage ~ bs(educ, 4)", TABLE, **PAID), "all else by name"),
    "bs without ends": (
        lambda: dpfast.fit("wage ~ bs(educ, knots=[1])", TABLE, **PAID), r"lower_bound=\.\.\.",
    ),
    "levels=x": (
        lambda: dpfast.fit("wage ~ C(region, levels=educ)", TABLE, **PAID), "write the levels",
    ),
    "a response with levels": (
        lambda: dpfast.fit("C(region, levels=['north', 'south']) ~ educ", TABLE, **PAID), "0 and 1",
    ),
    "formula of bytes": (lambda: dpfast.fit(b"y ~ x", TABLE, **PAID), "comes first"),
    "privacy=0": (lambda: dpfast.fit(X, Y, privacy=0.0, ledger=LEDGER), "positive and finite"),
    "privacy=True": (lambda: dpfast.fit(X, Y, privacy=True, ledger=LEDGER), r"\(epsilon, delta\)"),
    'privacy="1"': (lambda: dpfast.fit(X, Y, privacy="1", ledger=LEDGER), r"\(epsilon, delta\)"),
    "privacy=[1, 1e-6]": (
        lambda: dpfast.fit(X, Y, privacy=[1.0, 1e-6], ledger=LEDGER), r"\(epsilon, delta\)",
    ),
    "delta = 1": (lambda: dpfast.fit(X, Y, privacy=(1.0, 1.0), ledger=LEDGER), r"in \(0, 1\)"),
    "pure": (
        lambda: dpfast.fit(X, Y, privacy=dpfast.PureDP(1.0), ledger=LEDGER), r"ApproxDP\(epsilon",
    ),
    "ledger=1": (lambda: dpfast.fit(X, Y, privacy=1.0, ledger=1.0), r"dpfast\.Ledger"),
    "loss=ols": (lambda: dpfast.fit(X, Y, "ols", **PAID), "least-squares"),
    "lists": (lambda: dpfast.fit(X, Y[:-1], **PAID), "one of both"),
    "compare()": (lambda: dpfast.compare(), r"dpfast\.compare\(first"),
    "compare(1)": (lambda: dpfast.compare(1.0), "compare takes fits"),
    "compare(labels=)": (lambda: dpfast.compare(fitted(), labels=["a"]), r"names=\["),
    "Ledger(epsilon=)": (lambda: dpfast.Ledger(epsilon=1.0), r"Ledger\(\(1\.0, 1e-6\)\)"),
    "Ledger()": (lambda: dpfast.Ledger(), r"missing .*'total'\. Write dpfast\.Ledger\(1\.0\)"),
    "Ledger(1.0, 1e-6)": (lambda: dpfast.Ledger(1.0, 1e-6), r"Ledger\(\(1\.0, 1e-6\)\)"),
    "GDP(epsilon=)": (lambda: dpfast.GDP(epsilon=1.0), r"dpfast\.ApproxDP\(1\.0, 1e-6\)"),
    "GDP(1, 1e-6)": (lambda: dpfast.GDP(1.0, 1e-6), "too many positional arguments.*ApproxDP"),
    "SeededNoise(random_state=)": (
        lambda: dpfast.SeededNoise(random_state=0), r"Write dpfast\.SeededNoise\(0\)",
    ),
    "Numeric(min=)": (lambda: dpfast.Numeric(min=0, max=1), r"dpfast\.Numeric\(18, 90"),
    "Schema(age=)": (lambda: dpfast.Schema(age=dpfast.Numeric(0, 1)), r"Schema\(\{"),
    "Huber(epsilon=)": (lambda: dpfast.Huber(epsilon=1.35), r"^Huber\(\) .*Huber\(1\.345\)"),
    "records(weights=)": (lambda: dpfast.records(X, Y, weights=Y), r"sample_weight=\.\.\."),
    "counts()": (lambda: dpfast.tables.counts(TABLE, "region", privacy=1.0), "schema=schema"),
    "plots of a number": (lambda: dpfast.plots.coefficient_plot(1.0), "fits of dpfast"),
    "nonprivate_fit(y, X)": (lambda: dpfast.nonprivate_fit(Y, X), "X comes first, then y"),
}  # fmt: skip

#: Keyword arguments of statsmodels, scikit-learn and other private libraries.
FOREIGN = (
    "epsilon", "delta", "cov_type", "cov_kwds", "use_t", "random_state", "seed", "max_iter",
    "maxiter", "tol", "solver", "start_params", "alpha", "C", "penalty", "l1_ratio",
    "fit_intercept", "hasconst", "family", "freq_weights", "sample_weight", "groups", "offset",
    "exposure", "names", "n_jobs", "endog", "exog", "data", "formula", "missing", "bounds_X",
    "data_norm", "accountant", "verbose", "disp", "q", "budget", "weights", "scale",
)  # fmt: skip


@each("name", CALLS)
def test_each_call_says_what_to_type_and_costs_nothing(name):
    call, told = CALLS[name]
    with pytest.raises((InvalidInput, dpfast.DpfastError, TypeError)) as refusal:
        call()
    assert re.search(told, str(refusal.value), re.DOTALL), str(refusal.value)
    assert LEDGER.entries == ()


@each("name", FOREIGN)
def test_each_foreign_argument_says_what_to_pass(name):
    for function in (dpfast.fit, dpfast.fit_quantiles):
        if function is dpfast.fit and name == "data":
            continue
        with pytest.raises(TypeError, match=f"has no argument '{name}'") as refusal:
            function(X, Y, privacy=1.0, ledger=LEDGER, **{name: 1})
        assert f"Write {ARGUMENTS[name]}." in str(refusal.value)
    assert LEDGER.entries == ()


def test_each_foreign_name_says_where_to_look():
    for name, instead in NAMES.items():
        with pytest.raises(AttributeError) as refusal:
            getattr(dpfast, name)
        assert f"Write {instead}." in str(refusal.value)
    fit = fitted()
    for name, instead in CALLED.items():
        assert not hasattr(fit, name)
        with pytest.raises(AttributeError) as refusal:
            getattr(fit, name)
        assert f"write {instead}." in str(refusal.value)


@each("name", ("DPLogisticRegression", "DPHuberRegressor", "DPPoissonRegressor"))
def test_estimators_say_what_to_pass(name):
    kind = getattr(pytest.importorskip("dpfast.estimators"), name)
    habits = {"epsilon": "privacy=", "random_state": "noise=", "C": "Write ridge"}
    for argument, told in habits.items():
        with pytest.raises(TypeError, match=rf"^{name}\(\) has no argument '{argument}'.*{told}"):
            kind(**{argument: 1.0})
    assert kind(0.5).get_params()["privacy"] == 0.5


def test_what_a_call_meets_inside_is_its_own():
    """A TypeError of what is called stays as it is, and so does what it carries."""

    @dpfast.errors.understood
    def fit(X, *, privacy):
        raise mine

    mine = TypeError("mine")
    with pytest.raises(TypeError) as found:
        fit(X, privacy=1.0)
    assert found.value is mine


def test_rooms_know_what_is_called_otherwise():
    for room in (dpfast.models, dpfast.inference, dpfast.optimize):
        with pytest.raises(AttributeError, match=r"Write dpfast\.fit"):
            _ = room.ols
    params = fitted().params
    with pytest.raises(AttributeError, match=r"write \['x1'\]"):
        _ = params.x1
    with pytest.raises(AttributeError, match=r"write \.to_pandas\(\)\.loc"):
        _ = params.loc


def test_what_is_recommended_exists():
    fit = fitted()
    for text in (*NAMES.values(), *ARGUMENTS.values(), *CALLED.values(), *TERMS.values(),
                 *WRITTEN.values(), *OF_LEDGER.values(), *OF_METHODS.values(),
                 *OF_REQUESTS.values(), *OF_SCHEMA.values(), *OF_STUDY.values()):  # fmt: skip
        for name in re.findall(r"dpfast(?:\.\w+)+", text):
            assert resolved(name) is not None
        for name in re.findall(r"\bfit\.(\w+)(?!\.html)\b", text):
            if name not in ("html", "json"):
                assert hasattr(fit, name), name


SCHEMA = dpfast.Schema({"region": dpfast.Categorical(["north", "south"])})
STUDY = dpfast.Study(TABLE, ledger=LEDGER, schema=SCHEMA)


def test_ledgers_studies_and_schemas_say_what_is_called_otherwise():
    for thing, called, table in (
        (LEDGER, "ledger", OF_LEDGER), (STUDY, "study", OF_STUDY), (SCHEMA, "schema", OF_SCHEMA),
    ):  # fmt: skip
        for name, instead in table.items():
            with pytest.raises(AttributeError) as refusal:
                getattr(thing, name)
            assert f"write {instead}." in str(refusal.value)
            for member in re.findall(rf"\b{called}\.(\w+)(?!\.html)\b", instead):
                assert hasattr(thing, member) or member == "html", member
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing_like_it'$"):
            _ = thing.nothing_like_it
        assert not hasattr(thing, "_nothing")
    with pytest.raises(AttributeError, match="did you mean 'remaining'"):
        _ = STUDY.remainin
    assert LEDGER.entries == ()


#: Calls of methods with arguments of other packages, and what is told.
METHODS = {
    "conf_level": (lambda fit: fit.summary(conf_level=0.9), r"summary\(\) has .* Write level=0\.9"),
    "newdata": (lambda fit: fit.predict(newdata=X), "public rows first"),
    "exog": (lambda fit: fit.predict_interval(exog=X), "public rows first"),
    "cols": (lambda fit: fit.conf_int(cols=[0]), r"conf_int\(\)\[\"age\"\]"),
    "r_matrix": (lambda fit: fit.t_test(r_matrix=[0, 1, 0]), "hypothesis first"),
    "use_f": (lambda fit: fit.wald_test("x1", use_f=True), "degrees of freedom"),
    "at": (lambda fit: fit.marginal_effects(at="mean"), "public rows first"),
    "eform": (lambda fit: fit.to_frame(eform=True), r"fit\.ratios\(\)"),
    "update, data": (lambda _: WAVES.update(X, Y, data=TABLE), r"records first: update\(X, y\)\."),
    "other": (lambda fit: fit.summary(nothing=1), r"no argument 'nothing'; it has level, alpha"),
    "study, groupby": (lambda _: STUDY.counts(groupby="region", share=0.1), 'write by="region"'),
    "study, privacy": (lambda _: STUDY.fit("wage ~ educ", privacy=1.0), r"write share=0\.2"),
    "Ledger(path)": (lambda _: dpfast.Ledger("b.json"), r"dpfast\.Ledger\.open"),
    "tests": (lambda fit: fit.t_test("x11 = 0"), r"did you mean 'x1'\?"),
    "names": (lambda fit: fit.params["x11"], r"did you mean 'x1'\?"),
}  # fmt: skip


@each("name", METHODS)
def test_methods_say_what_to_pass(name):
    call, told = METHODS[name]
    with pytest.raises((InvalidInput, dpfast.DpfastError, TypeError)) as refusal:
        call(fitted())
    assert re.search(told, str(refusal.value)), str(refusal.value)
    assert LEDGER.entries == ()


ROOMS = (
    "effects", "tables", "plots", "saved", "quantiles", "studies", "release", "datasets",
    "regression", "models", "optimize", "nonconvex", "inference", "audit", "bayesopt",
)  # fmt: skip


@each("room", ROOMS)
def test_each_room_answers_what_is_asked_elsewhere(room):
    module = importlib.import_module(f"dpfast.{room}")
    for name in ("tidy", "coefplot", "ate", "OLS", "groupby", "etable"):
        with pytest.raises(AttributeError) as refusal:
            getattr(module, name)
        assert f"Write {NAMES[name]}." in str(refusal.value)
    if room != "tables":
        with pytest.raises(AttributeError, match=r"It is dpfast\.tables\.means\."):
            _ = module.means
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing_like_it'\.$"):
        _ = module.nothing_like_it
    assert not hasattr(module, "__nothing__")


@each(
    "call",
    [
        lambda: dpfast.fit("wage ~ eduk", TABLE, **PAID),
        lambda: dpfast.fit("wage ~ Educ", TABLE, **PAID),
        lambda: dpfast.effects.two_stage("wage ~ eduk | exper", TABLE, **PAID),
        lambda: STUDY.fit("wage ~ eduk", mu=0.1),
        lambda: dpfast.fit("wage ~ educ", dpfast.records(TABLE, sample_weight="eduk"), **PAID),
    ],
    ids=[str(k) for k in range(5)],
)
def test_a_mistyped_column_is_answered_with_the_nearest(call):
    with pytest.raises(InvalidInput, match=r"did you mean 'educ'\?"):
        call()
    assert LEDGER.entries == ()


def test_a_list_that_may_be_cells_is_answered_with_declared_names_only():
    with pytest.raises(InvalidInput) as refusal:
        dpfast.tables.counts(TABLE, ["regionn", "4711"], schema=SCHEMA, **PAID)
    assert "did you mean 'region'?" in str(refusal.value) and "regionn" not in str(refusal.value)


def test_more_than_sixty_calls_are_answered():
    assert len(CALLS) + len(FOREIGN) + len(NAMES) + len(CALLED) > 100


def test_a_comparison_takes_lists_and_mappings():
    one, two = fitted(), fitted()
    assert dpfast.compare([one, two]) == dpfast.compare(one, two)
    named = dpfast.compare({"first": one, "second": two})
    assert named == dpfast.compare(one, two, names=["first", "second"])


HABITUAL = pandas.DataFrame(
    {"y": Y, "x": X[:, 0], "w": np.tile([1.0, 2.0], 200), "id": np.repeat(np.arange(100), 4)}
)
IN_PLACE = {"table": HABITUAL, "X": X[:, :1], "y": Y, "w": HABITUAL["w"], "ids": HABITUAL["id"]}


@each("habit", ["weights", "sample_weight", "freq_weights", "cluster", "groups", "aweights"])
def test_what_is_told_for_weights_and_clusters_fits_as_it_is_written(habit):
    """Every place-holder of the answer is an argument of the call that it is for."""
    with pytest.raises(TypeError) as told:
        dpfast.fit("y ~ x", HABITUAL, "least-squares", **{habit: "w"}, **PAID)
    answer = str(told.value)
    assert "Mallows" not in answer or answer.index("sample_weight") < answer.index("Mallows")
    written = re.findall(r"(dpfast\.records\(table[^)]*\)|table\.loc\[.*?\]\)\])", answer)
    assert written
    for source in written:
        rows = eval(source, {"dpfast": dpfast}, IN_PLACE)
        fit = dpfast.fit("y ~ x", rows, "least-squares", privacy=5.0)
        assert np.isfinite(fit.bse).all()
    for source in re.findall(r"dpfast\.records\(X, y[^)]*\)", answer):
        rows = eval(source, {"dpfast": dpfast}, IN_PLACE)
        assert np.isfinite(dpfast.fit(rows, None, "least-squares", privacy=5.0).bse).all()


@each("what", ["bs", "cr", "ns"])
def test_the_spline_that_is_told_for_df_fits_with_its_numbers(what):
    with pytest.raises(InvalidInput) as told:
        dpfast.fit(f"y ~ {what}(x, df=4)", HABITUAL, "least-squares", **PAID)
    (term,) = re.findall(rf"{what}\(x, knots=.*?upper_bound=\.\.\.\)", str(told.value))
    for number in ("[0.0]", "-3.0", "3.0"):
        term = re.sub(r"\[?\.\.\.\]?", number, term, count=1)
    assert len(dpfast.fit(f"y ~ {term}", HABITUAL, "least-squares", privacy=5.0).names) > 2


def test_a_formula_of_an_effect_needs_the_name_of_the_treatment():
    with pytest.raises(InvalidInput, match="'treated', table"):
        dpfast.effects.treatment_effect("y ~ x", TABLE, privacy=1.0)


@each("call", [
    lambda: dpfast.minimize("y ~ x", TABLE, dpfast.Objective("tukey", scale=1.0), privacy=1.0),
    lambda: dpfast.standardize("y ~ x", TABLE, privacy=1.0),
])  # fmt: skip
def test_functions_of_columns_refuse_a_formula(call):
    with pytest.raises(InvalidInput, match="takes no formula"):
        call()
