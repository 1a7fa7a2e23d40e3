"""Intervals that hold for all waves together: sequential boundaries of correlated estimates."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]

#: Points of the integral over earlier waves: with four times as many boundaries of 12 waves differ
#: by less than .01 standard errors.
POINTS = 4096

#: Halvings to find a boundary, of some 3 standard errors.
HALVINGS = 22


@lru_cache(maxsize=1)
def roots_of_primes(count: int) -> Array:
    """Return the square roots of the first primes."""
    primes: list[int] = []
    number = 2
    while len(primes) < count:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return np.sqrt(primes)


def spent_by(level: float, waves: int) -> Array:
    """Divide the probability of error among the waves: Pocock's function of Lan and DeMets (1983).

    It is fixed beforehand by the number of waves, so that later numbers of records may be anything.
    """
    parts = np.log1p((math.e - 1.0) * np.arange(waves + 1) / waves)
    return np.asarray((1.0 - level) * np.diff(parts))


def error_levels(correlation: Array, spent: Array) -> Array:
    """Return the level of each wave's interval, so that all hold together.

    Estimates are jointly normal with this correlation.  At each wave the boundary is the one that
    is crossed for the first time with the probability that is ``spent`` there (Lan and DeMets
    1983).  It depends on earlier waves only.  The integral is Genz's (1992), at multiples of the
    roots of primes (Richtmyer 1951).
    """
    waves = len(correlation)
    multiples = np.arange(0.5, POINTS)[:, None] * roots_of_primes(waves)
    uniform, paths = np.abs(2.0 * (multiples % 1.0) - 1.0), np.zeros((POINTS, waves))
    weights, levels = np.full(POINTS, 1.0 / POINTS), spent.copy()
    inverse = np.zeros((waves, waves))  # of the Cholesky factor
    for t in range(waves):  # row by row: later rows change no earlier level
        row = inverse[:t, :t] @ correlation[t, :t]
        variance = correlation[t, t] - row @ row
        if not variance > 0.0:  # released errors that fit no joint law: from here levels add up
            break
        mean, deviation = paths[:, :t] @ row, math.sqrt(variance)
        inverse[t, :t], inverse[t, t] = -(row @ inverse[:t, :t]) / deviation, 1.0 / deviation
        low, high = 0.0, float(-ndtri(0.5 * spent[t]))  # where no earlier wave is taken off
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            outside = ndtr((-middle - mean) / deviation) + ndtr((mean - middle) / deviation)
            crossed = float(weights @ outside) > spent[t]
            low, high = (middle, high) if crossed else (low, middle)
        below = ndtr((-high - mean) / deviation)
        inside = np.maximum(ndtr((high - mean) / deviation) - below, 0.0)
        paths[:, t] = ndtri(np.clip(below + uniform[:, t] * inside, 1e-300, 1.0 - 1e-16))
        weights = weights * inside
        levels[t] = 2.0 * ndtr(-high)
    return levels
