"""One problem at one budget: tuned rivals and the library's methods, which are told nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dpfast
from bench.figures.paper2.problems import Problem
from bench.figures.paper2.rivals import Setting, tuned
from dpfast.nonconvex import KL
from dpfast.optimize import Adaptive
from dpfast.papers import Proximal, Spider

__all__ = ["METHODS", "constants", "handed_over", "methods", "rivals"]

#: Of the library; none is tuned.
METHODS: dict[str, Any] = {
    "adaptive": Adaptive,
    "adaptive, clip=None": lambda: Adaptive(clip=None),
    "KL-Spider": Spider,
    "proximal": Proximal,
    "KL-Spider, guarded": lambda: Spider(guard=True),
    "proximal, guarded": lambda: Proximal(guard=True),
}

#: In the remark of a guarded run that adaptive descent finished.
HANDED_OVER = "adaptive descent had the remaining budget"


def rivals(
    problem: Problem,
    rho: float,
    reps: int,
    grids: dict[str, list[Setting]],
    seed: Callable[[str], int],
) -> dict[str, tuple[float, Setting, list[float]]]:
    """Of each rival, tuned on the exact risk: mean excess, setting, and scores of its grid."""
    return {name: tuned(problem, name, rho, reps, seed(name), grids[name]) for name in grids}


def constants(problem: Problem) -> KL:
    """Exact constants of the KL condition, or those estimated on the data themselves."""
    if problem.kl is not None:
        return problem.kl
    start = list(problem.start)
    return dpfast.nonconvex.estimate_kl(problem.X, problem.y, problem.objective, start=start).kl


def methods(
    problem: Problem, rho: float, reps: int, few: int, seed: Callable[[int], int], kl: KL
) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Excess of the runs of each method, and how many of the guarded ones were handed over.

    There are ``reps`` runs of adaptive descent, ``few`` of the others.
    """
    handed_over = {name: 0 for name in METHODS if name.endswith("guarded")}

    def excess(name: str, method: Any, rep: int) -> float:
        result = problem.minimised(rho, seed(rep), method(), kl)
        if name in handed_over:
            handed_over[name] += any(HANDED_OVER in remark for remark in result.warnings)
        return float(problem.excess(np.asarray(result.params)))

    found = {
        name: [excess(name, method, r) for r in range(reps if name.startswith("adaptive") else few)]
        for name, method in METHODS.items()
    }
    return found, handed_over


def handed_over(rows: list[dict[str, Any]]) -> str:
    """Say how many of the guarded runs adaptive descent finished."""
    counts = {
        name: sum(v for row in rows for k, v in row.items() if k.startswith(f"{name}, guarded: "))
        for name in ("KL-Spider", "proximal")
    }
    runs = sum(
        int(k.rsplit(" ", 1)[1])
        for row in rows
        for k in row
        if k.startswith("KL-Spider, guarded: ")
    )
    parts = " and ".join(f"{count} of {name}" for name, count in counts.items())
    return f"Of {runs} guarded runs of each, {parts} were handed over."
