"""Demonstration: a private wage regression on census microdata, beside the non-private one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpfast
from dpfast.datasets import Table, load_census2000
from dpfast.documents import any_folder, replacing

NAMES = ("education", "experience", "exper. squared")
#: Epsilon and delta of the demonstration.
BUDGET = (1.0, 1e-6)

PLOT_FILE = "demo-census2000.png"


def design(census: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return covariates and response in their own units."""
    experience = census["experience"]
    return np.column_stack([census["education"], experience, experience**2]), census["log_wage"]


def run(
    mu: float | None = None,
    *,
    seed: int | None = None,
    plot: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dpfast.Fit:
    """Fit, print and plot; return the private fit."""
    budget = BUDGET if mu is None else dpfast.GDP(mu)
    noise = None if seed is None else dpfast.SeededNoise(seed)
    census = load_census2000()
    X, y = design(census)
    records = dpfast.records(X, y, names=NAMES)
    print(_introduction(len(census), repr(BUDGET if mu is None else mu)), end="\n\n")

    start = time.perf_counter()
    fit, nonprivate_fit = dpfast.fit, dpfast.nonprivate_fit  # these names load SciPy, once
    import_seconds = time.perf_counter() - start
    start = time.perf_counter()
    private = fit(records, None, "least-squares", privacy=budget, noise=noise, progress=progress)
    private_seconds = time.perf_counter() - start
    start = time.perf_counter()
    nonprivate = nonprivate_fit(records, None, "least-squares")
    nonprivate_seconds = time.perf_counter() - start

    print(private.summary(), end="\n\n")
    fits = {"private": private, "not private": nonprivate}
    print(dpfast.compare(fits), end="\n\n")
    print(
        f"time: private fit with intervals {1e3 * private_seconds:.1f} ms, "
        f"non-private fit {1e3 * nonprivate_seconds:.1f} ms "
        f"(loading SciPy and the kernels before that: {1e3 * import_seconds:.0f} ms)"
    )
    if plot:
        print(_plot(private, nonprivate))
    return private


def _introduction(n: int, privacy: str) -> str:
    return f"""\
dpfast {dpfast.__version__}: a private wage regression
{n:,} persons aged 25 to 64, United States Census 2000 (table census2000)

  dpfast.fit("log_wage ~ education + experience + I(experience**2)", census, privacy={privacy})

Ordinary least squares in years of education and experience.  Nothing is declared: centres,
scales and the clipping bound are estimated with part of the budget."""


def _plot(private: Any, nonprivate: Any) -> str:
    """Plot each slope on its own scale: on a shared one only the largest would show."""
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
        coefficient_plot(fits, keep=name, ax=panel)
        if panel is not panels[-1]:
            panel.set_xlabel("")
        if panel is not panels[0]:
            panel.get_legend().remove()
    with any_folder(os.curdir) as folder, replacing(folder, PLOT_FILE) as file:
        figure.savefig(file, format="png", dpi=150)
    return f"plot: {PLOT_FILE}"
