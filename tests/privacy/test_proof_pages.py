"""PROOFS-*.md beside the main page: complete claims, whose functions and tests exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.loops import each

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "dpfast"
PRIVACY = PACKAGE / "privacy"
RIVALS = TESTS.parent / "bench" / "rivals" / "literature"


class Page(NamedTuple):
    """Letter of its claims, its folder, that of its attacks, and where its claims are cited."""

    letter: str
    folder: Path
    tests: str
    cited: tuple[str, ...]

    @property
    def package(self) -> Path:
        """Where paths on the page begin: methods of the benches are no part of the package."""
        return RIVALS.parent if self.folder == RIVALS else PACKAGE


PAGES = {
    "rivals": Page("B", RIVALS, "bench", ("literature/*.py",)),
    "bayesopt": Page(
        "G",
        PRIVACY / "blackbox",
        "bayesopt",
        ("bayesopt/*.py", "curator/blackbox/*.py", "privacy/blackbox/*.py"),
    ),
    "bought": Page(
        "D",
        PRIVACY / "bought",
        "bought",
        ("curator/bought/*.py", "privacy/bought/*.py", "regression/*.py", "data/bought/units.py"),
    ),
    "tables": Page(
        "T",
        PRIVACY / "tables",
        "tables",
        (
            "curator/tables/*.py",
            "tables/*.py",
            "privacy/tables/*.py",
            "curator/instruments/*.py",
            "effects/i*.py",
        ),
    ),
    "nonconvex": Page(
        "K",
        PRIVACY / "nonconvex",
        "nonconvex",
        ("curator/nonconvex/*.py", "nonconvex/*.py", "optimize/*/*.py", "privacy/nonconvex/*.py"),
    ),
}


def claims(name: str) -> dict[str, str]:
    text = (PAGES[name].folder / f"PROOFS-{name}.md").read_text(encoding="utf-8")
    parts = re.split(rf"^### ({PAGES[name].letter}\d+)\b", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@each("name", PAGES)
def test_claims_are_numbered_without_gaps(name):
    found = list(claims(name))
    assert len(found) >= 5
    assert found == [f"{PAGES[name].letter}{k + 1}" for k in range(len(found))]


@each(("name", "claim"), [(name, claim) for name in PAGES for claim in claims(name)])
def test_every_claim_is_complete(name, claim):
    text = claims(name)[claim]
    for part in ("Statement", "Assumptions", "Proof", "Used by", "Attack"):
        assert f"**{part}.**" in text, f"{claim} has no {part}"
    tests = re.findall(r"`(test_\w+)\.py::(test_\w+)`", text.split("**Attack.**")[1])
    assert tests
    for module, function in tests:
        source = (TESTS / PAGES[name].tests / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{module}.py has no {function}"
    used = text.split("**Used by.**")[1].split("**Attack.**")[0]
    named = re.findall(r"`(?:((?:\w+/)+\w+\.py): )?([\w, ]+)`", used)
    assert named
    for path, functions in named:
        file = PAGES[name].package / path if path else PAGES[name].folder / "sensitivity.py"
        source = file.read_text(encoding="utf-8")
        for function in functions.split(", "):
            assert re.search(rf"(def|class) {function}\b", source), f"{file.name}: no {function}"


@each("name", PAGES)
def test_claims_cited_in_the_code_exist(name):
    letter, _, _, patterns = PAGES[name]
    cited = set()
    for pattern in patterns:
        for path in PAGES[name].package.glob(pattern):
            cited |= set(re.findall(rf"\b{letter}\d+\b", path.read_text(encoding="utf-8")))
    assert {f"{letter}1", f"{letter}4"} <= cited <= set(claims(name))
