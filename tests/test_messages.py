"""What an error message tells people to type exists."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.data.splines import SPLINES
from dpfast.errors import InferenceUnavailable, InvalidInput
from dpfast.lazy import stub_of
from dpfast.models import LeastSquares, resolve_loss
from dpfast.models.names import DECLARED, LOSSES
from tests import sources
from tests.loops import each
from tests.privacy.test_refused_first import CALLS

PACKAGE = Path(dpfast.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

#: Arguments of other libraries' functions that messages name.
FOREIGN = {"lengths"}.union(*SPLINES.values())


def raised(path: Path) -> Iterator[tuple[int, str]]:
    """The fixed text of every message that is raised, with its line."""
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            parts = [part for argument in node.exc.args for part in ast.walk(argument)]
            texts = [part.value for part in parts if isinstance(part, ast.Constant)]
            yield node.lineno, " ".join(text for text in texts if isinstance(text, str))


def resolved(name: str) -> object:
    """The object behind a dotted name such as ``dpfast.release.certify``."""
    found: object = dpfast
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            found = import_module(f"{found.__name__}.{part}")
    return found


def parameters_of(thing: object) -> set[str]:
    """Names of the arguments a function takes, or a class and its public methods."""
    if not callable(thing):
        return set()
    try:
        names = set(inspect.signature(thing).parameters)
    except ValueError:  # an exception of the standard library
        return set()
    for name, method in (
        inspect.getmembers(thing, inspect.isfunction) if inspect.isclass(thing) else ()
    ):
        if not name.startswith("_"):
            names |= set(inspect.signature(method).parameters)
    return names


def public_arguments() -> set[str]:
    packages = stub_of(dpfast.__file__).submodules - {"estimators"}
    modules = [dpfast, *(import_module(f"dpfast.{package}") for package in packages)]
    things = [getattr(module, name) for module in modules for name in dir(module) if name[0] != "_"]
    # importing the estimators would import scikit-learn
    estimators = [sources.tree(path) for path in (PACKAGE / "estimators").glob("*.py")]
    theirs = {
        node.target.id if isinstance(node, ast.AnnAssign) else node.arg  # fields are arguments
        for tree in estimators
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
        or (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name))
    }
    return theirs.union(*map(parameters_of, things))


def advised(message: str) -> tuple[list[str], list[str]]:
    """Names ``dpfast.x`` and arguments ``x=`` in a message."""
    return re.findall(r"\bdpfast(?:\.[A-Za-z]\w*)+", message), re.findall(r"\b(\w+)=\S", message)


def test_names_and_arguments_in_messages_exist():
    known, wrong, seen = public_arguments() | FOREIGN, [], 0
    for path in FILES:
        for line, message in raised(path):
            names, arguments = advised(message)
            seen += len(names) + len(arguments)
            for name in names:
                try:
                    resolved(name)
                except (AttributeError, ImportError):
                    wrong.append(f"{path.name}:{line}: {name}")
            wrong += [f"{path.name}:{line}: {a}=" for a in arguments if a not in known]
    assert seen > 100
    assert not wrong, "\n".join(wrong)


def fits_without_covariance() -> Iterator[object]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    huber, tukey = (dpfast.Objective(name, scale=1.0) for name in ("huber", "tukey"))
    yield dpfast.fit, lambda f: f(X, y, huber, privacy=1.0, inference=False)
    yield dpfast.minimize, lambda f: f(X, y, tukey, privacy=1.0)


@pytest.mark.parametrize(("function", "call"), list(fits_without_covariance()))
def test_the_way_to_intervals_is_one_that_exists(function, call):
    """Where a function has no inference=, its result says which function has."""
    result = call(function)
    with pytest.raises(InferenceUnavailable) as caught:
        result.conf_int()
    names, arguments = advised(str(caught.value))
    assert names == ["dpfast.fit"] and "inference" in arguments
    assert set(arguments) <= parameters_of(resolved(names[0]))
    assert "inference=" not in result.summary()
    with pytest.raises(InferenceUnavailable) as caught:
        _ = result.scale
    names, arguments = advised(str(caught.value))
    assert set(arguments) <= parameters_of(resolved(names[0]))


# ---- an unknown loss -----------------------------------------------------------------------------

#: What people type, and what they mean.
TYPED = {
    "ols": "least-squares", "mse": "least-squares", "l2": "least-squares",
    "squared_error": "least-squares", "least squares": "least-squares", "logit": "logistic",
    "binomial": "logistic", "log_loss": "logistic", "l1": "smooth-absolute",
    "mae": "smooth-absolute", "pinball": "quantile", "count": "poisson", "Poisson": "poisson",
    "biweight": "tukey",
    "Huber": "huber", "logcosh": "log-cosh", "hubber": "huber", "ostrovskii": "ostrovskii-bach",
}  # fmt: skip
LOSS_NAMES = {*LOSSES, *DECLARED, LeastSquares.name}
OF_A_LOSS = [
    (name, argument)
    for name, (function, right) in CALLS.items()
    for argument in ("loss", "objective")
    if isinstance(right.get(argument), str) or (argument == "loss" and name == "fit, formula")
]


def test_every_loss_can_be_named():
    assert {"least-squares", "poisson", "logistic", "huber"} <= LOSS_NAMES
    for name in LOSS_NAMES:
        refused = ""
        try:
            dpfast.nonprivate_fit(np.zeros((9, 1)), np.zeros(9), dpfast.Objective(name, scale=1.0))
        except InvalidInput as refusal:  # of the scale, or for what else it needs
            refused = str(refusal)
        assert "loss must be one of" not in refused


@each(("typed", "meant"), [*TYPED.items()])
def test_an_unknown_loss_is_told_which_there_are_and_what_was_meant(typed, meant):
    with pytest.raises(InvalidInput) as refusal:
        resolve_loss(typed)
    message = str(refusal.value)
    assert all(repr(name) in message for name in LOSS_NAMES)
    assert message.endswith(f"received {typed!r}. Did you mean {meant!r}?")


@each("wrong", ["foo", "", "x" * 10**6, b"ols", 3, None, ["ols"]])
def test_nothing_is_suggested_for_what_is_like_no_loss(wrong):
    with pytest.raises(InvalidInput, match="loss must be one of") as refusal:
        resolve_loss(wrong)
    assert "mean" not in str(refusal.value)


@each(("name", "argument"), OF_A_LOSS)
def test_every_function_of_a_loss_says_so(name, argument):
    function, right = CALLS[name]
    with pytest.raises(InvalidInput, match="Did you mean 'least-squares'") as refusal:
        function(**right | {argument: "ols"})
    assert all(repr(name) in str(refusal.value) for name in LOSS_NAMES)
