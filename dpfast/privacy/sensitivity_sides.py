"""Joint costs, smaller where scores of one sign are longer than of the other (claim C75)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.sensitivity import joint_mu, relative

#: Cells of the grids of positions on a loss, whose curvature is ``4 s (1 - s)``, and of arguments
#: of ``tanh(u)/u``, up to the last of which ``1/u`` is the bound.
CELLS, STEP, REACH = 512, 1.0 / 64.0, 32.0

#: Step of the grid where the score is three times as steep.
FINE = 1.0 / 128.0

#: Halvings, by the golden ratio, of where the best centre may be; any centre is valid.
HALVINGS, GOLDEN = 24, 0.5 * (math.sqrt(5.0) - 1.0)


class Geometry(NamedTuple):
    """Scores of rows with an intercept of 1, in units of the bound on one record's score."""

    short: float
    square: float
    far: bool
    size: float


@lru_cache(maxsize=1024)
def joint_sides_mu(
    coupling: str,
    geometry: tuple[float, float, bool, float],
    mu_gradient: float,
    mu_hessian: float,
    mu_meat: float = 0.0,
    *,
    means: bool = False,
) -> float:
    """Bound the joint cost of gradient, Hessian and meat, up (claims C75, C56; C72 of means)."""
    geometry = Geometry(*geometry)
    short, square, _, size = geometry
    if not (0.0 < short <= 1.0 and 0.0 < square < math.inf and 0.5 <= size <= 1.0):
        raise InvalidInput(
            "short must lie in (0, 1], square must be positive and size in [0.5, 1]; received "
            f"{described(tuple(geometry))}."
        )
    # as if noise were for twice the bound: nothing is known of the scores but that
    upper_bound = joint_mu(coupling, mu_gradient / size, mu_hessian, mu_meat, means=means)
    scale, g, h, q = relative(mu_gradient, mu_hessian, mu_meat)
    squared = g + h + q
    g /= size * size
    if coupling != "none" and (4.0 * q <= g or not means):
        squared = min(squared, _collinear(geometry, g, h, q))
    if coupling == "logistic":
        squared = min(squared, _centred(geometry, g, h, q, _quantile))
    elif coupling == "narrow-logistic":
        squared = min(squared, _centred(geometry, g, h, q, _narrow_quantile))
    elif coupling == "logistic-majorizer":
        squared = min(squared, _centred(geometry, g, h, q, _quantile_majorizer))
    return min(upper_bound, scale * math.sqrt(squared)) * (1.0 + ROUNDING_SUM)


# ---- part (a): rows of which the intercept is a part are never opposite -------------------------


def _collinear(geometry: Geometry, g: float, h: float, q: float) -> float:
    """Take the largest corner of claim C17, for pairs of scores of one sign and of both."""
    short, largest_cosine = geometry.short, max(0.0, 1.0 - 2.0 / max(geometry.square, 2.0))
    result = 0.0
    for constant, curvature in ((0.0, h), (0.5 * h, 0.0)):  # both curvatures, or one
        # one sign: |cos| is at most `apart` where it lengthens the difference
        for meat, meat_curvature in ((0.0, q), (0.5 * q, 0.0)):
            start = constant + curvature + meat + meat_curvature + 0.5 * g
            result = max(result, _crest(start, 0.5 * g, curvature + meat_curvature, largest_cosine))
        # both signs: rows may be one
        start = constant + curvature + 0.25 * g * (1.0 + short**2) + 0.5 * q * (1.0 + short**4)
        result = max(result, _crest(start, 0.5 * g * short, curvature + q * short**2, 1.0))
        start = constant + curvature + 0.25 * g + 0.5 * q
        result = max(result, _crest(start, 0.25 * g * short, curvature, 1.0))
    return result


def _crest(start: float, slope: float, quadratic: float, upper: float) -> float:
    """Maximise ``start + slope t - curvature t^2`` over t in [0, longest]."""
    t = upper if slope >= 2.0 * quadratic * upper else slope / (2.0 * quadratic)
    return start + t * (slope - quadratic * t)


# ---- part (b): scores about a centre ------------------------------------------------------------


def _centred(
    geometry: Geometry, g: float, h: float, q: float, curve: Callable[[float], tuple[Any, ...]]
) -> float:
    """Minimise the largest bracket over the centre of the scores, by golden-section search."""
    square = geometry.square
    score, curvature, (rise_g, rise_tilt, rise_h, rise_q), tail_curvature = curve(geometry.short)
    fixed, tilted = g * score**2 + h * curvature**2 + q * score**4, 2.0 * g / square * score

    def largest_bracket(centre: float) -> float:
        moved = g * centre * centre / square
        on_grid: float = moved + float(np.max(fixed - centre * tilted))
        on_grid += g * (rise_g + rise_tilt * centre / square) + h * rise_h + q * rise_q
        ends = [g * s * (s - 2.0 * centre / square) + q * s**4 for s in (1.0, -geometry.short)]
        outside_grid = moved + max(ends) + h * tail_curvature
        return float(max(on_grid, outside_grid, moved + h if geometry.far else moved))

    low, high = 0.0, 1.0
    lower, upper = low + (1.0 - GOLDEN) * (high - low), low + GOLDEN * (high - low)
    at_lower, at_upper = largest_bracket(lower), largest_bracket(upper)
    for _ in range(HALVINGS):
        if at_lower <= at_upper:
            high, upper, at_upper = upper, lower, at_lower
            lower = low + (1.0 - GOLDEN) * (high - low)
            at_lower = largest_bracket(lower)
        else:
            low, lower, at_lower = lower, upper, at_upper
            upper = low + GOLDEN * (high - low)
            at_upper = largest_bracket(upper)
    return min(at_lower, at_upper)


@lru_cache(maxsize=64)
def _quantile(short: float) -> tuple[Any, ...]:
    """Tabulate scores and curvatures of a smoothed quantile, and how far they rise in a cell."""
    s = np.linspace(0.0, 1.0, CELLS + 1)
    # (16 s^2 (1 - s)^2)'' >= -16; the squares are convex
    return (1.0 + short) * s - short, 4.0 * s * (1.0 - s), (0.0, 0.0, 2.0 / CELLS**2, 0.0), 0.0


@lru_cache(maxsize=64)
def _quantile_majorizer(short: float) -> tuple[Any, ...]:
    """Tabulate the same with the majorising curvature ``tanh(u)/u``."""
    u = np.arange(-round(REACH / STEP), round(REACH / STEP) + 1) * STEP
    tanh = np.tanh(u)
    chords = np.divide(tanh, u, out=np.ones_like(u), where=u != 0.0)
    cell = STEP * STEP / 8.0
    rises = (1.0 * cell, 1.6 * cell, 4.0 / 3.0 * cell, 3.2 * cell)
    return 0.5 * ((1.0 - short) + (1.0 + short) * tanh), chords, rises, REACH**-2.0


@lru_cache(maxsize=64)
def _narrow_quantile(short: float) -> tuple[Any, ...]:
    """Tabulate the same for a score of a third of the curvature's bandwidth (claim C73)."""
    u = np.arange(-round(REACH / FINE), round(REACH / FINE) + 1) * FINE
    tanh, cosh = np.tanh(3.0 * u), np.cosh(u)
    cell = FINE * FINE / 8.0
    # nine times those of the score above; (sech^4)'' = 16 sech^4 - 20 sech^6 >= -4
    rises = (9.0 * cell, 14.4 * cell, 4.0 * cell, 28.8 * cell)
    return 0.5 * ((1.0 - short) + (1.0 + short) * tanh), cosh**-2.0, rises, 1e-50
