"""What random sampling buys: the noise of a subsampled mechanism, from the dp-accounting extra.

Under *replacement* of one record the worst pair of neighbours of a Poisson-sampled Gaussian step
is ``(1-q) N(0, s^2) + q N(1, s^2)`` against ``(1-q) N(0, s^2) + q N(-1, s^2)`` (claim B6 of
PROOFS-rivals.md), which dp-accounting calls ``REPLACE_ONE``.  Its default, addition or removal
of a record, would understate the loss.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import import_module
from typing import Any

from dpfast.errors import InvalidBudget, described
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.rounding import ROUNDING_PRODUCT

#: Smallest delta for which the floating-point convolutions are trusted, and what they may lose.
SMALLEST_DELTA = 1e-10
CONVOLUTION_ERROR = 1e-13

#: What is spent of an epsilon or a delta, which stand for their decimals (claim C86).
_TAKEN = 1.0 - ROUNDING_PRODUCT

#: Discretisation of the privacy loss relative to epsilon, and its largest value.  It is rounded
#: towards safety, so any value is sound; this one typically costs less than 0.1% of epsilon.
RELATIVE_INTERVAL, LARGEST_INTERVAL = 3e-4, 1e-2

#: Cells that the range of a step's privacy loss is divided into, at most: seconds, not hours, where
#: samples are so small that little noise is enough.
LARGEST_TABLE = 1e5

#: Below it the noise is beside the point, and the privacy loss has too wide a range to tabulate.
MIN_MULTIPLIER = 0.05

#: Ratio of epsilons that the search for a multiplier takes for the farthest.
FARTHEST = 0.5


def _accounting() -> tuple[Any, Any]:
    try:
        relations: Any = import_module("dp_accounting").NeighboringRelation
        library = import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError as error:
        raise ImportError(
            "accounting for subsampled gradients needs the optional dependency dp-accounting. "
            "Install it with: pip install 'dpfast[accounting]' (or pip install dp-accounting)."
        ) from error
    return library, relations.REPLACE_ONE


def _losses(multiplier: float, sampling_rate: float, n_steps: int, interval: float) -> Any:
    library, relation = _accounting()
    step = library.from_gaussian_mechanism(
        standard_deviation=multiplier,
        sensitivity=1.0,
        pessimistic_estimate=True,
        value_discretization_interval=interval,
        sampling_prob=sampling_rate,
        neighboring_relation=relation,
    )
    return step.self_compose(n_steps)


def _range(multiplier: float) -> float:
    """About how far the privacy loss of a step that takes every record goes."""
    return 9.0 / multiplier + 0.5 / multiplier**2


def sampled_epsilon(
    multiplier: float,
    sampling_rate: float,
    n_steps: int,
    delta: float,
    *,
    interval: float = RELATIVE_INTERVAL,
) -> float:
    """Epsilon of ``n_steps`` Poisson-sampled Gaussian steps under replacement, rounded up."""
    _check_delta(delta)
    losses = _losses(multiplier, sampling_rate, n_steps, interval)
    return float(losses.get_epsilon_for_delta(delta * _TAKEN - CONVOLUTION_ERROR))


@lru_cache(maxsize=64)
def noise_multiplier(budget: ApproxDP, sampling_rate: float, n_steps: int) -> float:
    """Smallest noise multiplier found that keeps ``n_steps`` sampled steps within the budget."""
    _check_delta(budget.delta)
    finest = min(LARGEST_INTERVAL, RELATIVE_INTERVAL * budget.epsilon)

    def excess(log_multiplier: float) -> float:
        """Logarithm of epsilon / the target; at most zero exactly if the noise is enough."""
        multiplier = math.exp(log_multiplier)
        interval = max(finest, _range(multiplier) / LARGEST_TABLE)
        epsilon = sampled_epsilon(
            multiplier, sampling_rate, n_steps, budget.delta, interval=interval
        )
        if epsilon <= budget.epsilon * _TAKEN:
            return min(0.0, math.log(max(epsilon / budget.epsilon, FARTHEST)))
        return max(5e-324, math.log(min(epsilon / budget.epsilon, 1.0 / FARTHEST)))

    # Without sampling 2 sqrt(K)/mu is enough, and sampling only helps (claim B6).
    high = math.log(2.0 * math.sqrt(n_steps) / GDP.within(budget).mu)
    at_high = excess(high)
    while at_high > 0.0:  # what discretisation costs
        high += 1e-3
        at_high = excess(high)
    low, at_low = high, at_high
    while at_low <= 0.0:
        high, at_high = low, at_low
        if high < math.log(MIN_MULTIPLIER):
            return math.exp(high)
        low = high - math.log(2.0)
        at_low = excess(low)
    for _ in range(40):
        if at_high > -1e-4 or high - low < 1e-6:
            break
        # a secant aimed slightly inside, kept away from the ends of the bracket
        target = (high * (at_low + 5e-5) - low * (at_high + 5e-5)) / (at_low - at_high)
        middle = min(max(target, low + 0.02 * (high - low)), high - 0.02 * (high - low))
        at_middle = excess(middle)
        if at_middle > 0.0:
            low, at_low = middle, at_middle
        else:
            high, at_high = middle, at_middle
    return math.exp(high)


def _check_delta(delta: float) -> None:
    if not SMALLEST_DELTA <= delta < 1.0:
        raise InvalidBudget(
            f"delta must lie in [{SMALLEST_DELTA:g}, 1) for the accounting of subsampled "
            f"gradients, whose convolutions have rounding errors; received {described(delta)}."
        )
