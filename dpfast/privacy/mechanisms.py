"""Adding noise: Gaussian vectors, Gaussian symmetric matrices, discrete Laplace integers.

A release is ``g * (nearest(value / g) + floor(2^k Z))`` with a public grid ``g = noise_scale/2^k``
and ``Z`` exactly normal: as private as the ideal Gaussian mechanism (claims C15 and C16 of
PROOFS.md).  NaN is released as if it were 0 and infinities as if they were ``2^51 g``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.kernels.sampler import release
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_PRODUCT, ROUNDING_SUM

MIN_GRID_BITS = 20

#: What rounding to the grid can add to mu: each release is rounded by at most
#: ``sqrt(d) 2^-k <= 2^-20`` of its noise scale, and up to three are released together
#: (claims C16 and C19), hence the square root of three.
GRID_COST = math.sqrt(3.0) * 2.0**-MIN_GRID_BITS * (1.0 + ROUNDING_SUM)

#: |value / grid| beyond which a value is clamped.
CLAMP = 2.0**51

_SCALE_RANGE = (1e-250, 1e250)


def grid_bits(dimension: int) -> int:
    """Return the bits k of the grid: at least 20, and ``sqrt(dimension) 2^-k <= 2^-20``."""
    return MIN_GRID_BITS + ((dimension - 1).bit_length() + 1) // 2


def gaussian_scale(sensitivity: float, mu: float, dimension: int) -> float:
    """Return the standard deviation per coordinate of a mu-GDP release on the grid, rounded up."""
    if dimension < 1:
        raise InvalidInput(
            f"dimension must be a positive integer; received {described(dimension)}."
        )
    if not GRID_COST < mu < math.inf:
        raise InvalidBudget(
            f"mu = {described(mu)} is too small for a release on the grid: it must be above "
            f"{GRID_COST:.3g}. Use fewer steps or a larger budget."
        )
    scale = sensitivity / (mu - GRID_COST) * (1.0 + ROUNDING_FORMULA)
    _check_scale(scale)
    return scale


def _check_scale(noise_scale: float) -> None:
    if not _SCALE_RANGE[0] <= noise_scale <= _SCALE_RANGE[1]:
        raise InvalidInput(
            f"the noise scale must lie in [{_SCALE_RANGE[0]:g}, {_SCALE_RANGE[1]:g}]; received "
            f"{described(noise_scale)}. Rescale the data by a public constant."
        )


def check_grid_range(bound: float, noise_scale: float, dimension: int) -> None:
    """Refuse, from public numbers only, a release whose values could reach the clamp."""
    if bound * 2.0 ** grid_bits(dimension) > 0.5 * CLAMP * noise_scale:
        raise InvalidBudget(
            f"the noise scale {noise_scale:.3g} is too small for values up to {bound:.3g}: they "
            "would exceed 2^50 steps of the release grid, finer than floating point resolves. "
            "Use a smaller mu."
        )


@lru_cache(maxsize=256)
def vector_grid(noise_scale: float, dimension: int) -> tuple[int, float, float]:
    """Return bits and step of a vector's grid, and 0 for the off-diagonal step it does not have."""
    _check_scale(noise_scale)
    bits = grid_bits(dimension)
    return bits, noise_scale * 2.0**-bits, 0.0


@lru_cache(maxsize=256)
def symmetric_grid(noise_scale: float, p: int) -> tuple[int, float, float]:
    """Return bits of a symmetric matrix's grid, its step on the diagonal, and off it."""
    bits, grid, _ = vector_grid(noise_scale, p * (p + 1) // 2)
    # rounded up, so that 1/grid_off^2 <= 2/grid^2: off-diagonal entries count twice in the
    # Frobenius norm (claim C16)
    grid_off = grid * math.sqrt(0.5) * (1.0 + ROUNDING_PRODUCT)
    return bits, grid, grid_off


class Grids(NamedTuple):
    """Public description of the grids of arrays that are released together."""

    size: int
    bits: int
    steps: tuple[tuple[int, float, float] | None, ...]


@lru_cache(maxsize=1024)
def joint_grids(
    shapes: tuple[tuple[int, ...] | None, ...], noise_scales: tuple[float, ...]
) -> Grids:
    """Find the grids of vectors and symmetric matrices; a shape of None has no array."""
    size, finest = 0, 0
    steps: list[tuple[int, float, float] | None] = []
    for shape, noise_scale in zip(shapes, noise_scales, strict=True):
        if shape is None:
            steps.append(None)
            continue
        p = shape[0]
        size += p if len(shape) == 1 else p * (p + 1) // 2
        grid = (vector_grid if len(shape) == 1 else symmetric_grid)(noise_scale, p)
        finest = max(finest, grid[0])
        steps.append(grid)
    return Grids(size, finest, tuple(steps))


def release_together(
    values: Sequence[NDArray[np.float64] | None], grids: Grids, source: NoiseSource
) -> list[Any]:
    """Release vectors and symmetric matrices with independent noise from one draw (claim C16)."""
    return release(values, source.normals(grids.size, grids.bits), grids.bits, grids.steps)


def laplace_rate(sensitivity: int, epsilon: float) -> tuple[int, int]:
    """Return the rate of a discrete Laplace release as an exact ratio, rounded down (claim C22)."""
    if sensitivity < 1 or not 0.0 < epsilon < math.inf:
        raise InvalidBudget(
            "sensitivity must be a positive integer and epsilon positive and finite; received "
            f"{described(sensitivity)} and {described(epsilon)}."
        )
    numerator, denominator = (epsilon * (1.0 - ROUNDING_PRODUCT)).as_integer_ratio()  # claim C86
    bits = 50
    rate = (numerator << bits) // (denominator * sensitivity)
    if not 2**10 <= rate < 2**62:
        raise InvalidBudget(
            "epsilon/sensitivity must lie in [2^-40, 2^12); received "
            f"{described(epsilon)}/{described(sensitivity)}."
        )
    return rate, 1 << bits


def release_integer(value: int, rate: tuple[int, int], source: NoiseSource) -> int:
    """Release an integer with discrete Laplace noise (claim C22)."""
    return int(value) + int(source.discrete_laplace(1, *rate)[0])
