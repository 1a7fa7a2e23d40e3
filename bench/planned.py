"""Forecasts beside fits: how far what a plan expects is from the median width of fits.

    python -m bench.planned [--fits 20] [--only NAME] [--store]

Cells of the grid of ``bench.arrival`` whose scale is known to nobody, with nothing declared, by
least squares and by each cell's own loss.  *Expected*: of ``dpfast.plan`` with a public table as
pilot (another draw of the same design, of 4,000 rows) and from public numbers alone
(``n``, ``p`` and ``mu``; a synthetic pilot, which is only right for covariates that are
independent and normal), over the median of the widest slope's interval in private fits.  Noise is
seeded: a simulation.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import dpfast
from bench.arrival.designs import Cell, simulate
from bench.arrival.grid import grid_cells
from bench.stored import keep
from dpfast.errors import DpfastError

RESULTS = Path(__file__).parent / "results" / "planned.md"

#: Rows of the public table.
PUBLIC = 4000

#: Records of a cell at most, so that all take minutes; every so many-th cell.
LARGEST, EVERY = 60_000, 7

#: How near a forecast has to be, in most cells and in all.
NEAR, FAR, MOST = 0.10, 0.25, 0.8

HEAD = (
    "| design | loss | n | p | mu | n mu | like a public table | from numbers alone | warned |\n"
    + 9 * "|---"
    + "|"
)


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
    rng = np.random.default_rng(10**6)
    public = cell._replace(n=PUBLIC)
    X, y, _ = simulate(rng, public, **dict(cell.options))
    rate = float(np.clip(np.mean(y), 0.001, 0.999)) if cell.loss == "logistic" else 0.5
    like = dpfast.plan(cell.n, loss=cell.loss, privacy=cell.mu, pilot=(X, y))
    alone = dpfast.plan(cell.n, cell.p, cell.loss, privacy=cell.mu, rate=rate)
    return like.width, alone.width


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=20, help="a cell")
    parser.add_argument("--only", default="", help="cells whose name or loss contains this")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    lines, ratios = [HEAD], []
    print(HEAD, flush=True)
    for cell in cells():
        if options.only not in f"{cell.name} {cell.loss}":
            continue
        head = f"| {cell.name} | {cell.loss} | {cell.n:,} | {cell.p} | {cell.mu:.3g} "
        head += f"| {cell.n * cell.mu:,.0f} "
        try:
            expected = forecasts(cell)
            width, warned = median_width(cell, options.fits)
        except DpfastError as error:
            lines.append(f"{head}| {type(error).__name__} | | |")
        else:
            like, alone = (1.0 if value == width else value / width for value in expected)
            ratios.append(like)
            lines.append(f"{head}| {like:.2f} | {alone:.2f} | {warned:.2f} |")
        print(lines[-1], flush=True)
    off = np.abs(np.array(ratios) - 1.0)
    said = (
        f"Like a public table: within {NEAR:.0%} in {np.mean(off <= NEAR):.0%} of {len(off)} cells "
        f"(asked: {MOST:.0%}), within {FAR:.0%} in {np.mean(off <= FAR):.0%}; the worst is "
        f"{max(ratios, key=lambda r: abs(np.log(r))):.2f} times."
    )
    print(said)
    if options.store:
        text = f"# Forecasts beside fits\n\n{__doc__.partition('[--store]')[2].strip()}\n\n"
        command = f"`python -m bench.planned --fits {options.fits} --store`\n\n"
        keep(RESULTS, text + command + "\n".join([*lines, "", said]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
