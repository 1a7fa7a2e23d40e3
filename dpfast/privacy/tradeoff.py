"""Trade-off between errors of an attacker who has two candidates for a record (claim C45)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.conversions import zcdp_delta
from dpfast.privacy.rounding import ROUNDING_ELEMENTARY

if TYPE_CHECKING:  # whose methods these are
    from dpfast.privacy.budget import Budget

#: Relative error of ``Phi(Phi^-1(a) + mu)`` as computed: a relative error of the quantile moves
#: it by up to the square of the quantile, 1400 at the smallest normal rate, times as much.
QUANTILE_MARGIN = 1e-11

#: Added to what is rounded up: next to zero no relative margin is any use.
FLOOR = 1e-300

_SMALLEST_NORMAL = 2.0**-1022

#: False-positive rates that :func:`explain` reports.
RATES = (0.001, 0.01, 0.05, 0.1)


def attack_power(budget: Budget, false_positive_rate: float) -> float:
    """Largest true-positive rate at this false-positive rate, rounded up (claim C45)."""
    spend: Any = budget
    rate = false_positive_rate
    if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 <= rate <= 1.0:
        raise InvalidBudget(
            f"false_positive_rate must be a number in [0, 1]; received {described(rate)}."
        )
    rate = float(rate)
    if budget.fields == ("mu",):
        return _gaussian_power(spend.mu, rate)
    if budget.fields != ("rho",):
        epsilon, delta = (*budget.values(), 0.0)[:2]
        return _approximate_power(epsilon, delta, rate)
    best = min(1.0, _up(rate + attack_advantage(budget)))
    for step in range(-60, 61):  # every epsilon gives a valid bound
        epsilon = spend.rho + math.sqrt(spend.rho) * 1.12**step
        if epsilon < 700.0:
            best = min(best, _approximate_power(epsilon, zcdp_delta(spend.rho, epsilon), rate))
    return best


def attack_advantage(budget: Budget) -> float:
    """Largest true-positive rate minus false-positive rate of any attack, rounded up."""
    spend: Any = budget
    if not any(budget.values()):
        return 0.0  # nothing was spent
    if budget.fields == ("mu",):
        return _up(math.erf(spend.mu / math.sqrt(8.0)))
    if budget.fields != ("rho",):
        epsilon, delta = (*budget.values(), 0.0)[:2]
        return _up(math.tanh(epsilon / 2.0) + delta * 2.0 / (1.0 + _exp(epsilon)))
    # Pinsker and Bretagnolle-Huber: zCDP bounds the Kullback-Leibler divergence by rho.
    distance = min(math.sqrt(0.5) * math.sqrt(spend.rho), math.sqrt(-math.expm1(-spend.rho)))
    return _up(distance)


def _up(probability: float) -> float:
    """More than a handful of elementary functions can have lost, and at most 1."""
    return min(1.0, probability * (1.0 + ROUNDING_ELEMENTARY) + FLOOR)


def _gaussian_power(mu: float, rate: float) -> float:
    if rate in (0.0, 1.0):
        return rate
    from dpfast.kernels.special import ndtr, ndtri

    quantile = ndtri(max(rate, _SMALLEST_NORMAL))  # below, a quantile has few digits
    return min(1.0, float(ndtr(quantile + mu)) * (1.0 + QUANTILE_MARGIN) + FLOOR)


def _approximate_power(epsilon: float, delta: float, rate: float) -> float:
    if rate == 0.0:
        return delta
    rising = _exp(epsilon) * rate + delta
    falling = 1.0 - math.exp(-epsilon) * (1.0 - delta - rate)
    return max(rate, min(_up(rising), falling + 2.0**-49))


def _exp(x: float) -> float:
    return math.exp(x) if x < 700.0 else math.inf


def explain(budget: Budget, delta: float = 1e-6) -> str:
    """Explain a guarantee in plain words: as (epsilon, delta) and as an attacker's best chances."""
    right = 50.0 * (1.0 + attack_advantage(budget))
    lines = [
        f"{budget!r} in plain words",
        "  Suppose someone knows every record but yours, and that yours is one of two candidates.",
        "  From everything published under this budget together, that person",
        f"  - guesses which of the two it was with at most {right:.3g}% success (50% is luck);",
    ]
    for rate in RATES:
        power = 100.0 * attack_power(budget, rate)
        lines.append(
            f"  - with {100.0 * rate:g}% false alarms, is right about a true suspicion at most "
            f"{power:.3g}% of the time;"
        )
    lines.append("  whatever else they know, however long they compute, now or later.")
    if "delta" in budget.fields:
        epsilon, delta = budget.values()
        equivalent = f"epsilon = {epsilon:g} at delta = {delta:g}"
    else:
        equivalent = f"epsilon = {budget.as_approx(delta).epsilon:.4g} at delta = {delta:g}"
    lines += [
        f"  In the usual currency: {equivalent}.",
        "  The number of records is public. What the data say about people in general (that",
        "  education pays, say) is not hidden, and may tell something about you whether or not",
        "  your record was used.",
    ]
    return "\n".join(lines)
