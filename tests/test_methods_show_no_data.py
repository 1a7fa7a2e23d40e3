"""Private tables in every argument of every public method: no message says what is in them.

The methods are found, not listed: a new one fails here until its arguments have right values.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import dpfast
from dpfast import bayesopt
from dpfast.audit import LowerBound
from dpfast.bayesopt.updates import History
from dpfast.models import Objective
from tests.loops import each
from tests.surface import classes, flat_public, methods, parameters_of
from tests.test_messages_show_no_data import (
    CALLS,
    MARK,
    PLANNED,
    SCHEMA,
    TABLE,
    X,
    Y,
    messages,
    tables,
)

#: Methods that only a fit calls, told by an argument that only a fit makes.
OURS = {"curator", "answers", "trajectory"}


def fitted(name):
    """An estimator that has seen data."""
    made = classes()[name](**CALLS[name])
    return made.fit(X, Y if "Logistic" not in name else (Y > 0).astype(float))


def study(**options):
    """With a treatment, a covariate and an instrument beside the columns of tables by cell."""
    table = {"a": (Y > 0).astype(float), "b": Y, "x": X[:, 0], "w": np.ones(len(Y))}
    columns = {"a": dpfast.Binary(1, 0), "v": dpfast.Numeric(-3, 3)}
    options |= {"schema": dpfast.Schema(columns), "noise": dpfast.SeededNoise(0)}
    return dpfast.Study(table | {"v": Y}, privacy=1e3, **options)


def approvals():
    """Make a folder in which requests wait."""
    folder = tempfile.mkdtemp()
    os.mkdir(os.path.join(folder, "approved"))
    return folder


MAKERS = {
    "Fit": lambda: flat_public()["fit"](**CALLS["fit"]),
    "Minimum": lambda: flat_public()["minimize"](**CALLS["minimize"]),
    "GoodnessOfFit": lambda: dpfast.regression.goodness_of_fit(**CALLS["goodness_of_fit"]),
    "Plan": lambda: PLANNED,
    "Quantile": dpfast.Quantile,
    "Study": study,
    "QuantileFits": lambda: flat_public()["fit_quantiles"](**CALLS["fit_quantiles"]),
    "bayesopt.Tuning": lambda: dpfast.tune(**CALLS["tune"]),
    "datasets.Table": lambda: dpfast.datasets.load_census2000(),
    "audit.LowerBound": lambda: LowerBound(1.0, 0.95, 100, (0.0,), (0.1,), (0.5,)),
}
"""How an instance is made, where the constructor's arguments in CALLS are not enough."""

INFORMATION = bayesopt.GradientInformation(bayesopt.RBF(), 0.1, [[0.0, 1.0]])
THETA, POINTS = np.array([0.5]), np.array([[0.2], [0.7]])
HISTORY = History([THETA], [np.array([0.1])], [np.array([0.0])], [0.1], 3)
OBJECTIVE = Objective(dpfast.LogCosh(), dpfast.Mallows(2.0), 2, scale=1.0)

