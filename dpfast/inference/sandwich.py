"""Sandwich covariance from noisy matrices, with the variance the privacy noise adds.

Everything here is post-processing of released numbers (formulas page, sections 5 and 6).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh, floor_eigenvalues
from dpfast.optimize.trajectory import Trajectory

__all__ = ["Covariance", "gradient_descent_noise", "newton_noise", "sandwich_covariance"]

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
    hessian = final.hessian.value
    p = hessian.shape[0]
    if ridge:
        hessian = hessian + ridge * np.eye(p)
    floor = 2.0 * final.hessian.noise_scale * p**0.5
    values, vectors = eigh(hessian)
    n_floored = int((~(values >= floor)).sum())
    floored = np.maximum(values, floor)
    meat, _, _ = floor_eigenvalues(final.meat.value, 0.0)
    half = vectors / floored
    # In the eigenbasis of the Hessian, inverse = vectors / floored @ vectors.T.
    middle = half.T @ meat @ half / n
    start_error = trajectory.iterates[0] - trajectory.theta
    if trajectory.method == "newton":
        diagonal = newton_noise(trajectory.gradient_scales, trajectory.step_sizes, floored**-2.0)
        # A full step leaves the relative error of its Hessian, a damped one the rest of the way.
        eta = trajectory.step_sizes[-1]
        left = min(1.0, trajectory.curvature_change + (1.0 - eta)) / eta
        unfinished = left * np.abs(trajectory.iterates[-1] - trajectory.iterates[-2])
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
    covariance = vectors @ (middle + np.diag(diagonal)) @ vectors.T
    return Covariance((covariance + covariance.T) / 2.0, n_floored, unfinished)
