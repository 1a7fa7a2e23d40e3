"""Forecasts beside fits: how far what a plan expects is from the median width of fits

Cells of the grid of ``bench.arrival`` whose scale is known to nobody, with nothing declared, by
least squares and by each cell's own loss.  *Like a public table*: expected by ``dpfast.plan`` with
a public table as pilot (another draw of the same design, of 4,000 rows), over the median of the
widest slope's interval in private fits; *from numbers alone*: from ``n``, ``p`` and ``mu`` (a
synthetic pilot, which is only right for covariates that are independent and normal).
Noise is seeded: a simulation.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

import dpfast
from bench.arrival.designs import Cell, simulate
from bench.arrival.grid import grid_cells
from bench.study import Block, study
from dpfast.errors import DpfastError

#: Rows of the public table; records of a cell at most, so that all take minutes; every so many-th.
PUBLIC, LARGEST, EVERY = 4000, 60_000, 7


def cells() -> Iterator[Cell]:
    """Some of every size, each by its own loss and by least squares."""
    found = [c for c in grid_cells() if c.interval is None and c.scale == 1.0 and c.p > 1]
    for cell in [c for c in found if c.n <= LARGEST][::EVERY]:
        yield cell
        if cell.loss != "logistic":
            yield cell._replace(loss="least-squares")


def median_width(cell: Cell, fits: int) -> tuple[float, float]:
    """Of the widest slope, and the share of fits that warned."""
    widths, warned = [], 0
    for seed in range(fits):
        X, y, _ = simulate(np.random.default_rng(seed), cell, **dict(cell.options))
        found = dpfast.fit(X, y, cell.loss, privacy=cell.mu, noise=dpfast.SeededNoise(seed))
        warned += bool(found.warnings)
        own = np.ptp(found.conf_int(), axis=1)[1:]
        widths.append(float(np.where(np.isnan(own), np.inf, own).max()))  # of what is left out
    return float(np.median(widths)), warned / fits


def forecasts(cell: Cell) -> tuple[float, float]:
    """Expected width of the widest slope, from a public table and from numbers alone."""
    public = cell._replace(n=PUBLIC)
    X, y, _ = simulate(np.random.default_rng(10**6), public, **dict(cell.options))
    rate = float(np.clip(np.mean(y), 0.001, 0.999)) if cell.loss == "logistic" else 0.5
    like = dpfast.plan(cell.n, loss=cell.loss, privacy=cell.mu, pilot=(X, y))
    alone = dpfast.plan(cell.n, cell.p, cell.loss, privacy=cell.mu, rate=rate)
    return like.width, alone.width


def measured(asked: argparse.Namespace) -> Iterator[Block]:
    ratios = []
    for cell in [*cells()][: 4 if asked.quick else None]:
        if asked.only not in f"{cell.name} {cell.loss}":
            continue
        try:
            expected = forecasts(cell)
            width, warned = median_width(cell, asked.runs)
        except DpfastError as error:
            yield f"{cell.name}, {cell.loss}, n = {cell.n:,}: {type(error).__name__}."
            continue
        like, alone = (1.0 if value == width else value / width for value in expected)
        ratios.append(like)
        yield {
            "design": cell.name, "loss": cell.loss, "n": cell.n, "p": cell.p, "mu": cell.mu,
            "n mu": round(cell.n * cell.mu), "like a public table": like,
            "from numbers alone": alone, "warned": warned,
        }  # fmt: skip
    off = np.abs(np.array(ratios) - 1.0)
    yield (
        f"Like a public table: within 10% in {np.mean(off <= 0.1):.0%} of {len(off)} cells (asked: "
        f"80%), within 25% in {np.mean(off <= 0.25):.0%}; the worst is "
        f"{max(ratios, key=lambda r: abs(np.log(r))):.2f} times."
    )


main = study("planned", measured, __doc__, runs=20)
