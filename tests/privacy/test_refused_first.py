"""Refused first: whatever a public argument is refused for costs nothing.

Every function that spends privacy gets every argument wrong in turn, with a shared ledger: either
a result comes back, with a summary that can be printed, or the ledger is untouched.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
import warnings
from importlib.util import find_spec
from itertools import product

import numpy as np
import pytest

import dpfast
from dpfast import bayesopt
from dpfast.models import resolve_loss
from dpfast.models.names import all_losses
from dpfast.optimize.damping import Backtracking, SelfConcordant
from tests.audit.registry import callables
from tests.loops import each
from tests.surface import flat

RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-1.0, 1.0, (N, 2))
Y = X @ [1.0, 0.5] + 0.1 * RNG.normal(size=N)
TREATED = (Y > 0.0).astype(float)
MANY = RNG.uniform(-1.0, 1.0, (4000, 1))
TABLE = {"a": X[:, 0], "b": X[:, 1], "y": Y, "text": np.array(["u", "v"] * (N // 2)),
         "tenth": np.arange(N) % 10, "event": TREATED, "time": 1.5 + Y}  # fmt: skip
NUMBER = dpfast.Numeric(-2.0, 2.0)
SCHEMA = dpfast.Schema(dict.fromkeys(("a", "b", "y", "text", "absent"), NUMBER))
HALVES = dpfast.Schema(SCHEMA.columns | {"text": dpfast.Categorical(["u", "v"])})
CELLS = {"table": TABLE, "by": "text", "schema": HALVES, "privacy": 1.0}
FITTED = dpfast.fit(X, Y, privacy=90.0, noise=dpfast.SeededNoise(0))
PAIR = dpfast.ApproxDP(1.0, 1e-5)
BOX = [(0.0, 1.0), (0.0, 1.0)]


def losses(theta):
    return ((X - theta) ** 2).sum(axis=1)


def gradients(theta):
    return 2.0 * (theta - X)


def per_record(theta, X, y):
    return (X @ theta - y)[:, None] * X


REGRESSION = {"X": X, "y": Y, "loss": "log-cosh", "privacy": 1.0, "scale": 1.0}
SHORT = dpfast.optimize.Adaptive(last_share=0.1, max_steps=20)  # "auto" takes 500 steps
NONCONVEX = {
    "X": X, "y": Y, "objective": "tukey", "privacy": 1.0, "scale": 1.0, "method": SHORT,
}  # fmt: skip
RELEASE = REGRESSION | {"privacy": PAIR, "domain": dpfast.models.Box(1.0)}
CERTIFIED = RELEASE | {"X": MANY, "y": MANY[:, 0]}
SEARCH = {"losses": losses, "bounds": BOX, "privacy": 1.0, "n_records": N}
CHOICE = {k: v for k, v in SEARCH.items() if k != "bounds"} | {
    "candidates": [np.array([0.1, 0.2]), np.array([-0.5, 0.4])],
    "loss_range": (0.0, 9.0),
}
OWN = dpfast.nonconvex.PerRecordObjective(per_record, dimension=2, lipschitz=5.0, smoothness=3.0)


def fit_many(
    X,
    y,
    loss="least-squares",
    *,
    privacy,
    resamples=None,
    standardize=None,
    inference=True,
    ledger=None,
    noise=None,
):
    """Call ``fit_many`` for one fit, whose budget is that of the call."""
    return dpfast.fit_many(
        X, y, loss, privacy_each=privacy, resamples=resamples, standardize=standardize,
        inference=inference, ledger=ledger, noise=noise,
    )  # fmt: skip


CALLS = {
    "fit": (dpfast.fit, REGRESSION),
    "fit, free scale": (dpfast.fit, REGRESSION | {"scale": dpfast.FreeScale(0.5, 2.0)}),
    "fit, groups": (dpfast.fit, REGRESSION | {"group": np.arange(N) // 2, "group_size": 2}),
    "fit, persons": (dpfast.fit, REGRESSION | {"group": np.arange(N) // 2, "each": "person"}),
    "fit_quantiles": (
        dpfast.fit_quantiles,
        {k: v for k, v in REGRESSION.items() if k != "loss"} | {"taus": [0.3, 0.6]},
    ),
    "fit_many": (fit_many, {"X": X, "y": Y, "privacy": 1.0}),
    "fit_quantiles, weights": (
        dpfast.fit_quantiles,
        {k: v for k, v in REGRESSION.items() if k != "loss"}
        | {"taus": [0.3, 0.6], "sample_weight": np.ones(N), "largest_weight": 2.0},
    ),
    "fit, weights": (
        dpfast.fit,
        REGRESSION | {"sample_weight": np.ones(N), "largest_weight": 2.0, "offset": np.ones(N)},
    ),
    "minimize": (dpfast.minimize, NONCONVEX),
    "minimize, spider": (dpfast.minimize, NONCONVEX | {"kl": (1.0, 2.0), "method": "spider"}),
    "minimize, exponential": (
        dpfast.minimize,
        NONCONVEX | {"privacy": dpfast.ZCDP(0.5), "select": "exponential"},
    ),
    "minimize, own objective": (
        dpfast.minimize,
        {
            "X": X,
            "y": Y,
            "objective": OWN,
            "privacy": 1.0,
            "method": dpfast.optimize.Adaptive(max_steps=5),
        },
    ),
    "tune": (dpfast.tune, SEARCH | {"steps": 2}),
    "tune, portfolio": (dpfast.tune, SEARCH | {"steps": 8}),
    "private_clip": (bayesopt.private_clip, SEARCH),
    "private_choice": (bayesopt.private_choice, CHOICE),
    "Tuner": (bayesopt.Tuner, {"bounds": BOX, "privacy": 1.0, "n_records": N, "steps": 2}),
    "certify": (dpfast.release.certify, RELEASE | {"privacy": dpfast.PureDP(1.0)}),
    "certify, both": (dpfast.release.certify, RELEASE | {"which": "both"}),
    "release_functional": (dpfast.release_functional, RELEASE | {"direction": "x1"}),
    "release_parameter": (dpfast.release_parameter, RELEASE),
    "private_quantiles": (
        dpfast.private_quantiles,
        {"x": Y, "probabilities": [0.5], "low": -2.0, "high": 2.0, "privacy": 1.0},
    ),
    "treatment_effect": (
        dpfast.effects.treatment_effect,
        {"X": X, "treatment": TREATED, "y": Y, "privacy": 9.0},
    ),
    "counts": (dpfast.tables.counts, CELLS),
    "means": (dpfast.tables.means, CELLS | {"columns": ["a", "y"]}),
    "distribution": (dpfast.tables.distribution, CELLS | {"column": "a", "bins": [0.5]}),
    "cell quantiles": (dpfast.tables.quantiles, CELLS | {"column": "a", "bins": 8}),
    "fits": (
        dpfast.tables.fits,
        CELLS
        | {"formula": "y ~ a", "schema": dpfast.Schema({"text": HALVES["text"]}), "privacy": 9.0},
    ),
    "fit_sparse": (
        dpfast.regression.fit_sparse,
        {"X": X, "y": Y, "privacy": 9.0, "n_nonzero_coefs": 1, "of_interest": ["x1"]},
    ),
    "goodness_of_fit": (
        dpfast.regression.goodness_of_fit,
        {"fit": FITTED, "X": X, "y": Y, "privacy": 1.0},
    ),
    "small_areas": (
        dpfast.tables.small_areas,
        {
            "formula": "y ~ a",
            "table": TABLE,
            "by": "tenth",
            "schema": dpfast.Schema({"tenth": dpfast.Categorical(list(range(10)))}),
            "privacy": 30.0,
        },
    ),
    "absorbed": (
        dpfast.tables.absorbed,
        {
            "formula": "y ~ a | text",
            "table": TABLE,
            "schema": dpfast.Schema({"text": HALVES["text"]}),
            "privacy": 30.0,
        },
    ),
    "two_stage": (
        dpfast.effects.two_stage,
        {"formula": "y ~ a | b", "table": TABLE, "privacy": 9.0},
    ),
    "cox": (
        dpfast.effects.cox,
        {
            "formula": "time ~ a",
            "table": TABLE,
            "event": "event",
            "cuts": [1.0, 2.0],
            "privacy": 20.0,
        },
    ),
    "standardize": (dpfast.standardize, {"X": X, "y": Y, "privacy": 9.0}),
}
if find_spec("formulaic"):
    CALLS["fit, formula"] = (
        dpfast.fit,
        {"X": "y ~ a + b", "data": TABLE, "loss": "log-cosh", "schema": SCHEMA,
         "privacy": 1.0, "scale": 1.0},
    )  # fmt: skip
CALLS = {
    name: (flat(function) if inspect.isfunction(function) else function, right)
    for name, (function, right) in CALLS.items()
}


def one_argument(theta):
    return 0.0


class Contrary:
    """An argument that answers no question."""

    __hash__ = None

    def __eq__(self, other):
        raise KeyError("an argument's own")

    def __bool__(self):
        raise KeyError("an argument's own")


WRONG = [
    None, True, -1, 0, 7, 0.5, 95.0, float("nan"), float("inf"), 1e-300, 1e300, 1j, 2**40,
    10**400, "x", "", b"x", [], ["a", "b"], (2.0, 1.0), {"x": 1}, np.zeros((0, 2)), np.zeros(0),
    np.full((N, 2), "s", object), np.array(["s"] * N), np.zeros((N, 2), complex), object(), int,
    one_argument, -(10**400), 10**5000, float("-inf"), -0.0, 1e-320, np.float64(3.0), np.int64(3),
    np.float32(2.5), np.float16(2.5), np.int8(3),
    np.zeros(3), np.zeros((3, 3)), np.array(3.0), np.array("x"), np.array([object()]), np.ma.masked,
    np.datetime64("2020"), [[]], [None], [1.0, "x"], [[1.0], [2.0, 3.0]], {}, {"a": None}, set(),
    range(3), "\0", "\ud800", b"\0", Ellipsis, NotImplemented, Contrary(), dpfast.GDP,
    dpfast.GDP(1.0), list, np.ndarray,
]  # fmt: skip

if find_spec("pandas"):
    import pandas

    WRONG += [pandas.NA, pandas.NaT, pandas.Float64Dtype(), pandas.Timestamp(0), pandas.Index([])]
if find_spec("pyarrow"):
    import pyarrow

    WRONG += [pyarrow.scalar(1.0), pyarrow.scalar(None), pyarrow.float64(), pyarrow.nulls(3)]
if find_spec("polars"):
    import polars

    WRONG += [polars.lit(1.0), polars.Float64, polars.LazyFrame({"a": [1.0]})]

#: A caller's own functions: what they raise comes out as it is.
OWN_FUNCTIONS = {"losses", "gradients", "objective", "progress"}

#: Numbers that are right, and make a call long.
LONG = {"steps", "evaluations", "batch"}

#: Every loss, each of which some function has no use for, and some with settings.
EVERY_LOSS = [
    *[resolve_loss(name, unbounded=True) for name in sorted(all_losses())],
    dpfast.Poisson(3.0), dpfast.Quantile(0.9), dpfast.Objective(dpfast.Poisson(3.0)),
]  # fmt: skip

BUDGETS = [
    *map(dpfast.GDP, (1e-300, 1e-7, 3e-6, 1e-4, 1e3, 1e6, 1e9, 1e13, 1e300)),
    *map(dpfast.ZCDP, (1e-300, 1e-11, 1e-8, 1e6, 1e12, 1e300)),
    *map(dpfast.PureDP, (1e-300, 1e-12, 1e-6, 1e3, 1e9)),
    *[dpfast.ApproxDP(e, d) for e in (1e-300, 1e-9, 1e-3, 1e3, 1e9) for d in (1e-300, 1e-9)],
]


def rich_ledger(privacy):
    kind = type(privacy) if isinstance(privacy, (dpfast.ZCDP, dpfast.PureDP)) else dpfast.GDP
    if isinstance(privacy, dpfast.ApproxDP):
        return dpfast.Ledger(dpfast.ApproxDP(1e300, 0.999))
    return dpfast.Ledger(kind(1e150))


def outcome(function, arguments, ledger):
    """The error of a call; its result must be complete if there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(**arguments)
            for report in ("summary", "to_dict", "result", "__repr__"):
                getattr(result, report, lambda: None)()
        except Exception as error:
            return error
    return None


