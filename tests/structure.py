"""The size and structure of the package in numbers: ``python -m tests.structure [--list]``.

Counts code and docstring lines, small modules, subclasses of `Records`, calls of a default fit that
take X, and groups of modules that import each other (lazy imports count, those for types do not).
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dpfast"
MIN_LINES = 30
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
         tokenize.ENDMARKER, tokenize.ENCODING}  # fmt: skip
FLAGS = ("excess", "rows_per_unit", "means", "reads", "seen", "can_be_partitioned", "read_again",
         "is_remote", "of_terms")  # fmt: skip


def docstring_lines(tree: ast.AST) -> set[int]:
    """Lines of docstrings, and of texts after an attribute."""
    texts = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
    return {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def code_lines(source: str) -> set[int]:
    """Lines that hold a token other than a comment or a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in BLANK:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(ast.parse(source))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands below ``if TYPE_CHECKING``."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _run_time(child)


def imports(path: Path, modules: set[str]) -> set[str]:
    """Return the modules that a file imports, at its head or in a function."""
    used = set()
    for node in _run_time(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            used.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            used.update(name if name in modules else node.module for name in names)
    return used & modules - {module_name(path)}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules each of which imports all others, directly or not."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting.extend(new)
        return seen

    reach = {name: reached(name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach[other]))
        for name in graph
        if name in reach[name]
    }
    return sorted(map(list, groups))


def holds(value: Any, array: Any) -> bool:
    """Whether a value is the array or frame, a view of it, or a tuple with one."""
    if isinstance(value, np.ndarray) and isinstance(array, np.ndarray):
        return value.size > 0 and np.may_share_memory(value, array)
    return value is array or (isinstance(value, tuple) and any(holds(one, array) for one in value))


def stays(X: Any, *arguments: Any, **options: Any) -> tuple[Counter[str], Counter[str]]:
    """Count the functions of the package that take X in one fit, and those that return it."""
    down: Counter[str] = Counter()
    up: Counter[str] = Counter()

    def seen(frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(f"{PACKAGE}/") or event not in ("call", "return"):
            return
        name = f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_name}"
        if event == "return":
            up[name] += holds(value, X)
            return
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
        down[name] += any(holds(frame.f_locals.get(local), X) for local in taken)

    import dpfast

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        dpfast.fit(X, *arguments, **options)
    finally:
        sys.setprofile(before)
    return +down, +up


def crossings(run: Callable[[], object], n: int) -> set[str]:
    """Name the curator's functions that hand arrays of n rows to code that must not see records."""
    inside = tuple(f"{PACKAGE}/{room}/" for room in ("curator", "data", "kernels"))
    found: set[str] = set()

    def seen(frame: FrameType, event: str, value: Any) -> None:
        code, caller = frame.f_code, frame.f_back
        if event != "return" or not code.co_filename.startswith(inside[0]) or caller is None:
            return
        asks = caller.f_code.co_filename
        if asks.startswith(f"{PACKAGE}/") and not asks.startswith(inside) and rows_in(value, n):
            found.add(f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


def rows_in(value: Any, n: int) -> bool:
    """Whether a value is an array of n rows, or a tuple, list or generator's item with one."""
    if isinstance(value, np.ndarray):
        return n in value.shape
    return isinstance(value, tuple | list) and any(rows_in(one, n) for one in value)


def subclasses() -> dict[str, list[str]]:
    """Return each class of records, below `Records`, with the flags that it sets."""
    classes = {
        node.name: node
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    known = {"Records"}
    while new := {
        name
        for name, node in classes.items()
        if name not in known and any(getattr(base, "id", "") in known for base in node.bases)
    }:
        known |= new
    return {
        name: [flag for flag in FLAGS if f"{flag} =" in ast.unparse(classes[name])]
        for name in sorted(known - {"Records"})
    }


def lines_of(room: str) -> int:
    """Count the code lines of a folder beside the package."""
    return sum(len(code_lines(path.read_text())) for path in (ROOT / room).rglob("*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name what is counted")
    listed = parser.parse_args().list
    files = sorted(PACKAGE.rglob("*.py"))
    sources = {path: path.read_text() for path in files}
    code = {path: len(code_lines(source)) for path, source in sources.items()}
    docs = sum(
        bool(source.splitlines()[line - 1].strip())
        for source in sources.values()
        for line in docstring_lines(ast.parse(source))
    )
    small = [
        path for path, source in sources.items() if path.stem[:2] != "__" and code[path] < MIN_LINES
    ]
    modules = {module_name(path) for path in files}
    graph = {module_name(path): imports(path, modules) for path in files}
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = X @ np.ones(4) + rng.normal(size=2000)
    down, up = stays(X, y, privacy=1.0)
    from pandas import DataFrame

    frame_down, frame_up = stays(DataFrame(X, columns=list("abcd")), y, privacy=1.0)
    rows: list[tuple[str, Any, Any]] = [
        ("modules", len(files), ()),
        ("code lines", sum(code.values()), ()),
        ("docstring lines", docs, ()),
        *((f"code lines of {room}", lines_of(room), ()) for room in ("tests", "bench")),
        (f"modules below {MIN_LINES} code lines", len(small), map(module_name, small)),
        ("subclasses of Records", len(subclasses()), subclasses().items()),
        ("import cycles", len(cycles(graph)), cycles(graph)),
        ("calls of a fit that take X", sum(down.values()), down.items()),
        ("returns that give X", sum(up.values()), up.items()),
        ("calls that take X as a frame", sum(frame_down.values()), frame_down.items()),
        ("returns that give it", sum(frame_up.values()), frame_up.items()),
    ]
    for name, number, parts in rows:
        print(f"{number:7,}  {name}")
        for part in parts if listed else ():
            print("        ", part)


if __name__ == "__main__":
    main()
