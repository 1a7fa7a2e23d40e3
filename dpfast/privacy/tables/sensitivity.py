"""Constants of tables by cell, in records: claims T1 to T5, T9 to T11 of PROOFS-tables.md."""

from __future__ import annotations

import math

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_SHARES, UNIT_ROUNDOFF

_UP = 1.0 + ROUNDING_FORMULA
_DOWN = 1.0 - ROUNDING_FORMULA

#: What is summed beside a number ``v`` in [-1, 1] is ``SQUARE_WEIGHT (v^2 - SQUARE_AT)``, which is
#: free beside the sum of v and the count (claim T3).  The weight's square is below 2.
SQUARE_AT, SQUARE_WEIGHT = 0.75, 1.4142

#: By how much rounding moves each entry of the outer products of two records: twice ``2^-21`` and
#: the roundings of a product.
GRAM_ROUNDING = 2.0**-20 * (1.0 + 2.0 * ROUNDING_SHARES)

#: The squared weight of the count, of each column with squares and of each without.
_WITH_SQUARES, _WITHOUT = 0.875, 1.0

#: Beside weighted counts: the squared factor of the squares of weights.  It adds a sixteenth to the
#: noise of counts (claim T9).
_COUNT_SQUARE = 0.125

#: Beside weighted sums: the squared factors of the products with weights, of the squares of weights
#: and of the counts.  The last two and 1/8 add up to 1 (claim T9).
_PRODUCT, _WEIGHT_SQUARE, _WEIGHTED_COUNT = 0.125, 0.25, 0.625

#: Beside weighted histograms: the squared factor of histograms of squared weights (claim T10).
_HISTOGRAM_SQUARE = 0.125


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


def weighted_factors(columns: int) -> tuple[float, float, float]:
    """Return factors of products, of squared weights and of weighted counts beside sums (T9)."""
    _check(columns, 0)
    product = math.sqrt(_PRODUCT) * _DOWN
    weight = math.sqrt(_WEIGHT_SQUARE * columns) * _DOWN
    return product, weight, math.sqrt(_WEIGHTED_COUNT * columns) * _DOWN


def count_square_factor() -> float:
    """Return the factor of squared weights beside weighted counts alone (T9)."""
    return math.sqrt(_COUNT_SQUARE) * _DOWN


def histogram_square_factor() -> float:
    """Return the factor of squared weights beside weighted histograms (T10)."""
    return math.sqrt(_HISTOGRAM_SQUARE) * _DOWN


def weighted_cell_counts(n: int) -> float:
    """Return ``sqrt(9/4)``, l2, of weighted counts and squares of weights by cell (claim T9)."""
    return (math.sqrt(2.0 * (1.0 + _COUNT_SQUARE)) + 32.0 * n * UNIT_ROUNDOFF) * _UP


def weighted_cell_moments(columns: int, n: int) -> float:
    """Return ``2 sqrt(9/8 columns)``, l2, of weighted sums, squares and products (claim T9)."""
    _check(columns, 0)
    exact = 2.0 * math.sqrt(1.0 + _PRODUCT)
    return math.sqrt(columns) * (exact + 32.0 * n * UNIT_ROUNDOFF) * _UP


def weighted_cell_distribution(column_norm: float, n: int, n_bins: int) -> float:
    """Return ``sqrt(9/4) column_norm``, l2, of mapped histograms of weights and squares (T10)."""
    exact = cell_distribution(column_norm) * math.sqrt(1.0 + _HISTOGRAM_SQUARE)
    return (exact + 32.0 * math.sqrt(n_bins) * n * UNIT_ROUNDOFF) * _UP


def cell_grams(columns: int) -> float:
    """Return ``sqrt(2)``, l2, of outer products of rows of norm 1, by cell, as rounded (claim T11).

    Each of the ``k (k + 1) / 2`` entries is rounded to a multiple of ``2^-20``.
    """
    _check(columns, 0)
    entries = math.sqrt(columns * (columns + 1) / 2.0)
    return (math.sqrt(2.0) + GRAM_ROUNDING * entries) * _UP


def _check(squared: int, plain: int) -> None:
    valid = all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in (squared, plain))
    if not valid or squared + plain < 1:
        raise InvalidInput(
            "squared and plain are numbers of columns, at least one together; received "
            f"{described(squared)} and {described(plain)}."
        )
