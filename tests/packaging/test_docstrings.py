"""Docstrings of the public surface: complete, and their examples run.

Each public function, class and method has parameters, returns, privacy where it spends or reads
records, and an example; InvalidInput and what intervals take stand once, on the page of all names.
docs/recipes.md has the rules for methods and properties.
"""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import re
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dpfast
from dpfast.optimize import Method
from tests.loops import each
from tests.surface import function_of, handed, members, parameters_of, public

PACKAGE = Path(dpfast.__file__).parent
NAMES = [
    name
    for name, thing in public().items()
    if not (inspect.isclass(thing) and issubclass(thing, BaseException))
]

#: Made by dpfast, not by users: their attributes are described, not their constructors.
RESULTS = {
    "Fit", "Minimum", "Plan", "audit.LossReport", "audit.LowerBound", "audit.Pair",
    "audit.ReplayReport", "bayesopt.Tuning", "datasets.Table",
    "estimators.CrossValidation",
}  # fmt: skip

#: Parameters that hold records or a budget: what uses them says what that costs.
SENSITIVE = {"ledger", "privacy", "X", "y", "data", "table", "losses"}

#: Arguments that many methods share, which the page of all names describes once.
SHARED = {"level", "alpha"}

#: Arguments that only the library makes: methods that take them are of a protocol, which a class of
#: one's own overrides; the example may be the class's.
PROTOCOL = {"answers", "trajectory", "curator", "objective", "history"}

#: Arguments of methods that are private, or pay: what takes them says what that costs.
PRIVATE = {"X", "y", "values", "table", "answers", "curator"}

#: Methods that pay by arguments of other names.
PAYS = {"charge", "child"}

#: What is returned and needs no section: the first line says what it is.
PLAIN = ("None", "NoReturn", "float", "int", "bool", "str")

#: What says of what kind it is, but not what it is of.
VAGUE = ("Any", "tuple", "dict")

#: An array's shape, as in "shape (p,)" or "(m, d)".
SHAPE = re.compile(r"shape|\(\w+,( \w+)?\)")


def sections(thing):
    return set(re.findall(r"^(\w+)\n-+$", inspect.cleandoc(thing.__doc__ or ""), re.M))


def says_what_is_returned(function, text):
    """By its annotation, which names a class; of an array the shape is beside the first line."""
    returned = str(function.__annotations__.get("return", ""))
    if "rray" in returned or returned == "Named":
        heads = re.sub(r"^\w+\n-+\n(.+\n|\n(?=    |[\w, *]+ : |>>>))*", "", f"{text}\n", flags=re.M)
        return bool(SHAPE.search(heads))
    return returned in PLAIN or not returned.startswith(VAGUE)


def described(parameter, text):
    """Whether a section has an entry of this name, alone or among others."""
    return re.search(rf"^(?:\w+, )*\*?\*?{parameter}(?:, \w+)*(?: :.*)?$", text, re.M)


@each("name", NAMES)
def test_a_public_name_is_described(name):
    thing = public()[name]
    text, found = inspect.cleandoc(thing.__doc__ or ""), sections(thing)
    assert text.partition("\n")[0].endswith((".", ":")), "begin with one sentence"
    if name in RESULTS:
        assert found & {"Attributes", "Parameters"}
    else:
        assert [p for p in parameters_of(thing) if not described(p, text)] == []
    if inspect.isfunction(thing):
        assert "Returns" in found or says_what_is_returned(thing, text)
    if name not in RESULTS and not SENSITIVE.isdisjoint(parameters_of(thing)):
        assert "Privacy" in found
    assert "Examples" in found or name in RESULTS  # what makes it shows it


@each("name", [name for name in NAMES if name not in RESULTS])
def test_the_example_of_a_public_name_is_run(name):
    examples = doctest.DocTestParser().get_examples(public()[name].__doc__ or "")
    assert any(doctest.SKIP not in example.options for example in examples)


# ---- methods and properties ----------------------------------------------------------------------
#
# What a method says and what the one it overrides says count together: an override says what is its
# own.  A property may instead be an entry of the Attributes of its class.

MEMBERS = {f"{home.__module__}.{home.__qualname__}.{key}": (home, key, function)
           for home, key, function in members()}  # fmt: skip


def word(home, key):
    """What is said of a member, by the class that has it and those it is derived from."""
    own = [function_of(base, key).__doc__ for base in home.__mro__ if key in vars(base)]
    return "\n\n".join(inspect.cleandoc(text) for text in own if text)


def headings(text):
    return set(re.findall(r"^(\w+)\n-+$", text, re.M))


def is_property(home, key):
    return isinstance(inspect.getattr_static(home, key), (property, functools.cached_property))


