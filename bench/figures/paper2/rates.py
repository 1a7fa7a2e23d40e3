"""Excess risk against ``n sqrt(rho)/sqrt(d)`` on objectives whose kappa is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bench.figures.paper2.problems import Problem, radial
from bench.figures.runner import Outcome, Panel, Run, declared
from dpfast.optimize import Adaptive
from dpfast.papers import Proximal, Spider

#: Decades of the axis: 1.6.
AXIS = (20.0, 800.0)


def excesses(
    problem: Problem, method: Callable[[], Any], axis: np.ndarray, reps: int, run: Run, key: str
) -> np.ndarray:
    """Excess risk of each repetition at each point of the axis, shape (len(axis), reps)."""
    d = problem.objective.dimension
    found = np.empty((len(axis), reps))
    for i, t in enumerate(axis):
        rho = float((t * np.sqrt(d) / problem.n) ** 2)
        for r in range(reps):
            result = problem.minimised(rho, run.seed(key, i, r), method())
            found[i, r] = max(problem.excess(result.params), 1e-300)
    return found


def slope_of(axis: np.ndarray, found: np.ndarray) -> float:
    """Least-squares slope of log mean excess, with the sign of a rate."""
    x, y = np.log(axis), np.log(found.mean(axis=1))
    x = x - x.mean()
    return float(-(x @ y) / (x @ x))


def interval(axis: np.ndarray, found: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95% interval of the slope: repetitions are drawn again within each point."""
    reps = found.shape[1]
    draws = [
        slope_of(axis, np.take_along_axis(found, rng.integers(0, reps, size=found.shape), axis=1))
        for _ in range(400)
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def cases() -> list[tuple[str, float, Callable[[Problem], Callable[[], Any]]]]:
    """Label, kappa, settings for the problem."""

    def spider(problem: Problem) -> Callable[[], Any]:
        return lambda: Spider(excess=problem.excess(problem.start))

    def proximal(inner: Callable[[], Any] | None) -> Callable[[Problem], Callable[[], Any]]:
        return lambda problem: (
            lambda: Proximal(convexity=0.5, inner=None if inner is None else inner())
        )

    def adaptive(problem: Problem) -> Callable[[], Any]:
        return Adaptive

    found: list[tuple[str, float, Callable[[Problem], Callable[[], Any]]]] = []
    found += [("Spider", kappa, spider) for kappa in (4.0 / 3.0, 1.5, 2.0)]
    found += [("proximal, adaptive inside", kappa, proximal(Adaptive)) for kappa in (2.0, 3.0)]
    found += [("proximal, noisy descent inside", kappa, proximal(None)) for kappa in (2.0, 3.0)]
    found += [("adaptive", kappa, adaptive) for kappa in (4.0 / 3.0, 1.5, 2.0, 3.0)]
    return found


@declared("paper2/rates")
def rates(run: Run) -> Outcome:
    axis = np.geomspace(*AXIS, 3 if run.quick else 6)
    reps = 2 if run.quick else 12
    rows: list[dict[str, Any]] = []
    listed = cases()[::4] if run.quick else cases()
    for k, (label, kappa, settings) in enumerate(listed):
        problem = radial(kappa, run.rng("data", kappa), n=200)
        found = excesses(problem, settings(problem), axis, reps, run, f"{label} {kappa:.3f}")
        low, high = interval(axis, found, run.rng("bootstrap"))
        slope = slope_of(axis, found)
        row = {
            "method": label,
            "kappa": kappa,
            "slope": slope,
            "interval": [low, high],
            "theory": kappa,
            "relative error": slope / kappa - 1.0,
            "mean excess": found.mean(axis=1),
        }
        if label == "adaptive" and kappa <= 2.0:
            row["theory"] = 2.0 * kappa / (4.0 - kappa)
        rows.append(row)
        run.progress(k + 1, len(listed))

    named = [row for row in rows if row["method"] in ("Spider", "proximal, adaptive inside")]
    off = [row for row in named if abs(row["relative error"]) > 0.15]
    plain = [row for row in rows if "noisy descent" in row["method"]]
    remark = "; ".join(
        f"{row['method']} kappa={row['kappa']:.3g}: {row['slope']:.2f} "
        f"[{row['interval'][0]:.2f}, {row['interval'][1]:.2f}], theory {row['theory']:.2f}"
        for row in rows
    )
    if any(row["relative error"] < -0.15 for row in plain):
        remark += (
            ". With algorithm 4 inside, proximal point does not reach kappa > 2: the proof of "
            "theorem 2 bounds F(w_t*) from below by the target where it has assumed that of F(w_t) "
            "only, and an inner error of order d/(n^2 rho) is what remains; an inner optimiser "
            "whose noise shrinks with the gradient does reach it"
        )
    return Outcome(
        {"axis": axis, "rows": rows},
        "in part" if off or plain else "yes",
        remark,
        panels(axis, rows),
    )


def panels(axis: Any, rows: list[dict[str, Any]]) -> list[Panel]:
    """One panel a method, one line a kappa."""
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        lines = {
            f"$\\kappa$={row['kappa']:.3g}: {row['slope']:.2f} [{row['interval'][0]:.2f}, "
            f"{row['interval'][1]:.2f}]": row["mean excess"]
            for row in rows
            if row["method"] == name
        }
        axes = {"title": name, "xlabel": r"$n\sqrt{\rho}/\sqrt{d}$"}
        found.append(Panel(axis, lines, axes, "xy", legend={"title": "slope [95%]"}))
    found[0].axes["ylabel"] = "mean excess risk"
    return found
