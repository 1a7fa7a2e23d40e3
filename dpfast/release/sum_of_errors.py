"""Quantiles of the sum of a release's noise and an independent normal error."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from dpfast.arguments import Array
from dpfast.privacy.release.scaled import law_quantile

#: Halvings of the interval of a quantile: of its relative length 2^-60 is left.
HALVINGS = 60


def sum_quantiles(law: str, scales: Array, normal: Array, tail: float) -> Array:
    """Return levels z with ``P(|scale Z + normal N| > z) = tail``, shape (k,).

    Z has the law of the noise and N is standard normal.  A Laplace variable is a normal one of
    random variance, so the probability grows with the scale: an upper bound of the scale gives an
    upper bound of the level.

    Parameters
    ----------
    law : {"laplace", "gaussian"}
    scales, normal : ndarray of shape (k,)
        Not negative; where one is infinite or NaN the level is infinite.
    tail : float
        In (0, 1).
    """
    if law == "gaussian":
        with np.errstate(all="ignore"):
            size = np.hypot(scales, normal)
        return np.where(np.isnan(size), math.inf, size) * law_quantile(law, tail)
    pairs = zip(np.atleast_1d(scales).tolist(), np.atleast_1d(normal).tolist(), strict=True)
    return np.array([_of_laplace(scale, sigma, tail) for scale, sigma in pairs])


def _of_laplace(scale: float, sigma: float, tail: float) -> float:
    """Bisect the tail of a Laplace and a normal variable, from the union bound down."""
    if not (scale < math.inf and sigma < math.inf):
        return math.inf
    size = max(scale, sigma)
    if size == 0.0:
        return 0.0
    a, s = scale / size, sigma / size  # one of them is 1
    if a < 1e-6:
        return sigma * law_quantile("gaussian", tail)
    if s < 1e-6:
        return scale * law_quantile("laplace", tail) * (1.0 + s)
    low = 0.0
    high = a * law_quantile("laplace", 0.5 * tail) + s * law_quantile("gaussian", 0.5 * tail)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _tail(middle, a, s) > tail:
            low = middle
        else:
            high = middle
    return high * size


def _tail(t: float, a: float, s: float) -> float:
    """Compute ``P(|a L + s N| > t)``, L standard Laplace: by parts, with logarithms."""
    half = 0.5 * (s / a) ** 2
    far = math.exp(float(log_ndtr(-t / s)))
    near = math.exp(half - t / a + float(log_ndtr(t / s - s / a)))
    beyond = math.exp(half + t / a + float(log_ndtr(-t / s - s / a)))
    return 2.0 * far + near - beyond
