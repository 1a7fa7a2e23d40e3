"""Worst-case neighbours: two data sets that differ in one record, extreme in both."""

from __future__ import annotations

import math
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, real_array, real_number
from dpfast.errors import InvalidInput, described

#: Nearly the largest and exactly the smallest positive float64.
HUGE, TINY = 1e308, 5e-324

#: The replaced record in the first data set; in the second.
KINDS = (
    "replaced",  # the record itself; the same record with its covariates reversed
    "flipped",  # the record itself; the same with its label flipped
    "antipodal",  # opposite scores of the largest norm
    "orthogonal",  # curvatures in orthogonal directions
    "zero",  # an extreme record; a record of zeros
    "huge",  # 1e308 in every entry; the same, negative
    "outlier",  # an ordinary record; 1e300 in every entry: no bound may follow the largest row
    "overflow",  # one entry of 1e200, the others ordinary; -1e200
    "subnormal",  # the smallest positive number in every entry; the same, negative
    "nan",  # an extreme record; a record with a NaN covariate
    "inf",  # an extreme record; a record with an infinite covariate
    "nan label",
    "inf label",
    "undeclared label",  # a label that is neither 0 nor 1 (any response, for real labels)
)


class Pair(NamedTuple):
    """Two neighbouring data sets, each ``(X, y)``.

    Attributes
    ----------
    data, neighbour : tuple of ndarray

    Privacy
    -------
    Contains the records it was made from.
    """

    data: tuple[Array, Array]
    neighbour: tuple[Array, Array]


@overload
def neighbours(
    X: ArrayLike, y: ArrayLike, kind: None = None, *, index: int = 0, length: float | None = None
) -> dict[str, Pair]: ...
@overload
def neighbours(
    X: ArrayLike, y: ArrayLike, kind: str, *, index: int = 0, length: float | None = None
) -> Pair: ...
def neighbours(
    X: ArrayLike,
    y: ArrayLike,
    kind: str | None = None,
    *,
    index: int = 0,
    length: float | None = None,
) -> dict[str, Pair] | Pair:
    """Build pairs of data sets that differ in record ``index``, extreme in both.

    Parameters
    ----------
    X : array-like of shape (n, q), with q >= 1
    y : array-like of shape (n,)
        Labels in {0, 1} are recognised and flipped rather than reversed.
    kind : str, optional
        One of :data:`KINDS`; by default all of them.
    index : int
        The record to replace.
    length : float, optional
        Norm of the extreme covariates.  Scores are largest where a row, intercept included, is as
        long as the radius of the weighting, which is the default.  For another radius pass
        ``(radius**2 - 1) ** 0.5``, or ``radius`` without an intercept.

    Returns
    -------
    dict of str to Pair, or Pair
        Pass a pair on as ``replay(fn, *pair)``.

    Privacy
    -------
    None: the pairs contain the records.

    Examples
    --------
    >>> pair = dpfast.audit.neighbours([[1.0, 2.0], [3.0, 4.0]], [0.0, 1.0], "flipped")
    >>> pair.neighbour[1]
    array([1., 1.])
    """
    if kind is not None and kind not in KINDS:
        raise InvalidInput(
            f"kind must be one of {KINDS} or None; received {described(kind, text=True)}."
        )
    covariates = real_array(X, "X").copy()
    response = real_array(y, "y").copy()
    if covariates.ndim != 2 or covariates.shape[1] == 0 or response.shape != covariates.shape[:1]:
        raise InvalidInput(
            "X must have shape (n, q) with q >= 1 and y shape (n,); received "
            f"{covariates.shape} and {response.shape}."
        )
    is_index = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    if not is_index or not -len(response) <= index < len(response):
        raise InvalidInput(
            f"index must be that of one of {len(response)} records; received {described(index)}."
        )
    records = _extreme_records(covariates, response, index, length)
    pairs = {}
    for name in KINDS if kind is None else (kind,):
        sides = []
        for row, label in records[name]:
            rows, labels = covariates.copy(), response.copy()
            rows[index] = row
            labels[index] = label
            sides.append((rows, labels))
        pairs[name] = Pair(*sides)
    return pairs if kind is None else pairs[kind]


def _extreme_records(
    X: Array, y: Array, index: int, length: float | None
) -> dict[str, list[tuple[Array | float, float]]]:
    q = X.shape[1]
    binary = bool(np.isin(y, (0.0, 1.0)).all())
    row, label = X[index].copy(), float(y[index])
    longest = math.sqrt(q) if length is None else real_number(length, "length")
    first, last = np.zeros(q), np.zeros(q)
    first[0], last[-1] = longest, longest if q > 1 else -longest
    high, low = (1.0, 0.0) if binary else (HUGE, -HUGE)
    flipped = 1.0 - label if binary else -label if label else 1.0

    def with_entry(place: int, value: float) -> Array:
        copy = row.copy()
        copy[place] = value
        return copy

    extreme = (first, high)
    return {
        "replaced": [(row, label), (-row if row.any() else first, label)],
        "flipped": [(row, label), (row, flipped)],
        "antipodal": [(first, high), (first, low)],
        "orthogonal": [(first, 0.0), (last, 0.0)],
        "zero": [extreme, (np.zeros(q), 0.0)],
        "huge": [(HUGE, high), (-HUGE, low)],
        "outlier": [(row, label), (1e300, label)],
        "overflow": [(with_entry(0, 1e200), high), (with_entry(0, -1e200), high)],
        "subnormal": [(TINY, 0.0 if binary else TINY), (-TINY, high if binary else -TINY)],
        "nan": [extreme, (with_entry(-1, math.nan), label)],
        "inf": [extreme, (with_entry(-1, math.inf), label)],
        "nan label": [extreme, (row, math.nan)],
        "inf label": [extreme, (row, math.inf)],
        "undeclared label": [extreme, (row, -math.pi)],
    }
