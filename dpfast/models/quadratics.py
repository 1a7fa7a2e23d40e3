"""Largest value of a positive semidefinite quadratic form over a set: exact, or a proved bound.

A convex function over a polytope is largest at a vertex, so products of intervals and one-hot
blocks are enumerated: half of the blocks against the other half, by matrix products.  Beyond that
there are two kinds of bound.  Every positive block-diagonal D with ``M <= D`` in the Loewner order
gives ``x'Mx <= x'Dx``: scaled multiples of a trial D are optimised by a fixed number of
multiplicative steps, and the smallest bound found is returned.  And groups of blocks that can be
enumerated are joined by the triangle inequality, which is monotone in M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array
from dpfast.errors import InvalidInput

Array = NDArray[np.float64]

#: Most vertices that are enumerated.
MOST_VERTICES = 1 << 24

#: Values formed at a time, so that they stay in the cache.
_CHUNK = 1 << 17

_ROUNDOFF = 2.0**-53
_STEPS = 60


def _eigenvalue_slack(M: Array) -> float:
    """More than the error of a LAPACK eigenvalue (observed: below 2 d units of rounding)."""
    return 64.0 * len(M) * _ROUNDOFF * float(np.linalg.norm(M))


def _largest(M: Array) -> float:
    return float(np.linalg.eigvalsh(M)[-1]) + _eigenvalue_slack(M)


def ball_maximum(M: Array, radius: float, intercept: bool) -> float:
    """Maximum of ``x'Mx`` over ``||x|| <= radius``, or over ``x = (1, z), ||z|| <= radius``.

    The second is a trust-region problem, whose dual has no gap: for every ``m`` above the largest
    eigenvalue of the block N of z, ``M_00 + m radius^2 + b'(m - N)^-1 b`` is an upper bound; it is
    minimised over m by golden sections.
    """
    if not np.isfinite(M).all():
        return math.inf
    if not intercept:
        return max(0.0, radius * radius * _largest(M)) * (1.0 + 1e-14)
    whole = (1.0 + radius * radius) * _largest(M) * (1.0 + 1e-14)
    b, N = M[1:, 0], M[1:, 1:]
    if len(N) == 0:
        return float(M[0, 0])
    values, vectors = np.linalg.eigh(N)
    slack = _eigenvalue_slack(N)
    top = float(values[-1]) + slack
    squares = (vectors.T @ b) ** 2 * (1.0 + 1e-12 * len(M))
    # what rounding may have turned of b
    squares = squares + (64.0 * len(M) * _ROUNDOFF * float(np.linalg.norm(b))) ** 2

    def dual(gap: float) -> float:
        m = top + gap
        tail = float((squares / (m - values - slack)).sum())
        return float(M[0, 0]) + m * radius * radius + tail

    low, high = -40.0, math.log(max(float(np.linalg.norm(b)) / radius, 1e-300)) + 3.0
    low += high
    inverse_golden = (math.sqrt(5.0) - 1.0) / 2.0
    best = math.inf
    for _ in range(90):
        left = high - inverse_golden * (high - low)
        right = low + inverse_golden * (high - low)
        value_left, value_right = dual(math.exp(left)), dual(math.exp(right))
        best = min(best, value_left, value_right)
        if value_left < value_right:
            high = right
        else:
            low = left
    return min(whole, best * (1.0 + 1e-13) + 4.0 * _ROUNDOFF * abs(float(M[0, 0])))


def _full(choices: Sequence[Array], intercept: bool) -> list[Array]:
    """Blocks of coordinates, each with its extreme points as rows; the intercept is one point."""
    blocks = [np.ones((1, 1))] if intercept else []
    return [*blocks, *choices]


def vertex_maximum(M: Array, choices: Sequence[Array], intercept: bool) -> float | None:
    """Maximum over all combinations of the blocks' extreme points, rounded up."""
    if not np.isfinite(M).all():
        return math.inf
    blocks = _full(choices, intercept)
    if math.prod(len(block) for block in blocks) > MOST_VERTICES:
        return None
    edges = np.cumsum([0, *(block.shape[1] for block in blocks)])
    columns = [np.arange(low, high) for low, high in pairwise(edges)]
    (first, rows), (second, others) = (
        (
            np.concatenate([columns[k] for k in half]) if half else np.arange(0),
            _combinations([blocks[k] for k in half]),
        )
        for half in _groups([len(block) for block in blocks], 2)
    )
    own = _squares(M[np.ix_(first, first)], rows)
    # the last column adds what the other half contributes on its own
    cross = np.hstack([2.0 * (rows @ M[np.ix_(first, second)]), np.ones((len(rows), 1))])
    others = np.hstack([others, _squares(M[np.ix_(second, second)], others)[:, None]])
    chunk = max(1, _CHUNK // len(others))
    best = -math.inf
    for start in range(0, len(rows), chunk):
        stop = start + chunk
        values = (cross[start:stop] @ others.T).max(axis=1) + own[start:stop]
        best = max(best, float(values.max()))
    # of |x|'|M||x|: at most the squared norm of a row times that of M, and entry by entry
    square = sum(float((block * block).sum(axis=1).max()) for block in blocks)
    sizes = np.concatenate([np.abs(block).max(axis=0) for block in blocks])
    size = min(square * float(np.linalg.norm(M)), float(sizes @ np.abs(M) @ sizes))
    return max(0.0, best) + 2.0 * (len(M) + 3) * _ROUNDOFF * size


def grouped_bound(M: Array, choices: Sequence[Array], intercept: bool) -> float:
    """Upper bound of the maximum that is monotone in M, for any number of vertices (claim R31).

    ``||x||_M <= sum ||x_g||_M`` over groups g of blocks, fixed in advance, each enumerated.
    """
    blocks = _full(choices, intercept)
    edges = np.cumsum([0, *(block.shape[1] for block in blocks)])
    sizes = [len(block) for block in blocks]
    number = 1
    while True:
        groups = _groups(sizes, number)
        if all(math.prod(sizes[k] for k in group) <= MOST_VERTICES for group in groups):
            break
        number += 1
    parts = []
    for group in groups:
        columns = np.concatenate([np.arange(edges[k], edges[k + 1]) for k in group])
        part = vertex_maximum(M[np.ix_(columns, columns)], [blocks[k] for k in group], False)
        assert part is not None
        parts.append(part)
    return _joined(parts)


def monotone_vertices(M: Array, choices: Sequence[Array], intercept: bool) -> float:
    """The maximum where it can be enumerated, else a bound that is monotone in M (claim R31)."""
    exact = vertex_maximum(M, choices, intercept)
    if exact is not None:
        return exact
    square = sum(float((block * block).sum(axis=1).max()) for block in _full(choices, intercept))
    ball = ball_maximum(M, math.sqrt(square) * (1.0 + 2.0**-44), False)
    return min(ball, grouped_bound(M, choices, intercept))


def monotone_ball(M: Array, radius: float, intercept: bool) -> float:
    """Bound over ``||x|| <= radius`` or ``x = (1, z), ||z|| <= radius``, monotone in M (R31)."""
    if not intercept:
        return ball_maximum(M, radius, False)
    whole = ball_maximum(M, math.hypot(1.0, radius), False)
    return min(whole, _joined([max(float(M[0, 0]), 0.0), ball_maximum(M[1:, 1:], radius, False)]))


def _joined(parts: Sequence[float]) -> float:
    """``(sum sqrt(part))^2``, rounded up: bound for a sum of vectors of these squared norms."""
    return math.fsum(math.sqrt(part) for part in parts) ** 2 * (1.0 + 1e-14)


def _groups(sizes: Sequence[int], number: int) -> list[list[int]]:
    """Indices of blocks in groups of about equally many combinations; public."""
    groups: list[list[int]] = [[] for _ in range(number)]
    products = [1] * number
    for k in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        least = products.index(min(products))
        groups[least].append(k)
        products[least] *= sizes[k]
    return [sorted(group) for group in groups]


def _combinations(blocks: Sequence[Array]) -> Array:
    """Every combination of the blocks' points, one per row."""
    rows = np.zeros((1, 0))
    for block in blocks:
        rows = np.hstack([np.repeat(rows, len(block), axis=0), np.tile(block, (len(rows), 1))])
    return rows


def _squares(M: Array, rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows @ M, rows))


