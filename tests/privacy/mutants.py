"""Plant privacy bugs one at a time and check that the test suite notices: ``make mutants``.

    python -m tests.privacy.mutants [--only NAME ... | --untried] [--list] [--jobs 2] [--write]
    python -m tests.privacy.mutants --stored [--only NAME ...]
    python -m tests.privacy.mutants --compiled [--sixth N]

Each mutant of ``planted_bugs.toml`` is applied to a copy of the tree, whose extensions are
rebuilt where needed, and the tests expected to notice it are run there; if they do not, the whole
suite without the slow tests is.  The tests that noticed are run once more on the unchanged copy,
where they have to pass.  The exit code is 0 only if every mutant was noticed.  ``--write`` brings
the rows of the stored report up to date; ``--untried`` runs the mutants that have none.
``--stored`` runs, of bugs in Python, the one test that the report names, each in a fork of one
process: after tests were thinned or merged, seconds a bug.  ``--compiled`` runs those in C and
Cython, each of which is built, or a sixth of them: a night has time for so many.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests import mutations
from tests.privacy.mutant_catalogue import MUTANTS, Mutant
from tests.privacy.mutant_report import (
    REPORT,
    Verdict,
    killer_name,
    markdown,
    stored,
    updated,
    without_row,
)

ROOT = Path(__file__).resolve().parents[2]

#: The check of the catalogue itself fails in every mutated tree, which would prove nothing.
OWN_TEST = "tests/privacy/test_mutants.py"

NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv*", ".*_cache", ".hypothesis", ".benchmarks", "build", "dist", "*.egg-info",
    "__pycache__", "*.so", "*.pyd", "demo-*.png",
)  # fmt: skip
TIME_LIMIT = 1800  # seconds for one run of tests or one build
TOO_LONG = 1000  # no exit code of a process

PYTEST = [
    sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider",
    "-m", "not slow", "--ignore", OWN_TEST,
]  # fmt: skip


class BrokenRun(Exception):
    """A mutant that does not apply, build or import, or a tree whose tests cannot run."""


class BuildRefused(Exception):
    """The sources themselves refuse to be compiled like this (``#error``): they noticed."""


# ---- one tree ------------------------------------------------------------------------------------


def mutated(text: str, mutant: Mutant) -> str:
    """The text of the mutant's file with the bug; BrokenRun unless each edit applies once."""
    for old, new in mutant.edits:
        if (count := text.count(old)) != 1:
            raise BrokenRun(f"{mutant.name}: {count} places in {mutant.path} read\n{old}")
        text = text.replace(old, new)
    return text


def environment(tree: Path, cache: Path) -> dict[str, str]:
    """Imports come from ``tree``; hypothesis is repeatable; objects are compiled once."""
    compiler = f"{sys.executable} -m tests.privacy.mutants --compile {cache}"
    real = os.environ.get("CC", "cc")
    return os.environ | {"PYTHONPATH": str(tree), "CI": "1", "CC": f"{compiler} {real}"}


def run(command: Sequence[str], tree: Path, cache: Path) -> tuple[int, str]:
    """Exit code and output of a command in a tree; ``TOO_LONG`` past the time limit."""
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment(tree, cache),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        return TOO_LONG, f"no end within {TIME_LIMIT} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # it leads a group of its own
            process.wait()


def build(tree: Path, cache: Path, *options: str) -> None:
    """Bring the extensions of a tree up to date, in place."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", *options]
    code, output = run(command, tree, cache)
    if refusal := re.search(r'error: #error "?([^"\n]+)', output):
        raise BuildRefused(refusal[1])
    if code:
        raise BrokenRun(f"the build failed:\n{output[-3000:]}")


def honest_tree(parent: Path, cache: Path) -> Path:
    """A copy of the repository, built, with every test collected once (which compiles them)."""
    tree = parent / "honest"
    shutil.copytree(ROOT, tree, ignore=NOT_COPIED)
    build(tree, cache)
    code, output = run([*PYTEST, "--collect-only"], tree, cache)
    if code:
        raise BrokenRun(f"the tests of the unchanged tree cannot be collected:\n{output[-3000:]}")
    return tree


def mutated_tree(mutant: Mutant, honest: Path, cache: Path) -> Path:
    """A copy of the honest tree with the bug, built."""
    tree = honest.parent / mutant.name
    shutil.copytree(honest, tree)
    target = tree / mutant.path
    target.write_text(mutated(target.read_text(encoding="utf-8"), mutant), encoding="utf-8")
    for compiled in (target.parent / "__pycache__").glob(f"{target.stem}.*"):
        compiled.unlink()  # a time stamp in whole seconds might not tell the two sources apart
    if mutant.path == "setup.py":
        build(tree, cache, "--force")  # flags are no files whose age could be compared
    elif mutant.path.startswith("csrc/"):
        build(tree, cache)
    where = "import dpfast, dpfast.kernels; print(dpfast.kernels.__file__)"
    code, output = run([sys.executable, "-c", where], tree, cache)
    if code or not Path(output.strip()).is_relative_to(tree):
        raise BrokenRun(f"{mutant.name}: the package in the copy is not the one imported: {output}")
    return tree


# ---- tests ---------------------------------------------------------------------------------------


def first_failure(selection: Iterable[str], tree: Path, cache: Path) -> str:
    """The first test of a selection that fails in a tree, or an empty string."""
    code, output = run([*PYTEST, "-x", *selection], tree, cache)
    if code == 0:
        return ""
    if code == TOO_LONG:
        return "(the time limit)"
    if code < 0:
        return f"(a crash: {signal.Signals(-code).name})"
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", output, re.MULTILINE)
    if code != 1 or not failed:
        raise BrokenRun(f"the tests could not run in {tree.name}:\n{output[-3000:]}")
    return str(failed[0])


def verdict(mutant: Mutant, honest: Path, cache: Path) -> Verdict:
    """Plant one bug and look for a test that notices."""
    start, killer, fell_back, problem = time.monotonic(), "", False, ""
    try:
        tree = mutated_tree(mutant, honest, cache)
        killer = first_failure(mutant.tests, tree, cache)
        fell_back = not killer
        if fell_back:
            killer = first_failure(["tests"], tree, cache)
    except BuildRefused as reason:
        killer = f"(the build: {reason})"
    except BrokenRun as reason:
        problem = str(reason)
    finally:
        shutil.rmtree(honest.parent / mutant.name, ignore_errors=True)
    return Verdict(mutant, killer, time.monotonic() - start, fell_back, problem)


def stored_verdicts(chosen: Sequence[Mutant], tree: Path) -> list[Verdict]:
    """Whether the test that the report names notices each bug, in a copy with its extensions."""
    ignored = shutil.ignore_patterns(".git", ".venv*", "build", ".*_cache")
    shutil.copytree(ROOT, tree, ignore=ignored)
    mutations.warm()
    os.environ["PYTHONPATH"] = str(tree)
    verdicts, announce = [], announcer(len(chosen))
    for mutant in chosen:
        start, file, killer = time.monotonic(), tree / mutant.path, killer_of(mutant)
        with mutations.planted(file, mutated(file.read_text(encoding="utf-8"), mutant)):
            code = mutations.exit_code(tree, (killer,))
        noticed = code is None or code < 0 or code == 1
        problem = "" if noticed or code == 0 else (tree / "output.txt").read_text()[-900:]
        seconds = time.monotonic() - start
        verdicts.append(Verdict(mutant, killer if noticed else "", seconds, False, problem))
        announce(verdicts[-1])
    return verdicts


def killer_of(mutant: Mutant) -> str:
    """The test that the report names, as pytest does; empty if there is none."""
    killer = stored(ROOT / REPORT).get(mutant.name, ("",))[0].removesuffix(" (not expected)")
    return f"tests/{killer}" if "::" in killer else ""


def all_verdicts(chosen: Sequence[Mutant], honest: Path, cache: Path, jobs: int) -> list[Verdict]:
    """Verdicts in the order of the mutants, announced as they are reached."""
    announce = announcer(len(chosen))
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        running = [pool.submit(verdict, mutant, honest, cache) for mutant in chosen]
        try:
            for future in as_completed(running):
                announce(future.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in running]


def false_alarms(verdicts: Sequence[Verdict], honest: Path, cache: Path) -> list[str]:
    """Tests that were counted as killers and fail on the unchanged tree, too."""
    killers = sorted({v.killer for v in verdicts if "::" in v.killer})
    if not killers:
        return []
    # by test function: parameters are free text, which may not survive a command line
    code, output = run([*PYTEST, *sorted({k.split("[")[0] for k in killers})], honest, cache)
    if code in (0, 1):
        return re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    raise BrokenRun(f"the killers could not run on the unchanged tree:\n{output[-3000:]}")


# ---- report --------------------------------------------------------------------------------------


def table(verdicts: Sequence[Verdict]) -> str:
    """Plain text: mutant, killer, seconds."""
    width = max(len(v.mutant.name) for v in verdicts)
    rows = [f"{v.mutant.name:{width}}  {v.seconds:5.0f} s  {killer_name(v)}" for v in verdicts]
    return "\n".join(rows)


def announcer(total: int) -> Callable[[Verdict], None]:
    """Prints progress: a bar on a terminal, a line per mutant elsewhere."""
    done = 0

    def announce(verdict: Verdict) -> None:
        nonlocal done
        done += 1
        if sys.stdout.isatty():
            bar = "#" * (30 * done // total)
            print(f"\r[{bar:30}] {done}/{total} {verdict.mutant.name:<45.45}", end="", flush=True)
            if done == total:
                print()
        else:
            print(f"{done}/{total} {table([verdict])}", flush=True)

    return announce


# ---- command line --------------------------------------------------------------------------------


def compile_once(cache: Path, command: list[str]) -> int:
    """Run a compiler, keeping objects by the preprocessed source and options they come from."""
    if "-c" not in command or "-o" not in command:
        return subprocess.run(command, check=False).returncode
    at = command.index("-o")
    target = Path(command[at + 1])
    rest = command[:at] + command[at + 2 :]
    preprocess = [*(word for word in rest if word != "-c"), "-E"]
    source = subprocess.run(preprocess, check=False, stdout=subprocess.PIPE)
    if source.returncode:
        return source.returncode
    key = hashlib.sha256("\0".join(rest).encode() + b"\0" + source.stdout).hexdigest()
    kept = cache / f"{key}.o"
    if not kept.exists():
        partial = cache / f"{key}.{os.getpid()}.o"
        status = subprocess.run([*rest, "-o", str(partial)], check=False).returncode
        if status:
            return status
        partial.replace(kept)
    shutil.copyfile(kept, target)
    return 0


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.privacy.mutants", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", metavar="NAME", nargs="+", help="these mutants only")
    which.add_argument(
        "--untried",
        action="store_true",
        help=f"mutants without a row in {REPORT}, or changed since it was written",
    )
    which.add_argument("--compiled", action="store_true", help="mutants in C and Cython")
    parser.add_argument("--sixth", type=int, choices=range(6), help="each sixth of those chosen")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--write", action="store_true", help=f"store the result in {REPORT}")
    parser.add_argument(
        "--stored",
        action="store_true",
        help="bugs in Python against the test of their row alone; writes nothing",
    )
    parser.add_argument(
        "--cache",
        type=Path,
        default=ROOT / "build" / "mutants",
        help="where compiled objects are kept from one run to the next (default build/mutants)",
    )
    options = parser.parse_args(words)
    unknown = set(options.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}; --list names them")
    return options


def main() -> int:
    options = arguments()
    chosen = [m for m in MUTANTS if not options.only or m.name in options.only]
    if options.untried:
        chosen = without_row(MUTANTS, stored(ROOT / REPORT))
    if options.compiled:
        chosen = [m for m in chosen if m.path.startswith("csrc/")]
    if options.sixth is not None:
        chosen = chosen[options.sixth :: 6]
    if options.stored:
        chosen = [m for m in chosen if m.path.startswith("dpfast/") and killer_of(m)]
    if not chosen:
        print("Nothing to do.")
        return 0
    if options.list:
        print("\n".join(f"{mutant.name}: {mutant.bug}" for mutant in chosen))
        return 0
    cache = options.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpfast-mutants-") as scratch:
        try:
            if options.stored:
                honest = Path(scratch).resolve() / "honest"
                verdicts = stored_verdicts(chosen, honest)
            else:
                honest = honest_tree(Path(scratch).resolve(), cache)
                verdicts = all_verdicts(chosen, honest, cache, options.jobs)
            wrong = false_alarms(verdicts, honest, cache)
        except (BrokenRun, BuildRefused) as reason:
            print(f"\n{reason}", file=sys.stderr)
            return 2
    print(table(verdicts))
    for v in verdicts:
        if v.problem:
            print(f"\n{v.mutant.name} could not be tried: {v.problem}")
    survivors = [v.mutant.name for v in verdicts if not v.killer]
    minutes = (time.monotonic() - start) / 60
    print(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} killed in {minutes:.1f} min.")
    if survivors:
        print(f"SURVIVED: {', '.join(survivors)}")
    if wrong:
        print(f"These killers fail on the unchanged tree, too: {', '.join(wrong)}")
    if options.write and not options.stored:
        rows = updated(stored(ROOT / REPORT), verdicts)
        (ROOT / REPORT).write_text(markdown(MUTANTS, rows), encoding="utf-8")
    return 1 if survivors or wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compile"]:
        sys.exit(compile_once(Path(sys.argv[2]), sys.argv[3:]))
    sys.exit(main())
