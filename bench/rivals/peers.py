"""What is compared: each takes standardised columns and a budget, and gives coefficients.

All but dpfast's fit with nothing declared get columns that were centred and scaled by their own
exact means and standard deviations, which nobody has; on the raw columns none of them runs.  Those
"told" more are told more for nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from bench.rivals import literature
from bench.rivals.ensemble import ensemble
from dpfast.errors import InferenceUnavailable

__all__ = [
    "JUDGED",
    "PEERS",
    "RIVALS",
    "TUNED",
    "Answer",
    "Peer",
    "likeliest",
    "nothing_declared",
    "pair_of",
    "sgd_settings",
    "standardised",
    "tilted",
]

Array = NDArray[np.float64]


class Answer(NamedTuple):
    """Coefficients, the intercept first; their standard errors where there are any."""

    params: Array
    bse: Array | None = None
    intervals: Array | None = None
    warned: bool = False


Peer = Callable[[Array, Array, float, int], Answer]


def standardised(X: Array, y: Array) -> tuple[Array, Array]:
    """Columns and response with mean 0 and standard deviation 1."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), (y - y.mean()) / y.std()


def likeliest(Z: Array, y: Array) -> tuple[Array, Array]:
    """MLE of rows with a constant and its sandwich standard errors, by Newton's steps."""
    theta = np.zeros(Z.shape[1])
    for _ in range(40):
        mean = 1.0 / (1.0 + np.exp(-Z @ theta))
        inverse = np.linalg.inv((Z * (mean * (1.0 - mean))[:, None]).T @ Z)
        step = inverse @ (Z.T @ (y - mean))
        theta = theta + step / max(1.0, float(np.abs(step).max()))
    scores = Z * (y - mean)[:, None]
    return theta, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def _answer(fit: dpfast.Fit) -> Answer:
    return Answer(fit.params, fit.bse, fit.conf_int(), bool(fit.warnings))


def nothing_declared(X: Array, y: Array, mu: float, seed: int) -> Answer:
    """dpfast's least squares on the columns as they came.

    NaN where it is refused, and in place of standard errors where there are none.
    """
    noise, missing = dpfast.SeededNoise(seed), np.full(X.shape[1] + 1, np.nan)
    unknown = np.column_stack([missing, missing])
    try:
        fit = dpfast.fit(X, y, "least-squares", privacy=mu, noise=noise)
    except dpfast.errors.InvalidBudget:  # too few records to find where the columns lie
        return Answer(missing, missing, unknown, True)
    try:
        return _answer(fit)
    except InferenceUnavailable:  # the mean of the response alone
        return Answer(np.nan_to_num(fit.params), missing, unknown, True)


