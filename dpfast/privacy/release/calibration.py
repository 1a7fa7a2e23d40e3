"""Noise multipliers for which a certificate and a release together cost the user's budget.

The certificate is an integer with discrete Laplace noise (claim C22), the release next to it has a
worst profile with an endpoint property (C26, C27, R9); their total is a finite sum (C28), searched
for the smallest multiplier that keeps ``(epsilon, delta)`` (claim R8).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.release.profiles import (
    Profile,
    composed_profile,
    gaussian_profile,
    laplace_profile,
    with_discrete_laplace,
    worst_profile,
)
from dpfast.privacy.release.profiles_student import student_profile, student_worst_profile
from dpfast.privacy.rounding import MARGIN_30

__all__ = [
    "COUNT",
    "calibrate_choices",
    "calibrate_functional",
    "calibrate_parameter",
    "objective_perturbation_delta",
    "objective_perturbation_scale",
]

Array = NDArray[np.float64]

#: Sensitivity of the integer behind a certificate: its grid is one 1024th of a step.
COUNT = 1024

_UP = 1.0 + MARGIN_30

_NOISE = {"laplace": laplace_profile, "gaussian": gaussian_profile, "student": student_profile}

_PRECISION = 1e-7
_COMMON_PRECISION = 1e-5

#: Of multipliers that are raised by a common factor afterwards.
_ROUGH_PRECISION = 1e-4

#: A choice that needs this much more noise than the best is never made; it would cost the others.
MOST_NOISE = 20.0
_JOINT_PRECISION = 1e-4
_RANGE = (1e-6, 1e12)


def _check_budget(epsilon: float, delta: float, epsilon1: float, delta1: float) -> None:
    if not (0.0 < epsilon1 < epsilon < math.inf and 0.0 < delta1 < delta < 1.0):
        raise InvalidBudget(
            "the certificate must cost less than the whole: 0 < epsilon1 < epsilon and "
            f"0 < delta1 < delta < 1; received epsilon={described(epsilon)}, "
            f"epsilon1={described(epsilon1)}, delta={described(delta)}, delta1={described(delta1)}."
        )


def calibrate_functional(
    epsilon: float,
    delta: float,
    epsilon1: float,
    delta1: float,
    tau: float,
    noise: str = "laplace",
    M: int = COUNT,
    *,
    other_delta: float = 0.0,
    certificates: int = 1,
    count: int = 1,
) -> float:
    """Multiplier b of the scale omega for which the total is ``(epsilon, delta)`` (R8, R30).

    Parameters
    ----------
    epsilon, delta : float
        Total, certificate included.
    epsilon1, delta1 : float
        Cost of the certificate's integers and probability that a bound fails.
    tau : float
        Tolerance of the ratio of neighbouring scales, as given to
        :func:`~dpfast.privacy.release.sensitivity.functional_factors`.
    noise : {"laplace", "gaussian", "student"}
        Law of Z in ``value + b omega Z``: Laplace of scale 1, standard normal, Student t(3).
    M : int
        Sensitivity of each of the certificate's integers.
    certificates : int
        Number of these integers, which share epsilon1 equally.
    count : int
        Number of releases with this multiplier, each of its own scale omega.
    other_delta : float
        Part of delta set aside for what else may fail, such as
        :func:`~dpfast.privacy.release.scaled.grid_delta`.

    Returns
    -------
    float
        Smallest b up to a relative 1e-7 (1e-4 for several releases), rounded up; infinity if no
        noise suffices, because the ratio of scales alone tells neighbours apart.
    """
    _check_budget(epsilon, delta, epsilon1, delta1)
    if noise not in _NOISE:
        raise InvalidBudget(
            f"noise must be one of {sorted(_NOISE)}; received {described(noise, text=True)}."
        )
    if not 0.0 <= tau < 1.0:
        raise InvalidBudget(f"tau must lie in [0, 1); received {described(tau)}.")
    budget = (delta - delta1) * (1.0 - 1e-12) - other_delta
    return _multiplier(noise, epsilon, budget, epsilon1 / certificates, tau, M, certificates, count)


def calibrate_parameter(
    epsilon: float,
    delta: float,
    epsilon1: float,
    delta1: float,
    M: int = COUNT,
    *,
    other_delta: float = 0.0,
) -> float:
    """Gaussian multiplier b of the shift t for which the total is ``(epsilon, delta)`` (claim R8).

    The parameter plus noise of scale ``gaussian_scale(t, 1/b, dimension)`` per coordinate.
    Arguments and result as in :func:`calibrate_functional`.
    """
    _check_budget(epsilon, delta, epsilon1, delta1)
    budget = (delta - delta1) * (1.0 - 1e-12) - other_delta
    return _multiplier("gaussian", epsilon, budget, epsilon1, 0.0, M)


@lru_cache(maxsize=256)
def calibrate_choices(
    epsilon: float,
    delta: float,
    epsilon1: float,
    delta1: float,
    choices: tuple[tuple[str, float], ...],
    M: int = COUNT,
    *,
    other_delta: float = 0.0,
    certificates: int = 1,
    count: int = 1,
) -> tuple[float, ...]:
    """Multipliers for laws and tolerances among which one is chosen after the certificate (R34).

    A choice that follows what the certificate showed pairs large losses of the one with large
    profiles of the other, so multipliers that are each enough by themselves are not enough
    together: they are raised by one factor, for which the largest of all profiles is.

    Parameters
    ----------
    choices : tuple of (str, float)
        Law and tolerance, as ``noise`` and ``tau`` of :func:`calibrate_functional`; the other
        arguments are those of that function.

    Returns
    -------
    tuple of float
        One multiplier a choice; infinity for those that no noise allows.
    """
    _check_budget(epsilon, delta, epsilon1, delta1)
    budget = (delta - delta1) * (1.0 - 1e-12) - other_delta
    e1 = epsilon1 / certificates
    alone = [
        _multiplier(law, epsilon, budget, e1, tau, M, certificates, count, _ROUGH_PRECISION)
        for law, tau in choices
    ]
    least = min(alone, default=math.inf)
    alone = [b if b <= MOST_NOISE * least else math.inf for b in alone]

    def enough(factor: float) -> bool:
        profiles = [
            _profile(law, factor * b, tau, epsilon, count)
            for (law, tau), b in zip(choices, alone, strict=True)
            if b < math.inf
        ]

        def largest(e: Array) -> Array:
            return np.asarray(np.max([profile(e) for profile in profiles], axis=0))

        return with_discrete_laplace(largest, e1, M, epsilon, certificates) <= budget

    if least == math.inf:
        return tuple(alone)
    factor = _smallest(enough, _COMMON_PRECISION, (1.0 - _ROUGH_PRECISION, 4.0))
    return tuple(factor * b for b in alone)


def _profile(noise: str, b: float, tau: float, epsilon: float, count: int) -> Profile:
    """Largest profile of releases with this multiplier and tolerance."""
    shift, low, high = _UP / b, 1.0 - tau, 1.0 + tau
    if count == 1:
        return worst_profile(_NOISE[noise], shift, low, high)
    if noise == "student":
        one = student_worst_profile(shift, low, high)
    else:
        one = worst_profile(_NOISE[noise], shift, low, high)
    return composed_profile(one, count, epsilon)


@lru_cache(maxsize=1024)
def _multiplier(
    noise: str,
    epsilon: float,
    budget: float,
    epsilon1: float,
    tau: float,
    M: int,
    certificates: int = 1,
    count: int = 1,
    precision: float = _PRECISION,
) -> float:
    def enough(b: float) -> bool:
        profile = _profile(noise, b, tau, epsilon, count)
        return with_discrete_laplace(profile, epsilon1, M, epsilon, certificates) <= budget

    return _smallest(enough, precision if count == 1 else _JOINT_PRECISION)


def _smallest(
    enough: Callable[[float], bool],
    precision: float = _PRECISION,
    between: tuple[float, float] = _RANGE,
) -> float:
    """Smallest value of an increasing criterion, from above; infinity if there is none."""
    low, high = between
    if not enough(high):
        return math.inf
    while high / low > 1.0 + precision:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


# ---- objective perturbation ---------------------------------------------------------------------

_CELLS = 4096


def objective_perturbation_delta(
    epsilon: float,
    noise_scale: float,
    curvature_bound: float,
    B1: float,
    radius: float,
    n: int,
    lreg: float,
) -> float:
    """delta at epsilon of objective perturbation of a linear model, rounded up (claim R10).

    The minimiser of the mean loss plus ``W'theta + lreg/2 ||theta||^2``, W normal of this scale.

    Parameters
    ----------
    epsilon : float
    noise_scale : float
        Standard deviation of each coordinate of W.
    curvature_bound : float
        Bound on a record's Hessian, ``max h'' radius^2``.
    B1 : float
        Bound on ``|h'|``.
    radius : float
        Bound on the norm of a row.
    n : int
    lreg : float
        Public ridge, positive.
    """
    for name, value in (
        ("noise_scale", noise_scale), ("curvature_bound", curvature_bound), ("B1", B1),
        ("radius", radius), ("n", n), ("lreg", lreg),
    ):  # fmt: skip
        if not 0.0 < value < math.inf:
            raise InvalidBudget(f"{name} must be positive and finite; received {described(value)}.")
    rest = epsilon - math.log1p(curvature_bound / (n * lreg) * (1.0 + 1e-11)) * _UP
    if rest <= 0.0:
        return 1.0
    mu = 2.0 * B1 * radius / (n * noise_scale) * (1.0 + 1e-11)
    angle = np.linspace(0.0, 0.5 * math.pi, _CELLS + 1) * 0.5
    # each term increases in its shift, so a cell is bounded by its two larger shifts
    first, second = mu * np.cos(angle[:-1]), mu * np.sin(angle[1:])
    total = _two_sided(rest, first) + _two_sided(rest, second)
    return min(1.0, float(total.max()) * (1.0 + 1e-9) + 1e-300)


def _two_sided(e: float, m: Array) -> Array:
    """``E (1 - exp(e - m^2/2 - m |N|))_+`` for standard normal N and e > 0."""
    with np.errstate(all="ignore"):
        first = np.exp(log_ndtr(0.5 * m - e / m))
        far = 2.0 * (first - np.exp(e + log_ndtr(-0.5 * m - e / m)))
        near = 1.0 - 2.0 * np.exp(e + log_ndtr(-m))
        value = np.where(e >= 0.5 * m * m, far, near)
        # what the difference may have lost to rounding
        return np.asarray(np.where(m > 0.0, np.maximum(value, 0.0) + 1e-13 * first, 0.0))


@lru_cache(maxsize=256)
def objective_perturbation_scale(
    epsilon: float,
    delta: float,
    curvature_bound: float,
    B1: float,
    radius: float,
    n: int,
    lreg: float,
) -> float:
    """Standard deviation of objective perturbation for ``(epsilon, delta)``-DP (claim R10).

    Arguments as in :func:`objective_perturbation_delta`.

    Returns
    -------
    float
        Smallest scale up to a relative 1e-7, rounded up; infinity if the ridge is too small for
        epsilon: ``log(1 + curvature_bound/(n lreg)) >= epsilon``.
    """
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise InvalidBudget(
            "epsilon must be positive and finite and delta in (0, 1); received "
            f"{described(epsilon)} and {described(delta)}."
        )
    unit = 2.0 * B1 * radius / n

    def enough(b: float) -> bool:
        found = objective_perturbation_delta(
            epsilon, b * unit, curvature_bound, B1, radius, n, lreg
        )
        return found <= delta

    return _smallest(enough) * unit * _UP
