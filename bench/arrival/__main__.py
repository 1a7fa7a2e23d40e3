"""Where fits arrive, where they do not, and whether those say so.

    python -m bench.arrival [--free] [--fits 200] [--only logistic] [--store]
    python -m bench.arrival --grid [--fits 500] [--again 4000] [--cache DIR] [--store]

Designs nobody tuned the optimisers to beside those somebody did: rare events, steep slopes, rare
dummies, correlated and heavy-tailed covariates, far starts, wrong public scales; with --free the
scale is estimated, within wide, narrow and wrong intervals.  Each cell has fits with the default
method and with Newton's fixed steps on the same data, beside the exact fit; errors are in its
standard errors, and the noise also relative to one gradient at the exact solution for the whole
budget (coefficients only).  Warned fits may miss; others have to cover.  With --grid some 280 cells
that nothing was tuned to, and the rules they have to keep; fits are kept one file a cell, so that a
run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.arrival.designs import Cell, cells, free_cells
from bench.arrival.fits import METHODS, Outcome, run
from bench.arrival.report import REPEATED, run_grid
from bench.provenance import keep

RESULTS = Path(__file__).parents[1] / "results" / "arrival.md"

HEAD = (
    "| design | loss | n | p | mu | noise (SE), Newton -> default | noise / one shot | total "
    "| coverage intercept / slopes / scale | warned | unwarned cover | ms |\n" + 12 * "|---" + "|"
)


def line(cell: Cell, found: dict[str, Outcome]) -> str:
    """A row of the table."""
    head = f"| {cell.name} | {cell.loss} | {cell.n:,} | {cell.p} | {cell.mu:.3g} "
    if not found:
        return head + "| the exact fit does not exist | | | | | | |"
    old, new = found.values()
    silent = "none"
    if new.n_unwarned:
        covered = shown(new.unwarned_intercept, new.unwarned_slopes, new.unwarned_scale)
        silent = f"{covered} of {new.n_unwarned}"
    before, after = (shown(o.intercept, o.slopes, o.scale) for o in (old, new))
    return head + (
        f"| {old.noise:.2f} -> {new.noise:.2f} | {old.shots:.2f} -> {new.shots:.2f} "
        f"| {old.total:.2f} -> {new.total:.2f} | {before} -> {after} "
        f"| {old.warned:.2f} -> {new.warned:.2f} | {silent} "
        f"| {old.milliseconds:.1f} -> {new.milliseconds:.1f} |"
    )


def shown(*coverages: float) -> str:
    return " / ".join(f"{c:.2f}" for c in coverages if c == c)


FEWER = " Where n is above 50,000 two in five fits were made, at 1,000,000 one in ten."


def fewer(fits: int, cell: Cell) -> int:
    """As many as there is time for."""
    if cell.n <= 50_000:
        return fits
    return max(1, fits * 2 // 5 if cell.n < 1_000_000 else fits // 10)


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and store it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=200, help="a cell")
    parser.add_argument("--free", action="store_true", help="cells with a scale to be estimated")
    parser.add_argument("--methods", nargs=2, default=METHODS, metavar="METHOD")
    parser.add_argument("--only", default="", help="cells whose name or loss contains this")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--grid", action="store_true", help="cells nothing was tuned to, and rules")
    parser.add_argument("--again", type=int, default=REPEATED, help="fits of cells run again")
    parser.add_argument("--cache", type=Path, default=Path(".arrival"), help="of the grid's fits")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args(arguments)
    if options.grid:
        results = RESULTS.with_name("arrival_grid.md") if options.store else None
        run_grid(options.fits, options.again, options.cache, options.only, results)
        return 0
    designs = free_cells() if options.free else cells()
    chosen = [c for c in designs if options.only in f"{c.name} {c.loss}"]
    lines = [HEAD]
    print(HEAD, flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        fits = [options.fits if c.interval is None else fewer(options.fits, c) for c in chosen]
        methods = [tuple(options.methods)] * len(chosen)
        found = pool.map(run, chosen, fits, methods)
        for cell, outcome in zip(chosen, found, strict=True):
            lines.append(line(cell, outcome))
            print(lines[-1], flush=True)
    if options.store:
        said = (
            f"# Where fits arrive\n\n`python -m bench.arrival{' --free' * options.free} "
            f"--fits {options.fits} --store`: "
            f"{options.fits} fits a cell; a coverage of .95 has a Monte Carlo error of "
            f"{math.sqrt(0.95 * 0.05 / options.fits):.3f} (intercept). Errors in standard "
            "errors of the exact fit, root mean square; one shot: one gradient at the exact "
            "solution for the whole budget; total: about the truth, over that of the exact fit. "
            "Warned fits have said that their intervals may not cover."
            f"{FEWER * options.free}\n\n"
        )
        results = RESULTS.with_name("arrival_scale.md") if options.free else RESULTS
        keep(results, said + "\n".join(lines) + "\n", __file__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
