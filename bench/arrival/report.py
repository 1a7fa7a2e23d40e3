"""The grid: fits of every cell, kept one file a cell, and the table of what they say."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import dpfast
from bench.arrival.designs import Cell, simulate
from bench.arrival.fits import one_shot
from bench.arrival.grid import grid_cells
from bench.arrival.rules import (
    COVERAGE,
    HELPS,
    LEVEL,
    TOTAL_FROM,
    Fits,
    Verdict,
    coverage_of,
    judge,
    least_fits,
)
from bench.provenance import keep
from dpfast.errors import NotConverged
from tests.flat import flat

__all__ = ["kept", "measure", "run_grid"]

#: Fits of a cell that is repeated, and of those that also had Newton's fixed steps.
REPEATED, BESIDE = 4_000, 200

#: Entries of a table from which on there is time for fewer fits: two in five, one in eight of
#: those that are repeated, and one in twenty of a million records.
LARGE_TABLE = 50_000

#: Newton's fixed steps take too long on more records.
BESIDE_UNTIL = 25_000


def measure(cell: Cell, seeds: Sequence[int], beside: int = 0) -> Fits:
    """Fits with these seeds, the first ``beside`` of them with Newton's fixed steps as well."""
    rows: list[tuple[Any, ...]] = []
    scale: Any = None if cell.loss == "logistic" else cell.scale
    if cell.interval is not None:
        scale = dpfast.FreeScale(*cell.interval)
    own, p = crc32(repr(cell).encode()), cell.p
    for seed in seeds:
        X, y, truth = simulate(np.random.default_rng([own, seed]), cell, **dict(cell.options))
        try:
            exact = dpfast.nonprivate_fit(X, y, dpfast.Objective(cell.loss, scale=scale))
        except NotConverged:
            continue
        if not (exact.bse < 1e3).all():
            continue
        options: dict[str, Any] = {"privacy": cell.mu, "scale": scale, "threads": 1}
        options["standardize"] = False  # the units of the designs are public
        noise_seed = own % 2**31 + 10_000 * seed
        before = time.process_time()
        fit = flat(dpfast.fit)(X, y, cell.loss, noise=dpfast.SeededNoise(noise_seed), **options)
        interval = fit.conf_int()
        spent = time.process_time() - before
        around, errors = exact.conf_int(), exact.bse[:p]

        def squared(difference: Any, errors: Any = errors) -> float:
            return float(np.mean((difference[:p] / errors) ** 2))

        newton, newton_covered = math.nan, math.nan
        if len(rows) < beside:
            noise = dpfast.SeededNoise(noise_seed)
            old = flat(dpfast.fit)(X, y, cell.loss, noise=noise, method="newton", **options)
            newton, limits = squared(old.params - truth), old.conf_int()[:p]
            inside = (limits[:, 0] <= truth[:p]) & (truth[:p] <= limits[:, 1])
            newton_covered = float(inside.mean())
        rows.append(
            (
                (interval[:, 0] <= truth) & (truth <= interval[:, 1]),
                (around[:, 0] <= truth) & (truth <= around[:, 1]),
                bool(fit.warnings),
                any(not any(help in text for help in HELPS) for text in fit.warnings),
                squared(fit.params - exact.params),
                squared(one_shot(X, y, cell, scale, exact.params)),
                squared(fit.params - truth),
                squared(exact.params - truth),
                float(np.mean(np.diff(interval[:p]) / np.diff(around[:p]))),
                newton,
                newton_covered,
                1e3 * spent,
            )
        )
    if not rows:
        rows = [(np.zeros(p, bool), np.zeros(p, bool), True, False, *(8 * [math.nan]))]
    return Fits(*(np.array(column) for column in zip(*rows, strict=True)))


def kept(cell: Cell, first: int, fits: int, beside: int, cache: Path) -> Fits:
    """From the cache, or measured and kept there."""
    key = crc32(repr((cell, first, fits, beside)).encode())
    name = f"{cell.name} {cell.loss} {cell.n} {cell.p} {key:08x}.npz".replace("/", "per")
    path = cache / name
    if not path.exists():
        found = measure(cell, range(first, first + fits), beside)
        half = path.with_suffix(".half.npz")
        np.savez(half, **found._asdict())
        half.replace(path)
    with np.load(path) as stored:
        return Fits(**{field: stored[field] for field in Fits._fields})


def large(cell: Cell) -> bool:
    return cell.n * cell.p > LARGE_TABLE


