"""The surrogate's gradient: public weights that turn a record's losses into its gradient."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from dpfast.bayesopt.surrogate.covariance import Covariance
from dpfast.errors import InvalidInput, described

__all__ = ["MEANS", "gradient_weights", "signal_projection"]

Array = NDArray[np.float64]

#: Prior mean of a record's loss: zero, as in the paper, or an unknown constant.
MEANS = ("constant", "zero")

#: Part of the prior variance added to the diagonal of K when noise alone does not keep it regular.
JITTER = 1e-10

#: Singular values below this part of the largest one count as directions without information.
RANK_TOLERANCE = 1e-9


def gradient_weights(
    covariance: Covariance,
    points: Array,
    theta: Array,
    noise_variance: float,
    mean: str,
    gram: Array | None = None,
) -> Array:
    """Weights of every record's losses in its surrogate gradient, shape (m, d).

    ``W = (K + sigma^2 I)^-1 grad k(theta, D)'`` (line 7 of Algorithm 1, transposed): the gradient
    of record i is ``W' y_i``, the same W for all.  With ``mean="constant"`` the posterior mean is
    that of a process with an unknown constant mean (universal kriging), whose weights add up to
    zero: adding a constant to a record's losses changes nothing, so a large loss that does not
    depend on theta neither biases the gradient nor makes it be clipped.

    Parameters
    ----------
    covariance : Covariance
    points : ndarray of shape (m, d)
        Evaluated points D.
    theta : ndarray of shape (d,)
    noise_variance : float
        Variance of the evaluation noise.
    mean : {"constant", "zero"}
    gram : ndarray of shape (m, m), optional
        Covariances of the losses at the points, if they are known already.
    """
    if mean not in MEANS:
        raise InvalidInput(f"mean must be one of {MEANS}; received {described(mean, text=True)}.")
    gram = covariance.values(points, points) if gram is None else gram.copy()
    variance = float(np.diag(gram).max())
    gram[np.diag_indices_from(gram)] += noise_variance
    slopes = covariance.gradient(theta, points).T
    factor = None
    jitter = JITTER * variance
    while factor is None:
        try:
            trial = gram + jitter * np.eye(len(gram))
            factor = cho_factor(trial, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # points that almost coincide; a matter of public numbers
            jitter *= 100.0
    weights = cho_solve(factor, slopes, check_finite=False)
    if mean == "constant":
        ones = cho_solve(factor, np.ones(len(gram)), check_finite=False)
        weights = weights - np.outer(ones, weights.sum(axis=0) / ones.sum())
    return np.ascontiguousarray(weights)


def signal_projection(weights: Array) -> Array:
    """Orthogonal projection on the directions surrogate gradients can have, shape (d, d).

    Every record's gradient is a combination of the rows of W, so noise in other directions carries
    no signal; with fewer points than parameters, projecting removes it.  Free: W is public
    (formulas page, section 12, item 9).
    """
    d = weights.shape[1]
    _, values, vectors = np.linalg.svd(weights, full_matrices=False)
    rank = int(np.sum(values > RANK_TOLERANCE * values[0])) if values.size else 0
    if rank >= d:
        return np.eye(d)
    basis = vectors[:rank]
    return np.asarray(basis.T @ basis)
