"""The room itself: what it imports, how light it is, and that no claim lacks a proof or a test."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import dpfast.privacy
from dpfast import errors
from tests import sources
from tests.loops import each

ROOM = Path(dpfast.privacy.__file__).parent
TESTS = Path(__file__).parent
ROOT = TESTS.parents[1]
STDLIB = {"__future__", "collections", "contextlib", "contextvars", "fcntl", "functools", "hashlib",
          "io", "itertools", "json", "math", "numbers", "os", "sys", "threading", "time",
          "typing"}  # fmt: skip


def imports(path):
    for node in ast.walk(sources.tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only"
            yield node.module, node.lineno


@each("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_the_room_imports_only_what_its_rules_allow(path):
    for name, line in imports(path):
        allowed = (
            name.split(".")[0] in STDLIB
            or name in {"numpy", "numpy.typing", "scipy.special", "dpfast.errors"}
            # special is the functions of scipy.special, loaded without their package
            or name in {"dpfast.kernels.sampler", "dpfast.kernels.special"}
            or name.startswith("dpfast.privacy")
        )
        assert allowed, f"{path.name}:{line} imports {name}"


def test_errors_imports_nothing_of_ours_but_what_to_type_in_place_of_a_call():
    allowed = {"__future__", "sys", "functools", "typing", "dpfast.hints"}  # it imports nothing
    assert {name for name, _ in imports(ROOM.parent / "errors.py")} <= allowed


def test_importing_the_room_is_light():
    """No SciPy, no numpy.random, none of the slow parts of the standard library."""
    code = (
        "import sys, numpy; before = set(sys.modules); import dpfast.privacy;"
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()
    heavy = {"scipy", "numpy.random", "fractions", "decimal", "dataclasses", "json", "secrets",
             "multiprocessing", "logging", "asyncio"}  # fmt: skip
    assert heavy.isdisjoint(loaded), heavy.intersection(loaded)


def test_importing_the_room_has_no_side_effects():
    code = (
        "import warnings, threading, os, numpy as np; filters = list(warnings.filters);"
        "err = np.geterr(); import dpfast.privacy;"
        "assert filters == list(warnings.filters); assert err == np.geterr();"
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def proofs():
    return (ROOM / "PROOFS.md").read_text()


def claims():
    """Number -> text of each claim."""
    found = re.split(r"^### ([CE]\d+)\b", proofs(), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_no_claim_number_is_used_twice():
    numbers = re.findall(r"^### ([CE]\d+)\b", proofs(), flags=re.MULTILINE)
    assert len(numbers) == len(set(numbers)) > 30
    errata = sorted(int(name[1:]) for name in claims() if name[0] == "E")
    assert errata == list(range(1, len(errata) + 1))


@each("name", sorted(claims(), key=lambda c: (c[0], int(c[1:]))))
def test_every_claim_names_its_proof_its_function_and_its_attack(name):
    """Named functions and tests must exist, so the page cannot drift from the code."""
    text = claims()[name]
    parts = ["Attack"] if name[0] == "E" else ["Statement", "Assumptions", "Proof", "Used by",
                                               "Attack"]  # fmt: skip
    for part in parts:
        assert f"**{part}.**" in text, f"{name} has no {part}"
    attack = text.split("**Attack.**")[1]
    tests = re.findall(r"`((?:\w+/)?test_\w+)\.py::(test_\w+)`", attack)
    assert tests, f"{name} names no test"
    for module, function in tests:
        folder = TESTS.parent if "/" in module else TESTS
        defined = (folder / f"{module}.py").read_text()
        assert f"def {function}(" in defined, f"{name}: {module}.py::{function} does not exist"
    if name[0] == "C":
        used = re.findall(
            r"`((?:\w+/)?\w+)\.py: ([\w., ]+)`", text.split("**Used by.**")[1].split("**")[0]
        )
        assert used, f"{name} names no function"
        for module, functions in used:
            source = (ROOM / f"{module}.py").read_text()
            for function in functions.split(", "):
                last = function.split(".")[-1]
                assert re.search(rf"(def|class) {last}\b|^{last}\b", source, re.MULTILINE), (
                    f"{name}: {module}.py has no {function}"
                )


def test_claims_cited_in_the_code_exist():
    known = set(claims())
    files = [*ROOM.rglob("*.py"), *(ROOT / "csrc").rglob("sampler*.*"), *TESTS.glob("*.py")]
    for path in files:
        if path.suffix == ".c" and path.name == "sampler.c":
            continue
        for cited in re.findall(r"\b([CE]\d{1,2})\b(?=[^\w.])", path.read_text(errors="ignore")):
            if cited.startswith("E") and path.parent == ROOM.parent:
                continue
            assert cited in known or cited not in re.findall(
                r"claims?[^.]{0,60}?\b" + cited + r"\b", path.read_text(errors="ignore")
            ), f"{path.name} cites {cited}"


def test_every_exception_is_a_dpfast_error_and_a_builtin_one():
    for name in {*errors.__all__} - {"described", "dtype_name", "understood", "Hinted"}:
        kind = getattr(errors, name)
        if issubclass(kind, Warning):
            assert issubclass(kind, errors.DpfastWarning)
        else:
            assert issubclass(kind, errors.DpfastError)
        assert kind.__doc__
    assert issubclass(errors.InvalidBudget, ValueError)
    assert issubclass(errors.UnsupportedConversion, TypeError)
    assert issubclass(errors.InferenceUnavailable, AttributeError)