def check(name, wrong):
    function, right = CALLS[name]
    ledger = rich_ledger((right | wrong)["privacy"])
    error = outcome(function, {**right, "ledger": ledger} | wrong, ledger)
    if error is not None:
        argument, value = next(iter(wrong.items()))
        assert not ledger.entries, f"{name} charged, then refused {argument}={value!r}: {error!r}"
        foreign = not isinstance(error, dpfast.DpfastError | OSError | ImportError)
        own = callable(value) or isinstance(value, dpfast.nonconvex.PerRecordObjective)
        assert not foreign or (argument in OWN_FUNCTIONS and own), (name, wrong, error)
    return error


@each("name", CALLS)
def test_the_right_arguments_are_right(name):
    function, right = CALLS[name]
    ledger = rich_ledger(right["privacy"])
    assert outcome(function, {**right, "ledger": ledger}, ledger) is None
    assert len(ledger.entries) == 1


def test_every_public_function_with_a_ledger_is_here():
    tested = {function for function, _ in CALLS.values()}
    missing = {
        name
        for name, thing in callables().items()
        if inspect.isfunction(thing)
        and {"ledger", "privacy"} <= set(inspect.signature(thing).parameters)
    } - {f"{function.__module__}.{function.__qualname__}" for function in tested}
    inside = {
        "dpfast.bayesopt.portfolio.Portfolio.__init__",  # of tune
        "dpfast.bayesopt.tuner.Tuner.__init__",  # here, by the name of its class
        "dpfast.release.request.ReleaseRequest.charge",  # the charge itself
        "dpfast.studies.study.Study.__init__",  # its requests charge
        "dpfast.tables.waves.Waves.__init__",  # its updates charge: tests/scaling/test_waves.py
        "dpfast.regression.default_fit.DefaultFit.fit",  # of fit
        "dpfast.regression.method_fit.MethodFits.run",  # of fit and fit_quantiles
    }
    adapters = {name for name in missing if name.startswith("dpfast.estimators.")}  # of fit
    assert missing <= inside | adapters


