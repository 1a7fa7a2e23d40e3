"""Twin of what the kernels see of records under a map: NumPy, one formula after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.data.scaling.maps import NO_CLIPPING, TransformedView
from dpfast.data.scaling.transformed import alone, mapped, norms, plain, predictors, product


def seen(X: Any, y: Any, view: TransformedView) -> tuple[Any, Any]:
    """Rows and what is beside them: the response, or with weight and offset."""
    with np.errstate(all="ignore"):
        a, beside, factor = _all_of(X, y, view)
        rows = a if factor is None else a * factor[:, None]
    if view.matrix is None and view.what != "curvature" and view.row_clipping == NO_CLIPPING:
        rows = X
    if y.ndim == 1:
        return rows, beside
    offset = y[:, 2] if view.at is None else np.zeros(len(y))
    return rows, np.column_stack([beside, y[:, 1], offset])


def lengths(X: Any, y: Any, view: TransformedView) -> Any:
    """Of the rows that are seen times what is beside them (of curvatures: alone), NaN for none."""
    with np.errstate(all="ignore"):
        a, beside, factor = _all_of(X, y, view)
        size = np.ones(len(a))
        if view.what != "residual":
            size = norms(a, view.intercept and view.matrix is None)
        if factor is not None:
            size = size * factor
        times = np.abs(beside) if view.what in ("score", "score size", "residual") else 1.0
        return size * np.where(np.isfinite(beside), times, np.nan)


def count_lengths(X: Any, y: Any, edges: Any, view: TransformedView, whole: float = 0.0) -> Any:
    """How many rows there are of each length, each with its part of ``whole`` if that is not 0."""
    found = lengths(X, y, view)
    told = ~np.isnan(found)
    parts = (
        np.floor(whole * np.clip(np.nan_to_num(y[told, 1]), 0.0, 1.0))
        if whole
        else np.ones(told.sum())
    )
    return np.bincount(np.searchsorted(edges, found[told]), parts, minlength=len(edges) + 1)


def scores(
    X: Any, y: Any, whose: Any, n: int, longest: float, view: TransformedView
) -> tuple[Any, Any]:
    """Whole numbers that are the scores of n persons, and who has a row that counts."""
    rows, beside = seen(X, y, view)
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=1)
        rows = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
        size = norms(rows, False)
        held = np.minimum(size * largest * np.abs(beside[:, 0]) / longest, 1.0)
        rows = rows * (np.sign(beside[:, 0]) * held / np.where(size > 0.0, size, 1.0))[:, None]
    found, told = np.zeros((n, rows.shape[1])), np.zeros(n, dtype=bool)
    counts = np.isfinite(rows).all(axis=1) & np.isfinite(beside[:, 0])
    mine = np.flatnonzero((whose >= 0) & (whose < n) & counts)
    parts = np.clip(np.nan_to_num(beside[mine, 1]), 0.0, 1.0)
    np.add.at(found, whose[mine], np.rint(np.ldexp(rows[mine] * parts[:, None], 44)))
    told[whose[mine]] = True
    return found, told


def _all_of(X: Any, y: Any, view: TransformedView) -> tuple[Any, Any, Any]:
    """Rows, what is beside them, NaN where an entry is not finite, and what rows are times."""
    assert not view.weigh
    a = np.concatenate([mapped(X[some : some + 4096], view) for some in range(0, len(X), 4096)])
    beside, factor = _beside(X, a, alone(y), None if y.ndim == 1 else y[:, 2], view)
    return a, beside + np.einsum("ij,j->i", X, np.zeros(X.shape[1])), factor


def _beside(X: Any, a: Any, y: Any, offset: Any, view: TransformedView) -> tuple[Any, Any]:
    intercept = view.intercept and view.matrix is None
    if view.at is None:
        return y - view.shift, None
    loss, scale = view.at.loss, view.at.scale

    def predictor(at: Any) -> Any:
        rows, constant = (plain(X), view.intercept) if at.raw else (a, intercept)
        return predictors(rows, at.theta, constant) + (0.0 if offset is None else offset)

    y = np.where(np.isfinite(y), loss._response(y), np.nan)  # a score may be finite at infinity
    if view.what == "response":
        return y - view.shift, None
    eta = predictor(view.at)
    if view.what == "curvature":
        return y, np.sqrt(loss._curvature_at(y, eta, scale))
    if view.what == "score size":
        return np.where(np.isnan(y), np.nan, loss._score_bound_at(eta)), None
    if view.what == "residual":
        return y - eta, None
    value = loss._score_at(y, eta, scale)
    discount, reach = view.row_clipping
    if reach < np.inf:
        size = norms(a, intercept) * loss._score_bound_at(eta)
        return value, np.where(size > reach, reach / size, 1.0)
    if discount is None:
        return value, None
    size = norms(product_of(a, discount.back), False)
    size = size * np.sqrt(loss._curvature_at(y, predictor(discount.at), discount.at.scale))
    beyond = size > discount.radius
    return value, np.where(beyond, (discount.radius / size) ** (2.0 * discount.power), 1.0)


def product_of(a: Any, matrix: Any) -> Any:
    """Rows times a matrix, with the bits they have among any others."""
    return np.concatenate([product(a[at : at + 4096], matrix) for at in range(0, len(a), 4096)])
