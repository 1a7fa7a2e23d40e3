"""Designs: what the covariates are like, where the solution is, what is public of it."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import expit

import dpfast
from dpfast.arguments import Array
from dpfast.models import Objective, resolve_loss

#: About (1, 1e-6).
SMALL = 0.2387


class Cell(NamedTuple):
    """One design; ``options`` are those of :func:`simulate`, ``interval`` that of a free scale."""

    name: str
    loss: str
    n: int
    p: int
    mu: float = 1.0
    scale: float = 1.0
    options: tuple[tuple[str, Any], ...] = ()
    interval: tuple[float, float] | None = None


def covariates(rng: np.random.Generator, n: int, q: int, kind: str) -> Array:
    X = rng.normal(size=(n, q))
    if kind.startswith("correlated "):
        r = float(kind.split()[1])
        return math.sqrt(1.0 - r) * X + math.sqrt(r) * rng.normal(size=(n, 1))
    if kind.startswith("dummies "):  # half of the columns
        k = max(1, q // 2)
        X[:, :k] = rng.random((n, k)) < float(kind.split()[1])
    if kind == "t3":
        X = rng.standard_t(3, size=(n, q)) / math.sqrt(3.0)
    if kind == "t2.5":
        X = rng.standard_t(2.5, size=(n, q)) / math.sqrt(5.0)
    if kind == "exponential":
        X = rng.exponential(size=(n, q)) - 1.0
    if kind == "lumps":  # one record in ten is ten times as long as the others
        X = X * np.where(rng.random((n, 1)) < 0.1, 3.0, 0.3)
    if kind.startswith("neighbours "):  # correlated with the columns next to them
        r = float(kind.split()[1])
        for j in range(1, q):
            X[:, j] = r * X[:, j - 1] + math.sqrt(1.0 - r * r) * X[:, j]
    if kind == "lognormal":
        X = (np.exp(X) - math.exp(0.5)) / math.sqrt((math.e - 1.0) * math.e)
    if kind == "uneven":
        X = X * np.geomspace(0.2, 3.0, q)
    if kind == "shrinking":
        X = X * np.geomspace(1.5, 0.15, q)
    return X


@lru_cache(maxsize=64)
def _intercept(ones: float, q: int, kind: str, slopes: float, mixed: bool) -> float:
    t = covariates(np.random.default_rng(1), 200_000, q, kind) @ _slopes(q, slopes, mixed)
    return float(brentq(lambda b: expit(b + t).mean() - ones, -30.0, 30.0))


#: Slopes of several sizes, in units of the largest, again and again.
MIXED = 1.0, -0.5, 0.0, 0.8, -1.0, 0.3


def _slopes(q: int, size: float, mixed: bool = False) -> Array:
    if mixed:
        return np.asarray(size * np.resize(MIXED, q))
    return size * np.where(np.arange(q) % 2, -1.0, 1.0)


def simulate(
    rng: np.random.Generator,
    cell: Cell,
    *,
    kind: str = "normal",
    slopes: float | None = None,
    ones: float = 0.5,
    far: float = 0.0,
    heavy: bool = False,
    mixed: bool = False,
    order: str = "none",
) -> tuple[Array, Array, Array]:
    """Covariates, response and true coefficients, with a free scale that, too."""
    n, q = cell.n, cell.p - 1
    X = covariates(rng, n, q, kind)
    if cell.loss == "logistic":
        size = 0.5 if slopes is None else slopes
        b0 = 0.0 if ones == 0.5 else _intercept(ones, q, kind, size, mixed)
        beta = _slopes(q, size, mixed)
        y = (rng.random(n) < expit(b0 + X @ beta)).astype(float)
    else:
        b0, beta = 1.0 + far, _slopes(q, 1.0 if slopes is None else slopes, mixed)
        noise = rng.standard_t(3, size=n) if heavy else rng.normal(size=n)
        y = b0 + X @ beta + noise
    if order != "none":  # of the file
        rows = np.argsort(y if order == "response" else X[:, 0], kind="stable")
        X, y = X[rows], y[rows]
    truth = np.append(b0, beta)
    if cell.interval is not None:
        truth = np.append(truth, true_scale(cell.loss, heavy))
    return X, y, truth


@lru_cache(maxsize=16)
def true_scale(loss: str, heavy: bool) -> float:
    """Where ``2 E chi = kappa`` for residuals with a t (3) or the normal distribution."""
    residuals = (stats.t(3) if heavy else stats.norm()).ppf((np.arange(200_000) + 0.5) / 200_000)
    kind = resolve_loss(loss)
    free = dpfast.FreeScale(0.5, 2.0)
    target = Objective(kind, dpfast.Mallows(1.0), 0, scale=free).free_scale
    assert target is not None

    def excess(scale: float) -> float:
        u = residuals / scale
        return float(2.0 * np.mean(u * kind.psi(u) - kind.loss(u)) - target.kappa)

    return float(brentq(excess, 0.1, 10.0))
