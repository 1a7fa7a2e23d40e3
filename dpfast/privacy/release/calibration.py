"""Noise multipliers of what a certificate allows, for a user's budget.

Functionals are calibrated alone, to what their certificate leaves of the budget (claim R35): the
profile of their noise has an endpoint property (C26, C27, R9), so one evaluation says what a
multiplier costs.  The whole parameter is calibrated together with its certificate, an integer with
discrete Laplace noise (C22), of which the total is a finite sum (C28, claim R8).
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
    Array,
    Profile,
    composed_profile,
    gaussian_profile,
    laplace_profile,
    with_discrete_laplace,
    worst_profile,
)
from dpfast.privacy.release.profiles_student import student_profile, student_worst_profile
from dpfast.privacy.rounding import MARGIN_6, MARGIN_30

#: Sensitivity of the integer behind a certificate: its grid is one 1024th of a step.
COUNT = 1024

_UP = 1.0 + MARGIN_30

#: What is spent of an epsilon or a delta, which stand for their decimals (claim C86).
_TAKEN = 1.0 - MARGIN_6

_NOISE = {"laplace": laplace_profile, "gaussian": gaussian_profile, "student": student_profile}

_PRECISION = 1e-7

#: Of the multipliers of several functionals, each of which takes a composition.
_JOINT_PRECISION = 1e-4
_RANGE = (1e-6, 1e12)

#: What needs this much more noise than a little less tolerance is never chosen.
MOST_NOISE = 20.0


# ---- functionals --------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def calibrate_functionals(
    epsilon: float,
    delta: float,
    choices: tuple[tuple[str, float], ...],
    *,
    count: int = 1,
    other_delta: float = 0.0,
) -> tuple[float, ...]:
    """Multipliers b of the scale omega, each of which makes a release ``(epsilon, delta)`` (R35).

    Each is enough by itself, so whoever chooses among them may have seen the certificate.
    """
    _check_budget(epsilon, delta)
    for law, tau in choices:
        if law not in _NOISE:
            raise InvalidBudget(
                f"noise must be one of {sorted(_NOISE)}; received {described(law, text=True)}."
            )
        if not 0.0 <= tau < 1.0:
            raise InvalidBudget(f"tau must lie in [0, 1); received {described(tau)}.")
    epsilon *= _TAKEN
    budget = delta * (1.0 - 1e-12) - other_delta
    search = _one_functional if count == 1 else _several_functionals
    found: dict[tuple[str, float], float] = {}
    for law in _NOISE:
        taus = tuple(sorted({tau for name, tau in choices if name == law}))
        if taus:
            multipliers = search(law, taus, epsilon, budget, count)
            found |= {(law, tau): b for tau, b in zip(taus, multipliers, strict=True)}
    return tuple([found[choice] for choice in choices])


def _check_budget(epsilon: float, delta: float) -> None:
    if not (0.0 < epsilon < math.inf and 0.0 < delta < 1.0):
        raise InvalidBudget(
            "epsilon must be positive and finite and delta in (0, 1); received "
            f"{described(epsilon)} and {described(delta)}."
        )


def _one_functional(
    law: str, taus: tuple[float, ...], epsilon: float, budget: float, _: int
) -> list[float]:
    """All tolerances at once: one evaluation of the profile at epsilon each."""
    low, high = 1.0 - np.array(taus), 1.0 + np.array(taus)
    at = np.array([epsilon])

    def enough(b: Array) -> NDArray[np.bool_]:
        return np.asarray(worst_profile(_NOISE[law], _UP / b, low, high)(at) <= budget)

    return [float(b) for b in _smallest(enough, len(taus))]


def _several_functionals(
    law: str, taus: tuple[float, ...], epsilon: float, budget: float, count: int
) -> list[float]:
    """One tolerance after the other: each needs a little more noise than the one before."""
    at = np.array([epsilon])
    found: list[float] = []
    slope = -10.0
    for tau in taus:

        def excess(b: float, tau: float = tau) -> float:
            shift, low, high = _UP / b, 1.0 - tau, 1.0 + tau
            one: Profile = (
                student_worst_profile(shift, low, high)
                if law == "student"
                else worst_profile(_NOISE[law], shift, low, high)
            )
            cost = float(composed_profile(one, count, epsilon)(at)[0])
            return math.log(cost / budget) if budget > 0.0 else math.inf

        guess = count / epsilon
        if found:
            guess = found[-1] * (found[-1] / found[-2] if len(found) > 1 else 1.0)
        b, slope = _smallest_near(excess, guess, slope)
        found.append(b)
        if b == math.inf:  # more tolerance is never cheaper
            return found + [math.inf] * (len(taus) - len(found))
    return found


def _smallest_near(
    excess: Callable[[float], float], guess: float, slope: float
) -> tuple[float, float]:
    """Smallest value, from above, at which a decreasing function is not positive, and its slope.

    By secants in the logarithm of the value, started at a guess.  Whatever the steps, what is
    returned was evaluated; infinity where ``MOST_NOISE`` times the guess is not enough.
    """
    x = math.log(guess)
    low, high, most = -math.inf, math.inf, x + math.log(MOST_NOISE)
    last: tuple[float, float] | None = None
    for _ in range(200):
        f = excess(math.exp(x))
        if last is not None and (f - last[1]) * (x - last[0]) < 0.0:
            slope = (f - last[1]) / (x - last[0])
        last = x, f
        if f <= 0.0:
            high = x
        else:
            low = x
            if x >= most:
                return math.inf, slope
        if f <= 0.0 and (f >= slope * _JOINT_PRECISION or high - low <= _JOINT_PRECISION):
            break
        x = min(max(x - f / slope + 0.3 * _JOINT_PRECISION, x - 1.0), x + 1.0, most)
        if not low < x < high:
            x = 0.5 * (low + high)
        if high - low <= _JOINT_PRECISION:
            break
    return math.exp(high), slope


def _smallest(
    enough: Callable[[Array], NDArray[np.bool_]], size: int = 1, precision: float = _PRECISION
) -> Array:
    """Smallest value of each increasing criterion, from above; infinity where there is none."""
    low, high = np.full(size, _RANGE[0]), np.full(size, _RANGE[1])
    possible = enough(high)
    while (high / low > 1.0 + precision).any():
        middle = np.sqrt(low * high)
        if not ((low < middle) & (middle < high)).any():
            break
        there = enough(middle)
        high, low = np.where(there, middle, high), np.where(there, low, middle)
    return np.where(possible, high, math.inf)


# ---- the whole parameter -------------------------------------------------------------------------


@lru_cache(maxsize=256)
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
    """
    if not (0.0 < epsilon1 < epsilon < math.inf and 0.0 < delta1 < delta < 1.0):
        raise InvalidBudget(
            "the certificate must cost less than the whole: 0 < epsilon1 < epsilon and "
            f"0 < delta1 < delta < 1; received epsilon={described(epsilon)}, "
            f"epsilon1={described(epsilon1)}, delta={described(delta)}, delta1={described(delta1)}."
        )
    epsilon *= _TAKEN
    budget = (delta - delta1) * (1.0 - 1e-12) - other_delta

    def enough(b: Array) -> NDArray[np.bool_]:
        profile = worst_profile(gaussian_profile, _UP / float(b[0]), 1.0, 1.0)
        return np.array([with_discrete_laplace(profile, epsilon1, M, epsilon) <= budget])

    return float(_smallest(enough)[0])


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
    """delta at epsilon of objective perturbation of a linear model, rounded up (claim R10).

    The minimiser of the mean loss plus ``W'theta + lreg/2 ||theta||^2``, W normal of this scale.
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
def objective_perturbation_scale(epsilon: float, delta: float, *problem: float) -> float:
    """Standard deviation of objective perturbation for ``(epsilon, delta)``-DP (claim R10); what
    follows as in :func:`objective_perturbation_delta`, from the curvature bound on."""
    _, B1, radius, n, _ = problem
    _check_budget(epsilon, delta)
    epsilon, delta = epsilon * _TAKEN, delta * _TAKEN
    unit = 2.0 * B1 * radius / n

    def enough(b: Array) -> NDArray[np.bool_]:
        found = objective_perturbation_delta(epsilon, float(b[0]) * unit, *problem)
        return np.array([found <= delta])

    return float(_smallest(enough)[0]) * unit * _UP