#: Right values of arguments, by name, and where a method has its own, by class and method.
RIGHT: dict[str, Any] = {
    "D": POINTS, "H_inverse": np.eye(3), "X": X, "Z": POINTS, "alpha": None, "apart": None,
    "at": {"x1": 0.5},
    "argument": "names", "audience": "paper", "average": False, "backend": "pandas",
    "contrasts": [], "new_response": False,
    "b": 1, "b_max": 2, "budget": dpfast.GDP(1.0),
    "contrast": [0.0, 1.0, 0.0], "covariates": ["a"], "delta": 1e-6,
    "dimension": 1, "direction": np.ones(3), "epsilon": 1.0, "every_level": False, "excess": 0.1,
    "false_positive_rate": 0.1, "first": 1, "fit_intercept": True,
    "groups": None, "inference": True, "history": HISTORY, "initial": [], "label": "a query",
    "largest_curvature": 1.0, "level": 0.95, "max_evaluations": 5, "mean": "zero", "mu": 1.0,
    "n": 60, "n_covariates": 2, "n_points": 1, "n_steps": 3, "name": "a", "names": ["a"],
    "norm": 0.1, "once": "",
    "objective": OBJECTIVE, "others": POINTS, "path": "absent",
    "count": Y, "points": POINTS, "public_sample": TABLE, "r": Y,
    "request": {"analysis": "counts", "by": "a", "share": 0.1},
    "known": SCHEMA,
    "requests": [{"analysis": "counts", "by": "a", "share": 0.1}],
    "records": False, "response": None,
    "restriction": np.eye(3)[1:], "sample_weight": None, "schedule": dpfast.optimize.Uniform(),
    "second": 2,
    "source": SCHEMA.to_toml(), "spend": 0.1,
    "starts": 2,
    "table": TABLE, "target": 0.0, "terms": (), "theta": THETA, "threshold": 0.5, "tolerance": 0.1,
    "total": 1.0,
    "used": ["a"], "value": 0.0, "values": Y, "x": Y, "y": Y,
}  # fmt: skip
WEIGHTS: dict[str, Any] = {"weights": "w", "largest_weight": 3.0}
WEIGHTED: dict[str, Any] = {**WEIGHTS, "least": 0.0}
PRICE: dict[str, Any] = {"share": 0.9, "mu": None, "name": None}
OWN: dict[str, dict[str, Any]] = {
    "Categorical.codes": {"values": ["a"] * 60},
    "Categorical.encode": {"values": ["a"] * 60},
    "GradientDescent.resolve_step_size": {"theta": np.zeros(3)},
    "KL.from_growth": {"rate": 1.0, "exponent": 2.0},
    "Objective.check_step": {"step_size": 0.1},
    "Objective.project": {"theta": np.zeros(3)},
    "Objective.ridge_gradient": {"theta": np.zeros(3)},
    "Objective.scale_at": {"theta": np.zeros(3)},
    "Objective.smoothness_at": {"theta": np.zeros(3)},
    "Plan.curve": {"n": [100], "mu": None},
    "Quantile.for_records": {"p": 2},
    "QuantileFits.conf_int": {"simultaneous": True},
    "QuantileFits.fit_of": {"tau": 0.3},
    "QuantileFits.summary": {"simultaneous": True},
    "Schema.draft": {"source": TABLE},
    "Study.counts": {**PRICE, **WEIGHTED, "by": "a"},
    "Study.absorbed": {**PRICE, "formula": "b ~ x | a"},
    "Study.cox": {
        **PRICE,
        **WEIGHTED,
        "formula": "b ~ x",
        "event": "a",
        "cuts": [1.0],
        "unit": None,
    },
    "Study.effect": {
        **PRICE,
        "treatment": "a",
        "response": "b",
        "covariates": ["x"],
        "method": "aipw",
        "propensity": 0.5,
        "average": "all",
        "weights": None,
        "largest_weight": None,
    },
    "Study.fit": {**PRICE, **WEIGHTS, "formula": "v ~ a", "loss": "log-cosh"},
    "Study.fits": {
        **PRICE,
        **WEIGHTED,
        "formula": "b ~ x",
        "by": "a",
        "loss": "least-squares",
        "least": 0.0,
    },
    "Study.means": {**PRICE, **WEIGHTED, "columns": "v", "by": "a"},
    "Study.quantiles": {
        **PRICE,
        **WEIGHTED,
        "column": "v",
        "by": "a",
        "probabilities": [0.5],
    },
    "Study.rehearse": {"like": {"a": [1.0, 0.0] * 30}},
    "Study.two_stage": {**PRICE, **WEIGHTS, "formula": "b ~ a | x"},
    "ZCDP.within": {"budget": dpfast.ZCDP(1.0)},
    "bayesopt.Tuner.tell": {"values": np.zeros((2, 60))},
    "datasets.Table.__getitem__": {"name": "log_wage"},
}

#: Argument and kind of value that are what the argument is for: paths, labels and budgets.
PUBLIC_VALUES = {
    ("path", "a word"), ("source", "a word"), ("label", "a word"), ("spend", "scalar"),
    ("total", "scalar"), ("like", "a word"), ("like", "bytes"),
}  # fmt: skip

