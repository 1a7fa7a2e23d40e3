"""PROOFS-*.md beside the main page: complete claims, whose functions and tests exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.loops import each

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "dpfast"
PRIVACY = PACKAGE / "privacy"


class Page(NamedTuple):
    """Letter of its claims, its folder, that of its attacks, and where its claims are cited."""

    letter: str
    folder: Path
    tests: str
    cited: tuple[str, ...]


PAGES = {
    "bayesopt": Page(
        "G",
        PRIVACY / "blackbox",
        "bayesopt",
        ("bayesopt/*.py", "curator/blackbox/*.py", "privacy/blackbox/*.py"),
    ),
    "scaling": Page(
        "D",
        PRIVACY / "scaling",
        "scaling",
        (
            "curator/scaling/*.py",
            "privacy/scaling/*.py",
            "regression/*.py",
            "data/scaling/units.py",
        ),
    ),
    "tables": Page(
        "T",
        PRIVACY / "tables",
        "tables",
        (
            "curator/tables/*.py",
            "tables/*.py",
            "privacy/tables/*.py",
            "curator/hazards.py",
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


#: Every page with proofs; B1, B2 are bounds on them.
EVERY = [PRIVACY / "PROOFS.md", *sorted(PRIVACY.rglob("PROOFS-*.md"))]
NUMBERED = r"[CDEGKRT][1-9]\d*"


@each("page", EVERY)
def test_heads_of_pages_name_files_and_folders_that_exist(page):
    """What stands above the first claim, where no claim's own test looks."""
    head = re.split(r"^### ", page.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]
    for link in re.findall(r"\]\(([^)#]+)", head):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
    places = page.parent, PACKAGE, TESTS / "privacy", TESTS.parent
    files = re.findall(r"`([\w./-]+\.(?:py|md|h|c|pyx))`", head)
    assert files
    for name in files:
        assert any((place / name).exists() for place in places), f"{page.name} names {name}"
    for folder in re.findall(r"`((?:dpfast|tests)(?:/\w+)+)`", head):
        assert (TESTS.parent / folder).is_dir(), f"{page.name} names {folder}"


def test_claims_that_pages_name_exist():
    """In heads, proofs and errata alike; G0 is a constant of release."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in EVERY}
    known = set(re.findall(rf"^### ({NUMBERED})\b", "\n".join(texts.values()), re.MULTILINE))
    assert len(known) > 100
    texts["privacy.md"] = (TESTS.parent / "docs" / "privacy.md").read_text(encoding="utf-8")
    gone = {
        f"{name}: {claim}"
        for name, text in texts.items()
        for claim in set(re.findall(rf"\b{NUMBERED}\b", text)) - known
    }
    assert not gone


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
        file = PACKAGE / path if path else PAGES[name].folder / "sensitivity.py"
        source = file.read_text(encoding="utf-8")
        for function in functions.split(", "):
            assert re.search(rf"(def|class) {function}\b", source), f"{file.name}: no {function}"


@each("name", PAGES)
def test_claims_cited_in_the_code_exist(name):
    letter, _, _, patterns = PAGES[name]
    cited = set()
    for pattern in patterns:
        for path in PACKAGE.glob(pattern):
            cited |= set(re.findall(rf"\b{letter}\d+\b", path.read_text(encoding="utf-8")))
    assert {f"{letter}1", f"{letter}4"} <= cited <= set(claims(name))


#: Lines of a screen.
SCREEN = 45


def bodies() -> dict[str, str]:
    """Text of every claim, without what follows its attack."""
    found = {}
    for page in EVERY:
        parts = re.split(r"^### ([A-Z]\d+)\. .*$", page.read_text(encoding="utf-8"), flags=re.M)
        found |= dict(zip(parts[1::2], parts[2::2], strict=True))
    return {claim: re.split(r"^## ", body, flags=re.MULTILINE)[0] for claim, body in found.items()}


def test_no_claim_is_longer_than_a_screen():
    for claim, body in bodies().items():
        lines = body.split("**Attack.**")[0].strip().splitlines()
        assert len(lines) <= SCREEN, f"{claim} has {len(lines)} lines: split it"


def test_what_a_claim_says_in_short_is_one_sentence():
    short = {c: b.split("**In short.**")[1].split("\n\n")[0].strip()
             for c, b in bodies().items() if "**In short.**" in b}  # fmt: skip
    assert len(short) > 80
    for claim, sentence in short.items():
        assert sentence.endswith(".") and ". " not in sentence, claim
        assert len(sentence.split()) <= 25, claim
