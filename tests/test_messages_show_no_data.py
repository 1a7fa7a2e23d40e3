"""Private tables in every argument of every public function: no message says what is in them."""

from __future__ import annotations

import itertools
import warnings
from functools import cache

import numpy as np
import pytest

import dpfast
from dpfast import bayesopt
from dpfast.errors import described, dtype_name
from dpfast.models.names import all_losses
from tests.loops import each
from tests.surface import flat_public, parameters_of, without_paths

NUMBER, WORD = 4711.0815, "patient 4711"
MARK = "4711"

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.normal(size=60)
LABELS = (Y > 0).astype(float)


def tables():
    """Name and maker of things that hold private values."""
    made = {
        "vector": lambda: np.full(60, NUMBER),
        "matrix": lambda: np.full((60, 2), NUMBER),
        "scalar": lambda: np.float64(NUMBER),
        "one entry": lambda: np.array([NUMBER]),
        "no dimension": lambda: np.array(NUMBER),
        "words": lambda: np.array([WORD] * 60),
        "a word": lambda: np.str_(WORD),
        "an array of a word": lambda: np.array(WORD),
        "objects": lambda: np.array([WORD, NUMBER] * 30, dtype=object),
        "list": lambda: [NUMBER, NUMBER],
        "list of words": lambda: [WORD] * 60,
        "rows": lambda: [[NUMBER, WORD]] * 60,
        "tuple": lambda: (WORD, NUMBER),
        "pair of words": lambda: (WORD, WORD + " again"),
        "set": lambda: {WORD, NUMBER},
        "dict": lambda: {"a": [WORD] * 60, "b": NUMBER},
        "bytes": lambda: WORD.encode(),
        "series": lambda: pytest.importorskip("pandas").Series([NUMBER] * 60),
        "frame": lambda: pytest.importorskip("pandas").DataFrame({"a": [NUMBER] * 60}),
        "frame of words": lambda: pytest.importorskip("pandas").DataFrame({"a": [WORD] * 60}),
        "levels": lambda: pytest.importorskip("pandas").Series([WORD] * 60, dtype="category"),
        "polars series": lambda: pytest.importorskip("polars").Series("a", [WORD] * 60),
        "polars frame": lambda: pytest.importorskip("polars").DataFrame({"a": [NUMBER] * 60}),
        "polars lazy": lambda: pytest.importorskip("polars").LazyFrame({"a": [WORD] * 60}),
        "Arrow": lambda: pytest.importorskip("pyarrow").array([WORD] * 60),
        "Arrow table": lambda: pytest.importorskip("pyarrow").table({"a": [NUMBER] * 60}),
    }
    return list(made.items())


def losses(theta):
    return np.tile(((np.asarray(theta) - 0.3) ** 2).sum(), 60)


def gradients(theta):
    return np.tile(np.asarray(theta), (60, 1))


def rows(theta, X, y):
    return (X @ theta - y)[:, None] * X


def half(r):
    return 0.5 * r * r


SEEDED = {"noise": dpfast.SeededNoise(0)}
FIT = {"X": X, "y": Y, "loss": "log-cosh", "privacy": 2.0, "scale": 1.0, **SEEDED}
RELEASE = {"X": X, "y": Y, "loss": "log-cosh", "scale": 1.0, "domain": dpfast.models.Box(1.0),
           "ridge": 0.5, **SEEDED}  # fmt: skip
SCHEMA = dpfast.Schema({"a": dpfast.Numeric(0, 1), "b": dpfast.Numeric(-3, 3)})
TABLE = {"a": X[:, 0], "b": Y}
CELLS = {
    "table": {"a": LABELS, "b": Y},
    "privacy": 1.0,
    **SEEDED,
    "schema": dpfast.Schema({"a": dpfast.Binary(1, 0), "b": dpfast.Numeric(-3, 3)}),
}
SEARCH = {"losses": losses, "bounds": [[0.0, 1.0]], "privacy": 1.0, "n_records": 60, **SEEDED}
PERTURBED = {"X": X, "y": LABELS, "loss": "logistic", "ridge": 0.5,
             "privacy": dpfast.ApproxDP(1.0, 1e-6), **SEEDED}  # fmt: skip
