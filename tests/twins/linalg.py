"""The functions of `linalg` in plain NumPy, written differently on purpose.

Slow, short and obvious: the tests compare the compiled functions with these.  Eigenvalues come
from ``numpy.linalg.eigh``; flooring is written as a correction of the input, inverses as solves,
and the orthonormal basis as an explicit list of basis matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def orthonormal_basis(p: int) -> Array:
    """Basis matrices E_1, E_2, ... of the symmetric p x p matrices, orthonormal in <A, B> = tr AB.

    Order: row-major upper triangle.
    """
    basis = []
    for i in range(p):
        for j in range(i, p):
            element = np.zeros((p, p))
            element[i, j] = element[j, i] = 1.0
            basis.append(element / np.linalg.norm(element))
    return np.array(basis)


def eigh(A: ArrayLike) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors as columns; NaN for a non-finite matrix."""
    matrix = np.asarray(A, dtype=np.float64)
    if not np.isfinite(matrix).all():
        return np.full(len(matrix), np.nan), np.full(matrix.shape, np.nan)
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return values, vectors


def floor_eigenvalues(A: ArrayLike, floor: float) -> tuple[Array, Array, int]:
    """Lift every eigenvalue below `floor` by adding its own multiple of v v'."""
    matrix = np.asarray(A, dtype=np.float64)
    values, vectors = eigh(matrix)
    if not np.isfinite(values).all():
        return np.full(matrix.shape, np.nan), values, _not_at_least(values, floor)
    floored: Array = (matrix + matrix.T) / 2
    for value, v in zip(values, vectors.T, strict=True):
        if value < floor:
            floored = floored + (floor - value) * np.outer(v, v)
    return floored, values, _not_at_least(values, floor)


def newton_direction(H: ArrayLike, g: ArrayLike, floor: float) -> tuple[Array, Array, int]:
    """Solve the linear system with the floored matrix."""
    floored, values, count = floor_eigenvalues(H, floor)
    if not np.isfinite(floored).all():
        return np.full(len(values), np.nan), values, count
    direction = np.asarray(np.linalg.solve(floored, np.asarray(g, dtype=np.float64)), dtype=float)
    return direction, values, count


def floored_step(H: ArrayLike, g: ArrayLike, floor: float) -> tuple[Array, Array, Array]:
    """The direction, the lifted eigenvalues, and the inverse by solving for every basis vector."""
    direction, values, _ = newton_direction(H, g, floor)
    floored, _, _ = floor_eigenvalues(H, floor)
    if not np.isfinite(floored).all():
        return direction, values, floored  # all NaN
    inverse = np.asarray(np.linalg.inv(floored), dtype=np.float64)
    return direction, np.maximum(values, floor), inverse


def capped_step(theta: ArrayLike, direction: ArrayLike, step_size: float, max_step: float) -> Array:
    """The unit vector of the direction times the length that is left of it."""
    start = np.asarray(theta, dtype=np.float64)
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(direction))
    if length == 0.0 or not length < np.inf:
        return start.copy()
    return np.asarray(start - step_size * min(length, max_step) * (np.asarray(direction) / length))


def weighted_mean(arrays: Sequence[ArrayLike], weights: Sequence[float]) -> Array:
    """``numpy.average`` of the stacked arrays."""
    return np.asarray(np.average(np.array(arrays), axis=0, weights=weights))


def congruence(A: ArrayLike, S: ArrayLike) -> Array:
    """Two products."""
    return np.asarray(np.asarray(A) @ np.asarray(S) @ np.asarray(A).T)


def variance_bounds(
    mapping: Array,
    meat: Array,
    bias: Array,
    directions: Array | None,
    noise: float,
    natural: Array | None,
) -> tuple[float, float]:
    """Squared lengths of rows, times the least eigenvalue, and times the trace and longer rows."""
    total = np.trace(meat) + np.sum(bias) + len(mapping) * noise**2
    total += 0.0 if directions is None else np.sum(np.square(directions))
    rows = np.sum(mapping**2, axis=1)
    largest = total * rows.sum()
    if natural is not None:
        rows = np.append(rows, np.sum((natural @ mapping) ** 2, axis=1))
        largest *= 1.0 + np.sum(natural**2)
    return float(noise**2 * rows.min()), float(largest)


def noise_after_steps(
    inverses: Sequence[Array],
    curvatures: Sequence[Array],
    step_sizes: ArrayLike,
    gradient_scales: ArrayLike,
    curvature_scales: ArrayLike,
) -> Array:
    """Every error as a column of a matrix that the steps multiply; the covariance is its square.

    Noise W in a curvature is the sum of independent normals along the orthonormal basis.
    """
    p = len(inverses[0])
    basis = orthonormal_basis(p)
    errors: Array = np.zeros((p, 0))
    for P, H, eta, s, w in zip(
        inverses,
        curvatures,
        np.asarray(step_sizes),
        np.asarray(gradient_scales),
        np.asarray(curvature_scales),
        strict=True,
    ):
        kept = errors - eta * P @ (H @ errors)
        shaken = [eta * w * P @ (element @ errors) for element in basis]
        errors = np.hstack([kept, *shaken, eta * s * P])
        errors = np.asarray(np.linalg.cholesky(errors @ errors.T), dtype=np.float64)
    return np.asarray(errors @ errors.T)


def sandwich(H: ArrayLike, Q: ArrayLike, floor_h: float) -> tuple[Array, int, int]:
    """Two solves around the floored meat."""
    bread, _, count_h = floor_eigenvalues(H, floor_h)
    meat, _, count_q = floor_eigenvalues(Q, 0.0)
    if not (np.isfinite(bread).all() and np.isfinite(meat).all()):
        return np.full(bread.shape, np.nan), count_h, count_q
    half = np.linalg.solve(bread, meat)
    return np.linalg.solve(bread, half.T), count_h, count_q


def _not_at_least(values: Array, floor: float) -> int:
    return int(np.count_nonzero(~(values >= floor)))
