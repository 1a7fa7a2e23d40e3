"""The clipping norm of scores, chosen by a noisy histogram of their norms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpfast.kernels.decisions import ASYMMETRY, choose_clipping_norm, normal_excess

__all__ = [
    "ASYMMETRY",
    "choose_clipping_norm",
    "clipped_in_rare_direction",
    "may_bias",
    "mean_asymmetry",
    "noise_per_bound",
]

#: Allowance for the bias of clipping in a coefficient's interval, in standard errors, from which on
#: results warn.  Of 960 fits of eight designs .36 warn, and the others cover .95.  At .4 of a
#: standard error .45 warn and .947 cover, at .8 .25 and .934.
MAX_ALLOWANCE = 0.5


def noise_per_bound(n: int, mus: Sequence[float]) -> float:
    """Return the noise of scores averaged over these budgets, for a clipping norm of 1."""
    return 2.0 / (n * math.hypot(*mus))


def may_bias(bias: float, standard_error: float, p: int) -> bool:
    """Return True if intervals of p whitened coefficients may not cover because of clipping.

    ``bias`` is the mean norm clipped off, in all directions together; the rule is that of every
    warning of clipping.
    """
    return ASYMMETRY * bias > MAX_ALLOWANCE * math.sqrt(p) * standard_error


def clipped_in_rare_direction(length: float, spread: float, bound: float) -> float:
    """Return the score variance that a bound removes along a direction of such long rows only."""
    return float(spread**2 * normal_excess(min(bound / (length * spread + 1e-300), 40.0)))


def mean_asymmetry(p: int) -> float:
    """Return the bias of clipping, relative to the mean norm clipped off, for scores of one sign.

    They have one sign along the intercept and along the slopes.
    """
    one_sign = min(2, p)
    return math.sqrt((one_sign + (p - one_sign) * ASYMMETRY**2) / p)
