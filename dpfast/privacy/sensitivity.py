"""Sensitivities of queries: numbered claims as functions of public constants.

One record is replaced, ``n`` is public.  What rounding can add is included (claims C11 and C12):
contributions to within ``RECORD_ERROR``, added with at most ``depth`` sequential roundings.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_FORMULA, UNIT_ROUNDOFF

#: A record's computed contribution differs from an ideal one by at most this part of the bound.
RECORD_ERROR = 1e-12

#: Margin on the relative slack, so that up to three quantities released together at one
#: parameter are covered whatever joint rule they are charged by (claim C19).
JOINT_MARGIN = 3.0

_UP = 1.0 + ROUNDING_FORMULA


def relative_slack(n: int, depth: int) -> float:
    """Bound how much rounding raises a sensitivity of at least ``bound/n``, relatively (C11)."""
    if not 0 <= depth < 2**50:
        raise InvalidInput(f"depth must be an integer in [0, 2^50); received {described(depth)}.")
    roundings = depth * UNIT_ROUNDOFF
    gamma = roundings / (1.0 - roundings)
    return JOINT_MARGIN * (RECORD_ERROR + gamma * n * (1.0 + RECORD_ERROR)) * _UP


def check_constants(**positive: float) -> None:
    """Refuse public constants that are not positive and finite."""
    for name, value in positive.items():
        if not 0.0 < value < math.inf:
            raise InvalidInput(
                f"{name} must be a positive, finite public constant; received {described(value)}."
            )


def _check(n: int, **positive: float) -> None:
    if n < 1:
        raise InvalidInput(f"n must be a positive integer; received {described(n)}.")
    check_constants(**positive)


def mean_score(diameter: float, n: int, *, depth: int = 0) -> float:
    """Bound the l2 sensitivity of the mean of n vectors from a set of this diameter (claim C13)."""
    _check(n, diameter=diameter)
    return diameter / n * (1.0 + relative_slack(n, depth)) * _UP


def mean_rank_one(
    bound: float, n: int, dimension: int, *, depth: int = 0, alone: bool = False
) -> float:
    """Return ``sqrt(2) bound/n``, of the mean of n matrices ``h a a'``, ``h >= 0`` (claim C14)."""
    _check(n, bound=bound)
    if dimension < 1:
        raise InvalidInput(
            f"dimension must be a positive integer; received {described(dimension)}."
        )
    factor = 1.0 if alone and dimension == 1 else math.sqrt(2.0)
    return factor * bound / n * (1.0 + relative_slack(n, depth)) * _UP


#: Gaussian-DP parameter at which a mean of squares is free beside the mean, relative to the mean's:
#: below ``sqrt(golden ratio^5 / 16) = 0.83254...`` (claim C79).
SQUARE_MU = 0.8325


def mean_square(clip: float, n: int, *, depth: int = 0) -> float:
    """Return ``clip^2/n``, of the mean of n squares; free beside the mean by SQUARE_MU (C79)."""
    _check(n, clip=clip)
    return clip * clip / n * (1.0 + relative_slack(n, depth)) * _UP


def extreme_eigenvalue(bound: float, n: int, dimension: int, *, depth: int = 0) -> float:
    """Return ``bound/n`` and a backward error, for an extreme eigenvalue of such a mean (C20)."""
    _check(n, bound=bound)
    solver = 2.0 * 64.0 * dimension * UNIT_ROUNDOFF * n
    return bound / n * (1.0 + relative_slack(n, depth) + solver) * _UP


def loss_difference(score_bound: float, distance: float, n: int, *, depth: int = 0) -> float:
    """Return ``2 score_bound distance/n``, of the mean loss's difference at two points (C21)."""
    _check(n, score_bound=score_bound, distance=distance)
    return 2.0 * score_bound * distance / n * (1.0 + relative_slack(n, depth)) * _UP


def centred_share(n: int) -> float:
    """Return ``1/n`` and rounding, of ``mean(1{x <= t} - p)``; NaNs count as zero (claim C46)."""
    _check(n)
    return (1.0 / n + 8.0 * UNIT_ROUNDOFF) * _UP


def histogram(n: int, excess: int = 1) -> float:
    """Return ``sqrt(2)/n``, of shares in cells, a record in one at most (C60); ``excess``: C85."""
    _check(n)
    return (math.sqrt(2.0) / n + 4.0 * excess * UNIT_ROUNDOFF) * _UP


# ---- several quantities at one parameter: claims C17 to C19 -------------------------------------

#: What ties a record's curvature h (relative to its bound) to its score tau (likewise).
COUPLINGS = (
    "independent",  # any loss; gradient and curvature collinear
    "one-minus-square",  # h <= 1 - tau^2: log-cosh, pseudo-Huber
    "circle",  # h^2 <= 1 - tau^2: pseudo-Huber with its majorising curvature
    "logistic",  # h = 4 tau (1 - tau)
    "narrow-logistic",  # the same h, beside a score of a third of its bandwidth
    "log-cosh-majorizer",  # tau = tanh s, h = tanh(s)/s
    "logistic-majorizer",  # tau <= (1 + tanh s)/2, h = tanh(s)/s
    "none",  # gradient and curvature need not be collinear
)