def wrong_values(name, argument, turn=slice(None)):
    for value in list(WRONG)[turn]:
        if argument in LONG and isinstance(value, (int, float)) and 3 <= value < 100:
            continue
        yield value
    if argument == "privacy":
        yield from BUDGETS
    if argument in ("loss", "objective"):
        yield from EVERY_LOSS[turn]


@pytest.mark.parametrize(
    "turns", [[0], pytest.param(range(1, 12), marks=pytest.mark.slow)], ids=["one", "others"]
)
@pytest.mark.parametrize("name", CALLS, ids=lambda name: name.replace(" ", "-"))
def test_a_wrong_argument_costs_nothing(name, turns, tmp_path, monkeypatch):
    """Of the values one in twelve, which go round among functions and arguments."""
    monkeypatch.chdir(tmp_path)  # a path can be right
    against = []
    parameters = inspect.signature(CALLS[name][0]).parameters.items()
    for (k, (argument, parameter)), turn in product(enumerate(parameters, len(name)), turns):
        if parameter.kind is not parameter.VAR_KEYWORD:
            for value in wrong_values(name, argument, slice((k + turn) % 12, None, 12)):
                try:
                    check(name, {argument: value})
                except AssertionError as error:
                    against.append(str(error))
    assert not against, "\n".join(against)


