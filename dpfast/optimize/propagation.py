"""Propagation of the privacy noise of an optimiser's steps to its estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import eigh, floor_eigenvalues

Matrix = NDArray[np.float64]


class PrivacyNoise(NamedTuple):
    """Error of an optimiser's result, as the optimiser knows it.

    Attributes
    ----------
    covariance : ndarray of shape (p, p)
        Of the privacy noise in the estimate, without the sampling error.
    unfinished : ndarray of shape (p,)
        Estimated absolute error left by stopping, per coefficient; zero if unknown.
    remarks : tuple of str
        Warnings for the reader of the intervals.

    Privacy
    -------
    Made of released and public numbers.
    """

    covariance: Matrix
    unfinished: NDArray[np.float64]
    remarks: tuple[str, ...] = ()


class Curvature(NamedTuple):
    """The released Hessian that intervals are made with.

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
        With the ridge; its eigenvalues may be below the floor.
    floor : float
        Eigenvalues below it are noise.
    n_floored : int
        How many are.
    ridge : float
        Public ridge penalty, already part of ``matrix``.

    Privacy
    -------
    Released, and paid for.

    Examples
    --------
    >>> curvature = dpfast.optimize.Curvature(np.diag([1.0, 0.01]), 0.1, n_floored=1, ridge=0.0)
    >>> curvature.floored().diagonal(), curvature.eigen()[0]
    (array([1. , 0.1]), array([0.1, 1. ]))
    """

    matrix: Matrix
    floor: float
    n_floored: int
    ridge: float

    def floored(self) -> Matrix:
        """Return the matrix with its eigenvalues at the floor or above, shape (p, p)."""
        if not self.n_floored:
            return self.matrix
        floored: Matrix = floor_eigenvalues(self.matrix, self.floor)[0]
        return floored

    def eigen(self) -> tuple[NDArray[np.float64], Matrix]:
        """Return eigenvalues, at least the floor, and eigenvectors in columns: (p,), (p, p)."""
        values, vectors = eigh(self.matrix)
        return np.maximum(values, self.floor), vectors

    def scaled(self, root: NDArray[np.float64]) -> Curvature:
        """Return the curvature in coordinates that are divided by ``root``, shape (p,).

        Its floor is the smallest that the old one can be there.

        Parameters
        ----------
        root : ndarray of shape (p,)
            Positive; the square root of each coordinate's relative step length.

        Examples
        --------
        >>> curvature = dpfast.optimize.Curvature(np.eye(2), 0.1, n_floored=0, ridge=0.0)
        >>> curvature.scaled(np.array([1.0, 2.0])).matrix.diagonal()
        array([1., 4.])
        """
        if np.all(root == 1.0):
            return self
        return self._replace(
            matrix=self.matrix * np.outer(root, root), floor=self.floor * float(root.min()) ** 2
        )


def remaining_start_error(
    travelled: NDArray[np.float64], remaining: NDArray[np.float64], vectors: Matrix
) -> NDArray[np.float64]:
    """Estimate the start's error that remains per coefficient, for steps with one eigenbasis."""
    ratio = remaining / np.maximum(1.0 - remaining, 1e-9)
    return np.abs(vectors @ (ratio * (vectors.T @ travelled)))


def noise_left(
    eigenvalues: NDArray[np.float64],
    gradient_scales: list[float],
    step_sizes: list[float],
    weights: list[float] | None = None,
    curvatures: NDArray[np.float64] | float = 1.0,
) -> NDArray[np.float64]:
    """Compute how much noise of every step of gradient descent is left in its answer (eq. (14)).

    The step sizes and budgets may differ from step to step, and so may the curvature, which is
    given relative to that of the answer.

    Returns
    -------
    ndarray of shape (K, p)
        Standard deviation along each eigenvector, one row for the noise of each step.
    """
    n_steps = len(gradient_scales)
    contraction = np.zeros_like(eigenvalues)  # of step j + 1
    influence = np.zeros_like(eigenvalues)
    left = np.empty((n_steps, len(eigenvalues)))
    relative = np.broadcast_to(curvatures, n_steps)
    for j in range(n_steps - 1, -1, -1):
        if weights is None:
            weight = 1.0 if j == n_steps - 1 else 0.0
        else:
            weight = weights[j + 1]
        influence = weight + contraction * influence
        contraction = 1.0 - step_sizes[j] * relative[j] * eigenvalues
        left[j] = step_sizes[j] * gradient_scales[j] * influence
    return left
