"""The acquisition kernel in plain NumPy, written differently on purpose.

Slow, short and obvious: every quantity is computed from the joint set of old and new points at
once, with one linear solve and no caching, and the gradient follows from differentiating the trace
of ``A K^-1 A'`` as a whole:

    d Tr(A K^-1 A') = 2 <W', dA> - <W W', dK>,    W = K^-1 A'.

The compiled kernel (`acquisition`) caches what depends on the old points only and never forms K.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Prior",
    "covariance",
    "covariance_gradient",
    "gradient_covariance",
    "gradient_weights",
    "mean_weights",
    "prior_gradient_covariance",
    "trace",
    "trace_and_gradient",
]

Array = NDArray[np.float64]

RBF, MATERN52, MATERN72, POLYNOMIAL2 = range(4)

#: Added to the noise variance, relative to the prior variance at the point.
JITTER = 1e-10


class Prior(NamedTuple):
    """The public surrogate: covariance function and noise variance."""

    family: int
    length_scales: Array
    output_scale: float
    offset: float
    noise_variance: float


def _profile(prior: Prior, r2: Array) -> tuple[Array, Array, Array]:
    """phi and its first two derivatives in q (stationary), or f and its in p (polynomial)."""
    if prior.family == POLYNOMIAL2:
        t = r2 + prior.offset
        return t**2, 2 * t, np.full_like(t, 2.0)
    if prior.family == RBF:
        e = np.exp(-r2 / 2)
        return e, -e / 2, e / 4
    nu2 = 5.0 if prior.family == MATERN52 else 7.0
    r = np.minimum(np.sqrt(nu2 * r2), 1000.0)
    e = np.exp(-r)
    if prior.family == MATERN52:
        return (3 + 3 * r + r**2) / 3 * e, -5 * (1 + r) / 6 * e, 25 * e / 12
    return (
        (15 + 15 * r + 6 * r**2 + r**3) / 15 * e,
        -7 * (3 + 3 * r + r**2) / 30 * e,
        49 * (1 + r) / 60 * e,
    )


def _argument(prior: Prior, first: Array, second: Array) -> tuple[Array, Array]:
    """q or p for every pair, and its derivative with respect to the first point (m, k, d)."""
    if prior.family == POLYNOMIAL2:
        with np.errstate(over="ignore"):
            u = np.clip(first / prior.length_scales, -1e30, 1e30)
            v = np.clip(second / prior.length_scales, -1e30, 1e30)
        slope = np.broadcast_to(v / prior.length_scales, (len(u), *v.shape))
        return np.einsum("ij,kj->ik", u, v), slope
    with np.errstate(over="ignore"):
        step = (first[:, None, :] - second[None, :, :]) / prior.length_scales
    step = np.clip(step, -1e150, 1e150)
    return np.sum(step**2, axis=2), 2 * step / prior.length_scales


def covariance(prior: Prior, first: ArrayLike, second: ArrayLike) -> Array:
    """Covariances of the values at two sets of points, (m, k)."""
    argument, _ = _argument(prior, np.asarray(first, float), np.asarray(second, float))
    return prior.output_scale**2 * _profile(prior, argument)[0]


def covariance_gradient(prior: Prior, theta: ArrayLike, points: ArrayLike) -> Array:
    """Covariances of the gradient at theta with the values at the points, (d, m)."""
    argument, slope = _argument(prior, np.asarray([theta], float), np.asarray(points, float))
    weights = prior.output_scale**2 * _profile(prior, argument)[1]
    return np.einsum("ij,ijl->lj", weights, slope)


def prior_gradient_covariance(prior: Prior, theta: ArrayLike) -> Array:
    """The mixed second derivative at (theta, theta), (d, d)."""
    at = np.asarray([theta], float)
    inverse = 1.0 / prior.length_scales
    if prior.family == POLYNOMIAL2:
        argument, slope = _argument(prior, at, at)
        _, first, second = _profile(prior, argument)
        mixed = second[0, 0] * np.outer(slope[0, 0], slope[0, 0])
        mixed += first[0, 0] * np.diag(inverse**2)
        return np.asarray(prior.output_scale**2 * mixed)
    _, first, _ = _profile(prior, np.zeros(1))
    return np.asarray(prior.output_scale**2 * np.diag(-2.0 * first[0] * inverse**2))


def _noisy(prior: Prior, points: Array) -> Array:
    K = covariance(prior, points, points)
    return np.asarray(K + np.diag(prior.noise_variance + JITTER * np.diag(K)))


def gradient_weights(prior: Prior, points: ArrayLike, theta: ArrayLike) -> Array:
    """W = K^-1 A' (m, d): surrogate gradients are values times W."""
    joint = np.asarray(points, float)
    A = covariance_gradient(prior, theta, joint)
    return np.asarray(np.linalg.solve(_noisy(prior, joint), A.T))


