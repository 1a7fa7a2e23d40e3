"""Whether coverage is below a rate, by an exact test."""

from __future__ import annotations

import math

from scipy import stats

from dpfast.arguments import Array

#: Least coverage of unwarned fits.
COVERAGE = 0.93


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
