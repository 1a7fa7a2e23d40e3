"""Small symmetric matrices against the obvious NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from bench.harness import compare, is_quick
from dpfast.kernels import linalg

SIZES = [4, 10] if is_quick() else [2, 4, 5, 8, 10, 20, 50]


def noisy_hessian(p: int) -> np.ndarray:
    """A mean Hessian with enough noise for a few eigenvalues to need the floor."""
    rng = np.random.default_rng(p)
    X = rng.normal(size=(200, p))
    noise = rng.normal(size=(p, p))
    return X.T @ X / 200 + 0.3 * (noise + noise.T)


def numpy_floor(matrix: np.ndarray, floor: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, floor)) @ vectors.T


def numpy_newton(matrix: np.ndarray, g: np.ndarray, floor: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ ((vectors.T @ g) / np.maximum(values, floor))


def numpy_sandwich(bread: np.ndarray, meat: np.ndarray, floor: float) -> np.ndarray:
    inverse = np.linalg.inv(numpy_floor(bread, floor))
    return inverse @ numpy_floor(meat, 0.0) @ inverse


def largest_difference(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.abs(got - want).max() / np.abs(want).max())


@pytest.mark.parametrize("p", SIZES)
def test_floor_eigenvalues(benchmark, p):
    matrix = noisy_hessian(p)
    compare(
        benchmark,
        lambda: linalg.floor_eigenvalues(matrix, 0.2),
        case="eigenvalue floor",
        p=p,
        reference=lambda: numpy_floor(matrix, 0.2),
        accuracy=largest_difference(
            linalg.floor_eigenvalues(matrix, 0.2)[0], numpy_floor(matrix, 0.2)
        ),
    )


@pytest.mark.parametrize("p", SIZES)
def test_newton_direction(benchmark, p):
    matrix, g = noisy_hessian(p), np.linspace(-1.0, 1.0, p)
    compare(
        benchmark,
        lambda: linalg.newton_direction(matrix, g, 0.2),
        case="Newton direction",
        p=p,
        reference=lambda: numpy_newton(matrix, g, 0.2),
        accuracy=largest_difference(
            linalg.newton_direction(matrix, g, 0.2)[0], numpy_newton(matrix, g, 0.2)
        ),
    )


@pytest.mark.parametrize("p", SIZES)
def test_weighted_mean(benchmark, p):
    """Of the curvatures of five answers, by precision."""
    matrices, weights = [noisy_hessian(p) * k for k in range(1, 6)], [1.0, 2.0, 2.0, 3.0, 0.5]
    compare(
        benchmark,
        lambda: linalg.weighted_mean(matrices, weights),
        case="weighted mean",
        p=p,
        reference=lambda: np.tensordot(weights, matrices, 1) / sum(weights),
        accuracy=largest_difference(
            linalg.weighted_mean(matrices, weights),
            np.tensordot(weights, matrices, 1) / sum(weights),
        ),
    )


@pytest.mark.parametrize("p", SIZES)
def test_congruence(benchmark, p):
    A = noisy_hessian(p)
    S = A + A.T
    compare(
        benchmark,
        lambda: linalg.congruence(A, S),
        case="congruence",
        p=p,
        reference=lambda: A @ S @ A.T,
        accuracy=largest_difference(linalg.congruence(A, S), A @ S @ A.T),
    )


@pytest.mark.parametrize("p", SIZES)
def test_sandwich(benchmark, p):
    bread, meat = noisy_hessian(p), noisy_hessian(p)[::-1, ::-1].copy()
    compare(
        benchmark,
        lambda: linalg.sandwich(bread, meat, 0.2),
        case="sandwich",
        p=p,
        reference=lambda: numpy_sandwich(bread, meat, 0.2),
        accuracy=largest_difference(
            linalg.sandwich(bread, meat, 0.2)[0], numpy_sandwich(bread, meat, 0.2)
        ),
    )
