"""Tests of linear hypotheses and joint confidence regions: post-processing of a released fit."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array
from dpfast.errors import InvalidInput
from dpfast.inference.degrees import NORMAL, estimable, t_pvalues, variances


class Contrast(NamedTuple):
    """Linear combinations of coefficients; each field has shape (k,).

    Attributes
    ----------
    estimate : ndarray of shape (k,)
        The combinations themselves; the hypothesised values are not subtracted.
    bse : ndarray of shape (k,)
        Standard errors; they include the privacy noise.
    zvalues : ndarray of shape (k,)
        ``(estimate - value) / bse``.
    pvalues : ndarray of shape (k,)
        Two-sided, of the t distribution of :attr:`dpfast.Fit.degrees_of_freedom`.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    estimate: NDArray[np.float64]
    bse: NDArray[np.float64]
    zvalues: NDArray[np.float64]
    pvalues: NDArray[np.float64]


class WaldTest(NamedTuple):
    """A joint test: chi-squared statistic, its degrees of freedom and p value.

    Attributes
    ----------
    statistic : float
        The quadratic form of the differences in the inverse of their covariance.
    df : int
        Number of combinations tested together.
    pvalue : float
        Of the F distribution with the degrees of freedom of the variance that is known least.

    Privacy
    -------
    Post-processing of a released fit: costs nothing.
    """

    statistic: float
    df: int
    pvalue: float


def combinations(restriction: ArrayLike, p: int) -> NDArray[np.float64]:
    """Check rows of weights, shape (k, p)."""
    rows = np.atleast_2d(real_array(restriction, "a restriction"))
    if rows.ndim != 2 or rows.shape[1] != p or not np.isfinite(rows).all():
        raise InvalidInput(
            f"a restriction must be finite and have shape ({p},) or (k, {p}); received shape "
            f"{rows.shape}."
        )
    return rows


def t_test(fit: Any, contrast: ArrayLike, value: ArrayLike) -> Contrast:
    """Test each row of ``contrast`` by a t test."""
    rows = combinations(contrast, len(fit.params))
    estimate = rows @ fit.params
    bse = np.sqrt(variances(rows, fit.cov_params()))
    with np.errstate(all="ignore"):
        z = (estimate - real_array(value, "value")) / bse
    return Contrast(estimate, bse, z, t_pvalues(z, fit._degrees(rows)))


def wald_test(fit: Any, restriction: ArrayLike, value: ArrayLike) -> WaldTest:
    """Test all rows of ``restriction`` together by a Wald test."""
    from scipy.special import chdtrc, fdtrc

    rows = combinations(restriction, len(fit.params))
    df = rows.shape[0]
    if np.linalg.matrix_rank(rows) < df:
        raise InvalidInput("the rows of a restriction must be linearly independent.")
    difference = rows @ fit.params - np.broadcast_to(real_array(value, "value"), df)
    estimated, lost = estimable(rows, fit.cov_params())
    inverse = np.linalg.pinv(rows @ estimated @ rows.T, hermitian=True)
    statistic = math.nan if lost.any() else float(difference @ inverse @ difference)
    known = float(fit._degrees(rows).min())
    pvalue = chdtrc(df, statistic) if known > NORMAL else fdtrc(df, known, statistic / df)
    return WaldTest(statistic, df, float(pvalue))


def confidence_ellipse(
    centre: NDArray[np.float64],
    covariance: NDArray[np.float64],
    level: float,
    n_points: int,
    degrees: float,
) -> NDArray[np.float64]:
    """Compute points on the boundary of the joint confidence region of two coefficients."""
    # the quantile of F(2, d) times 2; of the chi-squared distribution as d grows
    error = -np.log1p(-level)
    if degrees <= NORMAL:
        error = degrees / 2.0 * np.expm1(2.0 / degrees * error)
    radius = np.sqrt(2.0 * error)
    values, vectors = np.linalg.eigh(covariance)
    angle = np.linspace(0.0, 2.0 * np.pi, n_points)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return centre + radius * (circle * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