def fits_of(cell: Cell, fits: int) -> int:
    if cell.n >= 1_000_000:
        return max(1, fits // 20)
    return max(1, fits * 2 // 5) if large(cell) else fits


def measured(cells: list[Cell], fits: int, cache: Path) -> Iterator[tuple[Cell, Fits]]:
    """First round of every cell."""
    for cell in cells:
        beside = 0
        if TOTAL_FROM <= cell.n <= BESIDE_UNTIL:
            beside = BESIDE // 2 if large(cell) else BESIDE
        found = kept(cell, 0, fits_of(cell, fits), beside, cache)
        yield cell, found


def repeated(cell: Cell, fits: Fits, tests: int, cache: Path, most: int) -> tuple[Fits, Verdict]:
    """Other seeds where an observed coverage is below, or anything else is broken."""
    verdict = judge(cell, fits, tests)
    if not (verdict.below or verdict.broken) or most <= 0 or cell.n >= 1_000_000:
        return fits, verdict
    again = kept(cell, 100_000, most // 8 if large(cell) else most, 0, cache)
    fresh = judge(cell, again, tests)
    # what only the first round tests: the total error, beside Newton's steps
    total = tuple(said for said in verdict.broken if said.startswith("total"))
    return again, Verdict(fresh.broken + total, fresh.below)


HEAD = (
    "| design | loss | n | p | mu | fits | exact covers | unwarned cover | warned | warned cover "
    "| width | noise / one shot | total | Newton's | ms | broken |\n" + 16 * "|---" + "|"
)


def two(covered: Any, p: int) -> str:
    return " / ".join(f"{c:.3f}" for c in coverage_of(covered, p) if c == c) or "-"


def line(cell: Cell, fits: Fits, verdict: Verdict) -> str:
    """A row of the table."""
    p, silent = cell.p, ~fits.warned
    own = fits.exact.mean()
    paired = np.isfinite(fits.newton)
    newton = (
        math.sqrt(fits.newton[paired].mean() / fits.exact[paired].mean()) if paired.any() else 0
    )
    low = ", below" if verdict.below and not verdict.broken else ""
    return (
        f"| {cell.name}{', free scale' if cell.interval else ''} | {cell.loss} | {cell.n:,} | {p} "
        f"| {cell.mu:.3g} | {len(silent):,} | {two(fits.exact_covered, p)} "
        f"| {two(fits.covered[silent], p)} | {fits.warned.mean():.2f} "
        f"| {two(fits.covered[fits.warned], p)} | {np.median(fits.width):.2f} "
        f"| {math.sqrt(fits.noise.mean() / fits.shot.mean()):.2f} "
        f"| {math.sqrt(fits.total.mean() / own):.2f} | {f'{newton:.2f}' if newton else '-'} "
        f"| {np.median(fits.milliseconds):.1f} | {'; '.join(verdict.broken)}{low} |"
    )


def run_grid(fits: int, again: int, cache: Path, only: str, results: Path | None) -> None:
    """Every cell, then those below once more with other seeds; store the table where asked to."""
    cache.mkdir(parents=True, exist_ok=True)
    cells = [c for c in grid_cells() if only in f"{c.name} {c.loss}"]
    found = []
    for cell, first in measured(cells, fits, cache):
        found.append((cell, first))
        print(line(cell, first, judge(cell, first, len(cells))), flush=True)
    print("again:", flush=True)
    lines, broken, below, few = [], [], [], []
    for cell, first in found:
        final, verdict = repeated(cell, first, len(cells), cache, again)
        lines.append(line(cell, final, verdict))
        if final is not first:
            print(lines[-1], flush=True)
        name = (
            f"{cell.name}{', free scale' if cell.interval else ''} ({cell.loss}, n = {cell.n:,}, "
            f"p = {cell.p}, mu = {cell.mu:.3g})"
        )
        if verdict.broken:
            broken.append(f"- {name}: {'; '.join(verdict.broken)}")
        elif verdict.below:
            below.append(f"- {name}: {two(final.covered[~final.warned], cell.p)}")
        quiet = final.covered[~final.warned]
        judged = len(quiet) >= least_fits(len(final.warned))
        if len(quiet) and not judged and min(coverage_of(quiet, cell.p)) < COVERAGE:
            few.append(f"- {name}: {two(quiet, cell.p)} of {len(quiet)}")
    if results is not None:
        keep(results, text(fits, again, lines, broken, below, few), __file__)


def text(
    fits: int,
    again: int,
    lines: list[str],
    broken: list[str],
    below: list[str],
    few: list[str],
) -> str:
    """The stored report."""
    return (
        "# The grid: no unwarned fit misses\n\n"
        f"`python -m bench.arrival --grid --fits {fits} --again {again} --store`: {len(lines)} "
        f"cells, {fits} fits a cell ({fits * 2 // 5} of more than {LARGE_TABLE:,} entries, "
        f"{fits // 20} of a million records), designs and seeds that nothing was tuned to. "
        f"Cells whose observed coverage of unwarned fits is below {COVERAGE} "
        f"(intercept, or slopes together), or that break another rule, have been run again with "
        f"{again:,} other fits ({again // 8:,} of large tables), and those are shown and "
        f"judged. Every rule is tested at {LEVEL:g} over the whole grid: coverage by exact "
        "binomial tests (slopes: of as many independent intervals as the spread between fits "
        "says), the noise over one shot and the total error (over that of Newton's fixed steps, "
        "paired) by "
        "their means. Total: error about the truth over that of the exact fit. Widths are those "
        "of the exact fit's intervals. Coverages: intercept / slopes.\n\n"
        f"## Cells that break a rule: {len(broken)}\n\n" + "\n".join(broken) + "\n\n"
        f"## Observed below {COVERAGE}, but not significantly: {len(below)}\n\n"
        + "\n".join(below)
        + "\n\n## Too few unwarned fits to judge, of which fewer are covered: "
        f"{len(few)}\n\nWhere most fits are warned of, the few others are those that noise made "
        "look better than they are.\n\n"
        + "\n".join(few)
        + "\n\n## All cells\n\n"
        + "\n".join([HEAD, *lines])
        + "\n"
    )
