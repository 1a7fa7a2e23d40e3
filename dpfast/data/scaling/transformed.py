"""What a query sees of records along a direction, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates
from dpfast.data.scaling.maps import CHUNK, Linearization, TransformedView

Array = NDArray[np.float64]

#: Rows in memory that are seen at a time.
BLOCK = 1 << 15


def alone(y: Array) -> Array:
    """The responses in place, without the weights beside them."""
    return y if y.ndim == 1 else y[:, 0]


def projections(X: Covariates, y: Array, view: TransformedView, direction: Array) -> Array:
    """Of the scores that are seen, along a direction: one number a record, NaN for none."""
    found = np.empty(len(X))
    with np.errstate(all="ignore"):
        for first in range(0, len(X), CHUNK):
            some = slice(first, first + CHUNK)
            a, beside = mapped(X[some], view), y[some]
            score = _score(a, alone(beside), None if y.ndim == 1 else beside[:, 2], view)
            score += np.einsum("ij,j->i", X[some], np.zeros(X.shape[1]))  # NaN if not finite
            found[some] = score * predictors(a, direction, view.intercept and view.matrix is None)
    return found


def norms(X: Array, intercept: bool) -> Array:
    """Lengths of rows as :func:`plain` has them, each from its own numbers alone."""
    squares: Array = np.einsum("ij,ij->i", X, X)
    return np.asarray(np.sqrt(squares + 1.0 if intercept else squares))


def mapped(X: Covariates, view: TransformedView) -> Array:
    """Rows under the map of a view."""
    if view.matrix is None:
        return plain(X)
    constant, slopes = (view.matrix[0], view.matrix[1:]) if view.intercept else (0.0, view.matrix)
    return np.asarray(product(plain(X), slopes) + constant)


def plain(X: Covariates) -> Array:
    """Rows one after the other in double precision: others are rounded by where they stand."""
    return np.ascontiguousarray(X, dtype=np.float64)


def product(rows: Array, matrix: Array) -> Array:
    """Rows times a matrix; of fewer than ``CHUNK`` as of so many, because a shape is a rounding."""
    padded = np.zeros((CHUNK, rows.shape[1]))
    padded[: len(rows)] = rows
    return np.asarray(np.matmul(padded, matrix)[: len(rows)])


def predictors(X: Array, theta: Array, intercept: bool) -> Array:
    """Linear predictors of rows as :func:`plain` has them, each from its own numbers alone."""
    if not intercept:
        return np.asarray(np.einsum("ij,j->i", X, theta))
    return np.asarray(np.einsum("ij,j->i", X, theta[1:]) + theta[0])


def _score(a: Array, y: Array, offset: Array | None, view: TransformedView) -> Array:
    """The score of a loss times what its row is held by."""
    assert view.what == "score" and view.at is not None and not view.weigh
    intercept, (discount, reach) = view.intercept and view.matrix is None, view.row_clipping

    def predictor(at: Linearization) -> Array:
        found = predictors(a, at.theta, intercept)
        return found if offset is None else found + offset

    loss, eta = view.at.loss, predictor(view.at)
    y = np.where(np.isfinite(y), loss._response(y), np.nan)  # a score may be finite at infinity
    score: Array = loss._score_at(y, eta, view.at.scale)
    if reach < np.inf:
        size = norms(a, intercept) * loss._score_bound_at(eta)
        return score * np.where(size > reach, reach / size, 1.0)
    if discount is None:
        return score
    curved = loss._curvature_at(y, predictor(discount.at), discount.at.scale)
    size = norms(product(a, discount.back), False) * np.sqrt(curved)
    factor = (discount.radius / size) ** (2.0 * discount.power)
    return score * np.where(size > discount.radius, factor, 1.0)


def count_along(
    X: Covariates, y: Array, edges: Array, view: TransformedView, along: Array
) -> NDArray[Any]:
    """How many records have scores of each size along a direction."""
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        some = slice(first, first + BLOCK)
        found = np.abs(projections(X[some], y[some], view, along))
        cells = np.searchsorted(edges, found[~np.isnan(found)])
        counts += np.bincount(cells, minlength=len(counts))
    return counts
