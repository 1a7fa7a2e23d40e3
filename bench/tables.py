"""The call that users make, on tables: raw columns, nothing declared, every loss

A run fits a bootstrap sample of a table.  *Width*: of intervals over those of the same loss without
privacy, the median over slopes; *widest*: the widest slope's; *held*: how often intervals of the
bootstrap samples hold the table's own estimate, over slopes, and of the slope held least; *off*:
distance from the sample's own estimate, root mean square over slopes in its standard errors; *out*:
slopes left out by name.  A loss's line has medians over tables with n mu of at least 2,000, with
the worst fifth in brackets.
How much of what is cut off is bias, how flat counts begin and that octaves stand out on their own
were chosen with a look at these tables, all else without.  Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.public_tables import available, read, tables
from bench.study import Block, holds, study
from dpfast.arguments import Array

#: Most records of a run: bootstrap samples of larger tables are of so many.
MOST = 40_000

#: n mu from which on a table counts in its loss's line.
LEAST = 2000.0

#: Loss, and the group of its tables.
FITS: dict[str, tuple[Any, str]] = {
    "least squares": ("least-squares", "numbers"),
    "log-cosh": ("log-cosh", "numbers"),
    "huber": ("huber", "numbers"),
    "quantile": (dpfast.Quantile(0.75), "numbers"),
    "logistic": ("logistic", "labels"),
    "counts": ("poisson", "counts"),
}


class Cell(NamedTuple):
    """One table, loss and budget."""

    n: int
    p: int
    width: float
    widest: float
    held: float
    least: float
    off: float
    out: float
    warned: float


def exact(X: Array, y: Array, loss: Any, scale: float | None) -> Any:
    """The same loss without privacy, weights or clipping."""
    return dpfast.nonprivate_fit(X, y, dpfast.Objective(loss, scale=scale))


def with_scales(X: Array) -> tuple[Array, Array]:
    """Columns of mean 0 and deviation 1, by which exact fits are well conditioned; deviations."""
    spreads = X.std(axis=0)
    return (X - X.mean(axis=0)) / spreads, spreads


def cell(X: Array, y: Array, loss: Any, mu: float, runs: int) -> Cell:
    n, q = min(len(y), MOST), X.shape[1]
    Z, spreads = with_scales(X)
    linked = loss in ("poisson", "logistic")
    unit = 1.0 if linked else float(y.std())
    own: dict[float | None, Array] = {}
    found, warned = [], 0
    for seed in range(runs):
        rows = np.random.default_rng(seed).integers(0, len(y), n)
        records, noise = dpfast.records(X[rows], y[rows], threads=1), dpfast.SeededNoise(seed)
        fit = dpfast.fit(records, None, loss, privacy=mu, noise=noise)
        warned += bool(fit.warnings)
        scale = None if linked or loss == "least-squares" else fit._scale / unit
        sample = exact(Z[rows], y[rows] / unit, loss, scale)
        key = None if scale is None else round(math.log2(scale) * 8.0) / 8.0
        if key not in own:
            own[key] = exact(Z, y / unit, loss, None if key is None else 2.0**key).params[1:]
        interval = fit.conf_int()[1:] * (spreads / unit)[:, None]
        width = np.ptp(interval, axis=1) / np.ptp(sample.conf_int()[1:], axis=1)
        off = (fit.params[1:] * spreads / unit - sample.params[1:]) / sample.bse[1:]
        found.append([width, holds(interval, own[key]), off])
    wide, held, off = np.moveaxis(np.array(found, float), 1, 0)
    middle = np.median(np.where(np.isnan(wide), np.inf, wide), axis=0)  # left out is failed
    with np.errstate(all="ignore"):
        return Cell(
            n, q + 1, float(np.median(middle)), float(middle.max()), float(np.nanmean(held)),
            float(np.nanmin(np.nanmean(held, axis=0), initial=1.0)),
            float(np.sqrt(np.nanmean(off**2))), float(np.isnan(wide).mean()), warned / runs,
        )  # fmt: skip


def line(name: str, cells: list[Cell]) -> dict[str, Any]:
    """Medians over tables, and the worst fifth."""

    def both(values: list[float]) -> str:
        worst = np.quantile(values, 0.8, method="higher")
        return f"{np.median(values):.3g} ({worst:.3g})"

    held = [one.held for one in cells]
    return {
        "": name, "tables": len(cells), "width": both([one.width for one in cells]),
        "widest slope": both([one.widest for one in cells]),
        "held": f"{np.mean(held):.3f} ({min(held):.2f})", "off": both([one.off for one in cells]),
        "warned": np.mean([one.warned for one in cells]),
        "with a slope left out": sum(one.out > 0.0 for one in cells),
    }  # fmt: skip


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    lines = []
    for mu in asked.budgets[: 1 if asked.quick else None]:
        for name, (loss, group) in FITS.items():
            cells = []
            for one in [*available(tables(group))][: 1 if asked.quick else None]:
                if asked.only in ("", name, one.name):
                    cells.append(cell(*read(one), loss, mu, asked.runs))
                    head = {"loss": name, "table": one.name, "mu": mu}
                    yield head | cells[-1]._asdict()
            cells = [one for one in cells if one.n * mu >= LEAST]
            lines += [line(f"{name}, mu = {mu:g}", cells)] if cells else []
    yield from lines


main = study("tables", measured, __doc__, runs=40, budgets=(1.0, 0.29, 0.237))
