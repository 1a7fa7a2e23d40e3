"""Adaptive descent on fourteen problems, beside tuned rivals."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from bench.figures.paper2.contest import rivals
from bench.figures.paper2.fresh import fourteen
from bench.figures.paper2.rivals import Setting
from bench.figures.runner import Outcome, Panel, Run, declared

#: What is aimed at: cells within this factor of the best rival, their share, and the worst ratio.
NEAR, SHARE, WORST = 1.25, 0.85, 3.0

GRIDS: dict[str, list[Setting]] = {
    "clipped descent": list(itertools.product((50, 150), (2.0, 4.0, 8.0, 16.0), (0.3, 0.1))),
    "DP-SGD": list(itertools.product((200,), (1.0, 2.0, 4.0, 8.0), (0.3, 0.1))),
    "DP-Adam": list(itertools.product((200,), (0.01, 0.03, 0.1), (1.0, 0.3, 0.1, 0.03))),
}


@declared("paper2/fresh-problems")
def fresh_problems(run: Run) -> Outcome:
    n, reps = (300, 1) if run.quick else (2000, 8)
    budgets = (1.0,) if run.quick else (0.3, 1.0, 3.0)
    grids = {name: grid[:2] for name, grid in GRIDS.items()} if run.quick else GRIDS
    problems = fourteen(lambda key: run.rng("data", key), n)
    rows: list[dict[str, Any]] = []
    for problem, mu in itertools.product(problems, budgets):
        key, rho = f"{problem.name} {mu}", 0.5 * mu * mu
        row: dict[str, Any] = {"problem": problem.name, "mu": mu}
        row["start"] = problem.excess(problem.start)
        tuned = rivals(problem, rho, 4, grids, partial(run.seed, key))
        row |= {name: found[0] for name, found in tuned.items()}
        row |= {f"{name}: steps, length, clip": found[1] for name, found in tuned.items()}
        results = [problem.minimised(rho, run.seed(key, "adaptive", rep)) for rep in range(reps)]
        excesses = [problem.excess(np.asarray(r.params)) for r in results]
        row["adaptive"], best = float(np.mean(excesses)), min(row[rival] for rival in GRIDS)
        row["share that warns"] = float(np.mean([bool(r.warnings) for r in results]))
        row["ratio"] = row["adaptive"] / best
        row["error"] = float(np.std(excesses)) / reps**0.5 / best
        rows.append(row)
        run.progress(len(rows), len(problems) * len(budgets))
    verdict, remark = judged(rows)
    return Outcome({"n": n, "rows": rows}, verdict, remark, panels(rows))


def judged(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Yes for both targets, in part for one of them, no for neither."""
    ratios = np.array([row["ratio"] for row in rows])
    far = [row for row in rows if row["ratio"] > WORST]
    warned = sum(row["share that warns"] > 0.5 for row in far)
    worse = sum(row["adaptive"] > row["start"] for row in rows)
    unsure = sum(abs(row["ratio"] - NEAR) < 2.0 * row["error"] for row in rows)
    met = (np.mean(ratios <= NEAR) >= SHARE) + (ratios.max() <= WORST)
    remark = (
        f"Within {NEAR:g} times the best rival in {np.mean(ratios <= NEAR):.0%} of {len(rows)} "
        f"cells, median ratio {np.median(ratios):.2f}, geometric mean "
        f"{np.exp(np.log(ratios).mean()):.2f}, worst {ratios.max():.3g}; above {WORST:g} in "
        f"{len(far)}, of which {warned} warn; worse than the start in {worse}. Two standard errors "
        f"of our runs reach {NEAR:g} in {unsure} cells. The rivals' steps, "
        "step lengths and clips are tuned for each problem and budget on the exact excess risk, "
        "without charge."
    )
    return ("no", "in part", "yes")[int(met)], remark


def panels(rows: list[dict[str, Any]]) -> list[Panel]:
    """Ratios to the best rival, one line a budget."""
    names = list(dict.fromkeys(row["problem"] for row in rows))
    lines = {
        f"mu = {mu:g}": [row["ratio"] for row in rows if row["mu"] == mu]
        for mu in sorted({row["mu"] for row in rows})
    }
    axes = {"ylabel": "excess risk over that of the best rival"}
    return [Panel(names, lines, axes, "y", at={"": NEAR})]
