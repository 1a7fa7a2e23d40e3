"""Plain Python twin of the thresholds of a noisy bisection (``csrc/session/thresholds.pxi``)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.scaling.thresholds import BINADE, LARGEST, SMALLEST

#: Width of an interval of keys, 1e-9 of a number, below which it is a tie: one value is frequent.
TIE_KEYS = 1 << 22
#: Widths, as powers of two, of intervals in which the lower end is tried for a tie.
_TIE_SHIFTS = (40, 22)
#: Smallest distance from a tie at zero, where no scale is known.
MIN_AT_ZERO = 2.0**-50
#: Octaves on a side of a centre with a tie or zero there, which tells nothing of the scale.
ALL_OCTAVES = 100


def value_of(keys: Any) -> Array:
    """Return the doubles with these keys, in a range whose differences do not overflow."""
    keys = np.asarray(keys, dtype=np.int64)
    values = np.minimum(np.abs(keys).view(np.float64), LARGEST)  # beyond the largest: infinity
    return np.copysign(values, keys)


def centre_of(first: int, last: int, low: float, high: float) -> tuple[float, float]:
    """Return a centre, at a tie its own value, and the smallest distance resolved from it."""
    if (first, last) == (0, BINADE):
        return 0.0, MIN_AT_ZERO
    if last - first <= TIE_KEYS:
        return low, max(high - low, SMALLEST)
    return 0.5 * low + 0.5 * high, max(0.5 * high - 0.5 * low, SMALLEST)


def is_tie(low: int, high: int) -> bool:
    """Say whether so many records have one value, or zero, that more counts do not help."""
    return high - low <= TIE_KEYS or (low, high) == (0, BINADE)


def next_key(low: int, high: int, patient: bool) -> tuple[int, int]:
    """Return a threshold inside an interval, and the level of the cells that it ends."""
    key, width = _threshold(low, high), high - low
    if width <= BINADE:
        shift = (low ^ (high - 1)).bit_length() - 1  # the roundest number inside
        key = (high - 1) >> shift << shift
        tried = [shift for shift in _TIE_SHIFTS if patient and 2 << shift < width]
        key = low + (1 << tried[0]) if tried else key
    return key, _level(key)


def _threshold(low: int, high: int) -> int:
    """Return the median of a public prior on keys between two of them.

    The prior has a tenth at zero and is Cauchy in ``log2 |x|``.
    """
    if high - low <= BINADE:
        return (low + high) // 2
    first, last = low // BINADE + 1, high // BINADE - 1
    half = 0.5 * (_mass_below(low // BINADE) + _mass_below(high // BINADE))
    while first < last:
        middle = (first + last) // 2
        if _mass_below(middle) < half:
            first = middle + 1
        else:
            last = middle
    if first > low // BINADE + 1 and (half - _mass_below(first - 1) < _mass_below(first) - half):
        first -= 1
    return first * BINADE


def _mass_below(binade: int) -> float:
    """Return the prior mass of the keys below ``binade * 2^52``."""
    if binade == 0:
        return 0.45
    tail = 0.5 + math.atan((abs(binade) - 1023 - 4.0) / 6.0) / math.pi
    return 0.55 + 0.45 * tail if binade > 0 else 0.45 * (1.0 - tail)


def _level(key: int) -> int:
    """Return the level of the cells that a threshold ends, by 12 bits of its powers of two."""
    for shift in (52, 40, 28):
        if key % (1 << shift) == 0:
            return shift
    return 16
