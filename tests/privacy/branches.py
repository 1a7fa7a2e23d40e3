"""Functions with a branch that no test takes, compared with the list of those that are explained.

`make coverage` runs the tests and then this.  `python -m tests.privacy.branches --strict` fails
where a branch has no reason, or a reason no branch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

REPORT = Path("build/coverage/branches.json")
EXPLAINED = Path(__file__).parent / "branches.tsv"


def missed(report: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Return what no test takes: by file and function, lines and branches in a few words."""
    found = {}
    for name, file in report["files"].items():
        path = name[name.index("dpfast/") :] if "dpfast/" in name else name
        for function, part in file["functions"].items():
            lines, branches = part["missing_lines"], part.get("missing_branches", [])
            if lines or branches:
                jumps = ", ".join(f"{start} to {end}" for start, end in branches)
                found[path, function or "(module)"] = f"lines {lines}, branches {jumps}"
    return found


def explained() -> dict[tuple[str, str], str]:
    """Return the reason why a function has such a branch."""
    rows = [line.split("\t") for line in EXPLAINED.read_text(encoding="utf-8").splitlines()[1:]]
    return {(path, function): reason for path, function, reason in rows}


def judged(found: dict[tuple[str, str], str], known: dict[tuple[str, str], str]) -> list[str]:
    """Return what is wrong: branches without a reason, and reasons without such a branch."""
    lines = [f"{path}: {function}: {found[path, function]}: no test, and no reason"
             for path, function in sorted(found.keys() - known.keys())]  # fmt: skip
    return lines + [
        f"{path}: {function} is covered: remove its reason"
        for path, function in sorted(known.keys() - found.keys())
    ]


def main() -> int:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    totals = report["totals"]
    wrong = judged(missed(report), explained())
    print(*wrong, sep="\n" if wrong else "")
    covered = totals["covered_branches"], totals["num_branches"]
    print(
        "{} of {} branches are taken; {} functions are explained".format(*covered, len(explained()))
    )
    return int("--strict" in sys.argv and bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
