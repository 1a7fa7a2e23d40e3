"""Simulated populations of paper 1 and drawing helpers its figures share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import truncnorm

import dpfast
from bench.figures.runner import Panel

Array = np.ndarray
RADIUS = math.sqrt(2.0)
ONES = (1.0, 1.0, 1.0, 1.0)


def linear(
    rng: np.random.Generator,
    n: int,
    truth: Sequence[float] = ONES,
    spread: float = 2.0,
    sigma: float = 2.0,
    correlation: float = 0.0,
) -> tuple[Array, Array]:
    """Section 3.2.1: three normal covariates (without the intercept) and normal errors."""
    covariance = np.full((3, 3), correlation) + (1.0 - correlation) * np.eye(3)
    X = spread * rng.normal(size=(n, 3)) @ np.linalg.cholesky(covariance).T
    return X, truth[0] + X @ np.array(truth[1:]) + sigma * rng.normal(size=n)


def logistic(
    rng: np.random.Generator,
    n: int,
    truth: Sequence[float] = (1.5, 1.0, -1.0, 0.5),
    bound: float = math.inf,
) -> tuple[Array, Array]:
    """Sections 3.2.2 and H.3: normal covariates, their norm at most ``bound``."""
    X = rng.normal(size=(n, 3))
    X *= np.minimum(1.0, bound / np.linalg.norm(X, axis=1))[:, None]
    t = truth[0] + X @ np.array(truth[1:])
    return X, (rng.random(n) < expit(t)).astype(float)


def bounded_linear(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Section H.2, figure 14: rows of norm at most 2 (intercept included), truncated errors."""
    X = rng.uniform(-2.0, 2.0, size=(n, 3))
    X *= np.minimum(1.0, math.sqrt(3.0) / np.linalg.norm(X, axis=1))[:, None]
    error = truncnorm.rvs(-1.959964, 1.959964, scale=0.75, size=n, random_state=rng)
    return X, 1.0 + X @ np.array([-1.0, 0.5, -0.5]) + error


def newton(steps: int, rule: Any, start: Sequence[float] | None = None) -> dpfast.optimize.Newton:
    """The paper's Newton: the Hessian in every step, uniform."""
    return dpfast.optimize.Newton(
        newton_steps=steps, step=rule, max_step=1e6, steps=steps, schedule="uniform", start=start
    )


def norms(path: Array, centre: Array) -> Array:
    """Distances of the iterates from a point, capped so that a diverged path can be drawn."""
    return np.minimum(np.linalg.norm(np.asarray(path) - centre, axis=1), 1e6)


def lines(
    x: Sequence[float], rows: Mapping[str, Any], xlabel: str, ylabel: str, log: str = ""
) -> Panel:
    """Draw one line for each entry."""
    return Panel(x, dict(rows), {"xlabel": xlabel, "ylabel": ylabel}, log)


def distances(
    paths: Mapping[str, Array], own: Array, label: str, styles: Mapping[str, Any] | None = None
) -> list[Panel]:
    """Distances of iterates from the non-private estimate, with those of the default."""
    rows = dict(paths) | {label: own}
    x = {name: np.arange(len(values)) for name, values in rows.items()}
    panel = lines((), rows, "iteration", "distance from the non-private estimate", "y")
    panel.own_x, panel.styles = x, dict(styles or {}) | {label: "s-"}
    return [panel]
