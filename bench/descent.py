"""Adaptive descent with a private clip against rivals tuned on the exact risk.

    python -m bench.descent [--reps 20] [--keep FILE] [--quick] [--store]

Twelve non-convex problems at four budgets (rho-zCDP).  The rivals (noisy descent, clipped noisy
descent and DP-SGD) are given, for nothing, the number of steps, step length and clip that are best
on other seeds of the same data; dpfast.minimize is given the declared constants and nothing else.
Prints the table and stores it as ``bench/results/descent.md``.  ``--keep`` keeps the rivals'
numbers, which do not depend on the library, in a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpfast
from bench.figures.paper2.more_problems import twelve
from bench.figures.paper2.problems import Problem
from bench.figures.paper2.rivals import GRIDS, tuned
from dpfast import Adaptive, Proximal, SeededNoise, Spider

RESULTS = Path(__file__).parent / "results" / "descent.md"

BUDGETS = (0.02, 0.1, 0.5, 2.0)

#: What is aimed at: cells within 1.25 times the best rival, and the median over all cells.
NEAR, SHARE, MEDIAN = 1.25, 0.8, 1.0

METHODS: dict[str, Any] = {
    "adaptive": Adaptive,
    "adaptive, clip=None": lambda: Adaptive(clip=None),
    "KL-Spider": Spider,
    "proximal": Proximal,
}


def seeded(*key: object) -> int:
    return zlib.crc32(repr(key).encode())


def cell_of(problem: Problem, rho: float, kl: Any, reps: int, known: dict[str, Any]) -> Any:
    """Mean excess of each rival and method, and the standard error of each method's."""
    row: dict[str, Any] = {"problem": problem.name, "rho": rho}
    kept = known.setdefault(f"{problem.name}|{rho}", {})
    for name, grid in GRIDS.items():
        if name not in kept:
            seed = seeded(problem.name, rho, name) % 10**6
            kept[name] = tuned(problem, name, rho, 10, seed, grid)
        row[name] = kept[name][0]
    row["best rival"] = min(row[name] for name in GRIDS)
    for name, method in METHODS.items():
        found = [
            problem.excess(
                dpfast.minimize(
                    problem.X,
                    problem.y,
                    problem.objective,
                    privacy=dpfast.ZCDP(rho),
                    method=method(),
                    kl=kl,
                    start=list(problem.start),
                    noise=SeededNoise(seeded(problem.name, rho, r)),
                ).params
            )
            for r in range(reps if name.startswith("adaptive") else max(2, reps // 4))
        ]
        row[name] = float(np.mean(found))
        row[name + " se"] = float(np.std(found) / len(found) ** 0.5)
    return row


def verdict(rows: list[dict[str, Any]]) -> list[str]:
    """Each target, what was measured, and whether it was met."""
    ratios = np.array([row["adaptive"] / row["best rival"] for row in rows])
    near, median = float(np.mean(ratios <= NEAR)), float(np.median(ratios))
    worse = []
    for row in rows:
        gap = row["adaptive"] - row["adaptive, clip=None"]
        if gap > 3.0 * float(np.hypot(row["adaptive se"], row["adaptive, clip=None se"])):
            worse.append(f"{row['problem']} at {row['rho']:g}")
    answer = {True: "yes", False: "**no**"}
    before = np.array([row["adaptive, clip=None"] / row["best rival"] for row in rows])
    return [
        f"- at most {NEAR:g} times the best rival in {SHARE:.0%} of the cells: "
        f"{answer[near >= SHARE]}, in {near:.0%} (clip=None: {np.mean(before <= NEAR):.0%});",
        f"- median ratio at most {MEDIAN:g}: {answer[median <= MEDIAN]}, {median:.2f} "
        f"(clip=None: {np.median(before):.2f});",
        f"- no cell worse than without a clip by three standard errors: {answer[not worse]}"
        + (f" ({', '.join(worse)})" if worse else "")
        + ";",
        "- cells in which a named method with estimated constants beats adaptive descent: "
        + ", ".join(
            f"{name} {sum(row[name] < row['adaptive'] for row in rows)} of {len(rows)}, worst "
            f"ratio {max(row[name] / row['adaptive'] for row in rows):.3g}"
            for name in ("KL-Spider", "proximal")
        )
        + ".",
    ]


def table(rows: list[dict[str, Any]]) -> list[str]:
    columns = [*GRIDS, "adaptive, clip=None", "adaptive", "KL-Spider", "proximal"]
    head = ["problem", "rho", *columns, "adaptive / best rival"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row["problem"], f"{row['rho']:g}", *(f"{row[name]:.2g}" for name in columns)]
        ratio = row["adaptive"] / row["best rival"]
        lines.append("| " + " | ".join([*cells, f"{ratio:.2f}"]) + " |")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.descent", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--keep", type=Path, help="JSON with the rivals' numbers")
    parser.add_argument("--quick", action="store_true", help="few records and cells")
    parser.add_argument("--store", action="store_true")
    asked = parser.parse_args(argv)
    n, reps = (400, 2) if asked.quick else (2000, asked.reps)
    problems = twelve(lambda key: np.random.default_rng(seeded("descent", "data", key)), n)
    known: dict[str, Any] = {}
    if asked.keep is not None and asked.keep.exists():
        known = json.loads(asked.keep.read_text())
    rows = []
    for problem in problems[:2] if asked.quick else problems:
        kl = problem.kl
        if kl is None:
            kl = dpfast.estimate_kl(
                problem.X, problem.y, problem.objective, start=list(problem.start)
            ).kl
        for rho in BUDGETS[1:2] if asked.quick else BUDGETS:
            rows.append(cell_of(problem, rho, kl, reps, known))
            print(table(rows)[-1], flush=True)
            if asked.keep is not None:
                asked.keep.write_text(json.dumps(known))
    lines = [
        "# Adaptive descent against rivals tuned on the exact risk",
        "",
        f"`python -m bench.descent --reps {reps}` (seeded noise, n = {n:,}).  Mean excess risk. "
        "Rivals have the setting that",
        "is best on other seeds of the same data, from a grid of 24 to 72; the library's methods "
        "have the declared constants,",
        "KL-Spider and the proximal point method those of `dpfast.estimate_kl` on the data "
        "themselves as well.",
        "",
        *verdict(rows),
        "",
        *table(rows),
        "",
    ]
    if asked.store:
        RESULTS.write_text("\n".join(lines))
    print("\n".join(lines[2:10]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
