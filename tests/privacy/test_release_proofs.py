"""PROOFS-release.md: complete claims, whose functions and tests exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.loops import each

TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "dpfast"
PAGE = (PACKAGE / "privacy" / "release" / "PROOFS-release.md").read_text(encoding="utf-8")
PARTS = re.split(r"^### (R\d+)\b", PAGE, flags=re.MULTILINE)
CLAIMS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


def test_claims_are_numbered_in_order():
    """R1 to R19 are the theory, R20 and on the algorithms built on it."""
    numbers = [int(name[1:]) for name in CLAIMS]
    assert numbers == sorted(set(numbers))


@each("name", CLAIMS)
def test_every_claim_is_complete(name):
    text = CLAIMS[name].split("\n## ")[0]
    for part in ("Statement", "Assumptions", "Proof", "Used by", "Attack"):
        assert f"**{part}.**" in text, f"{name} has no {part}"
    tests = re.findall(r"`((?:\w+/)?test_\w+)\.py::(test_\w+)`", text.split("**Attack.**")[1])
    assert tests
    for module, function in tests:
        folder = TESTS.parent if "/" in module else TESTS
        source = (folder / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{module}.py has no {function}"
    used = " ".join(text.split("**Used by.**")[1].split("**Attack.**")[0].split())
    named = re.findall(r"`(?:((?:\w+/)*\w+\.py): )?([\w., ]+)`", used)
    assert named
    for path, functions in named:
        where = path or "sensitivity.py"
        homes = (PACKAGE / "privacy" / "release" / where, PACKAGE / "privacy" / where)
        file = PACKAGE / where if "/" in where else next(home for home in homes if home.exists())
        source = file.read_text(encoding="utf-8")
        for function in functions.split(", "):
            last = function.split(".")[-1]
            assert re.search(rf"(def|class) {last}\b", source), f"{file.name} has no {function}"


def test_errata_name_tests_that_exist():
    errata = PAGE.split("\n## Errata")[1]
    tests = re.findall(r"`(test_\w+)\.py::(test_\w+)`", errata)
    assert len(tests) >= 4
    for module, function in tests:
        assert f"def {function}(" in (TESTS / f"{module}.py").read_text(encoding="utf-8")


def test_claims_cited_in_the_code_exist():
    cited = set()
    for folder in ("privacy", "models", "release", "curator", "kernels"):
        for path in (PACKAGE / folder).rglob("*.py"):
            cited |= set(re.findall(r"\bclaims? (R\d+)\b", path.read_text(encoding="utf-8")))
    assert {"R3", "R6", "R35"} <= cited <= set(CLAIMS)
