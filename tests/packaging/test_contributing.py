"""Every file and name exists that CONTRIBUTING, its recipes and the architecture mention."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

from tests.loops import each

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
BOTH = PAGE + "".join(
    (ROOT / page).read_text(encoding="utf-8")
    for page in ("CONTRIBUTING.md", "docs/architecture.md")
)
RECIPES = dict(re.findall(r"^## (Add .*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))
SUFFIXES = (".py", ".pyx", ".pxi", ".pyi", ".pxd", ".h", ".c", ".md", ".toml", ".yml", ".yaml")
SOURCES = ("dpfast", "csrc", "tests", "docs", "bench", "setup.py", "pyproject.toml", "Makefile")
SHOWN = (".ci", ".github", ".pre-commit-config.yaml", ".clang-format")


def without_code_blocks(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def quoted(text: str) -> list[str]:
    """What stands in single backticks, without line breaks."""
    return [
        " ".join(found.split()) for found in re.findall(r"`([^`]+)`", without_code_blocks(text))
    ]


def is_path(word: str) -> bool:
    return bool(re.fullmatch(r"[\w.*/-]+", word)) and ("/" in word or word.endswith(SUFFIXES))


def files(word: str) -> list[Path]:
    """The files a path means: itself, those of a folder, or any of that name for a bare name."""
    if "/" not in word and not (ROOT / word).exists():
        word = f"*/**/{word}" if word != "PROOFS*.md" else "dpfast/privacy/**/PROOFS*.md"
    found = []
    for path in ROOT.glob(word.rstrip("/")):
        parts = path.relative_to(ROOT).parts
        hidden = [part for part in parts if part.startswith(".") and part not in SHOWN]
        if not hidden and "build" not in parts:
            found.extend(path.rglob("*") if path.is_dir() else [path])
    return [path for path in found if path.is_file()]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.suffix in SUFFIXES or not path.suffix else ""


@cache
def all_sources() -> tuple[Path, ...]:
    found = []
    for name in SOURCES:
        found.extend(path for path in files(name) if not text_of(path).startswith("/* Generated"))
    return tuple(path for path in found if path.name != Path(__file__).name)


def occurs(name: str, where: tuple[Path, ...] | list[Path]) -> bool:
    pattern = re.compile(rf"\b{re.escape(name)}\b".replace(r"\*", r"\w+"))
    return any(pattern.search(text_of(path)) for path in where)


def test_there_is_a_recipe_for_each_kind():
    kinds = ("loss", "weighting", "mechanism", "source of data", "private estimator")
    for kind in kinds:
        assert [title for title in RECIPES if kind in title], kind
    for title, text in RECIPES.items():
        assert len([word for word in quoted(text) if is_path(word)]) >= 3 or "```" in text, title


@each("path", sorted({word for word in quoted(BOTH) if is_path(word)}))
def test_every_file_that_is_named_exists(path):
    assert files(path), f"there is no {path}"


DOTTED = sorted({word for word in quoted(BOTH) if re.fullmatch(r"dpfast(\.\w+)+", word)})


@each("dotted", DOTTED)
def test_every_dotted_name_exists(dotted):
    module = dotted
    while True:
        try:
            thing = importlib.import_module(module)
            break
        except ModuleNotFoundError:
            module = module.rpartition(".")[0]
            assert module, dotted
    for name in dotted[len(module) :].split(".")[1:]:
        thing = getattr(thing, name)


def steps(text: str) -> list[str]:
    """The numbered steps of a recipe, and what comes before them."""
    return re.split(r"^\d+\. ", text, flags=re.M)


NAMES = sorted(
    {
        (title, number, word)
        for title, text in RECIPES.items()
        for number, step in enumerate(steps(text))
        for word in quoted(step)
        if re.fullmatch(r"[A-Za-z_*][\w*]*(\.[a-z_]\w*)?", word) and not is_path(word)
        and not word.startswith("dpfast.")
    }
)  # fmt: skip


@each(("title", "number", "word"), NAMES)
def test_every_name_of_a_recipe_exists(title, number, word):
    """A name occurs in a file that its step names; `Class.method` where the class is defined."""
    named = [path for token in quoted(steps(RECIPES[title])[number]) if is_path(token)
             for path in files(token)]  # fmt: skip
    where = [path for path in named if text_of(path)] or list(all_sources())
    for name in word.split("."):
        assert occurs(name, where), f"{title}, step {number}: {name} is in none of its files"
    owner, _, method = word.partition(".")
    if method:
        homes = [path for path in all_sources() if f"class {owner}" in text_of(path)]
        assert occurs(method, homes), word


def test_the_checks_notice_what_is_missing():
    assert not files("dpfast/privacy/sensitivities.py")
    assert not files("csrc/losses/*.pyx")
    assert files("PROOFS*.md")
    assert not occurs("psi_bound_of_no_loss" + "_at_all", all_sources())
    assert occurs("*_psi_and_slope", files("csrc/losses/"))
