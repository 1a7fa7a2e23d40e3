"""The demonstration: a private wage regression on census microdata, beside the non-private one.

Log weekly income on years of education, years of experience and their square (Mincer 1974), in the
columns' own units: nothing is declared, and where the columns lie is bought inside the total.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpfast
from dpfast.data.files.private_folder import any_folder, replacing
from dpfast.datasets import Table, load_census2000
from dpfast.inference.shown.digits import short_number

NAMES = ("education", "experience", "exper. squared")
PLOT_FILE = "demo-census2000.png"


def design(census: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariates and response as they came."""
    experience = census["experience"]
    return np.column_stack([census["education"], experience, experience**2]), census["log_wage"]


def run(
    mu: float = 1.0,
    *,
    seed: int | None = None,
    plot: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dpfast.Fit:
    """Fit, print and plot; return the private fit."""
    budget = dpfast.GDP(mu)
    noise = None if seed is None else dpfast.SeededNoise(seed)
    census = load_census2000()
    X, y = design(census)
    records = dpfast.records(X, y, names=NAMES)
    print(_introduction(len(census)), end="\n\n")

    start = time.perf_counter()
    fit, nonprivate_fit = dpfast.fit, dpfast.nonprivate_fit  # lazy: this loads SciPy
    import_seconds = time.perf_counter() - start
    start = time.perf_counter()
    private = fit(records, None, "least-squares", privacy=budget, noise=noise, progress=progress)
    private_seconds = time.perf_counter() - start
    start = time.perf_counter()
    nonprivate = nonprivate_fit(records, None, "least-squares")
    nonprivate_seconds = time.perf_counter() - start

    print(private.summary(), end="\n\n")
    print(side_by_side(private, nonprivate), end="\n\n")
    print(ledger_text(private), end="\n\n")
    print(
        f"time: private fit with intervals {1e3 * private_seconds:.1f} ms, "
        f"non-private fit {1e3 * nonprivate_seconds:.1f} ms "
        f"(loading SciPy and the kernels before that: {1e3 * import_seconds:.0f} ms)"
    )
    if plot:
        print(_plot(private, nonprivate))
    return private


def _introduction(n: int) -> str:
    return f"""\
dpfast {dpfast.__version__}: a private wage regression
{n:,} persons aged 25 to 64, United States Census 2000 (table census2000)

  log(weekly income) ~ 1 + education + experience + experience squared

Years of education and of experience as they came, ordinary least squares.  Nothing is declared:
where the columns lie and how long scores are is bought inside the total."""


def side_by_side(private: Any, nonprivate: Any, level: float = 0.95) -> str:
    """Estimates and intervals of both fits in one table."""
    width = max(len(name) for name in private.names)
    share = f"{100 * level:g}%"
    lines = [
        f"{'':{width}}  {'PRIVATE - may be published':^34}  "
        f"{'NOT PRIVATE - could not be published':^36}",
        f"{'':{width}}  {'estimate':>10} {f'{share} interval':>23}  "
        f"{'estimate':>12} {f'{share} interval':>23}",
    ]
    rows = zip(
        private.names,
        private.params,
        np.asarray(private.conf_int(level)),
        nonprivate.params,
        np.asarray(nonprivate.conf_int(level)),
        strict=True,
    )
    for name, ours, (low, high), theirs, (their_low, their_high) in rows:
        lines.append(
            f"{name:{width}}  {short_number(ours):>10} {_interval(low, high):>23}  "
            f"{short_number(theirs):>12} {_interval(their_low, their_high):>23}"
        )
    rule = "-" * max(len(line) for line in lines)
    return "\n".join([rule, *lines[:2], rule, *lines[2:], rule])


def _interval(low: float, high: float) -> str:
    return f"[{short_number(low)}, {short_number(high)}]"


def ledger_text(private: Any) -> str:
    """What was bought with which share of the budget, releases of one kind together."""
    guarantee = private.privacy
    kinds = [
        (label, [mu for _, mu in entries])
        for label, entries in groupby(guarantee.entries, key=lambda entry: entry[0])
    ]
    lines = [
        "Budget ledger (Gaussian DP: squares of mu add)",
        f"  {'released':28} {'times':>5} {'mu together':>12} {'share':>8}",
    ]
    kinds.append(("total", [mu for _, mu in guarantee.entries]))
    for label, spends in kinds:
        together = math.sqrt(math.fsum(mu * mu for mu in spends))
        share = 100 * (together / guarantee.mu) ** 2
        lines.append(f"  {label:28} {len(spends):5} {together:12.4f} {share:7.1f}%")
    lines.append(f"  {'granted':28} {'':5} {guarantee.mu:12.4f}")
    return "\n".join(lines)


def _plot(private: Any, nonprivate: Any) -> str:
    """Slopes, each on a scale of its own: on one of them only the largest would show."""
    from dpfast.plots import coefficient_plot

    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "plot: Matplotlib is not installed; `pip install 'dpfast[plot]'` adds it"
    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    figure.suptitle("Wage equation, US Census 2000")
    fits = {"private": private, "not private (could not be published)": nonprivate}
    slopes = private.names[1:]
    panels = figure.subplots(len(slopes), squeeze=False)[:, 0]
    for name, panel in zip(slopes, panels, strict=True):
        coefficient_plot(fits, names=[name], ax=panel)
        if panel is not panels[-1]:
            panel.set_xlabel("")
        if panel is not panels[0]:
            panel.get_legend().remove()
    with any_folder(os.curdir) as folder, replacing(folder, PLOT_FILE) as file:
        figure.savefig(file, format="png", dpi=150)
    return f"plot: {PLOT_FILE}"
