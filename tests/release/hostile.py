"""Data sets that try to break a search, and gradients in extended precision to judge it by."""

from __future__ import annotations

import math

import numpy as np

import dpfast
from dpfast.curator import Curator
from dpfast.data import as_records
from dpfast.models import (
    Bounded,
    LogCosh,
    Objective,
    OstrovskiiBach,
    PseudoHuber,
    SmoothedHuber,
)


def curator_of(X, y, loss, scale, radius, intercept=False, ridge=0.0):
    """Holds rows in a ball, for a search for the minimiser."""
    objective = Objective(
        loss, Bounded(radius), X.shape[1], fit_intercept=intercept, scale=scale, ridge=ridge
    )
    ledger, noise = dpfast.Ledger(1.0), dpfast.SeededNoise(0)
    return Curator(as_records(X, y), objective, ledger, noise)


def hostile(rng, n, d, binary):
    """Separable, constant, collinear, zero, huge and non-finite data."""
    X = rng.uniform(-1, 1, (n, d))
    y = rng.integers(0, 2, n).astype(float) if binary else rng.standard_cauchy(n)
    yield X, y
    yield X, (X[:, 0] > 0) * 1.0
    yield X, np.ones(n)
    yield np.zeros((n, d)), y
    yield np.repeat(X[:, :1], d, axis=1), y
    yield X * 1e-300, y
    yield X * 1e300, y
    bad = X.copy()
    bad[::2] = math.nan
    yield bad, y
    yield bad * math.inf, y
    if not binary:
        yield X, np.full(n, 1e300)
        yield X, np.where(X[:, 0] > 0, 1e308, -1e308)
        yield X, X @ np.full(d, 1e6)
        yield X, y * 1e-300 + 40.0
        yield X, np.full(n, math.inf)


def exact_psi(loss, r):
    """The slope of a loss of a residual, in the precision of r."""
    if isinstance(loss, SmoothedHuber):
        s = np.clip((np.abs(r) - loss.c) / loss.h, 0, 1)
        return np.sign(r) * (np.minimum(np.abs(r), loss.c) + loss.h * (s - s**3 + s**4 / 2))
    u = np.clip(r / loss.c, -1e300, 1e300)
    if isinstance(loss, LogCosh):
        return loss.c * np.tanh(u)
    if isinstance(loss, PseudoHuber):
        return loss.c * u / np.hypot(1, u)
    assert isinstance(loss, OstrovskiiBach)
    return loss.c * 2 * u / (1 + np.hypot(1, 2 * u))


def exact_gradient(X, y, theta, loss, scale, plan, intercept):
    """Extended precision; the rows as the kernels project them."""
    rows = X[np.isfinite(X).all(axis=1) & np.isfinite(y)].astype(np.longdouble)
    keep = y[np.isfinite(X).all(axis=1) & np.isfinite(y)].astype(np.longdouble)
    free = np.sqrt(np.longdouble(plan.radius) ** 2 - int(intercept))
    top = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    unit = np.where(top > 0, top, 1)
    lengths = unit * np.sqrt(((rows / unit) ** 2).sum(axis=1, keepdims=True))
    rows = np.where(lengths > free, rows / np.where(lengths > 0, lengths, 1) * free, rows)
    if intercept:
        rows = np.column_stack([np.ones(len(rows)), rows])
    t = rows @ theta.astype(np.longdouble)
    if scale is None:
        e = np.exp(-np.abs(t))
        slope = np.where(t >= 0, 1, e) / (1 + e) - keep
    else:
        slope = -exact_psi(loss, (keep - t) / scale)
    gradient = (slope[:, None] * rows).sum(axis=0) / plan.n
    return gradient + plan.ridge * theta + plan.stiffness / plan.rate * np.sinh(plan.rate * theta)