ESTIMATED = {"method": dpfast.optimize.GradientDescent(step_size="estimated", steps=1)}

#: Clipped scores have no smoothness to take the inner step size from.
CLIPPED = dpfast.papers.Proximal(convexity=1.0, inner=dpfast.optimize.Adaptive())

MUST_BE_REFUSED = [
    ("fit", {"progress": "yes"}),
    ("fit", {"progress": one_argument}),
    ("fit", {"threads": "x"}),
    ("fit", {"threads": 2**40}),
    ("fit", {"fit_intercept": 7}),
    ("fit", {"inference": "no"}),
    ("fit", {"noise": 7}),
    ("fit", {"ledger": "x"}),
    ("fit", {"method": dpfast.optimize.Newton(start=[0.0])}),
    ("fit", {"method": "unknown"}),
    ("fit", {"names": ["only one"]}),
    # Mallows weights have no constant
    ("fit", {"method": dpfast.optimize.Newton(step=SelfConcordant())}),
    ("fit", {"method": dpfast.optimize.Newton(step=Backtracking()), "privacy": 1e9}),
    ("fit", ESTIMATED | {"inference": False, "privacy": 5e-6}),
    ("fit_quantiles", {"taus": []}),
    ("fit_many", {"resamples": [[0.5]]}),
    ("fit_sparse", {"n_nonzero_coefs": 99}),
    ("fit_sparse", {"of_interest": ["x1", "x1"]}),
    ("fit_sparse", {"of_interest": "x1"}),
    ("fit_sparse", {"of_interest": ["x9"]}),
    ("fit_sparse", {"loss": dpfast.Quantile(0.3)}),
    ("fit_sparse", {"privacy": 1e-4}),
    ("fit_many", {"resamples": [range(N)] * 2, "noise": [None] * 3}),
    ("fit_quantiles", {"taus": [0.5, 0.5]}),
    ("fit_quantiles", {"taus": [0.6, 0.3]}),
    ("fit_quantiles", {"taus": [0.3, 1.0]}),
    ("fit_quantiles", {"taus": [[0.3], [0.6]]}),
    ("fit_quantiles", {"taus": 0.5}),
    ("fit_quantiles", {"scale": None}),  # 60 records are too few for what is to be bought
    ("fit_quantiles", {"progress": one_argument}),
    ("minimize", {"progress": 7}),
    ("minimize", {"method": CLIPPED, "objective": "huber", "weights": dpfast.models.Clip(1.0)}),
    ("tune", {"progress": 1}),
    ("tune", {"losses": lambda theta: 1.0}),
    ("tune", {"losses": lambda theta: np.array(["x"] * N)}),
    ("tune", {"losses": 7}),
    ("private_clip", {"losses": lambda theta: 1.0}),
    ("private_clip", {"losses": 7}),
    ("private_clip", {"share": 1.0}),
    ("tune", {"path": ""}),
    ("tune", {"path": os.path.join("missing", "search")}),
    ("Tuner", {"path": os.path.join("missing", "search")}),
    ("private_quantiles", {"noise": 7}),
    ("private_quantiles", {"low": -1e308, "high": 1e308}),
    ("standardize", {"privacy": 0.01}),
    ("standardize", {"privacy": 1e12}),
    ("standardize", {"names": ["a", "a"]}),
    ("standardize", {"response": "no"}),
    ("certify", {"privacy": dpfast.PureDP(1e9)}),
    ("release_functional", {"direction": [0.0, 1e300]}),
    ("release_functional", {"inference": 1e-9}),
    ("release_functional", {"certificate_share": 1e-300, "method": "paper"}),
    ("release_functional", {"method": "one-shot", "privacy": dpfast.ApproxDP(1e-8, 1e-9)}),
    ("release_parameter", {"privacy": dpfast.ApproxDP(1e-9, 1e-9)}),
]  # fmt: skip


