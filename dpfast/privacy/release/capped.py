"""Noise of a count that never exceeds its tail, so that no certificate fails (claim R36)."""

from __future__ import annotations

import math

from dpfast.errors import InvalidInput, described
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.calibration import COUNT
from dpfast.privacy.rounding import MARGIN_6, MARGIN_30


def capped_tail(epsilon1: float, delta1: float, M: int = COUNT) -> int:
    """Smallest cap k for which noise redrawn above k is ``(epsilon1, delta1)``-DP (claim R36)."""
    if not 0.0 < delta1 < 1.0:
        raise InvalidInput(f"delta1 must lie in (0, 1); received {described(delta1)}.")
    delta1 *= 1.0 - MARGIN_6  # claim C86
    numerator, denominator = laplace_rate(M, epsilon1)
    rate = numerator / denominator
    low, high = rate * (1.0 - MARGIN_30), rate * (1.0 + MARGIN_30)
    # with x = exp(-a (k + 1)): x (exp(a M) - 1) <= delta1 (1 + exp(-a) - x)
    most = delta1 * (1.0 + math.exp(-high)) / (math.expm1(min(high * M, 700.0)) + delta1)
    most *= 1.0 - MARGIN_30
    k = max(M, math.floor(-math.log(most) / low) - 2)
    while math.exp(-low * (k + 1)) * (1.0 + MARGIN_30) > most:
        k += 1
    return k
