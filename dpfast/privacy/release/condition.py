"""The condition number of the Hessian, and noise in proportion to Delta: claims R28 and R29.

Algorithms 4 and 5 of paper 3 with the constants of theorem A.  A second noisy integer bounds the
largest eigenvalue; the condition number then bounds how much Delta, the largest first-order change
of a functional by one record, can itself differ between neighbours.  Functions of public and
released numbers only, each rounded in the safe direction; proofs in ``PROOFS-release.md``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.errors import InvalidInput, described
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.release.sensitivity import (
    EVALUATION,
    ROWS,
    shift_factors,
    small_enough,
)
from dpfast.privacy.rounding import MARGIN_6, MARGIN_30

_UP = 1.0 + MARGIN_30

#: Significant bits of a tolerance, and the least: few, as all are calibrated beforehand.
TOLERANCE_BITS = 3
LEAST_CHANGE = 2.0**-8

#: Largest change of Delta for which a functional is released in proportion to it.
MOST_CHANGE = 0.5


class LogScale(NamedTuple):
    """Public scale of the logarithm of the largest eigenvalue (claim R28)."""

    #: low, high: The eigenvalue lies between these for every data set.
    low: float
    high: float
    #: Bound on the error of its computed logarithm.
    error: float
    #: Computed logarithms of neighbours differ by at most this.
    step: float


def log_scale(v: float, solver_error: float, low: float, high: float) -> LogScale:
    """How the logarithm of the largest eigenvalue is counted (claim R28)."""
    if not (0.0 < v < math.inf and 0.0 <= solver_error <= 1.0 and 0.0 < low < high < math.inf):
        raise InvalidInput(
            "v must be positive and finite, solver_error in [0, 1] and 0 < low < high; received "
            f"{described(v)}, {described(solver_error)}, {described(low)} and {described(high)}."
        )
    error = (solver_error + 2.0**-50 * (1.0 + math.log(high / low))) * _UP
    return LogScale(low, high, error, (v + 2.0 * error) * _UP)


def largest_count(lam: float, scale: LogScale, M: int = COUNT) -> int:
    """``floor(M log(high/lam) / step)`` in exact rationals, of sensitivity M (claim R28)."""
    cut = min(max(lam, scale.low), scale.high) if lam == lam else scale.high
    (a, b), (c, d) = (x.as_integer_ratio() for x in (math.log(scale.high / cut), scale.step))
    return max(0, M * a * d // (b * c))


def largest_bound(N_hat: int, k: int, scale: LogScale, M: int = COUNT) -> float:
    """Upper bound of the largest eigenvalue from its noisy count, rounded up (claim R28).

    At least the eigenvalue unless the noise exceeds k; never above the public bound.
    """
    level = (int(N_hat) - int(k)) * scale.step / M * (1.0 - MARGIN_6) - scale.error
    if level <= 0.0:
        return scale.high
    return max(scale.low, scale.high * math.exp(-level) * (1.0 + 1e-12))


def psi_over_delta(
    radius: float, inner_radius: float, l0: float, largest: float, solver_error: float = 0.0
) -> float:
    """Bound of ``Psi/Delta`` at every direction, from the condition number (claim R29).

    ``radius/inner_radius sqrt(largest/l0)``: the square root of the condition number for a ball,
    of d times it for the box [-1, 1]^d.
    """
    if not inner_radius > 0.0:
        return math.inf
    condition = max(largest / l0, 1.0)
    return radius / inner_radius * math.sqrt(condition) * math.exp(0.5 * solver_error) * ROWS * _UP


class ProportionalFactors(NamedTuple):
    """The scale ``omega = factor * Delta`` of a functional, and how much it may differ (R29)."""

    factor: float
    tau: float


def proportional_factors(
    v: float, spread: float, solver_error: float = 0.0
) -> ProportionalFactors | None:
    """Scale in proportion to Delta, and the tolerance that it keeps (claim R29)."""
    error = 4.0 * EVALUATION * (1.0 + spread)
    if not (small_enough(v, solver_error) and error <= 1e-3):
        return None
    of_delta, of_psi, push, whole = shift_factors(v, solver_error)
    change = (math.cosh(whole) - 1.0 + math.sinh(whole) * push * spread) * _UP + 2.0**-48
    if change > MOST_CHANGE:
        return None
    factor = (of_delta + of_psi * spread) * (1.0 + 2.0 * error) * _UP
    return ProportionalFactors(factor, _few_bits_above(change + 2.1 * error * (1.0 + change)))


def proportional_tolerances() -> tuple[float, ...]:
    """Every tolerance that :func:`proportional_factors` may return."""
    found = [LEAST_CHANGE]
    while found[-1] < MOST_CHANGE * 1.01:
        found.append(_few_bits_above(math.nextafter(found[-1], 1.0)))
    return tuple(found)


def _few_bits_above(x: float) -> float:
    x = max(x, LEAST_CHANGE)
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.ceil(math.ldexp(mantissa, TOLERANCE_BITS)), exponent - TOLERANCE_BITS)
