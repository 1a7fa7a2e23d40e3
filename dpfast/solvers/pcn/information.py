"""The bound of a Hessian by the variance of the scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.scores import SIGNAL_SDS

#: Part of the curvature by which scores of labels vary, below which a step's bound applies.  Where
#: the model is wrong they vary by less than the curvature, and longer steps would overshoot.
MIN_VARIATION = 0.5

#: Variance of scores for the curvature along a direction, over the mean of the others, from which
#: on a fit warns.  At 1.75 it warned of milder growth of errors, at 2.5 rarely of a tenth of rows.
MAX_VARIATION = 2.0

#: Columns along which a curvature is 1; parts of it that scores determine; score variances there,
#: their noise, and the unit of the parts.
InformationBound = tuple[Array, Array, Array, float, float]


def median_of_sorted(values: Array) -> float:
    """Return the median of increasing numbers."""
    return 0.5 * float(values[(values.size - 1) // 2] + values[values.size // 2])


def relative_variances(curvature: Array, meat: Array, noise: float) -> tuple[Array, Array, float]:
    """Compute the variances of scores along columns of curvature 1, in which they do not covary.

    Returns
    -------
    values : ndarray of shape (p,)
        Increasing.
    columns : ndarray of shape (p, p)
    noise : float
        Noise of an entry, summed over the directions.
    """
    values, columns, square = decisions.relative_variances(curvature, meat)
    return values, columns, noise * square


def information_bound(
    known: Array, meat: Array, noise: float, factor: float, undetermined: Any, of_step: bool = False
) -> InformationBound:
    """Compute a bound of the Hessian by the variance of the scores (White 1982).

    By the information equality both are equal in most directions, up to a common unit: at least
    ``factor``.  Where that is known, the bound of a step is twice the variance: the model may be
    wrong.  Columns without determined curvature have no bound: their scores do not vary.
    """
    bound: InformationBound = decisions.information_bound(
        known, meat, noise, factor, undetermined, of_step, MIN_VARIATION
    )
    return bound


def apply_information_bound(
    curvature: Array, columns: Array, shares: Array, values: Array, doubt: float, reference: float
) -> tuple[Array, Array, int]:
    """Apply the bound to a Hessian.

    Returns
    -------
    curvature : ndarray of shape (p, p)
        The part that the scores determine.
    min_meat : ndarray of shape (p, p)
        The smallest score variance where the bound applies.
    n_hidden : int
        Number of directions that are too noisy.
    """
    minima = reference * np.where(shares < 1.0, shares, 0.0)
    n_hidden = int(np.count_nonzero((values < doubt) & (SIGNAL_SDS * shares < 1.0)))
    bounded, min_meat = decisions.apply_information_bound(curvature, columns, shares, minima)
    return bounded, min_meat, n_hidden


def overstated_curvature(columns: Array, shares: Array) -> Array | None:
    """Return the direction where the bound applies most; None if scores vary enough there."""
    least = int(shares.argmin())
    return columns[:, least] if shares[least] < MIN_VARIATION else None


def excess_variation(curvature: Array, meat: Array, noise: float) -> tuple[float, Array] | None:
    """Return how much more scores vary along a direction than along others; None if not clearly.

    Scores of errors of one variance vary in proportion to the curvature (White 1980).  They vary
    more along a direction in which rows far from the others have the larger residuals.
    """
    p = len(curvature)
    if p < 2:
        return None
    values, columns, noise_in_all = relative_variances(curvature, meat, noise)
    # the largest eigenvalue of the noise, and its standard deviations along one direction
    doubt = (math.sqrt(2.0 * p) + SIGNAL_SDS) * noise_in_all / p
    *smaller, largest = values.tolist()
    others = math.fsum([max(value, 0.0) for value in smaller]) / (p - 1)
    ratio = (largest - doubt) / max(others, noise, TINY)
    return (ratio, columns[:, -1]) if ratio > MAX_VARIATION else None
