"""The planted privacy bugs of ``planted_bugs.toml``: each is a few exact replacements in one file.

A pattern must occur exactly once in its file (``test_mutants.py`` checks it): whoever changes the
line brings the pattern along.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """One bug.

    Attributes
    ----------
    name, bug : str
        Short name, and what is wrong in words.
    path : str
        The file, relative to the repository.
    tests : tuple of str
        Files or node ids given to pytest: those expected to notice, the quickest first.
    edits : tuple of (str, str)
        Exact text and what replaces it.
    """

    name: str
    bug: str
    path: str
    tests: tuple[str, ...]
    edits: tuple[tuple[str, str], ...]


def planted(text: str) -> tuple[Mutant, ...]:
    """Read the bugs of a file."""
    return tuple(
        Mutant(
            one["name"], one["bug"], one["path"], tuple(one["tests"]),
            tuple((edit["old"], edit["new"]) for edit in one["edit"]),
        )
        for one in tomllib.loads(text)["bug"]
    )  # fmt: skip


MUTANTS = planted(Path(__file__).with_name("planted_bugs.toml").read_text(encoding="utf-8"))
