"""What is compared: each takes standardised columns and a budget, and gives coefficients.

All but dpfast's fit with nothing declared get columns that were centred and scaled by their own
exact means and standard deviations, which nobody has; on the raw columns none of them runs.  Those
"told" more are told more for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import dpfast
from bench.rivals import literature
from bench.rivals.ensemble import ensemble
from dpfast.arguments import Array

#: Coefficients, the intercept first, of columns, response, mu and a seed.
Peer = Callable[[Array, Array, float, int], Array]

#: (epsilon, delta) of rivals that promise no mu; less than mu does, which favours them.
PAIRS = {0.719: (3.0, 1e-5), 0.292: (math.log(3.0), 1e-5), 0.237: (1.0, 1e-6)}
DELTA = 1e-6

#: A logistic loss has a quarter of the squared loss's curvature: its steps are so much longer.
LONGER = {"least-squares": 1.0, "logistic": 4.0}


class Units(NamedTuple):
    """Centres and deviations of a table's columns and response."""

    means: Array
    spreads: Array
    level: float
    unit: float

    @staticmethod
    def of(X: Array, y: Array, loss: str) -> Units:
        spreads = X.std(axis=0)
        spreads = np.where(spreads > 0.0, spreads, 1.0)
        linear = loss == "least-squares"
        level, unit = (float(y.mean()), float(y.std())) if linear else (0.0, 1.0)
        return Units(X.mean(axis=0), spreads, level, unit)

    def coded(self, X: Array, y: Array) -> tuple[Array, Array]:
        return (X - self.means) / self.spreads, (y - self.level) / self.unit

    def to_raw(self, theta: Array) -> Array:
        """Coefficients in the units of the columns as they came."""
        slopes = theta[1:] * self.unit / self.spreads
        return np.append(self.level + self.unit * theta[0] - self.means @ slopes, slopes)

    def from_raw(self, beta: Array) -> Array:
        constant = (beta[0] + self.means @ beta[1:] - self.level) / self.unit
        return np.append(constant, beta[1:] * self.spreads / self.unit)


def with_one(Z: Array) -> Array:
    return np.column_stack([np.ones(len(Z)), Z])


def exact(Z: Array, v: Array, loss: str) -> tuple[Array, Array]:
    """OLS with HC1 errors, or the logistic MLE by Newton's steps with those of its sandwich."""
    rows = with_one(Z)
    if loss == "least-squares":
        inverse = np.linalg.pinv(rows.T @ rows)
        theta = inverse @ (rows.T @ v)
        left, factor = v - rows @ theta, len(v) / (len(v) - rows.shape[1])
    else:
        theta, factor = np.zeros(rows.shape[1]), 1.0
        for _ in range(40):
            mean = 1.0 / (1.0 + np.exp(-rows @ theta))
            inverse = np.linalg.inv((rows * (mean * (1.0 - mean))[:, None]).T @ rows)
            step = inverse @ (rows.T @ (v - mean))
            theta = theta + step / max(1.0, float(np.abs(step).max()))
        left = v - mean
    scores = rows * left[:, None]
    return theta, np.sqrt(factor * (inverse @ (scores.T @ scores) @ inverse).diagonal())


def pair_of(mu: float) -> dpfast.ApproxDP:
    """(epsilon, delta) of a budget."""
    if mu in PAIRS:
        return dpfast.ApproxDP(*PAIRS[mu])
    return dpfast.ApproxDP(dpfast.GDP(mu).epsilon(DELTA), DELTA)


def units_told(loss: str) -> Peer:
    """dpfast, columns declared."""
    return lambda Z, v, mu, seed: (
        dpfast.fit(Z, v, loss, privacy=mu, standardize=False, noise=dpfast.SeededNoise(seed)).params
    )


def _residual_scale(Z: Array, v: Array) -> float:
    rows = with_one(Z)
    return float(np.std(v - rows @ np.linalg.lstsq(rows, v, rcond=None)[0]))


def log_cosh(Z: Array, v: Array, mu: float, seed: int) -> Array:
    """dpfast's robust default, with the exact standard deviation of the residuals as its scale."""
    loss = dpfast.Objective("log-cosh", scale=_residual_scale(Z, v))
    return dpfast.fit(Z, v, loss, privacy=mu, noise=dpfast.SeededNoise(seed)).params


def adassp(Z: Array, v: Array, mu: float, seed: int) -> Array:
    """AdaSSP (Wang 2018) with public bounds: rows of 1.5 sqrt(p), responses of 4."""
    bounds = {"x_bound": 1.5 * (Z.shape[1] + 1) ** 0.5, "y_bound": 4.0}
    return literature.adassp(Z, v, privacy=mu, seed=seed, **bounds)


