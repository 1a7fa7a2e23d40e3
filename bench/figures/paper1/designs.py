"""Simulated populations of paper 1 and drawing helpers its figures share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import truncnorm

import dpfast

__all__ = ["COLOURS", "RADIUS", "bounded_linear", "curves", "linear", "logistic", "newton", "norms"]

Array = np.ndarray
RADIUS = math.sqrt(2.0)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f", "#e69f00", "#56b4e9", "#000000")
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


def curves(
    axes: Any,
    x: Sequence[float],
    rows: Mapping[str, Sequence[float]],
    *,
    xlabel: str,
    ylabel: str,
    log: str = "",
) -> None:
    """One line per entry, with markers; ``log`` names the logarithmic axes."""
    for index, (label, values) in enumerate(rows.items()):
        style = "--" if label.startswith(("non-private", "nominal")) else "-"
        marker = "o" if len(x) < 15 else ""
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(x, values, style, marker=marker, markersize=4, color=colour, label=label)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    if "y" in log:
        axes.set_yscale("log")
    if "x" in log:
        axes.set_xscale("log")
        if len(x) < 8:
            axes.set_xticks(list(x), [f"{value:g}" for value in x], fontsize=8)
            axes.xaxis.set_tick_params(which="minor", bottom=False)
            axes.xaxis.set_minor_formatter(lambda value, position: "")
    axes.legend(frameon=False, fontsize=8)


def one_panel(
    x: Sequence[float], rows: Mapping[str, Sequence[float]], **labels: Any
) -> Callable[[Any], None]:
    """A plot of these curves and nothing else."""
    return lambda figure: curves(figure.subplots(), x, rows, **labels)


def distances(
    figure: Any,
    paths: Mapping[str, Array],
    own: Array,
    label: str,
    styles: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Distances of iterates from the non-private estimate, with those of the default."""
    axes = figure.subplots()
    for index, (name, values) in enumerate(paths.items()):
        axes.plot(values, label=name, **(styles[index] if styles else {"color": COLOURS[index]}))
    axes.plot(own, "-s", color=COLOURS[3], markersize=3, label=label)
    axes.set(xlabel="iteration", ylabel="distance from the non-private estimate", yscale="log")
    axes.legend(frameon=False, fontsize=8)
