"""What a query sees of records, by NumPy: of persons' rows, and along a direction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.bought.maps import CHUNK, FREE, At, View
from dpfast.data.records import Covariates, Records

Array = NDArray[np.float64]

#: Rows in memory that are seen at a time.
BLOCK = 1 << 15


def alone(y: Array) -> Array:
    """The responses in place, without the weights beside them."""
    return y if y.ndim == 1 else y[:, 0]


def seen(X: Covariates, y: Array, view: View) -> tuple[Any, Array]:
    """Rows and what is beside them."""
    response, offset = np.empty(len(X)), None if y.ndim == 1 else y[:, 2]
    changed = view.matrix is not None or view.what == "curvature" or view.held != FREE
    columns = X.shape[1] if view.matrix is None else view.matrix.shape[1]
    rows: Any = np.empty((len(X), columns)) if changed else X
    with np.errstate(all="ignore"):
        for first in range(0, len(X), CHUNK):
            some = slice(first, first + CHUNK)
            a = _mapped(X[some], view, rows[some] if changed else None)
            given = None if offset is None else offset[some]
            response[some], factor = _beside(a, alone(y)[some], given, view)
            if view.matrix is not None:  # zero, or NaN where an entry is not finite
                response[some] += np.einsum("ij,j->i", X[some], np.zeros(X.shape[1]))
            if factor is not None:
                np.multiply(a, factor[:, None], out=rows[some])
    if y.ndim == 1:
        return rows, response
    joined = np.zeros((len(y), 3))
    joined[:, 0], joined[:, 1] = response, y[:, 1]
    if view.at is None:
        joined[:, 2] = y[:, 2]
    return rows, joined


def _parts(X: Covariates, y: Array, view: View) -> Iterator[tuple[slice, Any, Array, Array | None]]:
    """Which rows, under the map; what is beside them, NaN where an entry is not finite; factors."""
    for first in range(0, len(X), CHUNK):
        some = slice(first, first + CHUNK)
        a = _mapped(X[some], view, None)
        given = None if y.ndim == 1 else y[some, 2]
        value, factor = _beside(a, alone(y)[some], given, view)
        value += np.einsum("ij,j->i", X[some], np.zeros(X.shape[1]))
        yield some, a, value, factor


def lengths(X: Covariates, y: Array, view: View) -> Array:
    """Of the rows that are seen times what is beside them (of curvatures: alone), NaN for none."""
    found = np.empty(len(X))
    with np.errstate(all="ignore"):
        for some, a, value, factor in _parts(X, y, view):
            size = np.ones(len(a))
            if view.what != "residual":
                size = norms(a, view.intercept and view.matrix is None)
            if factor is not None:
                size *= factor
            times = np.abs(value) if view.what in ("score", "foreseen", "residual") else 1.0
            found[some] = size * np.where(np.isfinite(value), times, np.nan)
    return found


def projections(X: Covariates, y: Array, view: View, direction: Array) -> Array:
    """Of the scores that are seen, along a direction: one number a record, NaN for none."""
    found = np.empty(len(X))
    with np.errstate(all="ignore"):
        for some, a, value, factor in _parts(X, y, view):
            if factor is not None:
                value *= factor
            found[some] = value * predictors(a, direction, view.intercept and view.matrix is None)
    return found


def norms(X: Array, intercept: bool) -> Array:
    """Lengths of rows as :func:`plain` has them, each from its own numbers alone."""
    squares: Array = np.einsum("ij,ij->i", X, X)
    return np.asarray(np.sqrt(squares + 1.0 if intercept else squares))


def _mapped(X: Covariates, view: View, out: Array | None) -> Any:
    if view.matrix is None:
        return plain(X)
    constant, slopes = (view.matrix[0], view.matrix[1:]) if view.intercept else (None, view.matrix)
    a = _product(plain(X), slopes, out)
    if constant is not None:
        a += constant
    return a


def plain(X: Covariates) -> Array:
    """Rows one after the other in double precision: others are rounded by where they stand."""
    return np.ascontiguousarray(X, dtype=np.float64)


def _product(rows: Array, matrix: Array, out: Array | None = None) -> Array:
    """Rows times a matrix; of fewer than ``CHUNK`` as of so many, because a shape is a rounding."""
    if len(rows) == CHUNK:
        return np.asarray(np.matmul(rows, matrix, out=out))
    padded = np.zeros((CHUNK, rows.shape[1]))
    padded[: len(rows)] = rows
    found = np.matmul(padded, matrix)[: len(rows)]
    if out is None:
        return np.asarray(found)
    out[:] = found
    return out


def _predictor(a: Any, at: At, offset: Array | None, intercept: bool) -> Array:
    found = predictors(a, at.theta, intercept)
    return found if offset is None else found + offset


def predictors(X: Array, theta: Array, intercept: bool) -> Array:
    """Linear predictors of rows as :func:`plain` has them, each from its own numbers alone."""
    if not intercept:
        return np.asarray(np.einsum("ij,j->i", X, theta))
    return np.asarray(np.einsum("ij,j->i", X, theta[1:]) + theta[0])


def _beside(a: Any, y: Array, offset: Array | None, view: View) -> tuple[Array, Array | None]:
    """The number beside a row, and what the row is multiplied by, if anything."""
    assert not view.weigh
    intercept = view.intercept and view.matrix is None
    if view.at is None:
        return y - view.shift, None
    loss, scale = view.at.loss, view.at.scale
    y = np.where(np.isfinite(y), loss._response(y), np.nan)  # a score may be finite at infinity
    if view.what == "response":
        return y - view.shift, None
    eta = _predictor(a, view.at, offset, intercept)
    if view.what == "curvature":
        return y, np.sqrt(loss._curvature_at(y, eta, scale))
    if view.what == "foreseen":
        return np.where(np.isnan(y), np.nan, loss._foreseen_score(eta)), None
    if view.what == "residual":
        return y - eta, None
    value = loss._score_at(y, eta, scale)
    discount, reach = view.held
    if reach < np.inf:
        size = norms(a, intercept) * loss._foreseen_score(eta)
        return value, np.where(size > reach, reach / size, 1.0)
    if discount is None:
        return value, None
    curved = loss._curvature_at(y, _predictor(a, discount.at, offset, intercept), discount.at.scale)
    size = norms(_product(a, discount.back), False) * np.sqrt(curved)
    factor = (discount.radius / size) ** (2.0 * discount.power)
    return value, np.where(size > discount.radius, factor, 1.0)


class SeenRows(Records):
    """What a query sees of rows of persons, made block by block in every pass."""

    def __init__(self, records: Records, view: View) -> None:
        self.n, self.n_covariates, self.names = records.n, view.columns, None
        self.block_sizes = records.block_sizes
        if hasattr(records, "X"):  # in memory, or on disk
            self.block_sizes = block_sizes_of(records.n)
        self._all, self._view = records, view

    def blocks(self) -> Iterator[tuple[Covariates, Array]]:
        """As they are, mapped on the way."""
        records, first = self._all, 0
        if not hasattr(records, "X"):
            for X, y in records.blocks():
                yield seen(X, y, self._view)
            return
        for size in self.block_sizes:
            some = slice(first, first + size)
            yield seen(records.X[some], records.y[some], self._view)
            first += size


def block_sizes_of(n: int) -> tuple[int, ...]:
    """Sizes of the blocks in which records in memory are seen: public."""
    return (BLOCK,) * (n // BLOCK) + ((n % BLOCK,) if n % BLOCK else ())


def whole_of(n: int) -> float:
    """What a person's rows share when their lengths are counted: n of it are added exactly."""
    return math.ldexp(1.0, 52 - n.bit_length())


def count_lengths(X: Covariates, y: Array, edges: Array, view: View, whole: float) -> Array:
    """How many rows there are of each length, each with its person's part of ``whole``."""
    counts = np.zeros(len(edges) + 1)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        found = lengths(X[some], y[some], view)
        told = ~np.isnan(found)
        cells = np.searchsorted(edges, found[told])
        parts = None if whole is None else np.floor(whole * y[some, 1][told])
        counts += np.bincount(cells, parts, minlength=len(counts))
    return counts


def count_along(X: Covariates, y: Array, edges: Array, view: View, along: Array) -> NDArray[Any]:
    """How many records have scores of each size along a direction."""
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        found = np.abs(projections(X[some], y[some], view, along))
        cells = np.searchsorted(edges, found[~np.isnan(found)])
        counts += np.bincount(cells, minlength=len(counts))
    return counts
