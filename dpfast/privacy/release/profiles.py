"""Privacy profiles of releases whose noise scale depends on the data, and their composition.

A profile is ``H(e) = sup_E P(E) - exp(e) Q(E)`` as a function of every real e.  The releases of
paper 3 pair noise of scale one around 0 with noise of another scale around another centre, next
to a Laplace release; their total is an exact mixture of profiles (claims C26 to C28).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpfast.errors import InvalidBudget, described

Array = NDArray[np.float64]
Values = float | Array
Profile = Callable[[Array], Array]

#: Losses that stand for those of one release in :func:`composed_profile`.
LOSSES = 1024

#: More than the rounding of the few operations in each profile, relative to 1.
ROUNDING = 1e-15


def broadcast(epsilon: Array, shift: Values, ratio: Values) -> tuple[Array, Array, Array]:
    """Arguments of a profile, checked and of one shape."""
    s, r = np.asarray(shift, dtype=float), np.asarray(ratio, dtype=float)
    if not (np.all((s >= 0.0) & (s < math.inf)) and np.all((r > 0.0) & (r < math.inf))):
        raise InvalidBudget(
            "a shift must be finite and at least 0 and a ratio of scales positive and finite; "
            f"received {described(shift)} and {described(ratio)}."
        )
    e = np.atleast_1d(np.asarray(epsilon, dtype=float))
    return np.broadcast_arrays(e, s, r)  # type: ignore[return-value]


def gaussian_profile(epsilon: Array, shift: Values, ratio: Values) -> Array:
    """Profile of ``N(0, 1)`` against ``N(shift, ratio^2)``, rounded up (claim C26)."""
    e, shift, ratio = broadcast(epsilon, shift, ratio)
    with np.errstate(all="ignore"):
        factor = np.exp(e)
        # of equal scales the event is z < upper, x = shift + z
        upper = np.where(shift > 0.0, -e / shift - shift / 2.0, np.where(e < 0.0, np.inf, -np.inf))
        equal = np.maximum(ndtr(upper + shift) - factor * ndtr(upper), 0.0)
        if (ratio == 1.0).all():
            return _rounded_up(equal, e)
        # the event is (1 - ratio^2) z^2 - 2 shift ratio z - k > 0, x = shift + ratio z
        a = (1.0 - ratio) * (1.0 + ratio)
        b = shift * ratio
        k = 2.0 * (e - np.log(ratio)) + shift * shift
        discriminant = b * b + a * k
        root = np.sqrt(np.maximum(discriminant, 0.0))
        large = b + root  # never cancels: b >= 0
        first, second = large / a, np.where(large > 0.0, -k / np.maximum(large, 1e-300), 0.0)
        low, high = np.minimum(first, second), np.maximum(first, second)
        x_low, x_high = shift + ratio * low, shift + ratio * high
        inside = ndtr(x_high) - ndtr(x_low) - factor * (ndtr(high) - ndtr(low))
        outside = ndtr(x_low) + ndtr(-x_high) - factor * (ndtr(low) + ndtr(-high))
        without_roots = np.where(ratio < 1.0, -np.expm1(e), 0.0)
        unequal = np.where(ratio < 1.0, outside, inside)
        unequal = np.where(discriminant > 0.0, unequal, without_roots)
        return _rounded_up(np.where(ratio == 1.0, equal, unequal), e)


def _rounded_up(value: Array, e: Array) -> Array:
    """``P(A) - exp(e) Q(A)``, of any event a lower bound and of the best event the profile."""
    value = np.maximum(value, np.maximum(0.0, -np.expm1(e)))
    return np.asarray(np.minimum(value + ROUNDING * (1.0 + np.exp(e)), 1.0))


def laplace_profile(epsilon: Array, shift: Values, ratio: Values) -> Array:
    """Profile of a Laplace law of scale 1 around 0 against scale ``ratio`` around ``shift``.

    The loss ``log ratio - |x| + |x - shift|/ratio`` is linear on three pieces; cut where it equals
    epsilon, the event is a union of intervals (claim C27).
    """
    e, shift, ratio = broadcast(epsilon, shift, ratio)
    a = 1.0 / ratio - 1.0
    base = np.log(ratio) + shift / ratio
    with np.errstate(all="ignore"):
        slope = np.where(a != 0.0, a, 1.0)
        left = np.where(a != 0.0, (base - e) / slope, 0.0)
        middle = (base - e) / (1.0 + 1.0 / ratio)
        right = np.where(a != 0.0, (e - np.log(ratio) + shift / ratio) / slope, shift)
        cuts = [
            np.full_like(e, -np.inf),
            np.minimum(left, 0.0),
            np.zeros_like(e),
            np.clip(middle, 0.0, shift),
            shift,
            np.maximum(right, shift),
            np.full_like(e, np.inf),
        ]
        value = np.zeros_like(e)
        for piece in range(len(cuts) - 1):
            low, high = cuts[piece], cuts[piece + 1]
            p = _laplace_mass(low, high, 0.0, 1.0)
            q = _laplace_mass(low, high, shift, ratio)
            value += np.maximum(p - np.exp(e) * q, 0.0)
        return np.asarray(np.minimum(value + ROUNDING * (1.0 + np.exp(e)), 1.0))


def _laplace_mass(low: Array, high: Array, centre: Values, scale: Values) -> Array:
    """Probability of [low, high], from the nearer tail."""

    def tail(t: Array) -> Array:  # P(T < t) for t <= 0
        return 0.5 * np.exp(np.minimum(t, 0.0))

    u, v = (low - centre) / scale, (high - centre) / scale
    below = tail(v) - tail(u)
    above = tail(-u) - tail(-v)
    across = 1.0 - tail(u) - tail(-v)
    mass = np.where(v <= 0.0, below, np.where(u >= 0.0, above, across))
    return np.asarray(np.maximum(mass, 0.0))


def worst_profile(
    kind: Callable[[Array, Values, Values], Array], shift: Values, low: Values, high: Values
) -> Profile:
    """Largest profile over shifts up to ``shift`` and scale ratios in ``[low, high]``.

    Attained at the largest shift and one of the two ratios (claims C26 and C27).
    """
    least, most = np.asarray(low), np.asarray(high)
    if not np.all((least > 0.0) & (least <= 1.0) & (most >= 1.0) & (most < math.inf)):
        raise InvalidBudget(
            f"the ratios must satisfy 0 < low <= 1 <= high; got {described(low)}, "
            f"{described(high)}."
        )

    def profile(epsilon: Array) -> Array:
        return np.maximum(kind(epsilon, shift, low), kind(epsilon, shift, high))

    return profile


def with_discrete_laplace(
    profile: Profile, laplace_epsilon: float, sensitivity: int, epsilon: float
) -> float:
    """delta at epsilon of an integer release next to a release with this profile (claim C28).

    The integer has this sensitivity and discrete Laplace noise of rate
    ``laplace_epsilon / sensitivity``; its loss has one of ``sensitivity + 1`` values, so the
    mixture is a finite sum.
    """
    e1, size = laplace_epsilon, sensitivity
    if not (0.0 < e1 < math.inf and 1 <= size <= 1 << 20):
        raise InvalidBudget(
            "laplace_epsilon must be positive and finite and sensitivity in [1, 2^20]; received "
            f"{described(e1)} and {described(size)}."
        )
    a = e1 / size
    mass: Array = -math.expm1(-a) / (1.0 + math.exp(-a)) * np.exp(-a * np.arange(size + 1))
    mass[0] = 1.0 / (1.0 + math.exp(-a))
    mass[-1] = math.exp(-e1) / (1.0 + math.exp(-a))
    losses = a * (size - 2.0 * np.arange(size + 1, dtype=float))
    total = float((mass * profile(np.asarray(epsilon - losses, dtype=float))).sum())
    return min(1.0, total * (1.0 + 1e-12) + 1e-15)


def _lower_hull(x: Array, y: Array) -> NDArray[np.intp]:
    """Indices of the corners of the greatest convex function below the points."""
    corners = np.arange(len(x))
    while True:  # what lies above the chord of its neighbours is no corner
        at, height = x[corners], y[corners]
        slopes = (height[1:] - height[:-1]) / (at[1:] - at[:-1])
        bends = slopes[:-1] < slopes[1:]
        if bends.all():
            return corners
        corners = np.concatenate([corners[:1], corners[1:-1][bends], corners[-1:]])


def composed_profile(profile: Profile, count: int, reach: float) -> Profile:
    """Upper bound of the profile of ``count`` independent releases with this profile (claim R30).

    The profile is convex in ``exp(epsilon)``, hence below the convex hull of its bounds at knots,
    which is that of finitely many losses; their sums follow from a power of a Fourier transform.
    """
    step = 2.0 * reach / LOSSES
    knots: Array = step * np.arange(-LOSSES // 2, LOSSES // 2 + 1, dtype=float)
    heights = np.append(1.0, profile(knots))
    values = np.append(0.0, np.exp(knots))
    corners = _lower_hull(values, heights)
    slopes = np.maximum(-np.diff(heights[corners]) / np.diff(values[corners]), 0.0) * (1.0 + 1e-9)
    mass = np.zeros(len(knots))
    mass[corners[1:] - 1] = np.maximum(-np.diff(slopes, append=0.0), 0.0) * values[corners[1:]]
    beyond = float(heights[-1])
    size = count * LOSSES + 1
    padded = 1 << (size - 1).bit_length()
    sums = np.fft.irfft(np.fft.rfft(mass, padded) ** count, padded)[:size]
    total = float(mass.sum()) + beyond
    # the transforms err in Euclidean norm by a multiple of log2(size) roundings (R30)
    lost = 2.0**-48 * math.log2(padded) * (count + 1) * math.sqrt(padded)
    lost *= float(np.linalg.norm(mass)) * total ** (count - 1)
    rest = total**count - (total - beyond) ** count + lost
    above = np.append(np.cumsum(np.maximum(sums, 0.0)[::-1])[::-1], 0.0)
    losses = step * (np.arange(size) - count * (LOSSES // 2))
    scaled = np.maximum(sums, 0.0) * np.exp(-losses)
    scaled_above = np.append(np.cumsum(scaled[::-1])[::-1], 0.0)

    def composed(epsilon: Array) -> Array:
        e = np.asarray(epsilon, dtype=float)
        first = np.searchsorted(losses, e, side="right")
        found = above[first] - np.exp(e) * scaled_above[first]
        return np.asarray(
            np.minimum(np.maximum(found, 0.0) + 1e-11 * above[first] + rest + 1e-15, 1.0)
        )

    return composed