#: Methods with nothing to sweep, and why.
NOT_SWEPT = {
    "bayesopt.Covariance": "abstract: its methods are swept in its subclasses",
    "EntropyNoise": "mechanisms draw from it, with sizes of their own",
    "SeededNoise": "mechanisms draw from it, with sizes of their own",
    "Interval": "a part of Product, which projects and measures by parts",
    "OneHot": "a part of Product, which projects and measures by parts",
    "PerRecordObjective": "minimize rehearses and compiles it with the columns of X",
}


def swept():
    """Class, method and argument; an inherited method once."""
    seen = set()
    for owner, key, function in methods():
        names = parameters_of(function)
        if {owner, f"{owner}.{key}"} & NOT_SWEPT.keys():
            continue
        if function not in seen and names and OURS.isdisjoint(names):
            seen.add(function)
            yield owner, key, names


@cache
def instance(owner):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if owner in MAKERS:
            return MAKERS[owner]()
        if owner.startswith("estimators.DP"):
            return fitted(owner)
        return classes()[owner](**CALLS[owner])


def arguments(owner, key, names):
    right = RIGHT | OWN.get(f"{owner}.{key}", {})
    if owner.startswith("estimators") and "Logistic" in owner:
        right = right | {"y": (Y > 0).astype(float)}
    return {name: right[name] for name in names}


def call(owner, key, given):
    target = instance(owner)
    if key == "tell":  # it answers a question
        target = bayesopt.Tuner(**CALLS["bayesopt.Tuner"])
        target.ask()
    if key == "survival":  # of fits of Cox
        times = np.abs(X[:, 0])
        table = {"time": times, "event": times > 0.1, "x1": Y}
        target = dpfast.effects.cox(
            "time ~ x1",
            table,
            event="event",
            cuts=[0.5, 1.0],
            privacy=99.0,
            noise=CALLS["fit"]["noise"],
        )
    if owner == "Study":  # whose log would answer again
        held = key in ("approve", "submit", "waiting")
        target = study(approvals=approvals()) if held else study()
    if key in ("charge", "child", "check"):
        own = {"ledger": dpfast.Ledger(1.0)} if "ledger" in CALLS[owner] else {}
        target = classes()[owner](**CALLS[owner] | own)  # a test that forks may close the others
    result = getattr(target, key)(**given)
    return list(result) if key == "split" else result


def test_what_is_left_out_exists():
    known = {f"{owner}.{key}" for owner, key, _ in methods()}
    assert {*NOT_SWEPT} <= {*classes(), *known}
    assert {*OWN} <= known


@each(("owner", "key", "names"), swept(), ids=lambda case: f"{case[0]}.{case[1]}")
def test_the_arguments_are_right(owner, key, names, tmp_path, monkeypatch):
    folder = tmp_path / f"{owner}.{key}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call(owner, key, arguments(owner, key, names))


@pytest.mark.parametrize("turn", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3)]])
@pytest.mark.parametrize("part", range(16))
def test_an_argument_that_is_data(part, turn, tmp_path, monkeypatch):
    """Of the kinds one in four, which go round among methods and arguments."""

    @each(("owner", "key", "names"), [*swept()][part::16], ids=lambda case: ".".join(case[:2]))
    def is_not_told(owner, key, names):
        folder = tmp_path / f"{owner}.{key}"
        folder.mkdir()
        monkeypatch.chdir(folder)
        an_argument_that_is_data(owner, key, names, turn)

    is_not_told()


def an_argument_that_is_data(owner, key, names, turn):
    right = arguments(owner, key, names)
    instance(owner)
    leaks = {}
    for k, name in enumerate(names, len(key) + turn):
        for kind, make in tables()[k % 4 :: 4]:
            if (name, kind) in PUBLIC_VALUES:
                continue
            given = right | {name: make()}
            found = messages(lambda given=given: call(owner, key, given))
            if any(MARK in message for message in found):
                leaks[name, kind] = found
    assert not leaks
