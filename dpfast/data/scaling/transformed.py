"""Scores and projections of transformed records, by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.records import Covariates
from dpfast.data.scaling.maps import CHUNK, Linearization, TransformedView

Array = NDArray[np.float64]

#: Rows whose scores are counted at a time.
BLOCK = 1 << 15


def alone(y: Array) -> Array:
    """Return the responses without weights and offsets, as a view."""
    return y if y.ndim == 1 else y[:, 0]


def projections(X: Covariates, y: Array, view: TransformedView, direction: Array) -> Array:
    """Project the clipped scores on a direction: one number for each record, NaN for no score."""
    projected = np.empty(len(X))
    with np.errstate(all="ignore"):
        for first in range(0, len(X), CHUNK):
            rows = slice(first, first + CHUNK)
            a = mapped(X[rows], view)
            offset = None if y.ndim == 1 else y[rows, 2]
            score = _score(a, alone(y[rows]), offset, view)
            score += np.einsum("ij,j->i", X[rows], np.zeros(X.shape[1]))  # NaN if not finite
            projected[rows] = score * predictors(
                a, direction, view.intercept and view.matrix is None
            )
    return projected


def norms(X: Array, intercept: bool) -> Array:
    """Return the norms of rows from :func:`plain`, each from its own numbers alone."""
    squares: Array = np.einsum("ij,ij->i", X, X)
    return np.asarray(np.sqrt(squares + 1.0 if intercept else squares))


def mapped(X: Covariates, view: TransformedView) -> Array:
    """Map the rows by the matrix of a view."""
    if view.matrix is None:
        return plain(X)
    constant, slopes = (view.matrix[0], view.matrix[1:]) if view.intercept else (0.0, view.matrix)
    return np.asarray(product(plain(X), slopes) + constant)


def plain(X: Covariates) -> Array:
    """Return rows as contiguous doubles: rounding then does not depend on their layout."""
    return np.ascontiguousarray(X, dtype=np.float64)


def product(rows: Array, matrix: Array) -> Array:
    """Multiply rows by a matrix, padded to ``CHUNK`` rows: rounding depends on the shape."""
    padded = np.zeros((CHUNK, rows.shape[1]))
    padded[: len(rows)] = rows
    return np.asarray(np.matmul(padded, matrix)[: len(rows)])


def predictors(X: Array, theta: Array, intercept: bool) -> Array:
    """Return linear predictors of rows from :func:`plain`, each from its own numbers alone."""
    if not intercept:
        return np.asarray(np.einsum("ij,j->i", X, theta))
    return np.asarray(np.einsum("ij,j->i", X, theta[1:]) + theta[0])


def _score(a: Array, y: Array, offset: Array | None, view: TransformedView) -> Array:
    """Return the score of a loss times the factor of its row."""
    assert view.what == "score" and view.at is not None and not view.weigh and not view.at.raw
    intercept = view.intercept and view.matrix is None
    leverage_weights, bound = view.row_clipping

    def predictor(at: Linearization) -> Array:
        eta_at = predictors(a, at.theta, intercept)
        return eta_at if offset is None else eta_at + offset

    loss = view.at.loss
    eta = predictor(view.at)
    y = np.where(np.isfinite(y), loss._response(y), np.nan)  # a score may be finite at infinity
    score: Array = loss._score_at(y, eta, view.at.scale)
    if bound < np.inf:
        size = norms(a, intercept) * loss._score_bound_at(eta)
        return score * np.where(size > bound, bound / size, 1.0)
    if leverage_weights is None:
        return score
    curvature = loss._curvature_at(y, predictor(leverage_weights.at), leverage_weights.at.scale)
    size = norms(product(a, leverage_weights.back), False) * np.sqrt(curvature)
    factor = (leverage_weights.radius / size) ** (2.0 * leverage_weights.power)
    return score * np.where(size > leverage_weights.radius, factor, 1.0)


def count_along(
    X: Covariates, y: Array, edges: Array, view: TransformedView, axis: Array
) -> NDArray[Any]:
    """Count records by the absolute value of their score along a direction."""
    counts = np.zeros(len(edges) + 1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        rows = slice(first, first + BLOCK)
        lengths = np.abs(projections(X[rows], y[rows], view, axis))
        cells = np.searchsorted(edges, lengths[~np.isnan(lengths)])
        counts += np.bincount(cells, minlength=len(counts))
    return counts
