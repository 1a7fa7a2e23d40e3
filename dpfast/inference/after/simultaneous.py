"""Intervals that hold together, and p values of many tests at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import one_of
from dpfast.inference.degrees import NORMAL, estimable, t_half_widths

Array = NDArray[np.float64]

#: Kinds of simultaneous intervals.
JOINT = ("max-t", "bonferroni", "scheffe")

#: Corrections of p values.
CORRECTIONS = ("holm", "bonferroni", "benjamini-hochberg")

#: Directions at which the law of the largest statistic is averaged.
DIRECTIONS = 1 << 14

#: Halvings of the range in which the half width lies.
HALVINGS = 60


def joint_half_width(
    rows: Array, covariance: Array, degrees: Array, level: float, method: str
) -> float:
    """Half the width, in standard errors, at which intervals of all rows hold together."""
    method = one_of(method, JOINT, "simultaneous")
    known = float(degrees.min(initial=np.inf))
    if method == "bonferroni":
        each = 1.0 - (1.0 - level) / max(1, len(rows))
        return float(t_half_widths(each, np.array([known]))[0])
    directions = _standard(rows, covariance)
    rank = directions.shape[1]
    if rank == 0:
        return 0.0
    if method == "scheffe":
        return _solved(lambda width: float(_ball(width, rank, known)), level)
    if rank == 1:
        return float(t_half_widths(level, np.array([known]))[0])
    with np.errstate(all="ignore"):
        reach = 1.0 / np.abs(_sphere(rank) @ directions.T).max(axis=1)
    return _solved(lambda width: float(_ball(width * reach, rank, known).mean()), level)


def _standard(rows: Array, covariance: Array) -> Array:
    """Rows of length 1 whose products are the correlations, as short as their rank allows."""
    known, lost = estimable(rows, covariance)
    rows = rows[~lost]
    joint = rows @ known @ rows.T
    with np.errstate(all="ignore"):
        errors = np.sqrt(joint.diagonal())
        correlations = joint / np.outer(errors, errors)
    kept = np.isfinite(correlations.diagonal())
    values, vectors = np.linalg.eigh(np.nan_to_num(correlations[np.ix_(kept, kept)]))
    seen = values > 1e-10 * max(1.0, values.max(initial=0.0))
    return np.asarray(vectors[:, seen] * np.sqrt(values[seen]))


def _ball(radius: Array | float, dimension: int, degrees: float) -> Array:
    """Mass of a ball under the standard normal law, or the t law of these degrees of freedom."""
    from scipy.special import chdtr, fdtr

    squared = np.square(radius)
    if degrees > NORMAL:
        return np.asarray(chdtr(dimension, squared))
    return np.asarray(fdtr(dimension, degrees, squared / dimension))


def _sphere(dimension: int) -> Array:
    """Directions that fill the sphere evenly, without a random number: a lattice, mapped."""
    from scipy.special import ndtri

    roots = np.sqrt(np.array(_primes(dimension), dtype=np.float64))
    steps = np.arange(1, DIRECTIONS + 1)[:, None]
    points = ndtri(np.clip(np.modf(steps * roots)[0], 1e-12, 1.0 - 1e-12))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def _primes(count: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found


def _solved(mass: Callable[[float], float], level: float) -> float:
    """Where an increasing function of a width is ``level``."""
    low, high = 0.0, 1.0
    while mass(high) < level and high < 1e15:
        low, high = high, 2.0 * high
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mass(middle) < level else (low, middle)
    return high


def adjusted(pvalues: Array | Sequence[float], method: str) -> Array:
    """P values of which each may be compared with the error of all tests together."""
    method = one_of(method, CORRECTIONS, "method")
    given = np.asarray(pvalues, dtype=np.float64)
    k = len(given)
    order = np.argsort(given, kind="stable")
    rank = np.arange(1, k + 1)
    ordered = given[order]
    if method == "bonferroni":
        found = k * ordered
    elif method == "holm":
        found = np.maximum.accumulate((k + 1 - rank) * ordered)
    else:
        found = np.minimum.accumulate((k / rank * ordered)[::-1])[::-1]
    result = np.empty(k)
    result[order] = np.minimum(found, 1.0)
    return result
