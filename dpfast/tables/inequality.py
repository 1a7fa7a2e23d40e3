"""Functionals of a distribution function on a grid, each with its linear approximation.

A functional T has weights w: ``T(F + d) = T(F) + w @ d`` to first order, for shares F up to the
upper edges of bins.  Integrals are exact for values that are spread evenly over their bin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array


class Functional(NamedTuple):
    """Value of a functional, and its weights at the upper edges of bins."""

    value: float
    weights: Array


def _integral_weights(edges: Array, end: float) -> Array:
    """Return weights of shares at upper edges in the integral of F up to ``end`` (trapezoids)."""
    widths = np.diff(np.minimum(edges, end))
    full = np.diff(edges)
    # F is linear within a bin, 0 at the lowest edge; the last bin may count in part
    part = np.divide(widths, full, out=np.zeros_like(widths), where=full > 0.0)
    weights = widths * (0.5 * part)
    weights[:-1] += (widths * (1.0 - 0.5 * part))[1:]
    return np.asarray(weights)


def mean_functional(share: Array, edges: Array) -> Functional:
    """Evaluate the mean: the highest value less the integral of F."""
    weights = _integral_weights(edges, float(edges[-1]))
    return Functional(float(edges[-1] - weights @ share), -weights)


def gini_functional(share: Array, edges: Array, variances: Array) -> Functional:
    """Evaluate the Gini coefficient, ``1 - integral (1 - F)^2 / integral (1 - F)``.

    The noise of F adds its variances to the squares, which are subtracted.
    """
    widths = np.diff(edges)
    upper, lower = 1.0 - share, 1.0 - np.concatenate([[0.0], share[:-1]])
    mean = float(edges[0] + 0.5 * (upper + lower) @ widths)
    squares = float(edges[0] + (upper**2 + upper * lower + lower**2) @ widths / 3.0)
    squares -= float(_integral_weights(edges, float(edges[-1])) @ variances)
    d_upper = (2.0 * upper + lower) * widths / 3.0
    d_lower = (upper + 2.0 * lower) * widths / 3.0
    of_squares = -d_upper
    of_squares[:-1] -= d_lower[1:]
    of_mean = mean_functional(share, edges).weights
    return Functional(1.0 - squares / mean, (squares * of_mean / mean - of_squares) / mean)


def lorenz_functional(share: Array, edges: Array, p: float) -> Functional:
    """Evaluate the Lorenz curve: the part of the total that the lowest share p has.

    The total up to the quantile Q is ``p Q - integral F``.  It does not change to first order with
    Q, because its derivative there is ``p - F(Q) = 0``.
    """
    quantile = quantile_of(share, edges, p)
    weights = -_integral_weights(edges, quantile)
    part = float(p * quantile + weights @ share)
    mean, of_mean = mean_functional(share, edges)
    return Functional(part / mean, (weights - part / mean * of_mean) / mean)


def monotone(below: Array, total: float) -> Array:
    """Return the nearest counts that do not decrease, from 0 to a total (isotonic regression)."""
    from scipy.optimize import isotonic_regression

    return np.clip(isotonic_regression(below).x, 0.0, total)


def quantile_of(share: Array, edges: Array, p: float) -> float:
    """Return the p-quantile of noisy shares, made monotone."""
    return float(np.interp(p, np.concatenate([[0.0], monotone(share, 1.0)]), edges))


def interpolation_weights(edges: Array, value: float) -> Array:
    """Return the weights of shares at upper edges in the share up to a value within the range."""
    n_bins = edges.size - 1
    upper = min(int(np.searchsorted(edges[1:], value, side="left")), n_bins - 1)
    part = float(np.clip((value - edges[upper]) / (edges[upper + 1] - edges[upper]), 0.0, 1.0))
    weights = np.zeros(n_bins)
    weights[upper] = part
    if upper:
        weights[upper - 1] = 1.0 - part
    return weights


def relative_share_functional(
    share: Array, edges: Array, fraction: float, median: float, window: float
) -> Functional:
    """Evaluate the share up to a fraction of the median.

    An error of the median moves the line; densities at both are slopes of F over a window.
    """

    def at(value: float) -> Array:
        return interpolation_weights(edges, value)

    def density(value: float) -> float:
        low, high = max(value - window, float(edges[0])), min(value + window, float(edges[-1]))
        return float((at(high) - at(low)) @ share) / max(high - low, 1e-300)

    line = fraction * median
    ratio = fraction * max(density(line), 0.0) / max(density(median), 1e-300)
    return Functional(float(at(line) @ share), at(line) - min(ratio, 10.0) * at(median))
