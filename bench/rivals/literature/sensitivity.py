"""Constants of the comparison methods: claims B1 to B10 of PROOFS-rivals.md.

Replacement of one record, ``n`` public, everywhere; functions of public constants only.
"""

from __future__ import annotations

import math

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_PRODUCT, UNIT_ROUNDOFF
from dpfast.privacy.sensitivity import RECORD_ERROR, check_constants

_UP = 1.0 + ROUNDING_FORMULA


def statistics_mu(mu_gram: float, mu_moment: float) -> float:
    """What ``mean xx'`` and ``mean xy`` cost together, rounded up (claims B1 and B2)."""
    check_constants(mu_gram=mu_gram, mu_moment=mu_moment)
    scale = max(mu_gram, mu_moment)
    a, b = (mu_gram / scale) ** 2, (mu_moment / scale) ** 2
    squared = b if b >= 4.0 * a else a + 0.5 * b + b * b / (16.0 * a)
    return scale * math.sqrt(squared) * _UP


def symmetric_noise_bound(noise_scale: float, dimension: int, failure: float) -> float:
    """Level the spectral norm of one side of symmetric noise stays below (claim B3).

    ``P(lambda_max(W) > noise_scale * (sqrt(2 p) + sqrt(2 log(1/failure)))) <= failure`` for ``W``
    with independent normal coordinates in the orthonormal basis; ``-W`` has the same law.
    """
    check_constants(noise_scale=noise_scale, dimension=dimension)
    if not 0.0 < failure < 1.0:
        raise InvalidInput(f"failure must lie in (0, 1); received {described(failure)}.")
    return noise_scale * (math.sqrt(2.0 * dimension) + math.sqrt(-2.0 * math.log(failure)))


def ridge_minimiser(diameter: float, ridge: float, n: int, *, tolerance: float) -> float:
    """l2 sensitivity of an approximate minimiser of a ridge-penalised mean (claim B4).

    ``diameter / (n ridge)`` for the minimiser itself, plus ``2 * tolerance`` if what is released
    is within ``tolerance`` of it, whatever the data.
    """
    check_constants(diameter=diameter, ridge=ridge, n=n, tolerance=tolerance)
    return (diameter * (1.0 + RECORD_ERROR) / (n * ridge) + 2.0 * tolerance) * _UP


def descent_steps(smoothness: float, ridge: float, distance: float, tolerance: float) -> int:
    """Gradient steps of size ``2/(smoothness + ridge)`` that bring ``distance`` to ``tolerance``.

    Each step multiplies the distance from the minimiser by at most
    ``(smoothness - ridge)/(smoothness + ridge)`` (claim B5), whatever the data.
    """
    check_constants(smoothness=smoothness, ridge=ridge, distance=distance, tolerance=tolerance)
    if tolerance >= distance:
        return 0
    # log of the inverse factor is 2 atanh(ridge/smoothness), at least twice the ratio
    return math.ceil(math.log(distance / tolerance) * smoothness / (2.0 * ridge) * (1.0 + 1e-9))


def trial_epsilon(epsilon: float) -> float:
    """Budget of one trial so that the best of a geometric number costs ``epsilon`` (B10)."""
    if not 0.0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon must be positive and finite; received {described(epsilon)}.")
    return epsilon / 3.0 * (1.0 - ROUNDING_PRODUCT)


def selection_cost(trial: float) -> float:
    """Pure-DP cost of releasing the best of a geometric number of trials, rounded up (B10)."""
    return 3.0 * trial * (1.0 + 0.5 * ROUNDING_PRODUCT)  # less than `trial_epsilon` left


def sampled_mean(bound: float, divisor: float, n: int, *, depth: int = 0) -> float:
    """How far one record's presence in a sample moves the sum over it / ``divisor`` (claim B8)."""
    check_constants(bound=bound, divisor=divisor, n=n)
    gamma = depth * UNIT_ROUNDOFF / (1.0 - depth * UNIT_ROUNDOFF)
    slack = RECORD_ERROR + 2.0 * gamma * n * (1.0 + RECORD_ERROR)
    return bound / divisor * (1.0 + slack) * _UP
