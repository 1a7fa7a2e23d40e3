"""Private quantiles of a column, by bisection of a public range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array, real_number, whole_number
from dpfast.curator.shares import Shares
from dpfast.data.columns import numbers
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.guarantees import Guarantee
from dpfast.lazy import missing
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM

__all__ = ["private_quantiles"]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)

#: Halvings of the range: the answer is a point of a grid of ``2^-MAX_STEPS`` of it.
STEPS = 16


@understood
def private_quantiles(
    x: ArrayLike,
    probabilities: Sequence[float],
    *,
    low: float,
    high: float,
    privacy: Budget | float | tuple[float, float],
    steps: int = STEPS,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> NDArray[np.float64]:
    """Quantiles by noisy bisection of a public range.

    Each step asks whether more or less than the wanted share of the records lies below the middle
    of what is left of the range.

    Parameters
    ----------
    x : array-like of shape (n,)
        NaNs are left out, and still counted in n.
    probabilities : sequence of float in (0, 1)
    low, high : float
        Public range; a quantile outside comes out as its end.
    privacy : GDP, ZCDP, ApproxDP or float
        The total for all of them; a float is mu of Gaussian DP.
    steps : int
        Halvings for each quantile.  The noise of a share grows with their square root.
    ledger, noise
        As of :func:`dpfast.fit`.

    Returns
    -------
    ndarray of shape (k,)
        Nondecreasing in the probabilities.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: ``k * steps`` adaptive shares
    with noise (claims C9 and C46).  ``low``, ``high`` and ``steps`` must be public.

    Examples
    --------
    >>> x = np.linspace(0.0, 100.0, 2000)
    >>> low, high = dpfast.private_quantiles(x, [0.25, 0.75], low=0.0, high=100.0, privacy=1.0)
    >>> bool(low <= high)
    True
    """
    account, levels = Account(privacy, ledger), _checked(probabilities)
    total = account.total
    ends, steps = _checked_range(low, high), whole_number(steps, "steps", 1, 60)
    source, own_ledger, values = checked_noise(noise), Ledger(total), numbers(x, "x")
    n = len(values)
    if n == 0:
        raise InvalidInput("x is empty; at least one record is needed.")
    mu = total.mu / math.sqrt(len(levels) * steps) * (1.0 - ROUNDING_SUM)
    shares = Shares(values, own_ledger, source)
    shares.receipt(mu)  # refuses what is impossible, free of charge
    label = f"private_quantiles(n={n}, k={len(levels)})"

    def spent() -> Guarantee:
        return Guarantee.of(
            total, source, n, [(entry.label, entry.spend.mu) for entry in own_ledger.entries]
        )

    with KeepReleased(privacy=spent):
        account.charge(label, memory_needed(n))
        estimates = [_bisected(shares, ends, steps, p, mu) for p in levels]
    result = np.empty(len(estimates))
    result[np.argsort(levels, kind="stable")] = np.sort(estimates)  # free post-processing
    return result


def _bisected(
    shares: Shares, ends: tuple[float, float], steps: int, probability: float, mu: float
) -> float:
    low, high = ends
    for _ in range(steps):
        middle = low + 0.5 * (high - low)
        if shares.excess(middle, probability, mu).value[0] < 0.0:
            low = middle
        else:
            high = middle
    return low + 0.5 * (high - low)


def _checked(probabilities: Any) -> list[float]:
    levels: list[float] = np.atleast_1d(real_array(probabilities, "probabilities")).tolist()
    if not all(isinstance(p, float) and 0.0 < p < 1.0 for p in levels):
        raise InvalidInput(
            "every probability must lie strictly between 0 and 1; received "
            f"{described(probabilities)}."
        )
    if not levels:
        raise InvalidInput("probabilities is empty: ask for at least one quantile.")
    return levels


def _checked_range(low: Any, high: Any) -> tuple[float, float]:
    ends = real_number(low, "low"), real_number(high, "high")
    if not (all(map(math.isfinite, ends)) and 0.0 < ends[1] - ends[0] < math.inf):
        raise InvalidInput(
            "low and high must be finite public numbers, low first, with a finite difference; "
            f"received {described(low)}, {described(high)}."
        )
    return ends
