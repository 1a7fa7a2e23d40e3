"""Released matrices of many columns: what of their eigenvalues is noise."""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.solvers.pcn.plan import TINY

#: Number of columns from which on eigenvalues of noise are as in the limit of many.
MANY = 50

#: Largest eigenvalue of noise beyond the edge of its semicircle, in units of ``p^(-2/3)``: exceeded
#: once in thousands of matrices (Tracy and Widom 1996).
BEYOND_EDGE = 2.0


def shows_null_direction(matrix: Array, noise: float) -> bool:
    """Say whether a direction without moments would show in a released matrix of many columns.

    It differs from the typical diagonal by all of it: by more than the edge of the noise, beyond
    which it then is by a quarter (Benaych-Georges and Nadakuditi 2011).
    """
    return math.sqrt(2.0 * len(matrix)) * noise < float(np.median(matrix.diagonal()))


def shrink_within_noise(matrix: Array, noise: float, target: Array) -> tuple[Array, float]:
    """Shrink a released matrix to a target, by eigenvalues of their difference.

    Eigenvalues of noise alone have a semicircle's distribution (Wigner 1955).  By its variance, a
    quarter of the squared edge, a part of the differences is noise.  One beyond the edge is of a
    direction of its own, and shrinks to what it was (Benaych-Georges and Nadakuditi 2011).

    Parameters
    ----------
    matrix, target : ndarray of shape (p, p)
    noise : float
        Standard deviation of a diagonal entry.

    Returns
    -------
    matrix : ndarray of shape (p, p)
    noise : float
        The same of the posterior distribution.
    """
    p = len(target)
    differences, vectors = np.linalg.eigh(matrix - target)
    sizes, edge = np.abs(differences), math.sqrt(2.0 * p) * noise
    square = float(np.mean(np.minimum(sizes, edge) ** 2))
    part = max(0.0, 1.0 - 0.25 * edge**2 / max(square, TINY))
    alone = 0.5 * (sizes + np.sqrt(np.maximum(sizes**2 - edge**2, 0.0)))
    is_beyond = sizes > edge * (1.0 + BEYOND_EDGE * p ** (-2.0 / 3.0))
    shrunken = np.where(is_beyond, np.maximum(alone, part * sizes), part * sizes)
    value = target + (vectors * np.copysign(shrunken, differences)) @ vectors.T
    return 0.5 * (value + value.T), noise * math.sqrt(part)
