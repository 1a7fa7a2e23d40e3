"""Constants of private black-box optimisation: claims G1, G4, G5, G7 and C106."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from dpfast.errors import InvalidInput, described
from dpfast.privacy.rounding import ROUNDING_ELEMENTARY, ROUNDING_FORMULA, UNIT_ROUNDOFF
from dpfast.privacy.sensitivity import RECORD_ERROR, mean_score

_UP = 1.0 + ROUNDING_FORMULA

#: Coordinates of a clipped vector up to which its norm is computed to within ``RECORD_ERROR``.
MAX_DIMENSION = 8000

#: Largest whole number that an entry of a column, or a residual, is rounded to (claim C106).
SCORE_STEPS = 127


def clipped_mean(bound: float, n: int, dimension: int, *, depth: int = 0) -> float:
    """l2 sensitivity of a mean of n vectors clipped to a norm, ``2 bound / n`` (claim G1)."""
    if not 1 <= dimension <= MAX_DIMENSION:
        raise InvalidInput(
            f"vectors must have between 1 and {MAX_DIMENSION} coordinates, so that the rounding "
            f"of their norm is negligible; received {described(dimension)}."
        )
    return mean_score(2.0 * bound, n, depth=depth)


def refuse_range(lower: float, upper: float, received: str = "") -> None:
    """Refuse ends between which a step of losses would be no number."""
    if not (1e-200 <= upper - lower < math.inf and max(abs(lower), abs(upper)) <= 1e200):
        raise InvalidInput(
            "the range of the losses must be two public numbers within 1e200 of zero and at least "
            "1e-200 apart, the lower one first; "
            f"received {received or f'{described(lower)} and {described(upper)}'}."
        )


def mean_loss(lower: float, upper: float, n: int, *, depth: int = 0) -> float:
    """Sensitivity of the mean of n losses clipped to ``[lower, upper]`` (claim G4)."""
    refuse_range(lower, upper)
    return mean_score((upper - lower) * _UP, n, depth=depth)


def choice_exponent(mu: float) -> float:
    """``log(Phi(mu/2) / Phi(-mu/2))``, rounded down: weight of a record's move (claim G7)."""
    if not 0.0 < mu < math.inf:
        raise InvalidInput(f"mu must be positive and finite; received {described(mu)}.")
    if mu < 1.0:
        exponent = 2.0 * math.atanh(math.erf(mu / math.sqrt(8.0)))
    else:
        exponent = float(log_ndtr(0.5 * mu) - log_ndtr(-0.5 * mu))
    return exponent * (1.0 - ROUNDING_ELEMENTARY)


def score_steps() -> int:
    """Count by how much one record can move the size of a column's score (claim C106)."""
    return 2 * SCORE_STEPS**2


def loss_steps(lower: float, upper: float, n: int, grid: float, *, depth: int = 0) -> int:
    """Count the grid steps one record can move a mean loss rounded to the grid (claim G5)."""
    exact = mean_loss(lower, upper, n, depth=depth) / grid
    return math.floor(exact * (1.0 + 4.0 * UNIT_ROUNDOFF + RECORD_ERROR)) + 1