def least_squares(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """dpfast's least squares, columns declared."""
    noise = dpfast.SeededNoise(seed)
    fit = dpfast.fit(Z, v, "least-squares", privacy=mu, standardize=False, noise=noise)
    return _answer(fit)


def log_cosh(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """dpfast's robust default, with the exact standard deviation of the residuals as its scale."""
    rows = np.column_stack([np.ones(len(Z)), Z])
    scale = float(np.std(v - rows @ np.linalg.lstsq(rows, v, rcond=None)[0]))
    noise = dpfast.SeededNoise(seed)
    return _answer(
        dpfast.fit(Z, v, dpfast.Objective("log-cosh", scale=scale), privacy=mu, noise=noise)
    )


def adassp(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """AdaSSP (Wang 2018) with public bounds: rows of 1.5 sqrt(p), responses of 4."""
    bound = 1.5 * (Z.shape[1] + 1) ** 0.5
    return _adassp(Z, v, mu, seed, bound, 4.0)


def adassp_told(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """AdaSSP with 99% quantiles of these data as bounds, for nothing."""
    lengths = np.sqrt(1.0 + np.sum(Z * Z, axis=1))
    bounds = float(np.quantile(lengths, 0.99)), float(np.quantile(np.abs(v), 0.99))
    return _adassp(Z, v, mu, seed, *bounds)


def _adassp(Z: Array, v: Array, mu: float, seed: int, x_bound: float, y_bound: float) -> Answer:
    noise = dpfast.SeededNoise(seed)
    fit = literature.adassp(Z, v, x_bound=x_bound, y_bound=y_bound, privacy=mu, noise=noise)
    return Answer(fit.params)


def clipped_descent(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """Gradient descent on clipped gradients of the squared loss, whole batches, public settings."""
    noise = dpfast.SeededNoise(seed)
    clip = 1.5 * (Z.shape[1] + 1) ** 0.5
    fit = literature.clipped_gradient_descent(
        Z,
        v,
        "least-squares",
        clip=clip,
        privacy=mu,
        noise=noise,
        method=dpfast.optimize.GradientDescent(steps=15, step_size=0.5, average=0.3),
    )
    return Answer(fit.params)


def dp_sgd(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """DP-SGD on samples of a tenth of the records; settings from n, p and the budget alone."""
    noise = dpfast.SeededNoise(seed)
    fit = literature.dp_sgd(
        Z, v, "least-squares", privacy=pair_of(mu), noise=noise, **sgd_settings(Z)
    )
    return Answer(fit.params)


def sgd_settings(Z: Array, step_size: float = 0.2) -> dict[str, Any]:
    """Of DP-SGD for standardised columns: public."""
    clip = 1.5 * (Z.shape[1] + 1) ** 0.5
    method = dpfast.optimize.GradientDescent(steps=100, step_size=step_size, average=0.5)
    return {"clip": clip, "sampling_rate": 0.1, "method": method}


def perturbed_objective(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """Objective perturbation of log-cosh at three times the scale of the exact residuals.

    Its rows are projected onto the ball of the 99% quantile of their lengths, for nothing; the
    ridge takes a quarter of epsilon.
    """
    rows = np.column_stack([np.ones(len(Z)), Z])
    scale = 3.0 * float(np.std(v - rows @ np.linalg.lstsq(rows, v, rcond=None)[0]))
    return tilted(Z, v, "log-cosh", mu, seed, 1.0 / scale, scale)


def tilted(
    Z: Array, v: Array, loss: str, mu: float, seed: int, curvature: float, scale: float | None
) -> Answer:
    """Objective perturbation; ``curvature`` bounds that of the loss."""
    pair = pair_of(mu)
    radius = float(np.quantile(np.sqrt(1.0 + np.sum(Z * Z, axis=1)), 0.99))
    ridge = 4.0 * curvature * radius**2 / (len(Z) * pair.epsilon)
    fit = literature.objective_perturbation(
        Z,
        v,
        dpfast.Objective(loss, scale=scale, ridge=ridge),
        privacy=pair,
        radius=radius,
        noise=dpfast.SeededNoise(seed),
    )
    return Answer(fit.params)


def tukey_ensemble(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """A private deep point of OLS fits of disjoint subsets; NaN where its test fails."""
    rows, pair = np.column_stack([np.ones(len(Z)), Z]), pair_of(mu)
    return Answer(ensemble(rows, v, pair.epsilon, pair.delta, seed))


@functools.cache
def pair_of(mu: float) -> dpfast.ApproxDP:
    """(epsilon, delta) of rivals that promise no mu; less than mu does, which favours them."""
    if mu in PAIRS:
        return dpfast.ApproxDP(*PAIRS[mu])
    return dpfast.ApproxDP(dpfast.GDP(mu).epsilon(DELTA), DELTA)


#: Of the budgets that are compared; others at this delta.
PAIRS = {0.719: (3.0, 1e-5), 0.292: (math.log(3.0), 1e-5), 0.237: (1.0, 1e-6)}
DELTA = 1e-6

#: What is being judged.
JUDGED = "nothing declared"

PEERS: dict[str, Peer] = {
    "units told": least_squares,
    "log-cosh": log_cosh,
    "AdaSSP": adassp,
    "AdaSSP, told": adassp_told,
    "clipped descent": clipped_descent,
    "DP-SGD": dp_sgd,
    "objective pert., told": perturbed_objective,
    "Tukey ensemble": tukey_ensemble,
}

#: Those that are not dpfast's least squares.
RIVALS = tuple(PEERS)[1:]

#: Descent whose settings were chosen by its own errors on these data: unfair, no bar.
TUNED = "descent, tuned on the data (unfair)"
