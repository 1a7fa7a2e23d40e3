"""Constants of estimated locations and scales: claims D1 to D6 of PROOFS-scaling.md."""

from __future__ import annotations

import math
from functools import lru_cache

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, UNIT_ROUNDOFF

_UP = 1.0 + ROUNDING_FORMULA
_DOWN = 1.0 - ROUNDING_FORMULA

#: Weight of the mean square beside the mean, at which it is free (claim D3): the largest is
#: ``sqrt((1 + sqrt(5))^5 / 128) = 1.66510...``.
SQUARE_WEIGHT = 1.66

#: The weight of the number of complete records is a multiple of this, so that its product with a
#: number of records is exact.
_WEIGHT_STEP = 32.0


def _check(**positive: int) -> None:
    for name, value in positive.items():
        if type(value) is not int or value < 1:
            raise InvalidInput(f"{name} must be a positive integer; received {described(value)}.")


@lru_cache(maxsize=256, typed=True)
def complete_weight(m: int) -> float:
    """Weight of the number of complete records beside m centred counts (claim D2)."""
    _check(m=m)
    return math.floor(_WEIGHT_STEP * math.sqrt(0.75 * m) * _DOWN) / _WEIGHT_STEP


def counts(m: int) -> float:
    """l2 sensitivity of m centred counts and the weighted number of complete records (claim D2)."""
    _check(m=m)
    return math.sqrt(m) * _UP


def distances(columns: int) -> float:
    """l2 sensitivity of histograms of distances, ``sqrt(2 columns)`` records (claim D6)."""
    _check(columns=columns)
    return math.sqrt(2.0 * columns) * _UP


def clipped_moments(columns: int, n: int) -> float:
    """Return ``2 sqrt(columns)/n``, of clipped means and mean squares, in l2 (claim D3)."""
    _check(columns=columns, n=n)
    return math.sqrt(columns) * (2.0 / n + 16.0 * UNIT_ROUNDOFF) * _UP


@lru_cache(maxsize=512, typed=True)
def query_mu(total: float, planned: int, m: int) -> float:
    """Bound the joint cost of m of a planned number of counts, rounded down (claim D4)."""
    _check(planned=planned, m=m)
    return total * math.sqrt(m / planned) * _DOWN
