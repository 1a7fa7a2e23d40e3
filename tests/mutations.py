"""Random mistakes in code that is not about privacy: which share do its tests notice?

    python -m tests.mutations [--count 100] [--seed 0] [--only dpfast/inference] [--skip 0]

Each is one expression changed in one file of a copy of the tree: a comparison, a sign, a constant,
a condition.  The tests of that room run there, in a fork that has loaded the libraries of others,
and stop at the first that fails.  Planted privacy bugs are another matter: ``make mutants``.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_COMMANDS = "command_line commands hostile_commands paid_results every_option"
_QUANTILES = (
    "tests/test_mistakes.py",
    "tests/integration/test_fit_quantiles.py", "tests/scaling/test_search.py",
    "tests/scaling/test_columns.py", "tests/models/test_quantile.py",
)  # fmt: skip

_FORMULAS = (
    "tests/test_mistakes.py", "tests/data/test_formula.py", "tests/integration/test_front_door.py",
)  # fmt: skip

#: Whose code is changed, and which tests are run.
RELATED: dict[str, tuple[str, ...]] = {
    "dpfast/inference": (
        "tests/test_mistakes.py",
        "tests/inference",
        "tests/integration/test_saved.py",
        "tests/study/test_study.py",
    ),
    "dpfast/data/formula.py": _FORMULAS,
    "dpfast/data/arithmetic.py": _FORMULAS,
    "dpfast/data/splines.py": (*_FORMULAS, "tests/data/test_splines.py"),
    "dpfast/estimators": ("tests/estimators",),
    "dpfast/cli": (
        "tests/test_mistakes.py",
        *(f"tests/packaging/test_{name}.py" for name in _COMMANDS.split()),
    ),
    "dpfast/effects": (
        "tests/test_mistakes.py",
        "tests/effects",
        "tests/tables/test_two_stage.py",
        "tests/tables/test_cox.py",
    ),
    "dpfast/quantiles.py": _QUANTILES,
    "dpfast/regression/quantiles": _QUANTILES,
}

SECONDS = 150  # of CPU for one run of tests; what takes longer has been noticed

SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mistake(NamedTuple):
    """One expression, and what stands in its place."""

    path: str
    node: ast.expr
    changed: str

    def __str__(self) -> str:
        return f"{self.path}:{self.node.lineno}: {ast.unparse(self.node)} -> {self.changed}"

    def planted(self, text: str) -> str:
        lines = text.encode().splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        node, whole = self.node, b"".join(lines)
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        return (whole[:begin] + f"({self.changed})".encode() + whole[end:]).decode()


def changes(node: ast.AST) -> Iterator[ast.expr]:
    """Other expressions in the place of one."""
    new: Any = copy.deepcopy(node)
    match node:
        case ast.Compare() if len(node.ops) == 1:
            new.ops = [SWAPS[type(node.ops[0])]()]
            yield new
        case ast.BinOp() | ast.BoolOp() if type(node.op) in SWAPS:
            new.op = SWAPS[type(node.op)]()
            yield new
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield new.operand
        case ast.IfExp():
            new.body, new.orelse = new.orelse, new.body
            yield new
        case ast.Call(func=ast.Name(id=name)) if name in CALLS:
            new.func = ast.Name(CALLS[name])
            yield new
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(1.1 * value if value else 1.0)


def expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """Those that compute: no types, words of messages, assertions or lists of names."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign):
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from expressions(child)


def mistakes(root: str) -> list[Mistake]:
    """All that can be made in a file or folder."""
    place = ROOT / root
    found = []
    for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for node in expressions(ast.parse(path.read_text(encoding="utf-8"))):
            found += [Mistake(name, node, ast.unparse(new)) for new in changes(node)]  # type: ignore[arg-type]
    return found


def _run(tree: Path, tests: tuple[str, ...]) -> None:
    """Tests in this process, which ends with their code."""
    os.setsid()
    os.chdir(tree)
    sys.path[:] = [str(tree), *(place for place in sys.path if place not in ("", str(ROOT)))]
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    silence = os.open(tree / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    import pytest

    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    options = ["-x", "-q", "--tb=line", "-p", "no:cacheprovider", "-m", "not slow"]
    os._exit(pytest.main([*options, *tests]))


def warm() -> None:
    """Load the libraries of others, which every fork has then."""
    os.environ.update(OPENBLAS_NUM_THREADS="1", CI="1")
    for library in ("pytest", "scipy.special", "scipy.optimize", "pandas"):
        __import__(library)


def exit_code(tree: Path, tests: tuple[str, ...]) -> int | None:
    """Of tests in a fork of this process, which has not loaded dpfast; None if they did not end."""
    child = os.fork()
    if not child:
        try:
            _run(tree, tests)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(3)  # whatever went wrong: nothing of the parent is cleaned up twice
    limit = time.monotonic() + 8 * SECONDS
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def rewrite(file: Path, text: str) -> None:
    """And nothing compiled is left: a time stamp in whole seconds might not tell the two apart."""
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()
    file.write_text(text, encoding="utf-8")


@contextmanager
def planted(file: Path, text: str) -> Iterator[None]:
    """A file that says something else for a while."""
    honest = file.read_text(encoding="utf-8")
    rewrite(file, text)
    try:
        yield
    finally:
        rewrite(file, honest)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=RELATED, nargs="*", default=list(RELATED))
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    every = [(mistake, RELATED[root]) for root in asked.only for mistake in mistakes(root)]
    chosen = rng.sample(every, asked.count)[asked.skip :]
    warm()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv*", ".hypothesis", "results", "build")
        shutil.copytree(ROOT, tree, ignore=ignored)
        os.environ["PYTHONPATH"] = str(tree)
        for tests in {tests for _, tests in chosen}:
            if exit_code(tree, tests):
                print((tree / "output.txt").read_text(encoding="utf-8")[-3000:])
                raise SystemExit(f"{', '.join(tests)} fail without any mistake")
        for number, (mistake, tests) in enumerate(chosen, asked.skip + 1):
            file = tree / mistake.path
            with planted(file, mistake.planted(file.read_text(encoding="utf-8"))):
                noticed = exit_code(tree, tests) != 0
            missed += not noticed
            print(f"{number:4} {'noticed' if noticed else 'MISSED '} {mistake}", flush=True)
    done = len(chosen)
    print(f"{done - missed} of {done} noticed ({len(every)} can be made)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
