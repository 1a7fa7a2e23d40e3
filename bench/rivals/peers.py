"""What is compared: each takes standardised columns and a budget, and gives coefficients.

All but dpfast's fit with nothing declared get columns that were centred and scaled by their own
exact means and standard deviations, which nobody has; on the raw columns none of them runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dpfast
from dpfast import baselines

__all__ = ["JUDGED", "PEERS", "RIVALS", "Answer", "Peer", "nothing_declared", "standardised"]

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


def _answer(fit: dpfast.Fit) -> Answer:
    return Answer(fit.params, fit.bse, fit.conf_int(), bool(fit.warnings))


def nothing_declared(X: Array, y: Array, mu: float, seed: int) -> Answer:
    """dpfast's least squares on the columns as they came; NaN where it is refused."""
    noise = dpfast.SeededNoise(seed)
    try:
        return _answer(dpfast.fit(X, y, "least-squares", privacy=mu, noise=noise))
    except dpfast.InvalidBudget:  # too few records to find where the columns lie
        nothing = np.full(X.shape[1] + 1, np.nan)
        return Answer(nothing, nothing, np.full((len(nothing), 2), np.nan), True)


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
    return _answer(dpfast.fit(Z, v, "log-cosh", privacy=mu, scale=scale, noise=noise))


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
    fit = baselines.adassp(Z, v, x_bound=x_bound, y_bound=y_bound, privacy=mu, noise=noise)
    return Answer(fit.params)


def clipped_descent(Z: Array, v: Array, mu: float, seed: int) -> Answer:
    """Gradient descent on clipped gradients of the squared loss (DP-SGD on whole batches)."""
    noise = dpfast.SeededNoise(seed)
    clip = 1.5 * (Z.shape[1] + 1) ** 0.5
    fit = baselines.clipped_gradient_descent(
        Z, v, "squared", clip=clip, privacy=mu, steps=15, step_size=0.5, average=0.3, noise=noise
    )
    return Answer(fit.params)


#: What is being judged.
JUDGED = "nothing declared"

PEERS: dict[str, Peer] = {
    "units told": least_squares,
    "log-cosh": log_cosh,
    "AdaSSP": adassp,
    "AdaSSP, told": adassp_told,
    "clipped descent": clipped_descent,
}

#: Those that are not dpfast's least squares.
RIVALS = tuple(PEERS)[1:]