def mean_weights(prior: Prior, points: ArrayLike) -> Array:
    """K^-1 1 (m,): up to their sum, the weights of the values in an unknown mean."""
    joint = np.asarray(points, float)
    return np.asarray(np.linalg.solve(_noisy(prior, joint), np.ones(len(joint))))


def gradient_covariance(prior: Prior, points: ArrayLike, theta: ArrayLike) -> Array:
    """Posterior covariance of the gradient at theta given values at the points, (d, d)."""
    joint = np.asarray(points, float)
    A = covariance_gradient(prior, theta, joint)
    return prior_gradient_covariance(prior, theta) - A @ gradient_weights(prior, joint, theta)


def trace(prior: Prior, D: ArrayLike, Z: ArrayLike, theta: ArrayLike) -> float:
    """Trace of the posterior gradient covariance once Z has joined D."""
    joint = np.concatenate([np.asarray(D, float), np.asarray(Z, float)])
    return float(np.trace(gradient_covariance(prior, joint, theta)))


def trace_and_gradient(
    prior: Prior, D: ArrayLike, Z: ArrayLike, theta: ArrayLike
) -> tuple[float, Array]:
    """The trace, and its derivative with respect to every coordinate of Z, (b, d)."""
    new = np.asarray(Z, float)
    joint = np.concatenate([np.asarray(D, float), new])
    A = covariance_gradient(prior, theta, joint)
    W = np.linalg.solve(_noisy(prior, joint), A.T)
    value = np.trace(prior_gradient_covariance(prior, theta)) - np.trace(A @ W)

    # dK: only rows and columns of new points move, and K is symmetric.
    argument, slope = _argument(prior, new, joint)
    _, first, second = _profile(prior, argument)
    pull = W[len(joint) - len(new) :] @ W.T * first * prior.output_scale**2
    own = np.arange(len(new))
    pull[own, own + len(joint) - len(new)] *= 1.0 + JITTER
    gradient = 2.0 * np.einsum("ij,ijl->il", pull, slope)

    # dA: column j of A depends on new point j through its own covariance with the gradient.
    W_new = W[len(joint) - len(new) :]
    at = np.asarray([theta], float)
    argument, slope = _argument(prior, at, new)  # slopes with respect to theta
    _, first, second = _profile(prior, argument)
    along = np.einsum("jl,jl->j", slope[0], W_new) * second[0]
    if prior.family == POLYNOMIAL2:
        _, toward = _argument(prior, new, at)  # dp/dz = scaled theta
        turn = along[:, None] * toward[:, 0, :]
        turn += first[0][:, None] * W_new / prior.length_scales**2
    else:
        turn = -along[:, None] * slope[0]  # dq/dz = -dq/dtheta
        turn += -2.0 * first[0][:, None] * W_new / prior.length_scales**2
    gradient -= 2.0 * prior.output_scale**2 * turn
    return float(value), np.asarray(gradient)
