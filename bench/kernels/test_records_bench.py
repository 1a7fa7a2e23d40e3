"""One pass over the records against plain NumPy and against the limits of the machine.

Logistic loss, Mallows weights, all available threads.  The limit of the gradient is reading X and
y (bytes per second), that of the matrices a compute-bound dsyrk (operations per second, two for
each entry of the lower triangle); both are timed in alternation with the case, on the same data.
"seconds" are medians, "fraction" compares best with best.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import blas

from bench import limits
from bench.harness import is_quick
from dpfast.kernels import records
from tests.twins import records as reference

Array = NDArray[np.float64]

FULL = [(1_000, 5), (10_000, 10), (100_000, 10), (1_000_000, 10), (1_000_000, 50), (200_000, 200)]
QUICK = [(1_000, 5), (10_000, 10), (20_000, 50)]
GRID = QUICK if is_quick() else FULL
RADIUS = 2.0
MODEL = {
    "loss": 3,
    "c": 1.0,
    "scale": 1.0,
    "weighting": 1,
    "radius": RADIUS,
    "intercept": False,
}
KERNEL = records.RecordKernel(*MODEL.values())


@lru_cache(maxsize=1)
def data(n: int, p: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng([n, p])
    X = rng.normal(size=(n, p))
    y = (rng.random(n) < 0.5).astype(np.float64)
    return X, y, rng.normal(size=p) / p**0.5


def probabilities_and_weights(X: Array, theta: Array) -> tuple[Array, Array]:
    weights = np.minimum(1.0, RADIUS**2 / np.einsum("ij,ij->i", X, X))
    return 1.0 / (1.0 + np.exp(-(X @ theta))), weights


def numpy_gradient(X: Array, y: Array, theta: Array) -> Array:
    probability, weights = probabilities_and_weights(X, theta)
    return X.T @ ((probability - y) * weights) / len(y)


def numpy_hessian(X: Array, theta: Array) -> Array:
    probability, weights = probabilities_and_weights(X, theta)
    return (X.T * (probability * (1.0 - probability) * weights)) @ X / len(X)


def numpy_hessian_by_syrk(X: Array, theta: Array) -> Array:
    probability, weights = probabilities_and_weights(X, theta)
    half = X * np.sqrt(probability * (1.0 - probability) * weights)[:, None]
    return blas.dsyrk(1.0 / len(X), half.T)


def numpy_everything(X: Array, y: Array, theta: Array) -> tuple[Array, Array, Array]:
    probability, weights = probabilities_and_weights(X, theta)
    scores = X * ((probability - y) * weights)[:, None]
    curvature = probability * (1.0 - probability) * weights
    return scores.sum(axis=0), (X.T * curvature) @ X, scores.T @ scores


def accuracy(X: Array, y: Array, theta: Array, want: int) -> float:
    """Largest difference from the NumPy twin on the first records, over the largest entry."""
    X, y = X[:20_000], y[:20_000]
    ours = KERNEL.sums(X, y, theta, want, float(len(y)))
    twin = reference.record_sums(X, y, theta, want=want, divisor=float(len(y)), **MODEL)
    return max(
        float(np.abs(a - b).max() / np.abs(b).max())
        for a, b in zip(ours, twin, strict=True)
        if a is not None and b is not None
    )


def fill(
    benchmark: object,
    case: str,
    want: int,
    shape: tuple[int, int],
    references: list[Callable[[], object]],
    limit: limits.Limit | None,
    work: float,
) -> None:
    """Time the case, its references (the better one counts) and its limit; fill the row."""
    n, p = shape
    X, y, theta = data(n, p)
    calls: dict[str, Callable[[], object]] = {
        "function": lambda: KERNEL.sums(X, y, theta, want, float(n))
    }
    calls |= {f"reference {i}": call for i, call in enumerate(references)}
    if limit is not None:
        calls["limit"] = limit.call
    measured = limits.timings(calls, rounds=3 if is_quick() else 9)
    function = measured["function"]
    reference_seconds = min(measured[f"reference {i}"].median for i in range(len(references)))
    benchmark.pedantic(calls["function"], rounds=3, iterations=1)  # type: ignore[attr-defined]
    info = {
        "case": case,
        "n": n,
        "p": p,
        "seconds": function.median,
        "reference_seconds": reference_seconds,
        "speedup": reference_seconds / function.median,
        "accuracy": accuracy(X, y, theta, want),
    }
    if limit is not None:
        rate = limit.work / measured["limit"].best
        info |= {"limit": rate / 1e9, "fraction": work / function.best / rate}
    benchmark.extra_info.update(info)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("n", "p"), GRID)
def test_gradient(benchmark, n, p):
    X, y, theta = data(n, p)
    fill(
        benchmark,
        "logistic gradient (limit GB/s)",
        records.GRADIENT,
        (n, p),
        [lambda: numpy_gradient(X, y, theta)],
        limits.reading(X, records.default_threads()),
        work=8.0 * n * (p + 1),
    )


@pytest.mark.parametrize(("n", "p"), GRID)
def test_hessian(benchmark, n, p):
    X, _, theta = data(n, p)
    fill(
        benchmark,
        "logistic Hessian (limit GF/s)",
        records.HESSIAN,
        (n, p),
        [lambda: numpy_hessian(X, theta), lambda: numpy_hessian_by_syrk(X, theta)],
        limits.dsyrk(),
        work=float(n) * p * (p + 1),
    )


@pytest.mark.parametrize(("n", "p"), GRID)
def test_gradient_hessian_and_meat(benchmark, n, p):
    X, y, theta = data(n, p)
    fill(
        benchmark,
        "gradient + Hessian + meat (limit GF/s)",
        records.GRADIENT | records.HESSIAN | records.MEAT,
        (n, p),
        [lambda: numpy_everything(X, y, theta)],
        limits.dsyrk(),
        work=2.0 * n * p * (p + 1),
    )


@pytest.mark.parametrize(("n", "p"), GRID)
def test_change_of_gradient(benchmark, n, p):
    """Both gradients in one read of X, against one gradient: "speedup" is the inverse cost."""
    X, _, theta = data(n, p)
    y = X @ theta
    kernel = records.RecordKernel(10, 4.685, 1.0, 1, p**0.5, False)  # Tukey's biweight
    other = theta + 0.01
    limit = p * float(np.linalg.norm(other - theta))
    calls: dict[str, Callable[[], object]] = {
        "gradient": lambda: kernel.sums(X, y, theta, records.GRADIENT, float(n)),
        "change": lambda: kernel.gradient_change(X, y, other, theta, limit, float(n)),
    }
    measured = limits.timings(calls, rounds=3 if is_quick() else 9)
    benchmark.pedantic(calls["change"], rounds=3, iterations=1)
    head = X[:20_000], y[:20_000]
    options = {"loss": 10, "c": 4.685, "weighting": 1, "radius": p**0.5}
    twin = reference.gradient_change(
        *head, other, theta, limit=limit, divisor=1.0, **(MODEL | options)
    )
    ours = kernel.gradient_change(*head, other, theta, limit, 1.0)
    benchmark.extra_info.update(
        {
            "case": "Tukey change of gradient (reference: one gradient)",
            "n": n,
            "p": p,
            "seconds": measured["change"].median,
            "reference_seconds": measured["gradient"].median,
            "speedup": measured["gradient"].best / measured["change"].best,
            "accuracy": float(np.abs(ours - twin).max() / np.abs(twin).max()),
        }
    )
