"""Figure 1: a local search does not suffer from the dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

import dpfast
from bench.figures.paper4.problems import (
    PRINTED,
    GaussianProcessRegression,
    mean_and_error,
    seeded,
    settled,
)
from bench.figures.paper4.rivals import global_search
from bench.figures.runner import Outcome, Panel, Run, declared
from bench.rivals import literature

RANGE = (0.0, 4.0)  # squared errors of responses with standard deviation one


@declared("paper4/figure-1")
def figure_1(run: Run) -> Outcome:
    dimensions = (2, 6) if run.quick else (2, 5, 10, 15)
    replications, evaluations = (2, 20) if run.quick else (10, 100)
    methods = ("start", "DP-GIBO", "DP-GIBO as printed", "random search", "GP-UCB", "optimum")
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for count, d in enumerate(dimensions):
        rows: dict[str, list[float]] = {name: [] for name in methods}
        for replication in range(replications):
            rng = run.rng(d, replication)
            problem = GaussianProcessRegression(rng, d=d)
            start = rng.uniform(-2.0, 2.0, size=d)
            seed = run.seed("noise", d, replication)
            for name, theta in _searches(problem, start, seed, evaluations).items():
                rows[name].append(problem.value(theta))
            run.progress(count * replications + replication + 1, len(dimensions) * replications)
        for name in methods:
            found[name].append(rows[name])
    means = {name: mean_and_error(np.array(rows).T)[0] for name, rows in found.items()}
    worse = {name: float(means[name][-1] - means["optimum"][-1]) for name in methods}
    best = all(worse["DP-GIBO"] < worse[name] for name in ("random search", "GP-UCB"))
    flat = means["DP-GIBO"][-1] < 0.5 * min(means["random search"][-1], means["GP-UCB"][-1])
    remark = (
        f"at d = {dimensions[-1]} the excess over the optimum is {worse['DP-GIBO']:.3f} (DP-GIBO), "
        f"{worse['DP-GIBO as printed']:.3f} (as printed), {worse['random search']:.3f} (random "
        f"search), {worse['GP-UCB']:.3f} (GP-UCB). The baselines clip losses to [0, 4] and are "
        "calibrated to the same mu; the paper does not state its box, [-2, 2] per log length-scale "
        "is used."
    )

    panel = Panel(
        dimensions, {name: np.array(found[name]).T for name in methods},
        {"xlabel": "dimension d", "ylabel": "validation loss"}, "y",
        styles={"start": {"linestyle": "--"}, "optimum": {"linestyle": "--"}},
    )  # fmt: skip
    return Outcome(
        {"dimensions": dimensions, "losses": found},
        "yes" if best and flat else "in part" if best else "no",
        remark,
        [panel],
    )


def _searches(
    problem: GaussianProcessRegression, start: Any, seed: int, evaluations: int
) -> dict[str, Any]:
    bounds, n, d = problem.bounds, problem.n, problem.d
    common: dict[str, Any] = {"privacy": 1.0, "n_records": n, "noise": seeded(seed)}
    return {
        "start": start,
        "optimum": problem.truth,
        "DP-GIBO": dpfast.tune(
            problem.losses, bounds, clip=4.0, steps=20, **settled({"start": start}), **common
        ).theta,
        "DP-GIBO as printed": dpfast.tune(
            problem.losses, bounds, clip=3.0, steps=25, **common,
            **settled(
                PRINTED
                | {"threshold": min(1.0, 0.5 / d), "start": start, "noise_variance": 0.05**2}
            ),
        ).theta,
        "random search": literature.random_search(
            problem.losses, bounds, privacy=1.0, loss_range=RANGE, mean_trials=evaluations,
            seed=seed,
        ),
        "GP-UCB": global_search(
            problem.losses, bounds, loss_range=RANGE, evaluations=evaluations, start=start, mu=1.0,
            n_records=n, noise=seeded(seed),
        ),
    }  # fmt: skip
