"""Sensitivities of gradients, their changes and norms (PROOFS-nonconvex.md)."""

from __future__ import annotations

import math

from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, UNIT_ROUNDOFF
from dpfast.privacy.sensitivity import mean_score

_UP = 1.0 + ROUNDING_FORMULA


def mean_gradient(lipschitz: float, n: int, *, depth: int = 0) -> float:
    """l2 sensitivity of the mean of n gradients clipped to the norm ``lipschitz`` (claim K1)."""
    return mean_score(2.0 * lipschitz, n, depth=depth)


def gradient_change(
    limit: float, n: int, *, depth: int = 0, lowest: float = 1.0, error: float = 0.0
) -> float:
    """l2 sensitivity of the mean of n changes of gradients clipped to ``limit`` (claim K2)."""
    if not (0.0 <= lowest <= 1.0 and error >= 0.0):
        raise InvalidInput(
            f"lowest must lie in [0, 1] and error be at least 0; received {described(lowest)}, "
            f"{described(error)}."
        )
    diameter = min(2.0 * limit, ((1.0 + lowest) * limit + 2.0 * error) * _UP)
    # the rounding of the sum is relative to the bound, which is at most the diameter
    return mean_score(diameter, n, depth=depth)


def change_error(curvature: float, score: float, sizes: float, dimension: int) -> float:
    """Bound the rounding of one record's change of gradient for a built-in loss (claim K2)."""
    predictor = (dimension + 8.0) * UNIT_ROUNDOFF * sizes * curvature
    return (predictor + 1e-12 * score) * (1.0 + 1e-6)


def gradient_norm(lipschitz: float, n: int, dimension: int, *, depth: int = 0) -> float:
    """Sensitivity of the norm of the mean of n clipped gradients (claim K3)."""
    if dimension < 1:
        raise InvalidInput(
            f"dimension must be a positive integer; received {described(dimension)}."
        )
    rounding = 2.0 * lipschitz * (dimension + 4.0) * UNIT_ROUNDOFF * (1.0 + 1e-9)
    return (mean_gradient(lipschitz, n, depth=depth) + rounding) * _UP


def norm_steps(sensitivity: float, grid: float) -> int:
    """Count the grid steps one record can move a norm rounded to the nearest step (claim K5)."""
    if not (0.0 < grid < math.inf and 0.0 < sensitivity < math.inf):
        raise InvalidInput(
            f"sensitivity and grid must be positive; received {described(sensitivity)}, "
            f"{described(grid)}."
        )
    return math.floor(sensitivity / grid * _UP + 2.0**-29) + 1


def exponential_cost(rate: tuple[int, int], steps: int) -> float:
    """zCDP cost ``(steps rate)^2 / 2`` of a choice by ``exp(-rate score)``, up (claim K5)."""
    numerator, denominator = rate
    if numerator < 1 or denominator < 1 or steps < 1:
        raise InvalidBudget(
            f"rate and steps must be positive; received {described(rate)}, {described(steps)}."
        )
    half_range = steps * numerator / denominator
    return 0.5 * half_range * half_range * _UP
