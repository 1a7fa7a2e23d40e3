"""The adaptive algorithm, KL-Spider and the proximal point method against tuned rivals."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np

from bench.figures.paper2.contest import METHODS, constants, handed_over, methods, rivals
from bench.figures.paper2.problems import six
from bench.figures.paper2.rivals import GRIDS
from bench.figures.runner import Outcome, Panel, Run, declared


@declared("paper2/comparison")
def comparison(run: Run) -> Outcome:
    n, reps = (300, 2) if run.quick else (2000, 10)
    problems = six(lambda key: run.rng("data", key), n)
    budgets = (0.5,) if run.quick else (0.02, 0.5)
    rows: list[dict[str, Any]] = []
    for k, (rho, problem) in enumerate(itertools.product(budgets, problems)):
        key = f"{problem.name} {rho}"
        row: dict[str, Any] = {"problem": problem.name, "rho": rho}
        row["start"] = problem.excess(problem.start)
        some = {name: grid[:2] if run.quick else grid for name, grid in GRIDS.items()}
        tuning = partial(run.seed, key)
        for name, (excess, setting, _) in rivals(problem, rho, reps, some, tuning).items():
            row[name], row[f"{name}: steps, length in 1/L1, clip in L0"] = excess, setting
        row["kl"] = kl = constants(problem)
        seed = partial(run.seed, key, "adaptive")
        few = max(2, reps // 2)
        found, handed = methods(problem, rho, reps, few, seed, kl)
        row |= {name: float(np.mean(runs)) for name, runs in found.items()}
        row |= {f"{name}: handed over, of {few}": count for name, count in handed.items()}
        row["ratio"] = row["adaptive"] / min(row[name] for name in GRIDS)
        rows.append(row)
        run.progress(k + 1, len(budgets) * len(problems))
    verdict, remark = judged(rows)
    return Outcome({"rows": rows}, verdict, remark, panels(rows), True)


def judged(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Yes for both targets, in part for one of them, no for neither."""
    ratios = np.array([row["ratio"] for row in rows])
    plain = np.array([row["adaptive"] / row["noisy descent"] for row in rows])
    near, median = float(np.mean(ratios <= 1.25)), float(np.median(ratios))
    met = (near >= 0.8) + (median <= 1.0)
    others = ", ".join(
        f"{name} in {sum(row[name] < row['adaptive'] for row in rows)}"
        for name in METHODS
        if name != "adaptive"
    )
    remark = (
        f"Within 1.25 times the best rival in {near:.0%} of {len(rows)} cells, median ratio "
        f"{median:.2f}, worst {ratios.max():.3g}; better than unclipped noisy descent in "
        f"{sum(plain < 1.0)}. Of the library's own, better than adaptive descent: {others}. "
        f"{handed_over(rows)} "
        "The rivals' step numbers, step lengths and clips are tuned for each problem and "
        "budget on the exact excess risk, without charge; KL-Spider and the proximal point method "
        "run to their end, guarded ones may be handed over to adaptive descent; they "
        "have constants estimated on the data themselves; the adaptive algorithm has nothing."
    )
    return ("no", "in part", "yes")[met], remark


def panels(rows: list[dict[str, Any]]) -> list[Panel]:
    """One panel a budget, the methods' excess risk over the problems."""
    found = []
    for rho in sorted({row["rho"] for row in rows}):
        chosen = [row for row in rows if row["rho"] == rho]
        lines = {
            name + ", tuned" * (name in GRIDS): [row[name] for row in chosen]
            for name in (*GRIDS, "adaptive, clip=None", "adaptive", "KL-Spider", "proximal")
        }
        axes = {"title": f"rho = {rho:g}", "ylabel": "" if found else "mean excess risk"}
        found.append(Panel([row["problem"] for row in chosen], lines, axes, "y"))
    return found
