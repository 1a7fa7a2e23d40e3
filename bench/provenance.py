"""Which code a stored result ran: a digest of the modules it imports, and what is older than they.

    python -m bench stale                   results that are older than their code
    python -m bench stale --redraw 60       draw such figures again, quick ones first, for an hour

The closure is read off the source: what a module imports, also within functions, and for a name
of a package the module it comes from.  Comments, docstrings and layout do not count; of a compiled
module, its Cython source and the headers that are included.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Stored", "closure", "digest", "keep", "main", "stored"]

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
STAMPS = RESULTS / "stamps.json"

#: Packages whose source counts; what stores a result does not change it.
OURS = ("dpfast", "bench")
C_SUFFIXES = frozenset({".c", ".h", ".pxi"})
WRITERS = frozenset({"bench/figures/runner.py", "bench/provenance.py"})


def _source(dotted: str) -> Path | None:
    """The file of a module or package, or the Cython source of a compiled one."""
    path = ROOT.joinpath(*dotted.split("."))
    compiled = ROOT / "csrc" / f"{path.name}.pyx"
    kernel = dotted.startswith("dpfast.kernels.") and compiled.exists()
    for found in (path.with_suffix(".py"), path / "__init__.py", *[compiled] * kernel):
        if found.exists():
            return found
    return None


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _home(package: str, name: str) -> Path | None:
    """The file that a name of a package comes from; a package says so among its imports."""
    inner = _source(f"{package}.{name}")
    if inner is not None:
        return inner
    path = _source(package)
    if path is None or path.name != "__init__.py":
        return path
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
            continue
        if any((item.asname or item.name) == name for item in node.names):
            return _home(node.module, name)
    return path


def _chain(node: ast.Attribute) -> list[str]:
    """``["dpfast", "privacy", "GDP"]`` of ``dpfast.privacy.GDP``; nothing of anything else."""
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return [inner.id, *reversed(names)] if isinstance(inner, ast.Name) else []


def _imports(path: Path) -> Iterator[Path | None]:
    """Files that a Python file imports; for type checkers alone does not count."""
    pending: list[ast.AST] = [_tree(path)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (_source(item.name) for item in node.names if "." in item.name)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (_home(node.module, item.name) for item in node.names)
        elif isinstance(node, ast.Attribute):
            package, *names = _chain(node) or [""]
            while package.split(".")[0] in OURS and names:
                found = _source(f"{package}.{names[0]}")
                if found is None or found.name != "__init__.py" or len(names) == 1:
                    yield _home(package, names[0])
                    break
                package = f"{package}.{names.pop(0)}"
        pending += ast.iter_child_nodes(node)


def _included(path: Path) -> Iterator[Path | None]:
    """Of Cython or C source: what is in the folder of its name, and the files that are included."""
    if path.suffix == ".pyx":
        yield from (one for one in path.with_suffix("").rglob("*") if one.suffix in C_SUFFIXES)
    for name in re.findall(r'(?:include|extern from) "([^"]+)"', path.read_text(encoding="utf-8")):
        near = [path.parent / name, ROOT / "csrc" / name]
        yield from [found.resolve() for found in near if found.exists()][:1]


@cache
def closure(path: Path) -> frozenset[Path]:
    """The file and all of ours that it imports, directly or not.

    Parameters
    ----------
    path : Path
        Of a Python file.

    Returns
    -------
    frozenset of Path
    """
    found, pending = {path}, [path]
    while pending:
        one = pending.pop()
        beside = _imports(one) if one.suffix == ".py" else _included(one)
        for other in beside:
            if other is None or other in found or str(other.relative_to(ROOT)) in WRITERS:
                continue
            if other.relative_to(ROOT).parts[0] in (*OURS, "csrc"):
                found.add(other)
                pending.append(other)
    return frozenset(found)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a string and does nothing."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _said(node: ast.AST) -> Iterator[str]:
    """What a tree says, whichever Python parsed it: fields that are empty do not count."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(value, list) and _is_text(value[0]):
            value = value[1:]
        if value is None or value == []:
            continue
        yield name
        for item in value if isinstance(value, list) else [value]:
            yield from _said(item) if isinstance(item, ast.AST) else [repr(item)]


