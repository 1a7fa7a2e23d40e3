"""Privacy profile of Student noise with three degrees of freedom and unequal scales (claim R9)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.privacy.release.profiles import ROUNDING, Profile, Values, broadcast, worst_profile

Array = NDArray[np.float64]

STUDENT_DEGREES = 3


def student_profile(epsilon: Array, shift: Values, ratio: Values) -> Array:
    """Profile of a t(3) law of scale 1 around 0 against scale ``ratio`` around ``shift``.

    The loss is a quotient of two quadratics to a power, so the event where it exceeds epsilon is
    an interval or the complement of one (claim R9).  :func:`~.profiles.worst_profile`
    of it is proved for epsilon of at least ``-1.5 log(1 + shift^2/3)``, in particular from 0 on.
    """
    e, shift, ratio = broadcast(epsilon, shift, ratio)
    nu = float(STUDENT_DEGREES)
    with np.errstate(all="ignore"):
        # (nu ratio^2 + (x - shift)^2) / (nu + x^2) > factor
        factor = np.exp(2.0 * (e + nu * np.log(ratio)) / (nu + 1.0))
        a = 1.0 - factor
        constant = shift * shift + nu * (ratio * ratio - factor)
        discriminant = shift * shift - a * constant
        large = shift + np.sqrt(np.maximum(discriminant, 0.0))  # never cancels: shift >= 0
        first = np.where(a != 0.0, large / np.where(a != 0.0, a, 1.0), math.inf)
        second = np.where(large > 0.0, constant / np.where(large > 0.0, large, 1.0), 0.0)
        low, high = np.minimum(first, second), np.maximum(first, second)
        p, p_out = _inside_and_outside(low, high)
        q, q_out = _inside_and_outside((low - shift) / ratio, (high - shift) / ratio)
        scale = np.exp(e)
        # a > 0: the event is outside of [low, high], a < 0: inside, a = 0: below the root
        value = np.where(a >= 0.0, p_out - scale * q_out, p - scale * q)
        value = np.where(discriminant > 0.0, value, 0.0)
        value = np.maximum(value, np.maximum(0.0, -np.expm1(e)))
        return np.asarray(np.minimum(value + ROUNDING * (1.0 + scale), 1.0))


def student_worst_profile(shift: float, low: float, high: float) -> Profile:
    """Bound of the profiles over shifts and ratios, for every real epsilon (claim R9).

    :func:`~.profiles.worst_profile` from 0 on; below, what it says of the reversed
    pairs, whose shifts are larger by ``1/low`` at most.
    """
    ahead = worst_profile(student_profile, shift, low, high)
    reversed_pairs = worst_profile(student_profile, shift / low, 1.0 / high, 1.0 / low)

    def profile(epsilon: Array) -> Array:
        e = np.asarray(epsilon, dtype=float)
        below = np.minimum(e, 0.0)
        other = -np.expm1(below) + np.exp(below) * reversed_pairs(-below)
        return np.where(e < 0.0, other, ahead(np.maximum(e, 0.0)))

    return profile


def _upper_tail(t: Array) -> Array:
    """``P(T > t)`` of a t(3) variable for t >= 0, without cancellation in the tail."""
    u = t / math.sqrt(3.0)
    # (arctan(1/u) - u/(1 + u^2))/pi; for large u the difference is 2/(3 u^3) - 4/(5 u^5) + ...
    tail = np.maximum(np.arctan2(1.0, u) - u / (1.0 + u * u), 0.0)
    large = u > 20.0
    w = 1.0 / u[large] ** 2
    series = 0.0 * w
    for k in range(12, 0, -1):
        series = (-1.0) ** (k + 1) * 2.0 * k / (2.0 * k + 1.0) + w * series
    tail[large] = series * w * np.sqrt(w)
    return np.asarray(tail / math.pi)


def _inside_and_outside(low: Array, high: Array) -> tuple[Array, Array]:
    """``P(low < T < high)`` and its complement, each to its own relative precision."""
    of_low, of_high = _upper_tail(np.abs(low)), _upper_tail(np.abs(high))
    around = (low < 0.0) & (high > 0.0)
    inside = np.where(around, 1.0 - of_low - of_high, np.abs(of_low - of_high))
    below = np.where(low <= 0.0, of_low, 1.0 - of_low)
    above = np.where(high >= 0.0, of_high, 1.0 - of_high)
    return inside, below + above
