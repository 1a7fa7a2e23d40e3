"""The source of the package, read once in a process for all tests that are about it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """What a file says; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
