"""The demonstration: a private wage regression on census microdata, beside the non-private one.

Log weekly income on education, experience and experience squared (Mincer 1974).  Every constant
below is *public*: chosen from general knowledge of wage equations, never from these data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpfast
from dpfast.datasets import Table, load_census2000

# Income is measured relative to 600 dollars a week, a round figure near the median of full-time
# workers that the Bureau of Labor Statistics published for 2000.  The optimiser starts at zero,
# that is at "everybody earns 600 dollars".
REFERENCE_WEEKLY_INCOME = 600.0
# Twelve years of schooling are a high-school diploma and four more a college degree.
EDUCATION_CENTRE, EDUCATION_UNIT = 12.0, 4.0
# A working life lasts about fifty years: centred in its middle, experience becomes about +-1.
EXPERIENCE_CENTRE, EXPERIENCE_UNIT = 25.0, 20.0
# Residual standard deviations of wage equations have been 0.5 to 0.7 log points for decades.
# A wrong value costs efficiency, not validity: neither privacy nor coverage rests on it.
RESIDUAL_SCALE = 0.6
# With these units hardly anybody's row (1, education, experience, experience^2) is longer than 2;
# whoever is gets a weight below one.
WEIGHT_RADIUS = 2.0

NAMES = ("education (4y)", "experience (20y)", "exper. squared")
PLOT_FILE = "demo-census2000.png"


def design(census: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Covariates and response in public units."""
    education = (census["education"] - EDUCATION_CENTRE) / EDUCATION_UNIT
    experience = (census["experience"] - EXPERIENCE_CENTRE) / EXPERIENCE_UNIT
    X = np.column_stack([education, experience, experience**2])
    return X, census["log_wage"] - math.log(REFERENCE_WEEKLY_INCOME)


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
    options: dict[str, Any] = {
        "scale": RESIDUAL_SCALE,
        "weights": dpfast.Mallows(WEIGHT_RADIUS),
        "names": NAMES,
    }
    print(_introduction(len(census)), end="\n\n")

    start = time.perf_counter()
    fit, nonprivate_fit = dpfast.fit, dpfast.nonprivate_fit  # lazy: this loads SciPy
    import_seconds = time.perf_counter() - start
    start = time.perf_counter()
    private = fit(X, y, "log-cosh", privacy=budget, noise=noise, progress=progress, **options)
    private_seconds = time.perf_counter() - start
    start = time.perf_counter()
    nonprivate = nonprivate_fit(X, y, "log-cosh", **options)
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

  log(weekly income / {REFERENCE_WEEKLY_INCOME:g} dollars)
      ~ 1 + education + experience + experience squared

  education  = (years of education - {EDUCATION_CENTRE:g}) / {EDUCATION_UNIT:g}
  experience = (years of experience - {EXPERIENCE_CENTRE:g}) / {EXPERIENCE_UNIT:g}
  loss log-cosh with public scale {RESIDUAL_SCALE:g}; Mallows weights with radius {WEIGHT_RADIUS:g}

All of these constants are public: chosen from general knowledge, not from these data."""


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
            f"{name:{width}}  {ours:10.4f} {f'[{low:.4f}, {high:.4f}]':>23}  "
            f"{theirs:12.4f} {f'[{their_low:.4f}, {their_high:.4f}]':>23}"
        )
    rule = "-" * max(len(line) for line in lines)
    return "\n".join([rule, *lines[:2], rule, *lines[2:], rule])


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
    from dpfast.plots import coefficient_plot

    try:
        figure = coefficient_plot(
            {"private": private, "not private (could not be published)": nonprivate},
            title="Wage equation, US Census 2000",
        )
    except ImportError:
        return "plot: Matplotlib is not installed; `pip install 'dpfast[plot]'` adds it"
    figure.savefig(PLOT_FILE, dpi=150)
    return f"plot: {PLOT_FILE}"