@each("name", MEMBERS)
def test_a_method_or_property_is_described(name):
    home, key, function = MEMBERS[name]
    text, found, names = word(home, key), headings(word(home, key)), parameters_of(function)
    returned = str(function.__annotations__.get("return", ""))
    classes_text = "\n".join(inspect.cleandoc(base.__doc__ or "") for base in home.__mro__)
    if is_property(home, key):
        entry = re.search(rf"^(?:\w+, )*{key}(?:, \w+)* : .*$(?:\n    .*)*", classes_text, re.M)
        assert text or entry, "say what is returned, here or among the Attributes of the class"
        text = text or entry.group()
    else:
        assert text.partition("\n")[0].endswith((".", ":")), "begin with one sentence"
    if "Array" in returned and not names:
        assert SHAPE.search(text), "give the shape"
    if names:  # what all methods of a class take may stand in the class's own text
        untold = [p for p in names if not (described(p, text) or described(p, classes_text))]
        assert {*untold} <= SHARED
        assert "Returns" in found or says_what_is_returned(function, text)
    if key in PAYS or key.startswith("nonprivate_") or not PRIVATE.isdisjoint(names):
        assert "Privacy" in found
    protocol = issubclass(home, Method) or getattr(home, "_is_protocol", False)
    made = home in handed().values() or home in [public()[name] for name in RESULTS]
    if not is_property(home, key) and PROTOCOL.isdisjoint(names) and not (protocol or made):
        assert examples_of(f"{text}\n\n{classes_text}"), (
            "give an example that runs, here or of the class"
        )


def examples_of(text):
    found = doctest.DocTestParser().get_examples(text)
    return [example for example in found if doctest.SKIP not in example.options]


@each("name", sorted(RESULTS | set(handed())))
def test_a_result_says_once_that_it_costs_nothing(name):
    kind = (public() | handed())[name]
    assert any("Privacy" in sections(base) for base in kind.__mro__)


def test_what_methods_share_is_said_on_the_page_of_all_names():
    page = (PACKAGE.parent / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in SHARED if f"`{name}`" not in page] == []


def test_what_is_handed_out_is_in_the_reference():
    page = (PACKAGE.parent / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ~?dpfast\.(?:\w+\.)*(\w+)$", page, re.M))
    assert [kind.__name__ for kind in handed().values() if kind.__name__ not in listed] == []


@each("name", sorted(handed()))
def test_what_is_handed_out_is_described(name):
    kind = handed()[name]
    text = inspect.cleandoc(kind.__doc__ or "")
    assert text.partition("\n")[0].endswith((".", ":")), "begin with one sentence"
    fields = getattr(kind, "_fields", ())
    assert [field for field in fields if not described(field, text)] == []


# ---- examples ------------------------------------------------------------------------------------

EXTRAS = {"plots": "matplotlib", "estimators": "sklearn", "formula": "formulaic",
          "sgd": "dp_accounting", "export": "dp_accounting", "parquet": "pyarrow",
          "sklearn_losses": "sklearn"}  # fmt: skip

MODULES = sorted(
    ".".join(("dpfast", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.usefixtures("repeated")
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, tmp_path, monkeypatch):
    for part in name.split("."):
        if part in EXTRAS and find_spec(EXTRAS[part]) is None:
            pytest.skip(f"needs {EXTRAS[part]}")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    seen = {"np": np, "dpfast": dpfast}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpfast.errors.DpfastWarning)
        for test in doctest.DocTestFinder().find(module, name, globs=seen):
            runner.run(test, out=said.append)
    assert runner.tries and not runner.failures, "".join(said)


@pytest.mark.usefixtures("repeated")
def test_examples_draw_the_same_in_every_run():
    drawn = dpfast.privacy.EntropyNoise().normals(3, 10)
    np.testing.assert_array_equal(drawn, [18, 1973, -78])
    fit = dpfast.fit(np.arange(200.0)[:, None], np.arange(200.0), privacy=50.0)
    assert fit.privacy.guarantee != dpfast.SeededNoise(0).guarantee


@each("name", [name for name, (home, key, _) in MEMBERS.items()
                                  if is_property(home, key)])  # fmt: skip
def test_no_colon_makes_a_type_of_the_first_line_of_a_property(name):
    """Sphinx takes what stands before it for the property's type, and leaves it out of tables."""
    function = MEMBERS[name][2]
    first = inspect.cleandoc(function.__doc__ or "").partition("\n")[0]
    said = re.sub(r":\w+:`[^`]*`|``[^`]*``", "", first)
    assert ": " not in said or said.startswith("Refused: ")
