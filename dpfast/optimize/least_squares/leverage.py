"""Rows turned until none of their directions is longer than another, and how far weights reach.

Weights that discount long rows are about units and correlations as much as about records, unless
the rows are whitened: then they bear on records of high leverage alone, a longer radius is
affordable, and a histogram of the rows' lengths says which.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.kernels.linalg import eigh
from dpfast.optimize.least_squares.histogram import Lengths
from dpfast.optimize.least_squares.run import few, floor_of, longest_radius

__all__ = [
    "Budgets",
    "budgets",
    "composed",
    "even_radius",
    "foreseen_radius",
    "missed",
    "most_share",
    "on_coefficients",
    "turn",
]

Array = NDArray[np.float64]

#: Shares of ``mu^2`` where records are many, and what is added where they are few.
SHARES = (
    (0.03, 0.05),  # Gram of the rows
    (0.005, 0.005),  # histogram of the lengths of turned rows
    (0.10, -0.10),  # their Gram
    (0.01, 0.01),  # histogram of the lengths of rows that are turned again
)

#: A second Gram is worth its price if its weights reach at least so far, in sqrt(p).
LONGER = 2.0

#: What discounted rows take the target away by, in what their scores would have beyond those of
#: the radius; beyond so many radii a row's score is no longer, because its response is foreseen.
MISSED, FORESEEN = 0.2, 1.25

#: What weights move the mean score by, in the mean of what held scores lose.
BEYOND = 1.5

#: Radii that are tried, to a factor 2.
TRIED = 8


class Budgets(NamedTuple):
    """Gaussian-DP parameters; zero for what is not asked."""

    rows: float
    lengths: float
    turned: float
    leverage: float


def most_share(n: int, p: int, mu: float) -> float:
    """Part of mu^2 that all of it costs: public."""
    return math.fsum([(part / mu) ** 2 for part in budgets(n, p, mu)])


def budgets(n: int, p: int, mu: float) -> Budgets:
    """What each part may spend: public.  Without a second Gram no histogram is needed for it."""
    scarce = few(n, p, mu)
    rows, lengths, turned, leverage = [
        mu * math.sqrt(many + scarce * more) for many, more in SHARES
    ]
    if turned == 0.0 or longest_radius(n, p, turned) < LONGER * math.sqrt(p):
        return Budgets(rows, 0.0, 0.0, math.hypot(lengths, leverage))
    return Budgets(rows, lengths, turned, leverage)


def turn(gram: Answer, intercept: bool) -> Array:
    """The map ``z -> (1, z) M``, or ``z M`` without an intercept, that whitens covariates.

    Directions that noise hides count as what may just be hidden.
    """
    values, vectors = eigh(gram.value)
    whole = (vectors * np.maximum(values, floor_of(gram))) @ vectors.T
    if not intercept:
        return _inverse_root(whole)
    mean = whole[0, 1:] / whole[0, 0]
    slopes = _inverse_root(whole[1:, 1:] / whole[0, 0] - np.outer(mean, mean))
    return np.vstack([-mean @ slopes, slopes])


def _inverse_root(matrix: Array) -> Array:
    values, vectors = eigh(matrix)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 1e-12 * values[-1])))


def composed(first: Array, then: Array, intercept: bool) -> Array:
    """One map after another."""
    if not intercept:
        return first @ then
    both = first @ then[1:]
    both[0] += then[0]
    return both


def on_coefficients(matrix: Array, intercept: bool) -> Array:
    """What makes coefficients of the covariates out of those of the turned ones."""
    if not intercept:
        return matrix
    whole = np.zeros((len(matrix), len(matrix)))
    whole[0, 0] = 1.0
    whole[:, 1:] = matrix
    return whole


def even_radius(lengths: Lengths, n: int, p: int, mu: float) -> float:
    """The radius with the least sum of squared noise and squared distance of the target.

    Parameters
    ----------
    lengths : Lengths
        Of the turned rows, the intercept included.
    n, p : int
    mu : float
        What is left for the fit.

    Notes
    -----
    It is as long as all rows that are seen if n mu is large enough: the target tends to that of
    no weights.
    """
    radii = _tried(lengths.longest, p)
    errors = p * (2.0 * radii / (n * mu)) ** 2 + missed(lengths, radii) ** 2
    return float(radii[int(np.argmin(errors))])


def foreseen_radius(
    scores: Lengths, longest: float, n: int, p: int, mu: float
) -> tuple[float, float]:
    """The radius with the least sum of squared noise and squared bias, and what it misses.

    Parameters
    ----------
    scores : Lengths
        Of the scores at a pilot estimate.
    longest : float
        Length of the longest rows that are seen.
    n, p : int
    mu : float
        What is left for the fit.

    Notes
    -----
    The mean of the scores, each held to a norm, is no further from that of all than the mean of
    what is cut off.  Long rows whose responses are foreseen have short scores and ask for nothing,
    which their lengths alone do not tell; weights take more from them, of a mean that is nearly
    zero.  No score is longer than its row.
    """
    radii = _tried(longest, p)
    radii = radii[radii <= max(longest, radii[0])]
    beyond = BEYOND * np.maximum(scores.tail(radii) - scores.tail(np.array([longest])), 0.0)
    errors = p * (2.0 * radii / (n * mu)) ** 2 + beyond**2
    best = int(np.argmin(errors))
    return float(radii[best]), float(beyond[best])


def _tried(longest: float, p: int) -> Array:
    """Radii from the root of p to the longest rows."""
    least = math.sqrt(max(p, 2))
    octaves = max(1, math.ceil(math.log2(max(longest / least, 1.0))))
    return np.asarray(least * np.exp2(np.arange(TRIED * octaves + 1) / TRIED))


def missed(lengths: Lengths, radii: Array) -> Array:
    """By how much weights of these radii may move the mean score, its norm."""
    reach = np.minimum(lengths.middles, FORESEEN * radii[:, None])
    return np.asarray(MISSED * (np.maximum(reach - radii[:, None], 0.0) @ lengths.shares))
