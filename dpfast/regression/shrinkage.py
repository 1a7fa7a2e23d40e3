"""Shrinkage of slopes in predictions; coefficients and their intervals are not shrunk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels import decisions
from dpfast.solvers.pcn.initial import normal_response
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.result import SolverResult

Array = NDArray[np.float64]

#: Noise of the predictions, as a part of what they explain, up to which nothing is shrunk.
NEGLIGIBLE_NOISE = 0.05

#: Largest standard deviation of a predictor with a link; a larger estimate is noise.
MAX_SPREAD = 3.0

#: Corrections of the mean predictor: the first one already leaves an error below a percent.
CORRECTIONS = 4


def shrunken_coefficients(result: SolverResult, loss: Any, n: int) -> tuple[float, Array | None]:
    """Shrink slopes for predictions; return the factor, and coefficients if it is below 1.

    The James-Stein factor (1961) compares what the slopes explain with their error.  The mean
    prediction stays what it was.
    """
    slopes = result.theta[1:]
    explained, mean, of_slopes = decisions.explained_by_slopes(result.unmapping, result.theta)
    error = slopes.size * standard_error(result, n) ** 2
    factor = shrinkage_factor(explained, error)
    if factor == 1.0:
        return 1.0, None
    if loss.link == "identity":
        intercept = mean - factor * of_slopes
    else:  # these moments are of rows weighted by curvature, and the mean is not
        level = result.mean_predictor
        shrunken = _mean_predictor(level, result.predictor_spread, factor, loss)
        intercept = shrunken - factor * (level - result.theta[0])
    return factor, np.concatenate([[intercept], factor * slopes])


def shrinkage_factor(explained: float, error: float) -> float:
    """Return the James-Stein shrinkage factor of slopes in predictions, with twice the error."""
    if error <= NEGLIGIBLE_NOISE * explained:
        return 1.0
    return max(0.0, 1.0 - 2.0 * error / max(explained, TINY))


def standard_error(result: SolverResult, n: int) -> float:
    """Return the standard error of a preconditioned coefficient, sampling and noise together."""
    p = result.mapping.shape[1]
    return float(result.meat.trace() / (p * max(1, n - p)) + result.noise**2) ** 0.5


def _mean_predictor(level: float, spread: float, factor: float, loss: Any) -> float:
    """Return the mean of a shrunken predictor with the same mean response."""
    spread = min(spread, MAX_SPREAD)
    target = loss._link(_mean_response(level, spread, loss))
    for _ in range(CORRECTIONS):
        level += target - loss._link(_mean_response(level, factor * spread, loss))
    return level


def _mean_response(level: float, spread: float, loss: Any) -> float:
    """Average the mean response over normal predictors, within the range of its link."""
    mean, _ = normal_response(loss, level, spread)
    largest = math.inf if loss.largest_response is None else loss.largest_response
    return min(max(mean, 1e-12), largest - 1e-12)
