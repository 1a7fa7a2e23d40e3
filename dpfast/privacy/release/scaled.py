"""Noise whose scale is itself a secret: ``value + scale * Z`` on a public grid (claim R22).

The scale of a release by test and release follows from the data, so neither the grid nor a
receipt may betray it.  The variable Z is drawn to ``2^-80`` and everything after it is exact
integer arithmetic: the law of the integer released is within :data:`TOTAL_VARIATION` of that of
the ideal one, rounded to the grid.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidBudget, InvalidInput, described
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]

#: Laws of Z: Laplace of scale 1, standard normal, Student t with three degrees of freedom.
LAWS = ("laplace", "gaussian", "student")

#: The grid is the public bound of the scale divided by this, rounded down to a power of two.
GRID_BITS = 16

#: What drawing Z to finitely many bits can change in the law of one released number.
TOTAL_VARIATION = 2.0**-40

_HIGH, _LOW = 40, 40  # bits of Z from an exact sampler, and uniform bits below them
_BITS = _HIGH + _LOW


def scale_grid(scale_bound: float) -> float:
    """Public grid of a release whose scale is at most ``scale_bound``: a power of two."""
    if not 1e-250 < scale_bound < 1e250:
        raise InvalidInput(
            "the bound of a noise scale must lie in [1e-250, 1e250]; received "
            f"{described(scale_bound)}. Rescale the data by a public constant."
        )
    return 2.0 ** (math.frexp(scale_bound)[1] - 1 - GRID_BITS)


def grid_delta(epsilon: float, count: int = 1) -> float:
    """Part of delta that ``count`` released numbers need beside their ideal law (claim R22)."""
    value = count * (1.0 + math.exp(min(epsilon, 700.0))) * TOTAL_VARIATION * (1.0 + 1e-9)
    if not value < 1.0:
        raise InvalidBudget(
            f"epsilon = {described(epsilon)} is too large for noise drawn to {_BITS} bits; use "
            "one below 25."
        )
    return value


def release_scaled(
    value: tuple[int, int], scale: float, scale_bound: float, law: str, source: NoiseSource
) -> float:
    """``grid * floor((value + scale * Z)/grid)`` with the public grid of the bound (claim R22).

    Released as a float: integers beyond ``2^53`` grid steps are rounded, which is
    post-processing.
    """
    grid = scale_grid(scale_bound)
    secret = scale if 0.0 <= scale <= scale_bound else scale_bound
    size, below = secret.as_integer_ratio()
    z, z_below = _draw(law, source)
    z, z_below = z * size, z_below * below
    centre, centre_below = value
    # a power of two, or one over it: no rounding below
    steps, per_step = (1.0 / grid).as_integer_ratio()
    numerator = (centre * z_below + z * centre_below) * steps
    return float(numerator // (centre_below * z_below * per_step)) * grid


def normal_vector(scale: float, size: int, source: NoiseSource) -> Array:
    """Independent normal variables, each within :func:`normal_error` of an exact one.

    Not a release: the tilt of an objective (claim R23).
    """
    return np.asarray(scale * 2.0**-_HIGH * (source.normals(size, _HIGH) + 0.5))


def normal_error(scale: float, size: int) -> float:
    """Bound on the distance of :func:`normal_vector` from an exactly normal one (claim R23)."""
    # half a step of 2^-40, and the relative rounding of |Z| < 64
    return scale * math.sqrt(size) * (2.0 ** -(_HIGH + 1) + 64.0 * 2.0**-51)


def law_quantile(law: str, tail: float) -> float:
    """Level z with ``P(|Z| > z) = tail``."""
    _check_law(law)
    if not 0.0 < tail < 1.0:
        raise InvalidInput(f"a tail probability must lie in (0, 1); received {described(tail)}.")
    if law == "laplace":
        return -math.log(tail)
    from scipy.special import ndtri, stdtrit

    if law == "gaussian":
        return -float(ndtri(0.5 * tail))
    return -float(stdtrit(3.0, 0.5 * tail))


def law_scale(law: str) -> float:
    """Standard deviation of Z."""
    _check_law(law)
    return {"laplace": math.sqrt(2.0), "gaussian": 1.0, "student": math.sqrt(3.0)}[law]


def _check_law(law: str) -> None:
    if law not in LAWS:
        raise InvalidInput(f"noise must be one of {LAWS}; received {described(law, text=True)}.")


def _draw(law: str, source: NoiseSource) -> tuple[int, int]:
    """Z as a ratio of integers."""
    _check_law(law)
    if law == "laplace":
        return _laplace(source), 1 << _BITS
    if law == "gaussian":
        return _normal(source), 1 << _BITS
    number, first, second, third = (_normal(source) for _ in range(4))
    # Z = N sqrt(3) / sqrt(sum of three squares); the root of an integer, with 80 bits to spare
    squares = max(first * first + second * second + third * third, 1)
    return number * math.isqrt(3 << (2 * _BITS)), math.isqrt(squares << (2 * _BITS))


def _uniform_bits(source: NoiseSource) -> int:
    """40 bits, each half from far below the leading digits of a normal variable."""
    draws = source.normals(2, 44)
    mask = (1 << 20) - 1
    return ((int(draws[0]) & mask) << 20) | (int(draws[1]) & mask)


def _normal(source: NoiseSource) -> int:
    """``2^80 Z`` of a standard normal variable, rounded."""
    high = int(source.normals(1, _HIGH)[0])
    return (high << _LOW) + _uniform_bits(source)


def _laplace(source: NoiseSource) -> int:
    """``2^80 Z`` of a Laplace variable of scale 1, rounded: geometric digits and a sign."""
    while True:
        # a discrete Laplace integer that is not negative is geometric
        draws = source.discrete_laplace(8, 1, 1 << _HIGH)
        kept = draws[draws >= 0]
        if kept.size:
            break
    size = (int(kept[0]) << _LOW) + _uniform_bits(source)
    positive = int(source.normals(1, 20)[0]) >= 0
    return size if positive else -size
