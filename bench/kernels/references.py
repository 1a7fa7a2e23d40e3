"""The same sums by NumPy, scikit-learn, glum, tabmat and JAX, for the table of kernel limits.

They are given the weights of the records; ours computes them.  A library that is not installed is
left out of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpfast.arguments import Array

Calls = dict[str, Callable[[], object]]

RADIUS = 2.0


def load() -> None:
    """Import what is installed, and with it its thread pools."""
    _scikit_learn()
    _tabmat(np.zeros((2, 1)))
    _glum_rows(np.zeros((2, 1)), np.zeros(2), np.zeros(1), np.ones(2))
    _jax("gradient", np.zeros((2, 1)), np.zeros(2), np.zeros(1), np.ones(2))


def mallows_weights(X: Array) -> Array:
    return np.minimum(1.0, RADIUS**2 / np.einsum("ij,ij->i", X, X))


def _probabilities(X: Array, theta: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-(X @ theta)))


def numpy_gradient(X: Array, y: Array, theta: Array) -> Array:
    return X.T @ ((_probabilities(X, theta) - y) * mallows_weights(X))


def numpy_hessian(X: Array, theta: Array) -> Array:
    probability = _probabilities(X, theta)
    return (X.T * (probability * (1.0 - probability) * mallows_weights(X))) @ X


def numpy_everything(X: Array, y: Array, theta: Array) -> tuple[Array, Array, Array]:
    probability, weights = _probabilities(X, theta), mallows_weights(X)
    residual = (probability - y) * weights
    curvature = probability * (1.0 - probability) * weights
    return X.T @ residual, (X.T * curvature) @ X, (X.T * residual**2) @ X


def gradients(X: Array, y: Array, theta: Array, threads: int) -> Calls:
    weights = mallows_weights(X)
    calls: Calls = {"NumPy": lambda: numpy_gradient(X, y, theta)}
    loss = _scikit_learn()
    if loss is not None:
        calls["scikit-learn"] = lambda: loss.gradient(
            theta, X, y, sample_weight=weights, n_threads=threads
        )
    rows = _glum_rows(X, y, theta, weights)
    if rows is not None:
        calls["glum"] = lambda: rows()[1]
    return calls | _jax("gradient", X, y, theta, weights)


def hessians(X: Array, y: Array, theta: Array, threads: int) -> Calls:
    weights = mallows_weights(X)
    calls: Calls = {"NumPy": lambda: numpy_hessian(X, theta)}
    loss = _scikit_learn()
    if loss is not None:
        calls["scikit-learn"] = lambda: loss.gradient_hessian(
            theta, X, y, sample_weight=weights, n_threads=threads
        )
    matrix = _tabmat(X)
    if matrix is not None:
        calls["tabmat"] = lambda: matrix.sandwich(weights)
        rows = _glum_rows(X, y, theta, weights)
        if rows is not None:
            calls["glum"] = lambda: matrix.sandwich(rows()[0])
    return calls | _jax("Hessian", X, y, theta, weights)


def everything(X: Array, y: Array, theta: Array) -> Calls:
    calls: Calls = {"NumPy": lambda: numpy_everything(X, y, theta)}
    return calls | _jax("all three", X, y, theta, mallows_weights(X))


def _scikit_learn() -> Any:
    try:
        from sklearn._loss import HalfBinomialLoss
        from sklearn.linear_model._linear_loss import LinearModelLoss
    except ImportError:
        return None
    return LinearModelLoss(base_loss=HalfBinomialLoss(), fit_intercept=False)


def _tabmat(X: Array) -> Any:
    try:
        from tabmat import DenseMatrix
    except ImportError:
        return None
    return DenseMatrix(X)


def _glum_rows(X: Array, y: Array, theta: Array, weights: Array) -> Any:
    """What one iteration of glum does: curvature of each record, and the gradient."""
    try:
        from glum._distribution import BinomialDistribution
        from glum._link import LogitLink
    except ImportError:
        return None
    matrix, link, binomial = _tabmat(X), LogitLink(), BinomialDistribution()

    def rows() -> tuple[Array, Array]:
        eta, mu, _ = binomial.eta_mu_deviance(
            link, 1.0, np.zeros(len(y)), matrix.matvec(theta), y, weights
        )
        slopes, curvature = binomial.rowwise_gradient_hessian(
            link, theta, 1.0, matrix, y, weights, eta, mu
        )
        return curvature, matrix.transpose_matvec(slopes)

    return rows


def _jax(what: str, X: Array, y: Array, theta: Array, weights: Array) -> Calls:
    """One of the sums compiled by JAX for arrays that it holds already, in double precision.

    The first call, which compiles, is made here.  JAX's CPU threads are its own: it uses as many
    as the process may, whatever the limit on those of BLAS.
    """
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)

    def rows(X: Any, y: Any, theta: Any, weights: Any) -> tuple[Any, Any]:
        probability = jax.nn.sigmoid(X @ theta)
        return (probability - y) * weights, probability * (1.0 - probability) * weights

    def gradient(X: Any, *others: Any) -> Any:
        return X.T @ rows(X, *others)[0]

    def hessian(X: Any, *others: Any) -> Any:
        return (X.T * rows(X, *others)[1]) @ X

    def everything(X: Any, *others: Any) -> Any:
        residual, curvature = rows(X, *others)
        return X.T @ residual, (X.T * curvature) @ X, (X.T * residual**2) @ X

    chosen = {"gradient": gradient, "Hessian": hessian, "all three": everything}[what]
    compiled = jax.jit(chosen)
    arguments = [jax.device_put(array) for array in (X, y, theta, weights)]

    def call() -> object:
        return jax.block_until_ready(compiled(*arguments))

    call()
    return {"JAX": call}
