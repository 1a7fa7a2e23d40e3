"""Compare this tree with another commit, both built here, call by call in alternation.

    make bench-compare BASE=main
    python -m bench.compare main --rounds 15

Fails (exit 1) if a probe is slower by more than 15% and by more than three times the noise floor:
the larger difference between the medians of the odd and the even rounds of one and the same build.
"""

from __future__ import annotations

import argparse
import compileall
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import IO, NamedTuple

ROOT = Path(__file__).resolve().parents[1]

#: Slowdown that is always accepted.
ACCEPTED = 0.15

#: How many noise floors a slowdown must exceed.
FLOORS = 3.0


class Row(NamedTuple):
    """One probe: medians of both builds, and the noise floor (relative)."""

    name: str
    base: float
    head: float
    floor: float

    @property
    def slowdown(self) -> float:
        return self.head / self.base - 1.0

    @property
    def failed(self) -> bool:
        return self.slowdown > max(ACCEPTED, FLOORS * self.floor)


def judge(name: str, base: list[float], head: list[float]) -> Row:
    """Medians of alternating measurements and how far halves of the same build disagree."""
    floor = max(abs(median(s[::2]) / median(s[1::2]) - 1.0) for s in (base, head))
    return Row(name, median(base), median(head), floor)


class Worker:
    """A process with one build on its path that measures what it is asked to."""

    def __init__(self, tree: Path) -> None:
        environment = dict(os.environ, PYTHONPATH=str(tree), OPENBLAS_NUM_THREADS="1")
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(ROOT / "bench" / "probes.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tree, env=environment,
        )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to: IO[str] = self._process.stdin
        self._from: IO[str] = self._process.stdout
        self.names = [self._line() for _ in range(int(self._line()))]

    def _line(self) -> str:
        line = self._from.readline()
        if not line:
            raise RuntimeError("a build could not run the probes; see the error above")
        return line.strip()

    def ask(self, question: object) -> float:
        self._to.write(f"{question}\n")
        self._to.flush()
        return float(self._line())

    def close(self) -> None:
        self._to.close()
        self._process.wait()


def build(commit: str, folder: Path) -> Path:
    """A checkout of the commit with its extensions built in place."""
    tree = folder / "base"
    subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=True,
                   capture_output=True)  # fmt: skip
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tree,
                   check=True, capture_output=True)  # fmt: skip
    return tree


def import_seconds(tree: Path) -> float:
    """Wall time of a fresh interpreter that imports the package."""
    code = "import time; t = time.perf_counter(); import dpfast; print(time.perf_counter() - t)"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, check=True, capture_output=True, text=True,
        env=dict(os.environ, PYTHONPATH=str(tree)),
    ).stdout  # fmt: skip
    return float(output)


def built_bytes(tree: Path) -> int:
    """Size of the compiled extensions, nearly all of the wheel."""
    return sum(path.stat().st_size for path in (tree / "dpfast" / "kernels").glob("*.so"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("base", help="commit to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        base_tree = build(arguments.base, Path(folder))
        try:
            rows, notes = _measure(base_tree, arguments.rounds)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base_tree)], cwd=ROOT,
                           check=True)  # fmt: skip
    width = max(len(row.name) for row in rows)
    print(f"{'probe':{width}} {'base us':>12} {'here us':>12} {'change':>8} {'floor':>7}")
    for row in rows:
        print(
            f"{row.name:{width}} {1e6 * row.base:12.2f} {1e6 * row.head:12.2f} "
            f"{100 * row.slowdown:+7.1f}% {100 * row.floor:6.1f}%{'  SLOWER' * row.failed}"
        )
    print("\n".join(notes))
    return int(any(row.failed for row in rows))


def _measure(base_tree: Path, rounds: int) -> tuple[list[Row], list[str]]:
    base, head = Worker(base_tree), Worker(ROOT)
    rows = []
    for name in [name for name in head.names if name in base.names]:
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            times[0].append(base.ask(base.names.index(name)))
            times[1].append(head.ask(head.names.index(name)))
        rows.append(judge(name, *times))
    memory = base.ask("memory"), head.ask("memory")
    base.close()
    head.close()
    for tree in (base_tree, ROOT):  # neither is to be compiled anew by each interpreter
        compileall.compile_dir(tree / "dpfast", quiet=1)
    imports: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        imports[0].append(import_seconds(base_tree))
        imports[1].append(import_seconds(ROOT))
    rows.append(judge("import dpfast", *imports))
    sizes = built_bytes(base_tree), built_bytes(ROOT)
    notes = [
        f"peak memory of the probes: {memory[0]:.0f} MiB before, {memory[1]:.0f} MiB here",
        f"compiled extensions: {sizes[0]:,} bytes before, {sizes[1]:,} here",
    ]
    return rows, notes


if __name__ == "__main__":
    sys.exit(main())
