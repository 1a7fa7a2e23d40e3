"""The bound of a Hessian by the variance of the scores."""

from __future__ import annotations

from dpfast.arguments import Array
from dpfast.kernels import decisions

#: Part of the curvature by which scores of labels vary, below which a step's bound applies.  Where
#: the model is wrong they vary by less than the curvature, and longer steps would overshoot.
MIN_VARIATION = 0.5

#: Variance of scores for the curvature along a direction, over the mean of the others, from which
#: on a fit warns.  At 1.75 it warned of milder growth of errors, at 2.5 rarely of a tenth of rows.
MAX_VARIATION = 2.0


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


def excess_variation(
    curvature: Array | None, meat: Array, noise: float
) -> tuple[float, Array] | None:
    """Return how much more scores vary along a direction than along others; None if not clearly.

    Scores of errors of one variance vary in proportion to the curvature (White 1980).  They vary
    more along a direction in which rows far from the others have the larger residuals.
    """
    found: tuple[float, Array] | None = decisions.excess_variation(
        curvature, meat, noise, MAX_VARIATION
    )
    return found
