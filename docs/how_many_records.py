"""Write the tables of how-many-records.md: ``python docs/how_many_records.py`` (some minutes).

Forecasts are of ``dpfast.plan``, which sees no data; fits of simulated records check them, and
raise those that are too low.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import dpfast

PAGE = Path(__file__).with_name("how-many-records.md")

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
COEFFICIENTS = (2, 5, 10, 20)
LOSSES = ("least-squares", "log-cosh", "logistic")

#: Private intervals are at most so many times as wide as those without privacy.
RATIO = 1.25

#: Total width of an interval: effects of half of it can be told from none.
WIDTH = 0.2

#: Forecasts are checked by so many fits, and raised until their median is as narrow as asked;
#: beyond LARGEST records, where a forecast is exact to some percent, they stand.
FITS, LARGEST = 20, 60_000

#: Of the table of coverage: coefficients and epsilon, at the records of the first table.
CHECKED = ((2, 1.0), (5, 0.5), (5, 1.0), (5, 5.0), (10, 1.0), (20, 2.0), (20, 10.0))
CHECKS = 200


def budget(epsilon: float) -> float:
    return dpfast.GDP.within(dpfast.ApproxDP(epsilon, DELTA)).mu


def planned(loss: str, p: int, mu: float) -> dpfast.regression.Plan:
    return dpfast.plan(1_000_000, p, loss, privacy=mu)


def rounded(n: float) -> int:
    """Up, to two digits."""
    unit = 10 ** max(0, math.floor(math.log10(n)) - 1)
    return unit * math.ceil(n / unit)


def simulated(loss: str, n: int, p: int, mu: float, fits: int) -> tuple[float, float]:
    """Median width of the widest interval of a slope, and how often intervals hold the truth."""
    widths, hits = [], []
    for seed in range(fits):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, p - 1))
        y = rng.normal(size=n)  # of no slopes: intervals are to hold zero
        if loss == "logistic":
            y = (y > 0.0).astype(float)
        noise = dpfast.SeededNoise(seed)
        fit = dpfast.fit(X, y, loss, privacy=mu, noise=noise)
        ends = fit.conf_int()[1:]
        # intervals that a fit warns of are none
        widths.append(math.inf if fit.warnings else float(np.diff(ends).max()))
        hits.append(np.mean((ends[:, 0] <= 0.0) & (ends[:, 1] >= 0.0)))
    return float(np.median(widths)), float(np.mean(hits))


def raised(loss: str, n: int, p: int, mu: float, wanted: Callable[[int], float]) -> int:
    """From the forecast on, the first number of records whose intervals are measured narrow."""
    while n <= LARGEST and simulated(loss, n, p, mu, FITS)[0] > wanted(n):
        n = rounded(1.1 * n)
    return n


@cache
def records_for_ratio(loss: str, p: int, epsilon: float) -> int:
    """From how many records on intervals are at most RATIO times as wide as without privacy."""
    mu = budget(epsilon)
    plan = planned(loss, p, mu)
    slope = RATIO * float(plan.sampling_widths[1:].max()) * math.sqrt(plan.n)
    sizes = np.unique(np.rint(np.logspace(1.5, 8.0, 131)).astype(int))
    wide = np.flatnonzero(plan.curve(n=[int(n) for n in sizes]) > slope / np.sqrt(sizes))
    first = rounded(sizes[wide[-1] + 1]) if len(wide) else rounded(sizes[0])
    return raised(loss, first, p, mu, lambda n: slope / math.sqrt(n))


def records_for_width(loss: str, p: int, epsilon: float) -> int:
    """How many make intervals of WIDTH."""
    mu = budget(epsilon)
    first = rounded(dpfast.plan(None, p, loss, privacy=mu, width=WIDTH).n)
    return raised(loss, first, p, mu, lambda n: WIDTH)


def table(loss: str, ask: Callable[[str, int, float], int]) -> str:
    head = " | ".join(f"epsilon {epsilon:g} (mu {budget(epsilon):.3g})" for epsilon in EPSILONS)
    lines = [f"| coefficients | {head} |", "|---:|" + "---:|" * len(EPSILONS)]
    for p in COEFFICIENTS:
        cells = " | ".join(f"{ask(loss, p, epsilon):,}" for epsilon in EPSILONS)
        lines.append(f"| {p} | {cells} |")
    return "\n".join(lines)


def checked(p: int, epsilon: float) -> str:
    """A row: forecast and measured width beside that without privacy, and coverage."""
    n, mu = records_for_ratio("least-squares", p, epsilon), budget(epsilon)
    forecast = dpfast.plan(n, p, "least-squares", privacy=mu)
    alone = float(forecast.sampling_widths[1:].max())
    width, coverage = simulated("least-squares", n, p, mu, CHECKS)
    return (
        f"| {p} | {epsilon:g} | {n:,} | {forecast.width / alone:.2f} | {width / alone:.2f} | "
        f"{100 * coverage:.1f}% |"
    )


def simulation() -> str:
    head = "| coefficients | epsilon | records | forecast | measured | coverage |"
    rows = [checked(*case) for case in CHECKED]
    return "\n".join([head, "|---:|---:|---:|---:|---:|---:|", *rows])


def sections() -> dict[str, str]:
    found = {}
    for loss in LOSSES:
        found[f"{loss}, ratio"] = table(loss, records_for_ratio)
        found[f"{loss}, width"] = table(loss, records_for_width)
    return found | {"simulation": simulation()}


def filled(text: str, found: dict[str, str]) -> str:
    """The page with its tables between their marks replaced."""
    for name, body in found.items():
        mark = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end -->)", re.S)
        text, count = mark.subn(lambda match, body=body: f"{match[1]}{body}\n{match[2]}", text)
        assert count == 1, name
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), sections()), encoding="utf-8")