def diagonal_bound(M: Array, choices: Sequence[Array], intercept: bool) -> float:
    """Smallest bound found among block-diagonal majorants of M, rounded up (see the module)."""
    if not np.isfinite(M).all():
        return math.inf
    blocks = _full(choices, intercept)
    widths = [block.shape[1] for block in blocks]
    owner = np.repeat(np.arange(len(blocks)), widths)
    # largest squared norm of each block's part of a row
    reach = np.array([float((block * block).sum(axis=1).max()) for block in blocks])
    reach = np.maximum(reach, 1e-300)
    scaled = M * np.sqrt(reach[owner])[:, None] * np.sqrt(reach[owner])[None, :]
    # with weights w summing to one, x'Mx <= largest eigenvalue of W^-1/2 scaled W^-1/2
    starts = [reach / reach.sum(), np.full(len(blocks), 1.0 / len(blocks))]
    sums = np.zeros(len(blocks))
    np.add.at(sums, owner, np.abs(scaled).sum(axis=1))
    starts.append(np.maximum(sums, sums.max() * 1e-12) / np.maximum(sums, sums.max() * 1e-12).sum())
    best = math.inf
    for w in starts:
        for step in range(_STEPS):
            root = 1.0 / np.sqrt(w[owner])
            B = scaled * root[:, None] * root[None, :]
            values, vectors = np.linalg.eigh(B)
            bound = (float(values[-1]) + _eigenvalue_slack(B)) * float(w.sum())
            best = min(best, bound * (1.0 + 1e-13))
            mass = np.zeros(len(blocks))
            np.add.at(mass, owner, vectors[:, -1] ** 2)
            w = w * np.exp(np.minimum(mass / w * 0.5 / (len(w) * math.sqrt(step + 1.0)), 1.0))
            w = w / w.sum()
    # and every pair of blocks at its own largest
    pairs = 0.0
    edges = np.concatenate([[0], np.cumsum(widths)])
    for i, first in enumerate(blocks):
        for j, second in enumerate(blocks):
            part = M[edges[i] : edges[i + 1], edges[j] : edges[j + 1]]
            pairs += float(np.abs(first @ part @ second.T).max())
    return min(best, pairs * (1.0 + 4.0 * (len(M) + len(blocks)) * _ROUNDOFF))


def quadratic_bounds(M: Array, choices: Sequence[Array], intercept: bool) -> list[float | None]:
    """Exact maximum where the vertices can be enumerated (else None), and proved upper bounds."""
    exact = vertex_maximum(M, choices, intercept)
    if exact is not None:
        return [exact]
    return [None, diagonal_bound(M, choices, intercept)]


def symmetric(H_inverse: ArrayLike, dimension: int | None) -> Array:
    """The matrix of a quadratic form over rows, exactly symmetric."""
    M = real_array(H_inverse, "H_inverse")
    if M.ndim != 2 or M.shape[0] != M.shape[1] or dimension not in (None, M.shape[0]):
        raise InvalidInput(
            f"H_inverse must be a square matrix with {dimension or 'as many'} rows"
            f"{'' if dimension else ' as a row has coordinates'}, intercept included; received "
            f"shape {M.shape}."
        )
    return np.asarray(0.5 * (M + M.T))
