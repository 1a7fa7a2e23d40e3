"""Finite-K noise variance: closed forms against the exact linear recursion."""

import numpy as np
import pytest

from dpfast.optimize.propagation import noise_left
from tests.loops import each


def recursion_covariance(H, scales, eta, weights, precondition=None):
    """Covariance of sum_k w_k e_k where e_{k+1} = e_k - eta P (H e_k + s_k z_k), e_0 = 0.

    Propagates the joint dependence on every z_j explicitly (a (K p) x p linear map).
    """
    p, n_steps = len(H), len(scales)
    P = np.eye(p) if precondition is None else precondition
    state = np.zeros((p, n_steps * p))
    output = weights[0] * state
    for k in range(n_steps):
        noise = np.zeros_like(state)
        noise[:, k * p : (k + 1) * p] = scales[k] * np.eye(p)
        state = state - eta * P @ (H @ state + noise)
        output = output + weights[k + 1] * state
    return output @ output.T


@pytest.fixture
def hessian():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(4, 4))
    return A @ A.T / 8 + 0.05 * np.eye(4)


@each("n_steps", [1, 2, 7, 40])
@each("kind", ["last", "tail", "arbitrary"])
@each("scales", ["uniform", "geometric"])
def test_gradient_descent_noise_is_exact(hessian, n_steps, kind, scales):
    rng = np.random.default_rng(n_steps)
    s = np.full(n_steps, 0.3) if scales == "uniform" else 0.3 * 0.9 ** np.arange(n_steps)
    weights = {
        "last": np.r_[np.zeros(n_steps), 1.0],
        "tail": np.r_[np.zeros(n_steps + 1 - (n_steps + 1) // 2), np.ones((n_steps + 1) // 2)],
        "arbitrary": rng.random(n_steps + 1),
    }[kind]
    weights = weights / weights.sum()
    eta = 0.9
    exact = recursion_covariance(hessian, s, eta, weights)
    values, vectors = np.linalg.eigh(hessian)
    steps, weights = [eta] * n_steps, None if kind == "last" else list(weights)
    variance = (noise_left(values, list(s), steps, weights) ** 2).sum(axis=0)
    np.testing.assert_allclose((vectors * variance) @ vectors.T, exact, rtol=1e-10, atol=1e-14)
