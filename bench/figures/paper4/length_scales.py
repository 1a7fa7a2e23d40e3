"""Figure 2, left block, and Figure 5: length-scales of a Gaussian process regression, d = 15."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import dpfast
from bench.figures.paper4.problems import (
    PRINTED,
    GaussianProcessRegression,
    mean_and_error,
    seeded,
    settled,
    values_along,
)
from bench.figures.paper4.rivals import nonprivate_gibo
from bench.figures.runner import Outcome, Panel, Run, declared
from dpfast.bayesopt import Tuning


def replications(
    run: Run, cases: dict[Any, Callable[[GaussianProcessRegression, Any, int], Tuning]]
) -> dict[Any, list[tuple[GaussianProcessRegression, Tuning]]]:
    """Every case on the same problems and starts; case -> (problem, result) per replication."""
    count = 2 if run.quick else 10
    found: dict[Any, list[tuple[GaussianProcessRegression, Tuning]]] = {case: [] for case in cases}
    for replication in range(count):
        for number, (case, search) in enumerate(cases.items()):
            rng = run.rng(replication)
            small = {"d": 5, "n_train": 60, "n_valid": 200} if run.quick else {}
            problem = GaussianProcessRegression(rng, **small)
            start = rng.uniform(-2.0, 2.0, size=problem.d)
            result = search(problem, start, run.seed(replication, case))
            found[case].append((problem, result))
            run.progress(replication * len(cases) + number + 1, count * len(cases))
    return found


def printed(problem: Any, start: Any, seed: int, **options: Any) -> Tuning:
    """The paper's recipe."""
    chosen: dict[str, Any] = {"privacy": 1.0, "clip": 3.0, "steps": 25, "noise_variance": 0.05**2}
    if "batch" not in options:
        chosen |= {"threshold": 0.5 / problem.d, "batch": problem.d + 1}
    return dpfast.tune(
        problem.losses, problem.bounds, n_records=problem.n, noise=seeded(seed),
        **settled(PRINTED | chosen | options | {"start": start}),
    )  # fmt: skip


def finals(pairs: list[tuple[GaussianProcessRegression, Tuning]]) -> list[float]:
    return [problem.value(result.theta) for problem, result in pairs]


def paths(pairs: list[tuple[GaussianProcessRegression, Tuning]]) -> list[Any]:
    return [values_along(problem, result.iterates) for problem, result in pairs]


def along(curves: dict[str, Any]) -> Panel:
    """Losses along the search."""
    steps = range(len(next(iter(curves.values()))[0]))
    return Panel(steps, curves, {"xlabel": "step", "ylabel": "validation loss"}, "y")


@declared("paper4/figure-2-bias")
def figure_2_bias(run: Run) -> Outcome:
    levels = (0.5, 4.0) if run.quick else (0.3, 0.5, 2.0, 5.0, 10.0)
    found = replications(
        run,
        {
            level: lambda problem, start, seed, level=level: printed(
                problem, start, seed, threshold=min(1.0, level / problem.d)
            )
            for level in levels
        },
    )
    losses = {level: finals(pairs) for level, pairs in found.items()}
    counts = {
        level: [result.n_evaluations for _, result in pairs] for level, pairs in found.items()
    }
    curves = {level: paths(pairs) for level, pairs in found.items()}
    mean = [float(np.mean(losses[level])) for level in levels]
    used = [float(np.mean(counts[level])) for level in levels]
    first, second = losses[levels[0]], losses[levels[1]]
    difference, error = mean_and_error(np.subtract(first, second)[:, None])
    alike = abs(difference[0]) < max(3.0 * error[0], 0.1 * mean[0])
    fewer = all(a >= b for a, b in pairwise(used))
    # losses are skewed: ratios on the same problems
    ratios = np.log(np.divide(losses[levels[-1]], losses[levels[0]]))
    rise, rise_error = mean_and_error(ratios[:, None])
    worse = rise[0] > 2.0 * rise_error[0]
    remark = (
        f"evaluations {[round(value) for value in used]} and final losses "
        f"{[round(value, 4) for value in mean]} for bounds {levels}; from the lowest to the "
        f"highest bound they rise by a factor {np.exp(rise[0]):.2f} (paired, {rise[0]:.2f} +- "
        f"{rise_error[0]:.2f} in logarithms). The bound "
        "is on the remaining variance, prior included (as printed, line 4 would always accept one "
        "point)."
    )

    of_level = {level: f"bound {level:g}" for level in levels}
    panels = [
        along({of_level[level]: curves[level] for level in levels}),
        Panel(
            (), {of_level[level]: losses[level] for level in levels},
            {"xlabel": "evaluations", "ylabel": "final loss"}, "y",
            {label: {"linestyle": "", "marker": "o"} for label in of_level.values()},
            own_x={of_level[level]: counts[level] for level in levels},
        ),
    ]  # fmt: skip
    verdict = (
        "yes" if fewer and worse and alike else "in part" if fewer and (worse or alike) else "no"
    )
    data = {"bounds": levels, "losses": losses, "evaluations": counts}
    return Outcome(_texts(data), verdict, remark, panels)