@lru_cache(maxsize=1024)
def joint_mu(
    coupling: str,
    mu_gradient: float,
    mu_hessian: float,
    mu_meat: float = 0.0,
    *,
    means: bool = False,
) -> float:
    """Bound the joint cost of gradient, Hessian and meat at one parameter, up (of means: C72)."""
    if coupling not in COUPLINGS:
        raise InvalidInput(
            f"coupling must be one of {COUPLINGS}; received {described(coupling, text=True)}."
        )
    scale, g, h, q = relative(mu_gradient, mu_hessian, mu_meat)
    squared = g + h + q
    if coupling != "none" and (4.0 * q <= g or not means):  # else not convex in a person (C72)
        squared = min(squared, _collinear(g, h, q))
    if coupling == "one-minus-square" and 4.0 * q <= g:
        squared = min(squared, max(g, h))  # the meat is free as well
    elif coupling in ("one-minus-square", "circle"):
        squared = min(squared, max(h, g + q))
    elif coupling == "logistic":
        squared = min(squared, _logistic(g, h, q))
    elif coupling.endswith("-majorizer"):
        squared = min(squared, _majorizer(coupling, g, h, q))
    return scale * math.sqrt(squared) * _UP


def relative(mu_g: float, mu_h: float, mu_q: float) -> tuple[float, float, float, float]:
    """Return the largest mu, and each squared mu relative to its square."""
    scale = max(mu_g, mu_h, mu_q)
    if not (0.0 < scale < math.inf and min(mu_g, mu_h, mu_q) >= 0.0):
        raise InvalidInput(
            "the mu of each quantity must be finite and at least 0, one of them positive; received "
            f"gradient {described(mu_g)}, hessian {described(mu_h)}, meat {described(mu_q)}."
        )
    return scale, (mu_g / scale) ** 2, (mu_h / scale) ** 2, (mu_q / scale) ** 2


def _collinear(g: float, h: float, q: float) -> float:
    """Claim C17: take the largest of the corner cases, valid for every loss."""
    return max(
        _peak(0.5 * g, h + q),
        _peak(0.5 * g, q) + 0.5 * h,
        _peak(0.25 * g, h) + 0.5 * q,
        0.5 * (g + h + q),
    )


def _peak(slope: float, quadratic: float) -> float:
    """Maximise ``slope (1 + t) + curvature (1 - t^2)`` over t in [0, 1]."""
    if slope >= 2.0 * quadratic:
        return 2.0 * slope
    return slope + quadratic + slope * slope / (4.0 * quadratic)


def _logistic(g: float, h: float, q: float) -> float:
    """Maximise the quartic of claim C18 in tau over [0, 1], for h = 4 tau (1 - tau)."""

    def value(tau: float) -> float:
        return tau * tau * (g + 16.0 * h * (1.0 - tau) ** 2 + q * tau * tau)

    # derivative: 2 tau ((32 h + 2 q) tau^2 - 48 h tau + g + 16 h); its smaller root is a maximum
    a, b, c = 32.0 * h + 2.0 * q, 24.0 * h, g + 16.0 * h
    discriminant = b * b - a * c
    inner = value(min(1.0, c / (b + math.sqrt(discriminant)))) if discriminant > 0.0 else 0.0
    return max(value(1.0), inner)


MAJORIZER_STEP = 1.0 / 256.0
MAJORIZER_REACH = 32.0


def _within_cell(g: float, h: float, q: float) -> float:
    """Bound what a bracket exceeds its values at the ends of a cell by (claim C18)."""
    return MAJORIZER_STEP * MAJORIZER_STEP / 8.0 * (g + 4.0 / 3.0 * h + 2.0 * q)


def _beyond_grid(g: float, h: float, q: float) -> float:
    """Bound a bracket beyond the last point of the grid (claim C18)."""
    return g + q + h / (MAJORIZER_REACH * MAJORIZER_REACH)


def _majorizer(coupling: str, g: float, h: float, q: float) -> float:
    """Bound the maximum over s of claim C18 for h = tanh(s)/s, beyond the grid as well."""
    tau2, h2, tau4 = _majorizer_table(coupling)
    on_grid = float(np.max(g * tau2 + h * h2 + q * tau4))
    return max(on_grid + _within_cell(g, h, q), _beyond_grid(g, h, q))


@lru_cache(maxsize=2)
def _majorizer_table(coupling: str) -> tuple[Any, Any, Any]:
    s = np.arange(1, round(MAJORIZER_REACH / MAJORIZER_STEP) + 1) * MAJORIZER_STEP
    tanh = np.tanh(s)
    tau = tanh if coupling == "log-cosh-majorizer" else 0.5 * (1.0 + tanh)
    at_zero = 0.0 if coupling == "log-cosh-majorizer" else 0.5
    tau = np.concatenate(([at_zero], tau))
    return tau**2, np.concatenate(([1.0], tanh / s)) ** 2, tau**4
