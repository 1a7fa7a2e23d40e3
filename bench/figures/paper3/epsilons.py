"""Figures 4 and 5 of the paper: robust regression on its design, against epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.figures.paper3 import calls
from bench.figures.paper3.simulated import cases, ratio_to
from bench.figures.runner import Outcome, Run, declared

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)


def against_epsilon(run: Run, wanted: int | None) -> tuple[dict[str, Any], Any]:
    epsilons = (2.0, 8.0) if run.quick else EPSILONS
    n, d = (10_000, 5) if run.quick else (100_000, 10)
    methods = calls.ALL if wanted is None else calls.ONE
    found: dict[str, Any] = {"epsilons": epsilons, "n": n, "d": d}
    for norm in (1.0, 6.0):
        cells = (cases(run, n, d, norm, epsilon, wanted) for epsilon in epsilons)
        found[f"norm {norm:g}"] = calls.measured(methods, cells)
        run.progress(1 + (norm > 1.0), 2)

    entries = {f"|theta| = {x:g}": found[f"norm {x:g}"] for x in (1.0, 6.0)}
    return found, calls.panels(epsilons, "epsilon", "mean error", entries)


def at_each(found: Mapping[str, Any], norm: float, one: str, other: str) -> str:
    entry = found[f"norm {norm:g}"]
    every = range(len(found["epsilons"]))
    return ", ".join(f"{ratio_to(entry, one, other, at):.3g}" for at in every)


@declared("paper3/figure-4")
def figure_4(run: Run) -> Outcome:
    found, plot = against_epsilon(run, 0)
    worse = [
        ratio_to(found[f"norm {norm:g}"], name, calls.LOCAL, at) > 1.0
        for norm in (1.0, 6.0)
        for name in (calls.PERTURBED, calls.SGD)
        for at in range(len(found["epsilons"]))
    ]
    text = ". ".join(
        f"|theta| = {norm:g}: objective perturbation has "
        f"{at_each(found, norm, calls.PERTURBED, calls.LOCAL)} times the error of algorithm 5 and "
        f"{at_each(found, norm, calls.PERTURBED, calls.OURS)} times that of release_functional, "
        f"DP-SGD {at_each(found, norm, calls.SGD, calls.LOCAL)} times that of algorithm 5"
        for norm in (1.0, 6.0)
    )
    return Outcome(
        found,
        "yes" if all(worse) else "in part",
        f"At epsilon = {', '.join(f'{e:g}' for e in found['epsilons'])} (inf or 0: algorithm 5 "
        f"does not certify). {text}. {calls.barely(found['norm 1'])}.",
        plot,
        sharey=True,
    )


@declared("paper3/figure-5")
def figure_5(run: Run) -> Outcome:
    found, plot = against_epsilon(run, None)
    at = len(found["epsilons"]) - 2
    small, large = (
        ratio_to(found[f"norm {norm:g}"], calls.PERTURBED, calls.WHOLE, at) for norm in (1.0, 6.0)
    )
    text = ". ".join(
        f"|theta| = {norm:g}: objective perturbation has "
        f"{at_each(found, norm, calls.PERTURBED, calls.WHOLE)} times the error of algorithm 3, "
        f"{at_each(found, norm, calls.PERTURBED, calls.OUR_WHOLE)} times that of "
        f"release_parameter, DP-SGD {at_each(found, norm, calls.SGD, calls.PERTURBED)} times that "
        f"of objective perturbation, fit {at_each(found, norm, calls.FIT, calls.PERTURBED)} times"
        for norm in (1.0, 6.0)
    )
    competitive, degrades = small < 1.1, large > 1.1 * small
    return Outcome(
        found,
        "yes" if competitive and degrades else "in part" if competitive else "no",
        f"At epsilon = {', '.join(f'{e:g}' for e in found['epsilons'])}. {text}. "
        f"{calls.barely(found['norm 1'])}.",
        plot,
        sharey=True,
    )
