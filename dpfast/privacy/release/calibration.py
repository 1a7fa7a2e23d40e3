"""Noise multipliers of what a certificate allows, for a user's budget, and those of a tilt.

Each is calibrated alone, to what the certificate leaves of the budget (claim R35), at the ends of
its scales (claim C26).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_PRODUCT

Array = NDArray[np.float64]

#: Sensitivity of the integer behind a certificate: its grid is one 1024th of a step.
COUNT = 1024

#: More than the rounding of the few operations in a profile, relative to 1.
ROUNDING = 1e-15

_UP = 1.0 + ROUNDING_FORMULA

#: What is spent of an epsilon or a delta, which stand for their decimals (claim C86).
_TAKEN = 1.0 - ROUNDING_PRODUCT

_PRECISION = 1e-7
_RANGE = (1e-6, 1e12)


# ---- functionals --------------------------------------------------------------------------------


def gaussian_profile(epsilon: float, shift: float, ratio: float) -> float:
    """Compute the privacy profile of ``N(0, 1)`` against ``N(shift, ratio^2)``, up (claim C26)."""
    if not (0.0 <= shift < math.inf and 0.0 < ratio < math.inf):
        raise InvalidBudget(
            "a shift must be finite and at least 0 and a ratio of scales positive and finite; "
            f"received {described(shift)} and {described(ratio)}."
        )
    factor = math.exp(epsilon)
    if ratio == 1.0:  # the event is z < upper, x = shift + z
        upper = -epsilon / shift - shift / 2.0 if shift > 0.0 else -math.copysign(math.inf, epsilon)
        value = float(ndtr(upper + shift) - factor * ndtr(upper))
    else:  # (1 - ratio^2) z^2 - 2 shift ratio z - k > 0, x = shift + ratio z
        a, b = (1.0 - ratio) * (1.0 + ratio), shift * ratio
        k = 2.0 * (epsilon - math.log(ratio)) + shift * shift
        large = b + math.sqrt(max(b * b + a * k, 0.0))  # never cancels: b >= 0
        z = np.sort([large / a, -k / large if large > 0.0 else 0.0])
        x = shift + ratio * z
        p, q = ndtr(x[1]) - ndtr(x[0]), ndtr(z[1]) - ndtr(z[0])
        p_out, q_out = ndtr(x[0]) + ndtr(-x[1]), ndtr(z[0]) + ndtr(-z[1])
        value = float(p_out - factor * q_out if ratio < 1.0 else p - factor * q)
        if not b * b + a * k > 0.0:
            value = 0.0
    # of any event a lower bound and of the best event the profile
    value = max(value, 0.0, -math.expm1(epsilon))
    return min(value + ROUNDING * (1.0 + factor), 1.0)


@lru_cache(maxsize=256)
def functional_multiplier(
    epsilon: float, delta: float, tau: float, *, other_delta: float = 0.0
) -> float:
    """Find the multiplier of omega of an ``(epsilon, delta)`` release (claims C26, R35)."""
    _check_budget(epsilon, delta)
    if not 0.0 <= tau < 1.0:
        raise InvalidBudget(f"tau must lie in [0, 1); received {described(tau)}.")
    epsilon, budget = epsilon * _TAKEN, delta * (1.0 - 1e-12) - other_delta

    def is_private(b: float) -> bool:
        ends = (gaussian_profile(epsilon, _UP / b, ratio) for ratio in (1.0 - tau, 1.0 + tau))
        return max(ends) <= budget

    return smallest(is_private)


def _check_budget(epsilon: float, delta: float) -> None:
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise InvalidBudget(
            "epsilon must be positive and finite and delta in (0, 1); received "
            f"{described(epsilon)} and {described(delta)}."
        )


def smallest(
    suffices: Callable[[float], bool],
    low: float = _RANGE[0],
    high: float = _RANGE[1],
    precision: float = _PRECISION,
) -> float:
    """Bisect for the smallest value that is sufficient, from above; infinity if there is none."""
    if not suffices(high):
        return math.inf
    while high / low > 1.0 + precision:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


# ---- objective perturbation ---------------------------------------------------------------------

_CELLS = 4096


def objective_perturbation_delta(
    epsilon: float,
    noise_scale: float,
    curvature_bound: float,
    B1: float,
    radius: float,
    n: float,
    lreg: float,
) -> float:
    """Compute delta at epsilon of objective perturbation of a linear model, up (claim R10)."""
    for name, value in (
        ("noise_scale", noise_scale), ("curvature_bound", curvature_bound), ("B1", B1),
        ("radius", radius), ("n", n), ("lreg", lreg),
    ):  # fmt: skip
        if not 0.0 < value < math.inf:
            raise InvalidBudget(f"{name} must be positive and finite; received {described(value)}.")
    remaining_epsilon = epsilon - math.log1p(curvature_bound / (n * lreg) * (1.0 + 1e-11)) * _UP
    if remaining_epsilon <= 0.0:
        return 1.0
    mu = 2.0 * B1 * radius / (n * noise_scale) * (1.0 + 1e-11)
    angle = np.linspace(0.0, 0.5 * math.pi, _CELLS + 1) * 0.5
    # each term increases in its shift, so a cell is bounded by its two larger shifts
    first, second = mu * np.cos(angle[:-1]), mu * np.sin(angle[1:])
    total = _two_sided(remaining_epsilon, first) + _two_sided(remaining_epsilon, second)
    return min(1.0, float(total.max()) * (1.0 + 1e-9) + 1e-300)


def _two_sided(e: float, m: Array) -> Array:
    """Compute ``E (1 - exp(e - m^2/2 - m |N|))_+`` for standard normal N and e > 0."""
    with np.errstate(all="ignore"):
        first = np.exp(log_ndtr(0.5 * m - e / m))
        outer = 2.0 * (first - np.exp(e + log_ndtr(-0.5 * m - e / m)))
        inner = 1.0 - 2.0 * np.exp(e + log_ndtr(-m))
        value = np.where(e >= 0.5 * m * m, outer, inner)
        # what the difference may have lost to rounding
        return np.asarray(np.where(m > 0.0, np.maximum(value, 0.0) + 1e-13 * first, 0.0))


@lru_cache(maxsize=256)
def objective_perturbation_scale(epsilon: float, delta: float, *problem: float) -> float:
    """Find the noise scale of ``(epsilon, delta)``-DP objective perturbation (claim R10)."""
    _, B1, radius, n, _ = problem
    _check_budget(epsilon, delta)
    epsilon, delta = epsilon * _TAKEN, delta * _TAKEN
    score_shift = 2.0 * B1 * radius / n

    def is_private(b: float) -> bool:
        return objective_perturbation_delta(epsilon, b * score_shift, *problem) <= delta

    return smallest(is_private) * score_shift * _UP
