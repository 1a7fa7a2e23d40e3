"""Phase retrieval and networks of one hidden layer, by the gradients of their records."""

from __future__ import annotations

import numpy as np

from dpfast.arguments import Array
from dpfast.nonconvex import PerRecordObjective


def phase_retrieval(n_covariates: int, *, radius: float) -> PerRecordObjective:
    """Recover a vector up to its sign from the sizes ``y = |x'w|`` of its projections.

    ``((x'w)^2 - y^2)^2 / (4 R^4)`` with x projected onto the ball of radius R and y clipped to it:
    a saddle at zero and two minimisers.  For ``||w|| <= 1`` no gradient is longer than 1 and none
    changes faster than 3.
    """

    def residuals(theta: Array, X: Array, y: Array) -> tuple[Array, Array, Array]:
        rows = _within(X, radius) / radius
        sizes = np.minimum(np.abs(y), radius) / radius
        t = rows @ theta
        return rows, t, t * t - sizes * sizes

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        rows, t, r = residuals(theta, X, y)
        return (r * t)[:, None] * rows

    def losses(theta: Array, X: Array, y: Array) -> Array:
        return 0.25 * residuals(theta, X, y)[2] ** 2

    return PerRecordObjective(
        gradients,
        dimension=n_covariates,
        lipschitz=1.0,
        smoothness=3.0,
        losses=losses,
        vectorized=True,
        name="phase_retrieval",
    )


def one_hidden_layer(
    n_covariates: int, hidden: int, *, radius: float, lipschitz: float, smoothness: float
) -> PerRecordObjective:
    """Regression by one layer of tanh units, ``f(x) = sum_j v_j tanh(u_j'(1, x))``, pseudo-Huber.

    Rows are projected onto the ball of radius R.  Parameters are the rows u_1, ..., u_h of q + 1
    entries each, the constant first, then v_1, ..., v_h.
    """
    width = n_covariates + 1

    def forward(theta: Array, X: Array, y: Array) -> tuple[Array, Array, Array, Array]:
        rows = np.column_stack([np.ones(len(X)), _within(X, radius)])
        units = np.tanh(rows @ theta[: hidden * width].reshape(hidden, width).T)
        outer = theta[hidden * width :]
        return rows, units, outer, y - units @ outer

    def gradients(theta: Array, X: Array, y: Array) -> Array:
        rows, units, outer, r = forward(theta, X, y)
        psi = -r / np.sqrt(1.0 + r**2)
        inner = (psi[:, None] * outer) * (1.0 - units * units)
        first = (inner[:, :, None] * rows[:, None, :]).reshape(len(X), -1)
        return np.column_stack([first, psi[:, None] * units])

    def losses(theta: Array, X: Array, y: Array) -> Array:
        return np.sqrt(1.0 + forward(theta, X, y)[3] ** 2) - 1.0

    return PerRecordObjective(
        gradients,
        dimension=hidden * (width + 1),
        lipschitz=lipschitz,
        smoothness=smoothness,
        losses=losses,
        vectorized=True,
        name="one_hidden_layer",
    )


def _within(X: Array, radius: float) -> Array:
    """Rows projected onto a ball."""
    length = np.sqrt(np.einsum("ij,ij->i", X, X))
    return X * np.minimum(1.0, radius / np.where(length > 0.0, length, 1.0))[:, None]