OBJECTIVE = dpfast.nonconvex.PerRecordObjective(rows, dimension=2, lipschitz=1.0, smoothness=1.0)
KERNEL = {"length_scales": 1.0, "output_scale": 1.0}
OTHER = X.copy()
OTHER[0] = 9.0


def noisy_mean(data):
    return float(np.mean(data) + RNG.normal())


def replayed(data):
    return dpfast.private_quantiles(
        data[:, 0], [0.5], low=-3.0, high=3.0, privacy=1.0, noise=dpfast.SeededNoise(0)
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # seeded noise says so
    FITTED = dpfast.fit(X, Y, dpfast.Objective("log-cosh", scale=1.0), privacy=2.0, **SEEDED)
    BY_NAME = dpfast.fit("b ~ a", TABLE, dpfast.Objective("log-cosh", scale=1.0), privacy=9.0)
    PLAIN = dpfast.fit(X, Y, privacy=90.0, **SEEDED)
    LEVELS = dpfast.fit_quantiles(X, Y, [0.4, 0.6], privacy=9.0)
    COUNTED = dpfast.tables.means(columns="b", by="a", **CELLS)
    DISTRIBUTED = dpfast.tables.distribution(column="b", by="a", bins=8, **CELLS)
PLANNED = dpfast.plan(p=2, n=3_000_000, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
TUNED = dpfast.bayesopt.tune(
    lambda at: np.arange(100) / 100 - at[0], [(-1.0, 1.0)], privacy=1.0, n_records=100, steps=2
)
PLANNED._forecast.width = cache(PLANNED._forecast.width)  # the same for every picture of it
try:
    from dpfast.estimators import DPHuberRegressor
except ImportError:
    ESTIMATOR = None
else:
    ESTIMATOR = DPHuberRegressor(privacy=1.0, scale=1.0, score_privacy=1.0, **SEEDED)

PUBLIC = flat_public()
PUBLIC["fit, formula"] = PUBLIC["fit"]

#: Arguments with which each public function returns.
CALLS = {
    "records": {"X": X, "y": Y}, "Certified": {},
    "Adaptive": {},
    "Geometric": {"ratio": 2.0, "uniform_share": 0.1}, "GradientDescent": {},
    "Newton": {}, "adaptive_descent": {}, "noisy_gradient_descent": {"steps": 5},
    "noisy_newton": {"steps": 5}, "NoisyDescent": {}, "Proximal": {}, "Spider": {}, "Uniform": {},
    "ApproxDP": {"epsilon": 1.0, "delta": 1e-6}, "GDP": {"mu": 1.0}, "ZCDP": {"rho": 1.0},
    "PureDP": {"epsilon": 1.0}, "Ledger": {"total": 1.0},
    "Ball": {"radius": 1.0}, "Box": {"bound": 1.0}, "LpBall": {"p": 3.0, "radius": 1.0},
    "Interval": {"low": 0.0, "high": 1.0}, "OneHot": {"levels": 3},
    "Objective": {"loss": "huber", "scale": 1.0, "n_covariates": 2},
    "Product": {"parts": [dpfast.models.Interval(0.0, 1.0)]},
    "Bounded": {"radius": 1.0}, "Clip": {"radius": 1.0}, "Mallows": {"radius": 1.0},
    "MallowsLinear": {"radius": 1.0}, "Schweppe": {"radius": 1.0},
    "Binary": {"positive": 1, "negative": 0}, "Categorical": {"levels": ["a", "b"]},
    "Numeric": {"low": 0.0, "high": 1.0}, "Schema": {"columns": {"a": dpfast.Numeric(0, 1)}},
    **{kind.__name__: {} for kind in all_losses().values() if kind.__name__ in PUBLIC},
    "Quantile": {"tau": 0.9, "bandwidth": 0.1}, "Poisson": {"largest_mean": 2.0},
    "FreeScale": {"low": 0.5, "high": 2.0},
    "EntropyNoise": {}, "SeededNoise": {"seed": 0}, "KL": {"gamma": 1.0},
    "CustomLoss": {"loss": half, "psi": np.tanh, "psi_prime": np.cos, "psi_bound": 1.0,
                   "psi_prime_bound": 1.0, "convex": False},
    "PerRecordObjective": {"gradients": rows, "dimension": 2, "lipschitz": 1.0, "smoothness": 1.0},
    "fit": FIT, "nonprivate_fit": {k: FIT[k] for k in ("X", "y", "loss", "scale")},
    "fit, formula": {"X": "b ~ a", "data": TABLE, "schema": SCHEMA, "privacy": 1.0,
                    "loss": "log-cosh", "scale": 1.0, **SEEDED},
    "like": {"X": X, "y": Y}, "tables.Waves": {"privacy": 90.0, "waves": 3, **SEEDED},
    "fit_many": {"X": X, "y": Y, "privacy_each": 1.0, "noise": dpfast.SeededNoise(0)},
    "fit_sparse": {"X": X, "y": Y, "privacy": 60.0, "n_nonzero_coefs": 1, **SEEDED},
    "goodness_of_fit": {"fit": PLAIN, "X": X, "y": Y, "privacy": 1.0, **SEEDED},
    "fit_quantiles": {"X": X, "y": Y, "taus": [0.3, 0.6], "privacy": 1.0, "scale": 1.0, **SEEDED},
    "minimize": {"X": X, "y": Y, "objective": "cauchy", "privacy": dpfast.ZCDP(1.0), "scale": 1.0,
                 "method": dpfast.optimize.Adaptive(last_share=0.1), **SEEDED},
    "nonprivate_minimize": {"X": X, "y": Y, "objective": "cauchy", "scale": 1.0},
    "estimate_kl": {"public_X": X, "public_y": Y, "objective": "cauchy", "scale": 1.0,
                    "n_rays": 2},
    "open_parquet": {"path": "absent.parquet", "response": "b"},
    "plan": {"p": 2, "n": 3_000_000, "privacy": 1.0, "loss": "log-cosh", "scale": 1.0},
    "plan_release": {"n": 50, "pilot": (X, Y), "loss": "log-cosh", "scale": 1.0, "runs": 1,
                     "domain": dpfast.models.Box(1.0), "privacy": dpfast.ApproxDP(1.0, 1e-6)},
    "compare": {"names": None}, "verify_report": {"path": "absent.html"},
    "private_quantiles": {"x": Y, "probabilities": [0.5], "low": -3.0, "high": 3.0,
                          "privacy": 1.0, **SEEDED},
    "standardize": {"X": X, "y": Y, "privacy": 9.0, **SEEDED},
    "effects.treatment_effect": {"X": X, "treatment": LABELS, "y": Y, "privacy": 9.0, **SEEDED},
    "tables.counts": {"by": "a", **CELLS}, "tables.means": {"columns": "b", **CELLS},
    "tables.quantiles": {"column": "b", "by": "a", **CELLS},
    "tables.distribution": {"column": "b", "by": "a", **CELLS},
    "tables.fits": {**CELLS, "formula": "b ~ x", "by": "a", "privacy": 9.0,
                    "table": {"a": LABELS, "b": Y, "x": X[:, 0]},
                    "schema": dpfast.Schema({"a": dpfast.Binary(1, 0)})},
    "tables.absorbed": {"formula": "b ~ x | a", "privacy": 60.0, **SEEDED,
                        "table": {"a": LABELS, "b": Y, "x": X[:, 0]},
                        "schema": dpfast.Schema({"a": dpfast.Binary(1, 0)})},
    "tables.small_areas": {"formula": "b ~ x", "by": "t", "privacy": 60.0, **SEEDED,
                           "table": {"t": np.arange(len(Y)) % 10, "b": Y, "x": X[:, 0]},
                           "schema": dpfast.Schema({"t": dpfast.Categorical(list(range(10)))})},
    "effects.two_stage": {"formula": "b ~ a | x", "privacy": 9.0, **SEEDED,
                          "table": {"a": LABELS, "b": Y, "x": X[:, 0]}},
    "effects.cox": {"formula": "b ~ x", "event": "a", "cuts": [1.0], "privacy": 20.0, **SEEDED,
                    "table": {"a": LABELS, "b": Y, "x": X[:, 0]}},
    "tables.plan": {"schema": CELLS["schema"], "by": "a", "n": 60, "privacy": 1.0},
    "Study": {"data": CELLS["table"], "privacy": 1.0, "schema": CELLS["schema"], **SEEDED},
    "certify": {**RELEASE, "privacy": dpfast.PureDP(1.0)},
    "release_functional": {**RELEASE, "direction": [0.0, 1.0],
                           "privacy": dpfast.ApproxDP(1.0, 1e-6)},
    "release_parameter": {**RELEASE, "privacy": dpfast.ApproxDP(1.0, 1e-6)},
    "tune": {**SEARCH, "steps": 3},
    "bayesopt.Tuner": {k: v for k, v in SEARCH.items() if k != "losses"},
    "bayesopt.SearchSettings": {},
    "bayesopt.AdaGrad": {}, "bayesopt.Plain": {"step_size": 0.1}, "bayesopt.Smoothed": {},
    "bayesopt.Categorical": {"choices": ["a", "b"]}, "bayesopt.Integer": {"low": 1, "high": 9},
    "bayesopt.Real": {"low": 0.1, "high": 9.0},
    "bayesopt.GradientInformation": {"covariance": bayesopt.RBF(), "noise_variance": 0.1,
                                     "bounds": [[0.0, 1.0]]},
    "bayesopt.Matern52": KERNEL, "bayesopt.Matern72": KERNEL, "bayesopt.Polynomial2": KERNEL,
    "bayesopt.RBF": KERNEL,
    "bayesopt.private_clip": SEARCH,
    "bayesopt.private_choice": {k: v for k, v in SEARCH.items() if k != "bounds"} | {
        "candidates": [[0.1], [0.7]], "loss_range": (0.0, 9.0)
    },
    "bayesopt.fit_covariance": {"public_points": X[:6], "public_values": Y[:6]},
    "bayesopt.sklearn_losses": {"estimator": None, "X_train": X, "y_train": Y, "X_validation": X,
                                "y_validation": Y, "parameters": {"alpha": (0.1, 1.0)}},
    "audit.check_loss": {"loss": dpfast.Huber()},
    "audit.lower_bound": {"mechanism": noisy_mean, "pair": (X, OTHER),
                          "n_samples": 100},
    "audit.neighbours": {"X": X, "y": Y},
    "audit.replay": {"fn": replayed, "data": X, "neighbour": OTHER},
    "audit.to_dp_accounting": {"ledger": dpfast.Ledger(1.0)},
    "datasets.load_census2000": {},
    "estimators.DPHuberRegressor": {"privacy": 1.0, "scale": 1.0, "score_privacy": 1.0, **SEEDED},
    "estimators.DPQuantileRegressor": {
        "privacy": 1.0, "quantile": 0.9, "bandwidth": 0.1, "scale": 1.0, "score_privacy": 1.0,
        **SEEDED,
    },
    "estimators.DPPoissonRegressor": {
        "privacy": 1.0, "loss": dpfast.Poisson(4.0), "score_privacy": 1.0, **SEEDED,
    },
    "estimators.DPLinearRegression": {"privacy": 9.0, **SEEDED},
    "estimators.DPLogisticRegression": {"privacy": 1.0, "classes": (0.0, 1.0),
                                        "score_privacy": 1.0, **SEEDED},
    "estimators.DealtFolds": {"n_splits": 3, **SEEDED},
    "estimators.cross_validate": {"estimator": ESTIMATOR, "X": X, "y": Y, "folds": 3},
    "plots.budget_plot": {"privacy": dpfast.Ledger(1.0)},
    "plots.coefficient_plot": {"fits": FITTED}, "plots.plan_plot": {"plan": PLANNED},
    "plots.tradeoff_plot": {"budgets": 1.0}, "plots.search_plot": {"found": TUNED},
    "plots.plot": {"result": FITTED}, "plots.quantile_plot": {"fits": LEVELS},
    "plots.prediction_plot": {"fit": BY_NAME, "rows": TABLE, "x": "a"},
    "plots.cell_plot": {"cells": COUNTED}, "plots.distribution_plot": {"distribution": DISTRIBUTED},
}  # fmt: skip

#: Results, exceptions and an abstract class: nobody passes them arguments.  The adapter needs a
#: package that is seldom here; it takes public rows.
NOT_CALLED = {
    "BudgetExceeded", "DpfastError", "Fit", "GoodnessOfFit", "InvalidInput", "Minimum", "Plan",
    "QuantileFits", "marginaleffects_model",
    "audit.LeakFound", "audit.LossReport", "audit.LowerBound", "audit.Pair",
    "audit.ReplayReport", "bayesopt.Covariance", "bayesopt.Tuning",
    "datasets.Table", "estimators.CrossValidation",
}  # fmt: skip
#: Calls whose arguments above are refused, or whose extra is absent.
NOT_RETURNING = {"open_parquet", "compare", "verify_report", "bayesopt.sklearn_losses"}


def called(name, arguments):
    """The call; scikit-learn has estimators look at their settings in `fit` and later."""
    made = PUBLIC[name](**arguments)
    if name.startswith("estimators.DP"):
        y = LABELS if "Logistic" in name else Y
        made.fit(X, y).predict(X)
        if getattr(made, "score_privacy", None) is not None:
            made.score(X, y)
    if name == "estimators.DealtFolds":
        list(made.split(X))
    return made


def messages(call):
    """Everything that is said: warnings, and an exception with all that led to it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call()
            found = []
        except Exception as error:
            found, seen = [], error
            while seen is not None:
                found.append(f"{type(seen).__name__}: {seen} {seen.args!r}")
                found += getattr(seen, "__notes__", [])
                seen = seen.__cause__ or seen.__context__
    return found + [str(warning.message) for warning in said]


def test_every_public_name_is_called():
    assert {*PUBLIC} == {*CALLS} | NOT_CALLED


@each("name", [name for name in CALLS if name not in NOT_RETURNING])
def test_the_arguments_are_right(name):
    if name == "fit, formula":
        pytest.importorskip("formulaic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        called(name, CALLS[name])


@pytest.mark.parametrize("turns", [[0], pytest.param([1, 2, 3, 4, 5], marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_is_data(name, turns, tmp_path, monkeypatch):
    """Of the kinds one in six, which go round among functions and arguments."""
    monkeypatch.chdir(tmp_path)  # a path of "patient 4711" is a file
    leaks = {}
    places = enumerate(parameters_of(PUBLIC[name]), len(name))
    for (k, parameter), turn in itertools.product(places, turns):
        for kind, make in tables()[(k + turn) % 6 :: 6]:
            if parameter == "path" and kind in ("a word", "bytes"):
                continue  # these are paths
            if (parameter, kind) == ("names", "pair of words"):
                continue  # these are right names of two columns: public, and told
            given = CALLS[name] | {parameter: make()}
            found = messages(lambda given=given: called(name, given))
            if any(MARK in message for message in found):
                leaks[parameter, kind] = found
    assert not leaks


INFORMATION = bayesopt.GradientInformation(bayesopt.RBF(), 0.1, [[0.0, 1.0]])


def asked():
    tuner = bayesopt.Tuner(**CALLS["bayesopt.Tuner"])
    tuner.ask()
    return tuner


METHODS = {
    "Schema[...]": lambda v: SCHEMA[v],
    "Schema.encode of a table": SCHEMA.encode,
    "Schema.encode of covariates": lambda v: SCHEMA.encode(TABLE, v),
    "Schema.encode of a response": lambda v: SCHEMA.encode(TABLE, ["a"], v),
    "Schema.encode of a column": lambda v: SCHEMA.encode({"a": v}),
    "Categorical levels of a column": lambda v: dpfast.Schema(
        {"a": dpfast.Categorical(["x", "y"])}
    ).encode({"a": v}),
    "Schema.with_scaling": lambda v: SCHEMA.with_scaling(a=v),
    "Schema.from_toml": dpfast.Schema.from_toml,
    "Box.project": dpfast.models.Box(1.0).project,
    "Box.support": dpfast.models.Box([1.0, 1.0]).support,
    "Box.bind": dpfast.models.Box([1.0, 1.0]).bind,
    "GradientInformation.condition": lambda v: INFORMATION.condition(v),
    "GradientInformation.trace": lambda v: INFORMATION.trace(v, v),
    "GradientInformation.acquire": lambda v: INFORMATION.acquire(v, 1),
    "GradientInformation.most_uncertain": lambda v: INFORMATION.most_uncertain(v, 1),
    "RBF.values": lambda v: bayesopt.RBF().values(v, v),
    "Tuner.tell": lambda v: asked().tell(v),
    "losses of tune": lambda v: dpfast.tune(**SEARCH | {"losses": lambda _: v, "steps": 3}),
}


@each("call", [*METHODS.values()], ids=[*METHODS])
def test_an_argument_of_a_method_that_is_data(call):
    leaks = {}
    for kind, make in tables():
        if call == dpfast.Schema.from_toml and kind == "a word":
            continue  # that is a path
        given = make()
        found = messages(lambda v=given: call(v))
        if any(MARK in message for message in found):
            leaks[kind] = found
    assert not leaks


@pytest.mark.parametrize("parameter", ["covariates", "response", "schema"])
def test_an_argument_of_open_parquet_that_is_data(tmp_path, parameter):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": X[:, 0], "b": Y}), tmp_path / "t.parquet")
    right = {"covariates": ["a"], "response": "b"}
    assert dpfast.open_parquet(tmp_path / "t.parquet", **right).n == 60
    for kind, make in tables():
        options = right | {parameter: make()}
        found = messages(lambda o=options: dpfast.open_parquet(tmp_path / "t.parquet", **o))
        assert not any(MARK in without_paths(message, tmp_path) for message in found), kind


@each(("kind", "make"), tables(), ids=[kind for kind, _ in tables()])
@each("text", [False, True])
def test_what_an_argument_is_called(kind, make, text):
    value = make()
    said = described(value, text=text)
    assert MARK not in said and len(said) < 100
    called = "pyarrow.Array" if kind == "Arrow" else type(value).__name__
    assert said.split()[0] in ("a", "an") and called in said
    assert MARK not in dtype_name(getattr(value, "dtype", np.dtype(float)))


@each(
    ("value", "text", "said"),
    [
        (None, False, "None"),
        (1.5, False, "1.5"),
        (True, True, "True"),
        ("newtno", True, "'newtno'"),
        ("x" * 100, True, repr("x" * 80) + "..."),
        ("F", False, "a str of length 1"),
        ([1.5, 2], False, "a list of length 2"),
        (np.zeros((3, 2), "f4"), False, "a numpy.ndarray of shape (3, 2) and dtype float32"),
        (np.int64(3), False, "a numpy.int64 of dtype int64"),
        (half, False, "the function half"),
        (dict, False, "the class dict"),
        (dpfast.GDP(1.0), False, "GDP(mu=1.0)"),
        (dpfast.Huber(), True, "Huber(c=1.345)"),
        (dpfast.models.Box([1.0, 2.0]), False, f"a dpfast.{dpfast.models.Box.__name__}"),
    ],
)
def test_what_is_shown(value, text, said):
    assert described(value, text=text) == said
