"""Noise whose scale is itself a secret: ``value + scale * Z`` on a public grid (claim R22).

Z is drawn to ``2^-80`` and the rest is exact: within :data:`TOTAL_VARIATION` of the ideal law.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]

#: Laws whose intervals are known: Laplace of scale 1, and standard normal, which Z is.
LAWS = ("laplace", "gaussian")

#: The grid is the public bound of the scale divided by this, rounded down to a power of two.
GRID_BITS = 16

#: What drawing Z to finitely many bits can change in the law of one released number.
TOTAL_VARIATION = 2.0**-40

_HIGH, _LOW = 40, 40  # bits of Z from an exact sampler, and uniform bits below them
_BITS = _HIGH + _LOW


def scale_grid(scale_bound: float) -> float:
    """Return the public grid of a release whose scale has this bound: a power of two."""
    if not 1e-250 < scale_bound < 1e250:
        raise InvalidInput(
            "the bound of a noise scale must lie in [1e-250, 1e250]; received "
            f"{described(scale_bound)}. Rescale the data by a public constant."
        )
    return 2.0 ** (math.frexp(scale_bound)[1] - 1 - GRID_BITS)


def grid_delta(epsilon: float, count: int = 1) -> float:
    """Return the delta that ``count`` released numbers need beside their ideal law (claim R22)."""
    value = count * (1.0 + math.exp(min(epsilon, 700.0))) * TOTAL_VARIATION * (1.0 + 1e-9)
    if not value < 1.0:
        raise InvalidBudget(
            f"epsilon = {described(epsilon)} is too large for noise drawn to {_BITS} bits; use "
            "one below 25."
        )
    return value


def release_scaled(
    value: tuple[int, int], scale: float, scale_bound: float, source: NoiseSource
) -> float:
    """Release ``grid * floor((value + scale * Z)/grid)``, Z normal, on the bound's grid (R22)."""
    grid = scale_grid(scale_bound)
    secret = scale if 0.0 <= scale <= scale_bound else scale_bound
    size, below = secret.as_integer_ratio()
    z, z_below = _normal(source) * size, below << _BITS
    centre, centre_below = value
    # a power of two, or one over it: no rounding below
    steps, per_step = (1.0 / grid).as_integer_ratio()
    numerator = (centre * z_below + z * centre_below) * steps
    return float(numerator // (centre_below * z_below * per_step)) * grid


def normal_vector(scale: float, size: int, source: NoiseSource) -> Array:
    """Draw normals for a tilt, each within :func:`normal_error` of an exact one (claim R23)."""
    return np.asarray(scale * 2.0**-_HIGH * (source.normals(size, _HIGH) + 0.5))


def normal_error(scale: float, size: int) -> float:
    """Bound the distance of :func:`normal_vector` from an exactly normal one (claim R23)."""
    # half a step of 2^-40, and the relative rounding of |Z| < 64
    return scale * math.sqrt(size) * (2.0 ** -(_HIGH + 1) + 64.0 * 2.0**-51)


def law_quantile(law: str, tail: float) -> float:
    """Return the level z with ``P(|Z| > z) = tail``."""
    _check_law(law)
    if not 0.0 < tail < 1.0:
        raise InvalidInput(f"a tail probability must lie in (0, 1); received {described(tail)}.")
    return -math.log(tail) if law == "laplace" else -float(ndtri(0.5 * tail))


def law_scale(law: str) -> float:
    """Return the standard deviation of Z."""
    _check_law(law)
    return math.sqrt(2.0) if law == "laplace" else 1.0


def _check_law(law: str) -> None:
    if law not in LAWS:
        raise InvalidInput(f"noise must be one of {LAWS}; received {described(law, text=True)}.")


def _normal(source: NoiseSource) -> int:
    """Draw ``2^80 Z`` of a standard normal variable, rounded: exact digits, then uniform ones."""
    high, draws = int(source.normals(1, _HIGH)[0]), source.normals(2, 44)
    mask = (1 << 20) - 1
    return (high << _LOW) + (((int(draws[0]) & mask) << 20) | (int(draws[1]) & mask))
