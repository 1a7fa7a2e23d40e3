"""PROOFS-nonconvex.md: complete claims, whose functions and tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parents[1] / "dpfast"
PAGE = (PACKAGE / "privacy" / "PROOFS-nonconvex.md").read_text(encoding="utf-8")
PARTS = re.split(r"^### (K\d+)\b", PAGE, flags=re.MULTILINE)
CLAIMS = dict(zip(PARTS[1::2], PARTS[2::2], strict=True))


def test_claims_are_numbered_without_gaps():
    assert list(CLAIMS) == [f"K{k + 1}" for k in range(len(CLAIMS))]


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
    named = re.findall(r"`(?:(curator/\w+\.py): )?([\w, ]+)`", used)
    assert named
    for path, functions in named:
        file = PACKAGE / (path or "privacy/sensitivity_nonconvex.py")
        source = file.read_text(encoding="utf-8")
        for function in functions.split(", "):
            assert re.search(rf"(def|class) {function}\b", source), f"{file.name}: no {function}"


def test_claims_cited_in_the_code_exist():
    files = [PACKAGE / "curator" / "gradients.py", PACKAGE / "minimization.py"]
    files += [*(PACKAGE / "optimize").glob("*.py"), PACKAGE / "privacy" / "choice.py"]
    files += [PACKAGE / "privacy" / "sensitivity_nonconvex.py"]
    cited = set()
    for path in files:
        cited |= set(re.findall(r"\bK\d+\b", path.read_text(encoding="utf-8")))
    assert {"K1", "K2", "K3", "K4", "K5"} <= cited <= set(CLAIMS)
