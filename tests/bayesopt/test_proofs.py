"""PROOFS-bayesopt.md: complete claims, whose functions and tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "dpfast"
PAGE = (PACKAGE / "privacy" / "PROOFS-bayesopt.md").read_text(encoding="utf-8")
PARTS = re.split(r"^### (G\d+)\b", PAGE, flags=re.MULTILINE)
CLAIMS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


def test_claims_are_numbered_without_gaps():
    assert list(CLAIMS) == [f"G{k + 1}" for k in range(len(CLAIMS))]


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_is_complete(name):
    text = CLAIMS[name]
    for part in ("Statement", "Assumptions", "Proof", "Used by", "Attack"):
        assert f"**{part}.**" in text, f"{name} has no {part}"
    tests = re.findall(r"`(test_\w+)\.py::(test_\w+)`", text.split("**Attack.**")[1])
    assert tests
    for module, function in tests:
        source = (TESTS / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{module}.py has no {function}"
    used = text.split("**Used by.**")[1].split("**Attack.**")[0]
    named = re.findall(r"`(?:(\w+/\w+\.py): )?([\w, ]+)`", used)
    assert named
    for path, functions in named:
        file = PACKAGE / (path or "privacy/sensitivity_bayesopt.py")
        source = file.read_text(encoding="utf-8")
        for function in functions.split(", "):
            assert f"def {function}(" in source, f"{file.name} has no {function}"


def test_claims_cited_in_the_code_exist():
    files = [*PACKAGE.glob("bayesopt/*.py"), *PACKAGE.glob("curator/*.py")]
    files += [*PACKAGE.glob("baselines/*.py"), *PACKAGE.glob("privacy/s*.py")]
    cited = set()
    for path in files:
        cited |= set(re.findall(r"\bG\d+\b", path.read_text(encoding="utf-8")))
    assert {"G1", "G2", "G3", "G4", "G5"} <= cited <= set(CLAIMS)