def label(value):
    """Without the address of a function, which differs from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize(("name", "wrong"), MUST_BE_REFUSED, ids=label)
def test_what_must_be_refused_is(name, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(check(name, wrong), dpfast.DpfastError | OSError)


@each(
    "wrong",
    [
        {"direction": [1e-300]},
        {"inference": 0.3},
        {"certificate_share": 1e-300},
        {"privacy": dpfast.ApproxDP(1e-12, 1e-5)},
        {"threads": 2**40},
    ],
    ids=str,
)
def test_a_release_that_would_be_certified_is_refused_before_its_certificate(wrong):
    ledger = dpfast.Ledger(dpfast.ApproxDP(10.0, 0.1))
    certified = {"direction": "x1", "ledger": ledger, "method": "paper"}
    arguments = CERTIFIED | certified | wrong
    with pytest.raises(dpfast.DpfastError):
        flat(dpfast.release_functional)(**arguments)
    assert not ledger.entries


# ---- one column in two places --------------------------------------------------------------------

#: Public names alone say that nothing can come of it: of what is explained, of a constant.
TWICE = {
    "fit, formula": [
        {"X": "y ~ a + y"},
        {"X": "y ~ a + I(y ** 2)"},
        {"X": "y ~ a:y"},
        {"X": "y ~ a + C(y)", "schema": None},
        {"X": "log(y) ~ y", "schema": None},
    ],
    "fits": [
        {"formula": "y ~ a + y"},
        {"formula": "y ~ text"},
        {"formula": "a ~ b + C(text)", "schema": HALVES},
        {"formula": "a ~ b + C(text):b", "schema": HALVES},
    ],
    "small_areas": [{"formula": "y ~ a + y"}, {"formula": "y ~ a + C(tenth)"}],
    "absorbed": [
        {"formula": "y ~ a + C(text, levels=['u', 'v']) | text"},
        {"formula": "y ~ a + b | b", "schema": dpfast.Schema({"b": dpfast.Categorical([0, 1])})},
        {"formula": "b ~ a | b", "schema": dpfast.Schema({"b": dpfast.Categorical([0, 1])})},
        {"formula": "y ~ a + y | text"},
    ],
    "cox": [
        {"formula": "y ~ a + event"},
        {"formula": "y ~ a + I(event ** 2)"},
        {"formula": "y ~ a", "event": "y"},
        {"formula": "y ~ a + y"},
    ],
    "two_stage": [
        {"formula": "y ~ a + y | b"},
        {"formula": "y ~ a | y"},
        {"formula": "y ~ a | a"},
        {"formula": "y ~ a + b | b"},
    ],
    "means": [{"columns": ["b"], "by": "b", "schema": dpfast.Schema({"b": dpfast.Binary(1, 0)})}],
    "fit": [{"X": {"a": X[:, 0], "y": Y}}],
    "standardize": [{"X": {"a": X[:, 0], "y": Y}}],
    "fit_quantiles": [{"X": {"a": X[:, 0], "y": Y}}],
    "treatment_effect": [
        {"X": {"a": X[:, 0], "y": Y}},
        {"X": {"a": X[:, 0], "t": TREATED}, "treatment": TREATED},
        {"treatment": Y},
    ],
}


@each(("name", "wrong"), [(name, one) for name in {*TWICE} & {*CALLS} for one in TWICE[name]])
def test_one_column_in_two_places_is_refused(name, wrong):
    assert isinstance(check(name, wrong), dpfast.InvalidInput)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_column_of_a_frame_in_two_places_is_refused_by_its_name(package):
    frames = pytest.importorskip(package)
    table = frames.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y, "t": TREATED})
    for name in ("fit", "fit_quantiles", "standardize"):
        for y in (table["y"], table[["y"]]):
            error = check(name, {"X": table, "y": y})
            assert "'y', and X has that column" in str(error), (name, error)
    error = check("treatment_effect", {"X": table[["a", "b", "t"]], "treatment": table["t"]})
    assert "'t', and X has that column" in str(error)


def test_a_change_may_be_explained_by_where_it_began():
    """What is explained is then no function of one column, and differs from that one."""
    if "fit, formula" in CALLS:
        wrong = {"X": "I(y - a) ~ a", "schema": None, "loss": "huber"}
        assert check("fit, formula", wrong) is None


# ---- progress ------------------------------------------------------------------------------------

WATCHED = ["fit", "minimize", "minimize, spider", "tune"]


@pytest.mark.parametrize("name", WATCHED)
def test_what_progress_raises_later_does_not_cost_the_result(name, caplog):
    seen = []

    def progress(done, planned):
        seen.append(done)
        if done:
            raise RuntimeError("the window was closed")

    function, right = CALLS[name]
    with caplog.at_level(logging.ERROR, "dpfast"):
        result = function(**right, progress=progress)
    assert result is not None and seen == [0, 1]  # it is not called again
    (record,) = caplog.records
    assert "the window was closed" in record.exc_text


@each("name", WATCHED)
def test_an_interrupt_in_progress_still_stops(name):
    def progress(done, planned):
        if done:
            raise KeyboardInterrupt

    function, right = CALLS[name]
    with pytest.raises(KeyboardInterrupt):
        function(**right, progress=progress)


def test_the_refusal_of_progress_keeps_its_cause():
    def progress(done, planned):
        raise LookupError("no such widget")

    with pytest.raises(dpfast.InvalidInput, match="tried with") as refused:
        dpfast.fit(X, Y, privacy=1.0, progress=progress)
    assert isinstance(refused.value.__cause__, LookupError)


# ---- searches ------------------------------------------------------------------------------------


def test_a_function_is_not_called_for_a_ledger_that_cannot_pay():
    called = []
    for name in ("tune", "private_choice"):
        function, right = CALLS[name]
        ledger = dpfast.Ledger(dpfast.GDP(1.0))
        ledger.charge(dpfast.GDP(0.5), "earlier")
        with pytest.raises(dpfast.BudgetExceeded):
            function(**right | {"losses": called.append}, ledger=ledger)
        assert len(ledger.entries) == 1
    assert not called


def test_what_exactly_fits_is_paid():
    """The early refusal rounds in favour of the request."""
    ledger = dpfast.Ledger(dpfast.GDP(1.0))
    ledger.charge(dpfast.GDP(0.6), "earlier")
    rest = ledger.remaining
    dpfast.tune(**SEARCH | {"privacy": rest, "steps": 1}, ledger=ledger)
    assert len(ledger.entries) == 2


def test_the_rehearsal_is_the_first_evaluation():
    """No point is evaluated twice but the start and the end, to compare them."""
    points = []

    def counted(theta):
        points.append(theta.tolist())
        return losses(theta)

    found = dpfast.tune(**SEARCH | {"losses": counted, "steps": 3})
    assert np.array_equal(points[:-2], found.points)
    assert np.array_equal(points[-2:], [found.iterates[0], found.theta])


def test_a_wrong_shape_costs_one_training_run_only():
    """Private trainings are charged by the function that trains, to a ledger of its own."""
    training, shared = dpfast.Ledger(dpfast.GDP(10.0)), dpfast.Ledger(dpfast.GDP(1.0))

    def averaged(theta):
        training.charge(0.1, "training run")
        return 1.0

    with pytest.raises(dpfast.InvalidInput, match="already averaged"):
        dpfast.tune(**SEARCH | {"losses": averaged}, ledger=shared)
    assert len(training.entries) == 1 and not shared.entries


def test_a_search_that_was_refused_leaves_no_budget_behind(tmp_path):
    """The next attempt may have another total, and pays like the first."""
    path, shared = tmp_path / "search", dpfast.Ledger(dpfast.GDP(1.0))
    options = SEARCH | {"steps": 2, "path": path, "ledger": shared}
    with pytest.raises(dpfast.BudgetExceeded):
        dpfast.tune(**options | {"privacy": 2.0})
    with pytest.raises(dpfast.InvalidInput):
        dpfast.tune(**options | {"losses": lambda theta: 1.0})
    assert not path.exists() and not shared.entries
    dpfast.tune(**options | {"privacy": 0.5})
    assert len(shared.entries) == 1
