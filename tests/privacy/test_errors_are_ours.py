"""Whatever a public class or helper is refused for, the error is the library's own.

The functions that spend are swept by `test_refused_first`, which asks the same of them.  An error
of NumPy's or Python's own would say nothing about the argument, and may quote what it holds.
"""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest

import dpfast
from dpfast.regression.forecast import _Forecast
from tests.loops import each
from tests.privacy.test_refused_first import (
    BOX,
    CALLS,
    EVERY_LOSS,
    NUMBER,
    OWN_FUNCTIONS,
    PAIR,
    WRONG,
    X,
    Y,
    per_record,
)
from tests.surface import flat_public, public

#: Right values of arguments that have no default, by their names.
RIGHT = {
    "low": 0.0, "high": 1.0, "levels": ["a", "b"], "columns": {"a": NUMBER}, "positive": "a",
    "negative": "b", "bounds": BOX, "epsilon": 1.0, "delta": 1e-6, "loss": "log-cosh", "X": X,
    "y": Y, "total": 1.0, "n": 100, "n_records": 100, "p": 3, "privacy": 1.0, "scale": 1.0,
    "gradients": per_record, "dimension": 2, "seed": 0, "path": "absent", "n_covariates": 2,
    "hidden": 2, "parts": [dpfast.models.Interval(-1.0, 1.0)], "clip": 1.0, "length_scales": 1.0,
    "covariance": dpfast.bayesopt.RBF(0.3), "public_X": X, "public_y": Y,
}  # fmt: skip


#: Of single functions and classes: what has another name or meaning there, or is needed although it
#: has a default.
RIGHT_OF = {
    "CustomLoss": {"loss": np.abs, "psi": np.sign, "psi_prime": np.sign},
    "FreeScale": {"low": 0.5},
    "Objective": {"scale": 1.0},
    "OneHot": {"levels": 2},
    "Poisson": {"largest_mean": 4.0},
    "Study": {"data": {"a": X[:, 0]}, "privacy": 1.0},
    "estimate_kl": {"objective": "cauchy", "scale": 1.0, "n_rays": 2},
    "noisy_gradient_descent": {"steps": 5},
    "noisy_newton": {"steps": 5},
    "nonprivate_fit": {"y": Y, "loss": "log-cosh", "scale": 1.0},
    "nonprivate_minimize": {"objective": "cauchy", "scale": 1.0},
    "plan": {"n": 3_000_000, "p": 2, "privacy": 1.0, "loss": "log-cosh", "scale": 1.0},
    "tables.Waves": {"waves": 3},
    "tables.plan": {"schema": dpfast.Schema({"a": NUMBER}), "columns": "a"},
    "plan_release": {
        "pilot": (X, Y),
        "privacy": PAIR,
        "domain": dpfast.models.Box(1.0),
        "scale": 1.0,
        "runs": 1,
    },
    "bayesopt.Categorical": {"choices": ["a", "b"]},
    "bayesopt.Integer": {"low": 0, "high": 3},
    "bayesopt.fit_covariance": {"public_points": X[:9], "public_values": Y[:9]},
}

#: What has no right arguments without another library or a file.
ELSEWHERE = {
    "compare",
    "marginaleffects_model",  # of a fit
    "open_parquet",
    "verify_report",
    "bayesopt.sklearn_losses",
    "estimators.cross_validate",
}

#: Made by the library only, or not about arguments.
OTHERS = (
    "audit.",
    "plots.",
    "datasets.",
    "Plan",
    "Fit",
    "QuantileFits",
    "Minimum",
    "bayesopt.Tuning",
)
LONG = {"steps", "evaluations", "simulations", "batch", "n_starts"}

PUBLIC = {
    name: thing
    for name, thing in flat_public().items()
    if thing not in {function for function, _ in CALLS.values()}
    and not name.startswith(OTHERS)
    and not (inspect.isclass(thing) and issubclass(thing, BaseException))
}


def arguments(thing):
    found = inspect.signature(thing).parameters.values()
    return [p for p in found if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def right_call(name):
    needed = [p.name for p in arguments(PUBLIC[name]) if p.default is p.empty]
    return {key: RIGHT.get(key, 1.0) for key in needed} | RIGHT_OF.get(name, {})


RIGHT_CALLS = {name: right_call(name) for name in PUBLIC}


@each("name", [name for name in PUBLIC if name not in ELSEWHERE])
def test_the_right_arguments_are_right(name):
    """What refuses every call of a sweep is not swept."""
    if name == "CustomLoss":
        pytest.importorskip("numba")
    PUBLIC[name](**RIGHT_CALLS[name])


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.one_in(2)
def test_a_wrong_argument_is_refused_by_the_library(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # a plan of few records, which some of these numbers are, would fit them a hundred times
    monkeypatch.setattr(_Forecast, "_is_noisy", lambda *numbers: False)
    thing, right = PUBLIC[name], RIGHT_CALLS[name]
    for parameter in arguments(thing):
        for value in [*WRONG, *(EVERY_LOSS if parameter.name in ("loss", "objective") else ())]:
            if parameter.name in LONG and isinstance(value, (int, float)):
                continue
            if parameter.name in OWN_FUNCTIONS and callable(value):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    thing(**right | {parameter.name: value})
                except (dpfast.DpfastError, OSError, ImportError):
                    pass
                except Exception as error:
                    pytest.fail(f"{name}({parameter.name}={value!r:.60}): {error!r}")


def test_a_result_that_an_exception_may_carry_can_be_written_down():
    """What has a price and was paid for: the command writes ``to_dict`` of it into a file."""
    priced = {
        name: thing
        for name, thing in public().items()
        if inspect.isclass(thing)
        and "Guarantee" in str(vars(thing).get("__annotations__", {}).get("privacy"))
    }
    assert {"estimators.CrossValidation", "bayesopt.Tuning"} <= {*priced}
    assert not [name for name, thing in priced.items() if not hasattr(thing, "to_dict")]


@each("value", [*WRONG, "", "\0", "\ud800", b"\0", b"x", 7, None], ids=type)
def test_a_ledger_is_opened_at_a_path_or_refused(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for total in (None, 1.0):
        try:
            dpfast.Ledger.open(value, total)
        except (dpfast.DpfastError, OSError):
            continue
        assert isinstance(value, (str, bytes))
    with pytest.raises(dpfast.errors.InvalidBudget):
        dpfast.Ledger(10**400)


def test_a_long_number_is_not_quoted():
    for value in (10**400, -(10**5000)):
        with pytest.raises(dpfast.InvalidInput) as refused:
            dpfast.Huber(value)
        assert len(str(refused.value)) < 300
    assert np.isfinite(dpfast.Huber(2**40).psi_bound)


@pytest.mark.parametrize("name", [*PUBLIC, *CALLS])
@pytest.mark.one_in(4)
def test_numbers_of_numpy_are_numbers_and_never_warn(name):
    """Short floats overflow where they are compared with the ends of a range."""
    thing, right = (PUBLIC[name], RIGHT_CALLS[name]) if name in PUBLIC else CALLS[name]
    for parameter in arguments(thing):
        for value in (np.float32(0.5), np.float16(2.5), np.int8(3)):
            if parameter.name in LONG:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                warnings.simplefilter("ignore", UserWarning)
                try:
                    thing(**right | {parameter.name: value})
                except (dpfast.DpfastError, OSError, ImportError):
                    pass
                except Exception as error:
                    if parameter.name not in OWN_FUNCTIONS:
                        pytest.fail(f"{name}({parameter.name}={value!r}): {error!r}")
