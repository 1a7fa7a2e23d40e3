"""Docstrings of the public surface: complete, and their examples run.

Each public function and class has parameters, returns, raises, privacy where it spends or reads
records, and an example; each public method is described, its parameters named.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dpfast
from tests.surface import classes, methods, parameters_of, public

PACKAGE = Path(dpfast.__file__).parent
NAMES = [
    name
    for name, thing in public().items()
    if not (inspect.isclass(thing) and issubclass(thing, BaseException))
]

#: Made by dpfast, not by users: their attributes are described, not their constructors.
RESULTS = {
    "Fit", "Minimum", "Plan", "audit.Finding", "audit.LossReport", "audit.LowerBound", "audit.Pair",
    "audit.ReplayReport", "audit.SearchReport", "bayesopt.Tuning", "datasets.Table",
    "estimators.CrossValidation",
}  # fmt: skip

#: Parameters that hold records or a budget: what uses them says what that costs.
SENSITIVE = {"ledger", "privacy", "X", "y", "data", "table", "losses"}

#: Arguments that only a fit makes: methods that take them are of the protocol of optimisers, which
#: `dpfast.optimize.protocol` describes once for all of them.
PROTOCOL = {"answers", "trajectory", "curator", "objective", "n_steps"}

#: What Python, scikit-learn or a base class describes.
SIGNS = {"__call__", "__getitem__"}


def sections(thing):
    return set(re.findall(r"^(\w+)\n-+$", inspect.cleandoc(thing.__doc__ or ""), re.M))


def described(parameter, text):
    """Whether a section has an entry of this name, alone or among others."""
    return re.search(rf"^(?:\w+, )*\*?\*?{parameter}(?:, \w+)*(?: :.*)?$", text, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_described(name):
    thing = public()[name]
    text, found = inspect.cleandoc(thing.__doc__ or ""), sections(thing)
    assert text.partition("\n")[0].endswith((".", ":")), "begin with one sentence"
    if name in RESULTS:
        assert found & {"Attributes", "Parameters"}
    else:
        assert [p for p in parameters_of(thing) if not described(p, text)] == []
    if inspect.isfunction(thing):
        assert "Returns" in found
        assert "Raises" in found or not parameters_of(thing)
    if name not in RESULTS and not SENSITIVE.isdisjoint(parameters_of(thing)):
        assert "Privacy" in found
    assert "Examples" in found


@pytest.mark.parametrize("name", NAMES)
def test_the_example_of_a_public_name_is_run(name):
    examples = doctest.DocTestParser().get_examples(public()[name].__doc__ or "")
    assert any(doctest.SKIP not in example.options for example in examples)


@pytest.mark.parametrize("owner", sorted(classes()))
def test_public_methods_are_described(owner):
    kind = classes()[owner]
    whole = "\n".join(inspect.getdoc(base) or "" for base in kind.__mro__)
    for other, key, function in methods():
        if other != owner or key in SIGNS:
            continue
        text = inspect.getdoc(inspect.getattr_static(kind, key)) or ""
        text = text or inspect.getdoc(getattr(kind, key)) or ""
        assert text or described(key, whole), key  # an attribute may be described by its class
        names = parameters_of(function)
        if PROTOCOL.isdisjoint(names):
            missing = [p for p in names if not re.search(rf"\b{p}\b", text)]
            assert key in BRIEF or missing == [], (key, missing)


#: Methods of one obvious argument, whose sentence says what it is.
BRIEF = {"bind", "encode", "quadratic_maximum", "ridge_gradient", "shares", "step"}

# ---- examples ------------------------------------------------------------------------------------

EXTRAS = {"plots": "matplotlib", "estimators": "sklearn", "formula": "formulaic",
          "sgd": "dp_accounting", "export": "dp_accounting", "parquet": "pyarrow",
          "sklearn_losses": "sklearn"}  # fmt: skip

MODULES = sorted(
    ".".join(("dpfast", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, tmp_path, monkeypatch):
    for part in name.split("."):
        if part in EXTRAS and find_spec(EXTRAS[part]) is None:
            pytest.skip(f"needs {EXTRAS[part]}")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    seen = {**vars(module), "np": np, "dpfast": dpfast}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpfast.errors.DpfastWarning)
        for test in doctest.DocTestFinder().find(module, name, globs=seen):
            runner.run(test, out=said.append)
    assert runner.tries and not runner.failures, "".join(said)
