"""Rows under a released linear map, each on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates

__all__ = ["CHUNK", "alone", "map_records", "map_rows", "norms"]

Array = NDArray[np.float64]

#: Rows that are mapped, or whose lengths are computed, at a time: they stay in the cache.
CHUNK = 4096


def map_records(X: Covariates, y: Array, how: tuple[Any, ...]) -> tuple[Array, Array]:
    """Rows and responses under the map; the weights beside responses stay."""
    rows, response = map_rows(X, alone(y), *how)
    if y.ndim == 1:
        return rows, response
    joined = y.copy()
    joined[:, 0] = response
    return rows, joined


def alone(y: Array) -> Array:
    """The responses in place, without the weights beside them."""
    return y if y.ndim == 1 else y[:, 0]


def map_rows(
    X: Covariates, y: Array, matrix: Array, intercept: bool, radius: float, power: float
) -> tuple[Array, Array]:
    """Rows and responses under the map; a row's numbers are those of its own alone.

    A record that is not finite is told by its response: a row of infinities need not stay one.
    """
    rows, nothing = np.empty((len(X), matrix.shape[1])), np.zeros(X.shape[1])
    response = np.array(y)
    constant, slopes = (matrix[0], matrix[1:]) if intercept else (0.0, matrix)
    with np.errstate(all="ignore"):
        for first in range(0, len(X), CHUNK):
            some = slice(first, first + CHUNK)
            given, mapped = X[some], rows[some]
            np.matmul(given, slopes, out=mapped)
            mapped += constant
            # zero, or NaN where an entry is not finite: a third of the time of isfinite and all
            response[some] += np.einsum("ij,j->i", given, nothing)
            if power:
                discount = np.minimum(1.0, radius / norms(given, intercept)) ** power
                mapped *= discount[:, None]
                response[some] *= discount
    return rows, response


def norms(X: Covariates, intercept: bool) -> Array:
    squares: Array = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.asarray(np.sqrt(squares + 1.0 if intercept else squares))
