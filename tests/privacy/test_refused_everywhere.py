"""Refused first, by construction: whatever spends is swept, callbacks and missing extras included.

The functions are swept by `test_refused_first`; here are classes, methods, callbacks and extras,
and the test that nothing public that spends is in neither.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

import dpfast
from tests.loops import each
from tests.privacy.test_refused_first import (
    CALLS,
    WRONG,
    N,
    X,
    Y,
    check,
    losses,
    outcome,
    rich_ledger,
)
from tests.surface import flat, methods, parameters_of, public

SEEDED = {"noise": dpfast.SeededNoise(0)}

#: Arguments by which something public spends, or plans to.
SPENDING = {"ledger", "privacy", "score_privacy", "spend", "cost"}

#: Estimators, with right settings.  `fit` and `score` spend.
ESTIMATORS = {
    "DPHuberRegressor": {"privacy": 1.0, "scale": 1.0, "score_privacy": 0.5},
    "DPLinearRegression": {"privacy": 9.0, "score_privacy": 0.5},
    "DPQuantileRegressor": {
        "privacy": 1.0, "quantile": 0.9, "bandwidth": 0.1, "scale": 1.0, "score_privacy": 0.5,
    },
    "DPPoissonRegressor": {"privacy": 1.0, "loss": dpfast.Poisson(4.0), "score_privacy": 0.5},
    "DPLogisticRegression": {"privacy": 1.0, "classes": (0.0, 1.0), "score_privacy": 0.5},
}  # fmt: skip

#: What has an argument of spending, and spends nothing.
FREE = {
    "audit.to_dp_accounting": "reads a ledger",
    "plots.budget_plot": "draws a ledger",
    "estimators.CrossValidation": "a result", "QuantileFits": "a result",
    "plan": "reads a budget and public rows", "tables.plan": "reads a schema and a budget",
    "Study": "its requests spend; tests/study/test_study.py is the sweep of hostile ones",
    "plan_release": "reads a budget and public rows", "compare": "reads a ledger",
    "Fit": "a result", "Minimum": "a result", "bayesopt.Tuning": "a result",
    "GoodnessOfFit": "a result",
    "tables.Waves": "its updates spend; refused in scaling/test_waves.py",
}  # fmt: skip

#: What ``CALLS`` has under its name by a function that passes its budget on as ``privacy_each``.
PASSED_ON = {"fit_many"}


def test_whatever_spends_is_swept():
    swept = {function for function, _ in CALLS.values()}
    spending = {
        name
        for name, thing in public().items()
        if not (inspect.isfunction(thing) and flat(thing) in swept)
        and thing not in swept
        and not (inspect.isclass(thing) and issubclass(thing, BaseException))
        and not SPENDING.isdisjoint(parameters_of(thing))
    }
    estimators = {f"estimators.{name}" for name in ESTIMATORS}
    assert spending == {*FREE} & spending | PASSED_ON | estimators
    assert {*CALLS} >= PASSED_ON
    paying = {
        f"{owner}.{key}"
        for owner, key, function in methods()
        if not SPENDING.isdisjoint(parameters_of(function))
    }
    assert paying == {"Ledger.charge", "Ledger.check"}


# ---- estimators ----------------------------------------------------------------------------------


def estimator(name, settings):
    from dpfast import estimators

    return getattr(estimators, name)(**{**SEEDED, **settings})


def tried(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return error
    return None


def fit_and_score(name, settings, X=X, y=None, of=None):
    """The number of charges is that of the calls that came back."""
    ledger = dpfast.Ledger(dpfast.GDP(1e150))
    y = ((Y > 0).astype(float) if "Logistic" in name else Y) if y is None else y
    model = estimator(name, {"ledger": ledger} | settings)
    error = tried(lambda: model.fit(X, y))
    assert error is None or not ledger.entries, (settings, error)
    ours = dpfast.DpfastError | OSError | ImportError
    assert error is None or isinstance(error, ours), (settings, error)
    if error is None:
        paid = len(ledger.entries)
        for rows, labels in [(X, y)] if of is None else of:
            error = tried(lambda rows=rows, labels=labels: model.score(rows, labels))
            assert error is None or len(ledger.entries) == paid, (settings, error)
            # that columns differ from those of the fit is for scikit-learn to say, in its words
            assert error is None or isinstance(error, ours | ValueError), (settings, error)
            paid = len(ledger.entries)


#: Tables whose names of columns are no names.
NAMED = []
if find_spec("pandas"):
    import pandas

    NAMED += [pandas.DataFrame(X, columns=names) for names in (["a", "a"], [0, "a"], [None, "a"])]


CASES = [
    (name, argument)
    for name, right in ESTIMATORS.items()
    for argument in [
        *right,
        "fit_intercept",
        "ridge",
        "loss",
        "weights",
        "inference",
        "noise",
        "standardize",
        "largest_weight",
    ]
]


@pytest.mark.parametrize(("name", "argument"), CASES)
@pytest.mark.one_in(12)
def test_a_wrong_setting_of_an_estimator_costs_nothing(name, argument):
    pytest.importorskip("sklearn")
    if argument not in parameters_of(type(estimator(name, ESTIMATORS[name]))):
        pytest.skip("not an argument of this one")
    for value in WRONG:
        fit_and_score(name, ESTIMATORS[name] | {argument: value})


def test_every_setting_of_an_estimator_is_swept():
    pytest.importorskip("sklearn")
    for name, right in ESTIMATORS.items():
        swept = {argument for owner, argument in CASES if owner == name} | {"ledger"}
        assert {*parameters_of(type(estimator(name, right)))} <= swept


@each("name", ESTIMATORS)
def test_wrong_data_of_an_estimator_cost_nothing(name):
    pytest.importorskip("sklearn")
    for value in [*WRONG, *NAMED]:
        fit_and_score(name, ESTIMATORS[name], X=value)
        fit_and_score(name, ESTIMATORS[name], y=value)
    right = (Y > 0).astype(float) if "Logistic" in name else Y
    rows = [(v, right) for v in [*WRONG, *NAMED]]
    fit_and_score(name, ESTIMATORS[name], of=rows + [(X, v) for v in WRONG])


@pytest.mark.parametrize("argument", ["estimator", "X", "y", "folds"])
def test_a_wrong_argument_of_a_cross_validation_costs_nothing(argument):
    pytest.importorskip("sklearn")
    from dpfast.estimators import cross_validate

    for value in WRONG:
        ledger = dpfast.Ledger(dpfast.GDP(1e150))
        model = estimator("DPHuberRegressor", ESTIMATORS["DPHuberRegressor"] | {"ledger": ledger})
        given = {"estimator": model, "X": X, "y": Y, "folds": 2} | {argument: value}
        error = tried(lambda given=given: cross_validate(**given))
        assert error is None or not ledger.entries, (value, error)


# ---- methods -------------------------------------------------------------------------------------


@each("method", ["charge", "check", "child"])
@each("argument", ["spend", "label"])
def test_a_wrong_charge_leaves_the_ledger_as_it_was(method, argument):
    for value in WRONG:
        ledger = dpfast.Ledger(dpfast.GDP(10.0))
        given = {"spend": 1.0, "label": "a query"} | {argument: value}
        error = tried(lambda g=given, book=ledger: getattr(book, method)(*g.values()))
        assert len(ledger.entries) == (error is None and method != "check")


def test_a_wrong_answer_to_a_tuner_pays_for_no_step():
    for value in WRONG:
        ledger = dpfast.Ledger(dpfast.GDP(10.0))
        function, right = CALLS["Tuner"]
        tuner = function(**right, **SEEDED, ledger=ledger)
        points = tuner.ask()
        before = len(ledger.entries), tuner.steps_paid
        error = tried(lambda value=value, tuner=tuner: tuner.tell(value))
        assert error is not None and (len(ledger.entries), tuner.steps_paid) == before
        tuner.tell(np.array([losses(theta) for theta in points]))  # the question still stands


# ---- callbacks -----------------------------------------------------------------------------------


def raising(*_):
    raise RuntimeError("a fault of the caller's")


#: What a callback may return by mistake, on each call.
RETURNED = [*WRONG, np.zeros(N + 1), np.zeros((N, 3)), np.zeros((N, 1)), [[0.0]] * N]


def own(**callbacks):
    return dpfast.nonconvex.PerRecordObjective(
        callbacks["gradients"], dimension=2, lipschitz=5.0, smoothness=3.0,
        losses=callbacks.get("losses"),
    )  # fmt: skip


def per_record(theta, X, y):
    return (X @ theta - y)[:, None] * X


CALLBACKS = {
    "tune": lambda f: {"losses": f},
    "private_clip": lambda f: {"losses": f},
    "private_choice": lambda f: {"losses": f},
    "minimize, own objective": lambda f: {"objective": own(gradients=f)},
    "minimize, own losses": lambda f: {"objective": own(gradients=per_record, losses=f)},
    "fit": lambda f: {"loss": dpfast.CustomLoss(
        loss=f, psi=f, psi_prime=f, psi_bound=1.0, psi_prime_bound=1.0, convex=False)},
    "fit, progress": lambda f: {"progress": f},
    "fit_quantiles, progress": lambda f: {"progress": f},
    "minimize, progress": lambda f: {"progress": f},
    "tune, progress": lambda f: {"progress": f},
}  # fmt: skip


def test_every_callback_is_swept():
    swept = {name.partition(",")[0]: set() for name in CALLBACKS}
    for name, make in CALLBACKS.items():
        swept[name.partition(",")[0]] |= {*make(per_record)}
    for name, (function, _) in CALLS.items():
        for parameter in inspect.signature(function).parameters.values():
            if "Callable" in str(parameter.annotation) and "," not in name:
                assert parameter.name in swept[name]


@pytest.mark.parametrize("name", CALLBACKS)
@pytest.mark.one_in(4)
def test_a_callback_that_fails_at_once_costs_nothing(name):
    if name == "fit":
        pytest.importorskip("numba")
    call = name if name in CALLS else name.partition(",")[0]
    for value in [raising, *RETURNED] if name != "fit" else [raising, None, "x", 1j]:
        function = value if value is raising else lambda *_, value=value: value
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = CALLBACKS[name](function)
        except Exception:  # refused when it was made
            continue
        check(call, wrong)


# ---- extras that are missing ---------------------------------------------------------------------

EXTRAS = ("formulaic", "pandas", "polars", "pyarrow", "matplotlib", "sklearn", "numba", "dask",
          "distributed", "dp_accounting", "narwhals")  # fmt: skip


@pytest.fixture
def without(monkeypatch):
    def block(package):
        for name in [*sys.modules]:
            if name == package or name.startswith(package + "."):
                monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, package, None)

    return block


@pytest.mark.parametrize("package", EXTRAS)
@pytest.mark.one_in(4)
def test_an_extra_that_is_missing_costs_nothing(package, without):
    without(package)
    for name, (function, right) in CALLS.items():
        ledger = rich_ledger(right["privacy"])
        error = outcome(function, {**right, **SEEDED, "ledger": ledger}, ledger)
        assert error is None or not ledger.entries, (name, error)
        if error is not None:
            assert isinstance(error, ImportError) and "pip install 'dpfast[" in str(error), name


def test_a_plot_without_matplotlib_says_what_to_install(without):
    without("matplotlib")
    for name in public():
        if name.startswith("plots."):
            plot = getattr(importlib.import_module("dpfast.plots"), name.partition(".")[2])
            with pytest.raises(ImportError, match=r"pip install 'dpfast\[plot\]'"):
                plot(*[None] * sum(
                    parameter.kind is parameter.POSITIONAL_OR_KEYWORD
                    for parameter in inspect.signature(plot).parameters.values()
                ))  # fmt: skip