@declared("paper4/figure-2-privacy")
def figure_2_privacy(run: Run) -> Outcome:
    levels = (0.1, 1.0, np.inf)

    def search(mu: float) -> Callable[[Any, Any, int], Any]:
        def one(problem: Any, start: Any, seed: int) -> Any:
            if mu < np.inf:
                return printed(problem, start, seed, privacy=mu)
            own = PRINTED | {"threshold": 0.5 / problem.d, "batch": problem.d + 1}
            return nonprivate_gibo(
                problem.losses, problem.bounds, n_records=problem.n, steps=25,
                **settled(own | {"start": start, "noise_variance": 0.05**2}),
            )  # fmt: skip

        return one

    found = replications(run, {mu: search(mu) for mu in levels})
    curves = {mu: paths(pairs) for mu, pairs in found.items()}
    ends = {mu: [float(curve[-1]) for curve in curves[mu]] for mu in levels}
    mean = [float(np.mean(ends[mu])) for mu in levels]
    gap, error = mean_and_error(np.subtract(ends[0.1], ends[np.inf])[:, None])
    ordered = mean[0] > mean[1] > mean[2]
    remark = (
        f"final losses {[round(value, 4) for value in mean]} at mu = 0.1, 1 and infinity (exact "
        "gradients, no clipping)."
    )

    labels = {mu: f"mu = {mu:g}" if mu < np.inf else "not private" for mu in levels}
    panels = [along({labels[mu]: curves[mu] for mu in levels})]
    verdict = "yes" if ordered and gap[0] > 3.0 * error[0] else "in part" if ordered else "no"
    return Outcome(
        _texts({"mu": levels, "losses": ends, "curves": curves}), verdict, remark, panels
    )


@declared("paper4/figure-2-noise")
def figure_2_noise(run: Run) -> Outcome:
    levels = (0.0, 0.1) if run.quick else (0.0, 0.01, 0.1, 0.5, 1.0)
    steps = 5 if run.quick else 45

    def search(sigma: float) -> Callable[[Any, Any, int], Tuning]:
        def one(problem: Any, start: Any, seed: int) -> Tuning:
            problem.noise = sigma
            return printed(
                problem, start, seed, privacy=0.1, clip=1.0, steps=steps, batch=problem.d + 1,
                noise_variance=sigma**2,
            )  # fmt: skip

        return one

    found = replications(run, {sigma: search(sigma) for sigma in levels})
    ends = {sigma: finals(pairs) for sigma, pairs in found.items()}
    mean, _ = mean_and_error(np.array([ends[sigma] for sigma in levels]).T)
    drift, drift_error = mean_and_error(np.subtract(ends[levels[1]], ends[levels[0]])[:, None])
    rise, rise_error = mean_and_error(np.subtract(ends[levels[-1]], ends[levels[0]])[:, None])
    alike = abs(drift[0]) < max(3.0 * drift_error[0], 0.1 * mean[0])
    worse = rise[0] > 3.0 * rise_error[0]
    remark = (
        f"final losses {np.round(mean, 4).tolist()} at noise {levels}; paired differences from "
        f"none: {drift[0]:+.3f} +- {drift_error[0]:.3f} at {levels[1]:g} and {rise[0]:+.3f} +- "
        f"{rise_error[0]:.3f} at {levels[-1]:g}. The noise is one number per evaluation, added to "
        "the losses of all records (drawn per record it would average away)."
    )

    axes = {"xlabel": "standard deviation of the evaluation noise", "ylabel": "final loss"}
    rows = {"final loss": np.array([ends[sigma] for sigma in levels]).T}
    panels = [Panel([f"{sigma:g}" for sigma in levels], rows, axes)]
    verdict = "yes" if alike and worse else "in part" if alike or worse else "no"
    return Outcome(_texts({"sigma": levels, "losses": ends}), verdict, remark, panels)


@declared("paper4/figure-5")
def figure_5(run: Run) -> Outcome:
    assumed = (0.01, 1.0, 0.0001)

    def search(sigma: float) -> Callable[[Any, Any, int], Tuning]:
        def one(problem: Any, start: Any, seed: int) -> Tuning:
            problem.noise = 0.01
            fixed = {"noise_variance": sigma**2, "batch": problem.d + 1, "steps": 15}
            return printed(problem, start, seed, **fixed)

        return one

    found = replications(run, {sigma: search(sigma) for sigma in assumed})
    curves = {sigma: paths(pairs) for sigma, pairs in found.items()}
    ends = {sigma: [float(curve[-1]) for curve in curves[sigma]] for sigma in assumed}
    random = []
    for replication, (problem, result) in enumerate(found[assumed[0]]):
        rng = run.rng("random", replication)
        tried = rng.uniform(-2.0, 2.0, size=(result.n_evaluations, problem.d))
        random.append(min(problem.value(theta) for theta in tried))
    mean = {sigma: float(np.mean(ends[sigma])) for sigma in assumed}
    best = mean[0.01] <= 1.05 * min(mean.values())
    viable = mean[1.0] < float(np.mean(random))
    bad = mean[0.0001] > float(np.mean(random))
    remark = (
        f"final losses {mean[0.01]:.4f} (correct), {mean[1.0]:.4f} (too large), {mean[0.0001]:.4f} "
        f"(too small); best of as many random points, not private: {np.mean(random):.4f}."
    )

    panels = [along({f"assumed {sigma:g}": curves[sigma]}) for sigma in assumed]
    for panel in panels:
        panel.at = {"random search, not private": float(np.mean(random))}
    count = sum((best, viable, bad))
    verdict = "yes" if count == 3 else "in part" if count else "no"
    data = {"assumed": assumed, "losses": ends, "random search": random, "curves": curves}
    return Outcome(_texts(data), verdict, remark, panels)


def _texts(data: dict[str, Any]) -> dict[str, Any]:
    """Numbers as keys become text for JSON."""
    return {
        name: {str(key): value for key, value in entry.items()}
        if isinstance(entry, dict)
        else entry
        for name, entry in data.items()
    }
