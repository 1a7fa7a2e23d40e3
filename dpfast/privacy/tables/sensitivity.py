"""Constants of tables by cell, in records: claims T1 to T5 of PROOFS-tables.md."""

from __future__ import annotations

import math

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, UNIT_ROUNDOFF

_UP = 1.0 + ROUNDING_FORMULA
_DOWN = 1.0 - ROUNDING_FORMULA

#: What is summed beside a number ``v`` in [-1, 1] is ``SQUARE_WEIGHT (v^2 - SQUARE_AT)``, which is
#: free beside the sum of v and the count (claim T3).  The weight's square is below 2.
SQUARE_AT, SQUARE_WEIGHT = 0.75, 1.4142

#: The squared weight of the count, of each column with squares and of each without.
_WITH_SQUARES, _WITHOUT = 0.875, 1.0


def cell_counts() -> float:
    """Return ``sqrt(2)``, l2, of counts in cells: one is left, another entered (claim T1)."""
    return math.sqrt(2.0) * _UP


def cell_sums(bound: float, weight: float) -> float:
    """Return ``max(2 bound, sqrt(2 (bound^2 + weight^2)))``, l2, of sums and counts (claim T2)."""
    if not (0.0 < bound < math.inf and 0.0 <= weight < math.inf):
        raise InvalidInput(
            "bound must be positive and weight at least 0, both finite; received "
            f"{described(bound)} and {described(weight)}."
        )
    return max(2.0 * bound, math.sqrt(2.0 * (bound * bound + weight * weight))) * _UP


def count_weight(squared: int, plain: int) -> float:
    """Return a weight at which a cell's count is free beside its moments, down (claim T3)."""
    _check(squared, plain)
    return math.sqrt(_WITH_SQUARES * squared + _WITHOUT * plain) * _DOWN


def cell_moments(squared: int, plain: int, n: int) -> float:
    """Return ``2 sqrt(squared + plain)``, l2, of sums, squares and weighted counts (T3, T4)."""
    _check(squared, plain)
    return math.sqrt(squared + plain) * (2.0 + 16.0 * n * UNIT_ROUNDOFF) * _UP


def cell_distribution(column_norm: float) -> float:
    """Return ``sqrt(2) column_norm``, l2, of mapped histograms: one bin is left, one entered (T5).

    ``column_norm`` bounds the norm of every column of the map, which has no negative entry.
    """
    if not 0.0 < column_norm < math.inf:
        raise InvalidInput(
            f"column_norm must be positive and finite; received {described(column_norm)}."
        )
    return math.sqrt(2.0) * column_norm * _UP


def _check(squared: int, plain: int) -> None:
    valid = all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in (squared, plain))
    if not valid or squared + plain < 1:
        raise InvalidInput(
            "squared and plain are numbers of columns, at least one together; received "
            f"{described(squared)} and {described(plain)}."
        )
