"""Rules that every cell of the grid has to keep, each an exact test or one of means.

All tests of a rule together find fault with a grid that keeps it once in a thousand.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bench.arrival.designs import Cell

__all__ = [
    "COVERAGE",
    "LEVEL",
    "Fits",
    "Verdict",
    "coverage_of",
    "covers_less",
    "judge",
    "least_fits",
]

Array = NDArray[np.float64]

#: Least coverage of unwarned fits; most warned ones where coverage and total error are fine.
COVERAGE, WARNED, FINE_ERROR = 0.93, 0.1, 1.2

#: Noise over that of one gradient for the whole budget, up to so many records.
ONE_SHOT, ONE_SHOT_OF_JOINT, ONE_SHOT_UNTIL = 1.10, 1.20, 50_000

#: Total error over that with Newton's fixed steps, from so many records on, where those cover.
TOTAL, TOTAL_FROM = 1.03, 5_000

#: Unwarned fits below which nothing is said of them (of fewer fits than 200, two in five).
LEAST_FITS = 200

#: Of one rule over the whole grid.
LEVEL = 1e-3

#: What a warning has to name one of.
HELPS = "records", "budget", "covariates", "FreeScale", "start nearer"


class Fits(NamedTuple):
    """Of each fit: what is covered, squared errors in the exact fit's standard errors."""

    covered: NDArray[np.bool_]
    exact_covered: NDArray[np.bool_]
    warned: NDArray[np.bool_]
    helpless: NDArray[np.bool_]  # warned of without a word on what would help
    noise: Array
    shot: Array
    total: Array
    exact: Array
    width: Array  # of intervals, relative to the exact fit's
    newton: Array  # total error of Newton's fixed steps; NaN where they were not run
    newton_covered: Array
    milliseconds: Array

    def joined(self, more: Fits) -> Fits:
        return Fits(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


class Verdict(NamedTuple):
    """Rules broken, in words; and whether an observed coverage is below (to be repeated)."""

    broken: tuple[str, ...]
    below: bool


def coverage_of(covered: Array, p: int) -> tuple[float, float]:
    """Of the intercept and of the slopes together."""
    if not len(covered):
        return math.nan, math.nan
    slopes = covered[:, 1:p]
    return float(covered[:, 0].mean()), float(slopes.mean()) if slopes.size else math.nan


def independent(covered: Array) -> float:
    """Independent intervals that tell as much as these: those of one fit may go together."""
    fits, q = covered.shape
    mean = float(covered.mean())
    binomial = mean * (1.0 - mean) / q
    between = float(covered.mean(axis=1).var(ddof=1)) if fits > 1 else 0.0
    return fits * q * (min(1.0, binomial / between) if between > 0.0 else 1.0)


def covers_less(covered: Array, rate: float, level: float) -> bool:
    """Whether coverage is below a rate by an exact binomial test."""
    trials = independent(covered)
    return bool(stats.binom.cdf(round(covered.mean() * trials), round(trials), rate) < level)


def above(values: Array, level: float) -> bool:
    """Whether a mean is above zero."""
    spread = values.std(ddof=1) / math.sqrt(len(values))
    return bool(values.mean() > stats.norm.isf(level) * max(spread, 1e-300))


def least_fits(n_fits: int) -> float:
    """Unwarned, or warned, fits of so many from which on their coverage is judged."""
    return min(LEAST_FITS, 0.4 * n_fits)


def judge(cell: Cell, fits: Fits, tests: int) -> Verdict:
    """What a cell breaks, each rule at a level that is shared by so many tests."""
    level, p = LEVEL / tests, cell.p
    broken: list[str] = []
    covered = fits.covered.astype(float)
    silent = ~fits.warned
    enough = least_fits(len(covered))
    below = False
    if silent.sum() >= enough:
        quiet = covered[silent]
        for name, part in (("intercept", quiet[:, :1]), ("slopes", quiet[:, 1:p])):
            if part.size:
                below = below or float(part.mean()) < COVERAGE
                if covers_less(part, COVERAGE, level):
                    broken.append(f"unwarned {name} cover {part.mean():.3f}")
        joint = cell.interval is not None
        most = ONE_SHOT_OF_JOINT if joint else ONE_SHOT
        excess = fits.noise[silent] - most**2 * fits.shot[silent]
        if cell.n <= ONE_SHOT_UNTIL and above(excess, level):
            ratio = math.sqrt(fits.noise[silent].mean() / fits.shot[silent].mean())
            broken.append(f"noise {ratio:.2f} of one shot")
    if fits.warned.sum() >= enough:
        loud = covered[fits.warned]
        for name, part in (("intercept", loud[:, :1]), ("slopes", loud[:, 1:p])):
            if part.size and covers_less(part, COVERAGE, level):
                broken.append(f"warned {name} cover {part.mean():.3f}")
    if fits.helpless.any():
        broken.append("a warning names no help")
    everyone = coverage_of(covered, p)
    error = math.sqrt(fits.total.mean() / fits.exact.mean())
    fine = min(c for c in everyone if c == c) >= COVERAGE and error <= FINE_ERROR
    n_warned = int(fits.warned.sum())
    if fine and stats.binom.sf(n_warned - 1, len(covered), WARNED) < level:
        broken.append(f"covers, and warns of {n_warned / len(covered):.2f}")
    paired = np.isfinite(fits.newton)
    if cell.n >= TOTAL_FROM and paired.sum() >= 20:
        right = fits.newton_covered[paired].mean() >= COVERAGE
        if right and above(fits.total[paired] - TOTAL**2 * fits.newton[paired], level):
            ratio = math.sqrt(fits.total[paired].mean() / fits.newton[paired].mean())
            broken.append(f"total error {ratio:.3f} of Newton's")
    return Verdict(tuple(broken), below)