@cache
def _print(path: Path) -> str:
    """Digest of one file: of what it does."""
    if path.suffix == ".py":
        text = "\0".join(_said(_tree(path)))
    else:
        text = path.read_text(encoding="utf-8")
        comments = r"#[^\n]*" if path.suffix in (".pyx", ".pxi", ".pxd") else r"//[^\n]*|/\*.*?\*/"
        text = " ".join(re.sub(comments, " ", text, flags=re.DOTALL).split())
    return hashlib.sha256(text.encode()).hexdigest()


def digest(path: Path) -> str:
    """Digest of the code that a result ran.

    Parameters
    ----------
    path : Path
        The Python file that makes the result, with its settings.

    Returns
    -------
    str
        Sixteen hexadecimal digits.
    """
    lines = sorted(f"{one.relative_to(ROOT)} {_print(one)}" for one in closure(path.resolve()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def keep(path: Path, text: str, source: str) -> None:
    """Store a result, with the digest of the code that made it.

    Parameters
    ----------
    path : Path
    text : str
    source : str
        ``__file__`` of what made it.
    """
    path.write_text(text, encoding="utf-8")
    stamps, made = path.parent / STAMPS.name, Path(source).resolve()
    known = json.loads(stamps.read_text()) if stamps.exists() else {}
    known[path.name] = {"source": str(made.relative_to(ROOT)), "code": digest(made)}
    stamps.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


class Stored:
    """A stored result and the code it ran.

    Attributes
    ----------
    name : str
        Such as "paper1/figure-8" or "coverage.md".
    source : Path or None
        What makes it; None of a figure that no longer exists.
    code : str or None
        Its digest when it was stored; None before there were any.
    seconds : float
        What it took; 0 if unknown.
    """

    def __init__(self, name: str, source: Path | None, code: str | None, seconds: float) -> None:
        self.name, self.source, self.code, self.seconds = name, source, code, seconds

    @property
    def state(self) -> str:
        """Empty, or why it is not what the code would say now."""
        if self.code is None:
            return "stored before digests were"
        if self.source is None or not self.source.exists():
            return "nothing makes it any more"
        return "" if self.code == digest(self.source) else "older than its code"


def stored() -> list[Stored]:
    """Every stored figure and table."""
    from bench.figures.runner import figures_of, papers

    found = []
    for paper in papers():
        known = figures_of(paper)
        for path in sorted((RESULTS / "figures" / f"paper{paper}").glob("*.json")):
            report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            figure = known.get(path.stem)
            source = None if figure is None else figure.source
            name = f"paper{paper}/{path.stem}"
            found.append(Stored(name, source, report.get("code"), report["seconds"]))
    stamps = json.loads(STAMPS.read_text()) if STAMPS.exists() else {}
    for name in sorted({path.name for path in RESULTS.glob("*.md")} | set(stamps)):
        stamp = stamps.get(name, {})
        source = ROOT / stamp["source"] if stamp else None
        found.append(Stored(name, source, stamp.get("code"), 0.0))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is older than its code; with a time, draw such figures again."""
    parser = argparse.ArgumentParser(prog="python -m bench stale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--redraw", type=float, metavar="MINUTES", help="draw figures for so long")
    arguments = parser.parse_args(argv)
    old = [one for one in stored() if one.state]
    for one in old:
        print(f"{one.name:<36} {one.state}")
    print(f"{len(old)} of {len(stored())} stored results")
    if arguments.redraw is None:
        return 0
    from bench.figures.runner import main as draw

    end, failed = time.monotonic() + 60.0 * arguments.redraw, 0
    for one in sorted(old, key=lambda one: one.seconds):
        paper, _, name = one.name.removeprefix("paper").partition("/")
        if name and one.source is not None and time.monotonic() + one.seconds < end:
            failed += draw(["--paper", paper, name, "--jobs", "1"])
    return int(failed > 0)
