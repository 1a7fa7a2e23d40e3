"""Generic mistakes in files of privacy and curator, by cosmic-ray: which does no test notice?

    make operators                                     some of each file, in minutes
    python -m tests.privacy.operators --count 0        all of them: hours
    python -m tests.privacy.operators dpfast/privacy/tables/sensitivity.py --count 50 --seed 1

Planted bugs of the domain (`make mutants`) are chosen by hand; these are not.  A survivor is
noticed by a new test, or has its reason in `operators.tsv`.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REASONS = Path(__file__).parent / "operators.tsv"

_FIRST = ("tests/proofs/test_proofs.py",)  # seconds: a changed formula is another one in Coq

#: Files whose expressions are changed, and the tests that run, quick ones first.
RELATED: dict[str, tuple[str, ...]] = {
    "dpfast/privacy/sensitivity.py": (
        *_FIRST, "tests/privacy/test_rounding.py", "tests/privacy/test_killers.py",
        "tests/privacy/test_attacks.py", "tests/privacy/test_couplings.py",
    ),
    "dpfast/privacy/sensitivity_sides.py": (*_FIRST, "tests/privacy/test_sides.py"),
    "dpfast/privacy/sensitivity_scale.py": ("tests/privacy/test_attacks_scale.py",),
    "dpfast/privacy/mechanisms.py": (
        *_FIRST, "tests/privacy/test_mechanisms.py", "tests/privacy/test_decimals.py",
    ),
    "dpfast/privacy/tables/sensitivity.py": (
        *_FIRST, "tests/tables/test_cells.py", "tests/tables/test_weighted_cells.py",
        "tests/tables/test_distribution.py",
    ),
    "dpfast/privacy/scaling/sensitivity.py": (
        *_FIRST, "tests/scaling/test_columns.py", "tests/scaling/test_distances.py",
        "tests/scaling/test_complete.py",
    ),
    "dpfast/privacy/blackbox/sensitivity.py": (
        *_FIRST, "tests/privacy/test_refused_constants.py", "tests/bayesopt/test_choice.py",
        "tests/bayesopt/test_sensitivities.py",
    ),
    "dpfast/privacy/nonconvex/sensitivity.py": (
        *_FIRST, "tests/privacy/test_refused_constants.py", "tests/nonconvex/test_selection.py",
        "tests/nonconvex/test_sensitivities.py",
    ),
    "dpfast/privacy/release/sensitivity.py": (
        *_FIRST, "tests/privacy/test_release_theory.py", "tests/privacy/test_release_condition.py",
        "tests/privacy/test_release_calibration.py",
    ),
    "dpfast/privacy/decimals.py": (
        "tests/privacy/test_every_branch.py", "tests/privacy/test_decimals.py",
        "tests/privacy/test_budget.py",
    ),
    "dpfast/privacy/random_parts.py": ("tests/privacy/test_dealing.py",),
    "dpfast/privacy/tradeoff.py": (
        "tests/privacy/test_every_branch.py", "tests/privacy/test_tradeoff.py",
    ),
    "dpfast/privacy/ledger/paid.py": (
        "tests/privacy/test_every_branch.py", "tests/privacy/test_paid_answers.py",
    ),
    "dpfast/privacy/ledger/reservation.py": ("tests/privacy/test_returned_budget.py",),
    "dpfast/curator/shares.py": ("tests/privacy/test_shares.py",),
    "dpfast/curator/steps.py": ("tests/curator/",),
    "dpfast/curator/tables/cells.py": ("tests/tables/test_cells.py",),
}  # fmt: skip


def related_tests(file: str) -> list[str]:
    """List the tests of a file that exist."""
    return [name for name in RELATED[file] if (ROOT / name).exists()]


def reasons() -> dict[tuple[str, str], str]:
    """Return why no test notices a mistake, by its file and the line that it makes."""
    rows = [line.split("\t") for line in REASONS.read_text(encoding="utf-8").splitlines()[1:]]
    return {(file, line): reason for file, line, reason in rows}


def sample(session: Path, count: int, seed: int) -> int:
    """Leave some mistakes of a session, drawn by a seed; return how many."""
    with sqlite3.connect(session) as book:
        every = sorted(row[0] for row in book.execute("SELECT job_id FROM work_items"))
        specs = book.execute(
            "SELECT job_id, operator_name, start_pos_row, start_pos_col, occurrence "
            "FROM mutation_specs ORDER BY start_pos_row, start_pos_col, operator_name, occurrence"
        ).fetchall()
        order = [row[0] for row in specs] or every
        kept = set(random.Random(seed).sample(order, min(count, len(order))) if count else order)
        for table in ("mutation_specs", "work_items"):
            gone = [(job,) for job in order if job not in kept]
            book.executemany(f"DELETE FROM {table} WHERE job_id = ?", gone)
    return len(kept)


def survivors(dump: str) -> list[str]:
    """Return the lines that mistakes made which no test noticed."""
    lines = []
    for row in dump.splitlines():
        _, result = json.loads(row)
        if result is not None and str(result["test_outcome"]).lower().endswith("survived"):
            lines_of = [(line[:1], line[1:].strip()) for line in (result["diff"] or "").splitlines()
                        if not line.startswith(("+++", "---"))]  # fmt: skip
            gone, added = (" ".join(t for s, t in lines_of if s == sign) for sign in "-+")
            if _evaluated(gone) != _evaluated(added):
                lines.append(added)
    return lines


def _evaluated(line: str) -> str:
    """Return a line without the annotations of its function, which nothing evaluates."""
    try:
        tree = ast.parse(f"{line} pass")
    except SyntaxError:
        return line
    for node in ast.walk(tree):
        for field in {"annotation", "returns"} & set(node._fields):
            setattr(node, field, ast.Constant(None))
    return ast.dump(tree)


def run(file: str, count: int, seed: int, tree: Path) -> tuple[int, list[str]]:
    """Try mistakes of one file in a copy of the tree; return how many, and the survivors."""
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -m 'not slow' "
    config = tree / "cosmic-ray.toml"
    config.write_text(
        f'[cosmic-ray]\nmodule-path = "{file}"\ntimeout = 300.0\nexcluded-modules = []\n'
        f'test-command = "{command}{" ".join(related_tests(file))}"\n'
        '[cosmic-ray.distributor]\nname = "local"\n',
        encoding="utf-8",
    )
    session = tree / f"{Path(file).stem}.sqlite"
    session.unlink(missing_ok=True)
    tool = [str(Path(sys.executable).parent / "cosmic-ray")]
    subprocess.run([*tool, "init", config.name, session.name], cwd=tree, check=True)
    chosen = sample(session, count, seed)
    subprocess.run([*tool, "exec", config.name, session.name], cwd=tree, check=True)
    done = subprocess.run(
        [*tool, "dump", session.name], cwd=tree, check=True, capture_output=True, text=True
    )
    return chosen, survivors(done.stdout)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.privacy.operators", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: every file")
    parser.add_argument("--count", type=int, default=20, help="of each file; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    known, unexplained = reasons(), 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        ignored = shutil.ignore_patterns(".git", ".venv*", ".hypothesis", "results", "build")
        shutil.copytree(ROOT, tree, ignore=ignored)
        for file in asked.files or RELATED:
            chosen, lines = run(file, asked.count, asked.seed, tree)
            print(f"{file}: {chosen - len(lines)} of {chosen} noticed", flush=True)
            for line in lines:
                reason = known.get((file, line), "")
                unexplained += not reason
                print(f"    {line}\n        {reason or 'NO REASON'}", flush=True)
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