def longest(Z: Array) -> float:
    """99% quantile of the rows' lengths."""
    return float(np.quantile(np.sqrt(1.0 + np.sum(Z * Z, axis=1)), 0.99))


def adassp_told(Z: Array, v: Array, mu: float, seed: int) -> Array:
    """AdaSSP with 99% quantiles of these data as bounds, for nothing."""
    bounds = {"x_bound": longest(Z), "y_bound": float(np.quantile(np.abs(v), 0.99))}
    return literature.adassp(Z, v, privacy=mu, seed=seed, **bounds)


def clipped_descent(Z: Array, v: Array, mu: float, seed: int) -> Array:
    """Gradient descent on clipped gradients of the squared loss, whole batches, public settings."""
    return descent(Z, v, "least-squares", mu, seed, (1.5, 15, 0.5))


def dp_sgd(loss: str) -> Peer:
    """DP-SGD on samples of a tenth of the records; settings from n, p and the budget alone."""
    return lambda Z, v, mu, seed: literature.dp_sgd(
        Z, v, loss, privacy=pair_of(mu), seed=seed, clip=1.5 * (Z.shape[1] + 1) ** 0.5, steps=100,
        step_size=0.2 * LONGER[loss],
    )  # fmt: skip


def perturbed_objective(loss: str) -> Peer:
    """Objective perturbation, of log-cosh at three times the scale of the exact residuals.

    Its rows are projected onto the ball of the 99% quantile of their lengths, for nothing; the
    ridge takes a quarter of epsilon.
    """

    def peer(Z: Array, v: Array, mu: float, seed: int) -> Array:
        pair, radius, linear = pair_of(mu), longest(Z), loss == "least-squares"
        scale = 3.0 * _residual_scale(Z, v) if linear else None
        curvature = 1.0 / scale if scale else 0.25
        ridge = 4.0 * curvature * radius**2 / (len(Z) * pair.epsilon)
        asked = dpfast.Objective("log-cosh" if linear else loss, scale=scale, ridge=ridge)
        noise = dpfast.SeededNoise(seed)
        return literature.objective_perturbation(
            Z, v, asked, privacy=pair, radius=radius, noise=noise
        ).params

    return peer


def tukey_ensemble(Z: Array, v: Array, mu: float, seed: int) -> Array:
    """A private deep point of OLS fits of disjoint subsets; NaN where its test fails."""
    pair = pair_of(mu)
    return ensemble(with_one(Z), v, pair.epsilon, pair.delta, seed)


#: What is being judged.
JUDGED = "nothing declared"

#: Of the losses; the first is dpfast in declared units, and no rival.
PEERS: dict[str, dict[str, Peer]] = {
    "least-squares": {
        "units told": units_told("least-squares"),
        "log-cosh": log_cosh,
        "AdaSSP": adassp,
        "AdaSSP, told": adassp_told,
        "clipped descent": clipped_descent,
        "DP-SGD": dp_sgd("least-squares"),
        "objective pert., told": perturbed_objective("least-squares"),
        "Tukey ensemble": tukey_ensemble,
    },
    "logistic": {
        "units told": units_told("logistic"),
        "objective pert., told": perturbed_objective("logistic"),
        "DP-SGD": dp_sgd("logistic"),
    },
}

#: Descent whose settings were chosen by its own errors on these data: unfair, no bar.
TUNED = "descent, tuned on the data (unfair)"

#: Clip in sqrt(p), steps and their size.
Settings = tuple[float, int, float]
CLIPS, PACES = (0.3, 1.0, 2.0, 4.0, 8.0), ((8, 0.6), (30, 0.5), (150, 0.5))


def descent(Z: Array, v: Array, loss: str, mu: float, seed: int, settings: Settings) -> Array:
    """Gradient descent on clipped gradients, whole batches; the last 30% of steps are averaged."""
    clip, steps, size = settings
    return literature.clipped_gradient_descent(
        Z, v, loss, clip=clip * (Z.shape[1] + 1) ** 0.5, privacy=mu, seed=seed, steps=steps,
        step_size=size, average=0.3,
    )  # fmt: skip


def best_settings(
    Z: Array, v: Array, loss: str, mu: float, distance: Callable[[Any], float]
) -> Settings:
    """Those with the least mean distance of two runs, whose noise no reported run has."""
    grid = [(clip, steps, LONGER[loss] * size) for clip, (steps, size) in product(CLIPS, PACES)]

    def score(settings: Settings) -> float:
        runs = [distance(descent(Z, v, loss, mu, 10_000 + k, settings)) for k in range(2)]
        return float(np.mean(runs))

    return min(grid, key=score)
