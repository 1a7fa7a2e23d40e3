"""Sandwich covariance from noisy matrices, with the variance the privacy noise adds.

Everything here is post-processing of released numbers (formulas page, sections 5 and 6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.optimize.trajectory import Trajectory

__all__ = [
    "Covariance",
    "double_noise_variance",
    "gradient_descent_noise",
    "newton_noise",
    "sandwich_covariance",
]

Matrix = NDArray[np.float64]


class Covariance(NamedTuple):
    """Covariance of an estimate and what to know before trusting it.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
    n_floored : int
        Eigenvalues of the noisy Hessian below the floor; above 0, the noise hides a direction
        and the intervals along it are not reliable.
    unfinished : ndarray of shape (p,)
        Estimated absolute error left by stopping the optimiser, per coefficient.
    """

    matrix: Matrix
    n_floored: int
    unfinished: NDArray[np.float64]


def newton_noise(
    gradient_scales: list[float], step_sizes: list[float], inverse_squared: Matrix
) -> Matrix:
    """Covariance of the privacy noise in a noisy Newton iterate.

    ``sum_k eta_k^2 prod_{j>k} (1 - eta_j)^2 s_k^2 H^-2`` for any schedule of gradient noise
    scales ``s_k`` (formulas page, section 6): after a full step only its own noise remains.
    """
    factor, remaining = 0.0, 1.0
    for scale, step_size in zip(reversed(gradient_scales), reversed(step_sizes), strict=True):
        factor += (step_size * scale) ** 2 * remaining
        remaining *= (1.0 - step_size) ** 2
    return factor * inverse_squared


def gradient_descent_noise(
    eigenvalues: NDArray[np.float64],
    gradient_scales: list[float],
    step_size: float | list[float],
    weights: list[float] | None = None,
) -> NDArray[np.float64]:
    """Variance of the privacy noise of noisy gradient descent along each eigenvector.

    For the output ``sum_k w_k theta_k`` and any schedule,
    ``f(lam) = sum_j eta_j^2 s_j^2 A_j^2`` with ``A_j = w_{j+1} + (1 - eta_{j+1} lam) A_{j+1}``
    (formulas page, section 6; eq. (14) of the paper is the constant ``2 eta^2 s^2``, which is
    right at one value of ``eta lam`` only).

    Parameters
    ----------
    eigenvalues : ndarray of shape (p,)
        Eigenvalues of the mean Hessian.
    gradient_scales : list of float, length K
        Noise scale ``s_j`` of the gradient at ``theta_j``.
    step_size : float, or list of float of length K
    weights : list of float, length K + 1, optional
        Weights of the iterates (start included); the last iterate by default.
    """
    n_steps = len(gradient_scales)
    steps = step_size if isinstance(step_size, list) else [step_size] * n_steps
    contraction = np.zeros_like(eigenvalues)  # of the step after the one looked at
    influence = np.zeros_like(eigenvalues)
    variance = np.zeros_like(eigenvalues)
    for j in range(n_steps - 1, -1, -1):
        if weights is None:
            weight = 1.0 if j == n_steps - 1 else 0.0
        else:
            weight = weights[j + 1]
        influence = weight + contraction * influence
        contraction = 1.0 - steps[j] * eigenvalues
        variance += (steps[j] * gradient_scales[j] * influence) ** 2
    return variance


def double_noise_variance(
    eigenvalues: NDArray[np.float64],
    gradient_scales: list[float],
    direction_scales: list[float],
    damping: float,
) -> NDArray[np.float64]:
    """Variance of the privacy noise of double-noise Newton along each eigenvector.

    The error obeys ``e_{k+1} = c e_k - s_k z_k/(lam + l) - d_k w_k`` with ``c = l/(lam + l)``,
    so the variance is ``sum_k ((s_k/(lam + l))^2 + d_k^2) c^(2(K-1-k))``.

    Parameters
    ----------
    eigenvalues : ndarray of shape (p,)
        Eigenvalues of the mean Hessian.
    gradient_scales, direction_scales : list of float, length K
        Noise scales ``s_k`` of the gradients and ``d_k`` of the directions.
    damping : float
        ``l``.
    """
    contraction = damping / (eigenvalues + damping)
    variance = np.zeros_like(eigenvalues)
    for gradient, direction in zip(gradient_scales, direction_scales, strict=True):
        own = (gradient / (eigenvalues + damping)) ** 2 + direction**2
        variance = contraction**2 * variance + own
    return variance


def sandwich_covariance(trajectory: Trajectory, n: int, ridge: float = 0.0) -> Covariance:
    """``H^-1 Q H^-1 / n`` plus the covariance of the optimiser's privacy noise.

    Parameters
    ----------
    trajectory : Trajectory
        Its final answer must include the Hessian and the meat.
    n : int
        Number of records (public).
    ridge : float
        Public ridge penalty, part of the curvature.
    """
    final = trajectory.final
    hessian, noise_scale = _pooled_hessian(trajectory)
    p = hessian.shape[0]
    if ridge:
        hessian = hessian + ridge * np.eye(p)
    floor = 2.0 * noise_scale * p**0.5
    values, vectors = eigh(hessian)
    n_floored = int((~(values >= floor)).sum())
    floored = np.maximum(values, floor)
    meat, _, _ = floor_eigenvalues(final.meat.value, 0.0)
    half = vectors / floored
    # In the eigenbasis of the Hessian, inverse = vectors / floored @ vectors.T.
    middle = half.T @ meat @ half / n
    start_error = trajectory.iterates[0] - trajectory.theta
    noise = None
    if trajectory.curvatures:
        noise = _replayed_noise(trajectory, (vectors * floored) @ vectors.T, ridge)
        unfinished = _newton_remainder(trajectory)
    elif trajectory.method == "newton":
        diagonal = newton_noise(trajectory.gradient_scales, trajectory.step_sizes, floored**-2.0)
        unfinished = _newton_remainder(trajectory)
    elif trajectory.direction_scales is not None:
        damping = trajectory.damping
        diagonal = double_noise_variance(
            floored, trajectory.gradient_scales, trajectory.direction_scales, damping
        )
        remaining = (damping / (floored + damping)) ** len(trajectory.gradient_scales)
        unseen = remaining / np.maximum(1.0 - remaining, 1e-9)
        unfinished = np.abs(vectors @ (unseen * (vectors.T @ start_error)))
    else:
        diagonal = gradient_descent_noise(
            floored, trajectory.gradient_scales, trajectory.step_sizes, trajectory.weights
        )
        steps = np.array(trajectory.step_sizes)[:, None]
        contraction = np.cumprod(np.vstack([np.ones_like(floored), 1.0 - steps * floored]), axis=0)
        if trajectory.weights is None:
            remaining = contraction[-1]
        else:
            remaining = np.asarray(trajectory.weights) @ contraction
        # The start's error e leaves `remaining * e`, and only `(1 - remaining) * e` of it shows
        # in the distance travelled.
        unseen = remaining / np.maximum(1.0 - remaining, 1e-9)
        unfinished = np.abs(vectors @ (unseen * (vectors.T @ start_error)))
    # `half` carries one inverse eigenvalue on each side already; the noise term does not.
    if noise is None:
        noise = (vectors * diagonal) @ vectors.T
    covariance = vectors @ middle @ vectors.T + noise
    return Covariance((covariance + covariance.T) / 2.0, n_floored, unfinished)


def _pooled_hessian(trajectory: Trajectory) -> tuple[Matrix, float]:
    """The released Hessians of the last steps as one, weighted by precision, and its noise scale.

    They were taken where the path had settled, and are independent; the last alone if there is
    no other.
    """
    answers = [answer for answer in trajectory.curvatures if answer.receipt.query == "hessian"]
    if not answers:
        return trajectory.final.hessian.value, trajectory.final.hessian.noise_scale
    weights = np.array([answer.noise_scale**-2.0 for answer in answers])
    total = sum(w * answer.value for w, answer in zip(weights, answers, strict=True))
    return np.asarray(total / weights.sum()), float(weights.sum() ** -0.5)


def _replayed_noise(trajectory: Trajectory, hessian: Matrix, ridge: float) -> Matrix:
    """Covariance of the privacy noise, through the very matrices the steps used.

    A step with noisy Hessian ``H + W`` and floored inverse ``P`` takes an error e to ``A e + eta P
    W e - eta P z`` with ``A = I - eta P (H + W)``; ``E[W C W] = (w^2/2) (C + tr(C) I)`` for
    symmetric noise of scale w.  Majorising steps have ``A = I - eta P H``.
    """
    count = len(trajectory.curvatures)
    scales, sizes = trajectory.gradient_scales, trajectory.step_sizes
    identity = np.eye(len(hessian))
    covariance = np.zeros_like(hessian)
    for answer, floor, scale, size in zip(
        trajectory.curvatures, trajectory.floors, scales[-count:], sizes[-count:], strict=True
    ):
        matrix = answer.value + ridge * identity
        values, vectors = eigh(matrix)
        inverse = size * (vectors / np.maximum(values, floor)) @ vectors.T
        own = scale**2 * identity
        if answer.receipt.query == "hessian":
            step = identity - inverse @ matrix
            spread = covariance + np.trace(covariance) * identity
            own = own + answer.noise_scale**2 / 2.0 * spread
        else:
            step = identity - inverse @ hessian
        covariance = step @ covariance @ step.T + inverse @ own @ inverse
    return covariance


def _newton_remainder(trajectory: Trajectory) -> NDArray[np.float64]:
    """What stopping leaves of the error that the last of the longest steps saw.

    A step of size eta leaves the rest of the way and the relative error of its Hessian.  The damped
    steps of a tail see little but noise, so the error is read off the full step before them.
    """
    sizes = trajectory.step_sizes
    seen = max(k for k, size in enumerate(sizes) if size >= max(sizes))
    moved = np.abs(trajectory.iterates[seen + 1] - trajectory.iterates[seen]) / sizes[seen]
    left = 1.0
    for size in sizes[seen:]:
        left *= min(1.0, trajectory.curvature_change + (1.0 - size))
    return left * moved
