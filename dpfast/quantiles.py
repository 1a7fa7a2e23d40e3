"""Private quantiles, and from them a column's location and scale.

The alternative to public scaling constants: medians and interquartile ranges that are paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array, real_number
from dpfast.curator.shares import Shares
from dpfast.data.columns import column, numbers
from dpfast.data.schema import Numeric, Schema
from dpfast.errors import InvalidInput, described
from dpfast.inference.request import charge_shared
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import EntropyNoise, NoiseSource

__all__ = ["private_quantiles", "with_private_scaling"]

#: Interquartile range of the standard normal distribution.
NORMAL_IQR = 1.3489795003921634

#: Halvings of the range: the answer is a point of a grid of ``2^-STEPS`` of it.
STEPS = 16

#: Keeps the exact sum of the charges within the total.
ROUNDING_MARGIN = 2.0**-40


def private_quantiles(
    x: ArrayLike,
    probabilities: Sequence[float],
    *,
    low: float,
    high: float,
    privacy: Budget | float,
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
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total for all of them; a float is mu of Gaussian DP.
    steps : int
        Halvings for each quantile.  The noise of a share grows with their square root.
    ledger : Ledger, optional
        A budget shared by several analyses.
    noise : NoiseSource, optional

    Returns
    -------
    ndarray of shape (k,)
        Nondecreasing in the probabilities.

    Raises
    ------
    InvalidInput, InvalidBudget, BudgetExceeded
        For a senseless public argument or a budget that cannot pay, before x is looked at.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public: ``k * steps`` adaptive shares
    with noise (claims C9 and C46).  ``low``, ``high`` and ``steps`` must be public.
    """
    wanted = real_array(probabilities, "probabilities").tolist()
    if not isinstance(wanted, list) or not all(_is_probability(p) for p in wanted):
        raise InvalidInput(
            "every probability must lie strictly between 0 and 1; received "
            f"{described(probabilities)}."
        )
    if not wanted:
        raise InvalidInput("probabilities is empty: ask for at least one quantile.")
    ends = real_number(low, "low"), real_number(high, "high")
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise InvalidInput(
            f"low and high must be finite public numbers, low first; received {described(low)}, "
            f"{described(high)}."
        )
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or not 1 <= steps <= 60:
        raise InvalidInput(
            f"steps must be a whole number from 1 to 60; received {described(steps)}."
        )
    values = numbers(x, "x")
    if len(values) == 0:
        raise InvalidInput("x is empty; at least one record is needed.")
    total = GDP.within(privacy)
    shares = Shares(values, Ledger(total), EntropyNoise() if noise is None else noise)
    mu = total.mu / math.sqrt(len(wanted) * steps) * (1.0 - ROUNDING_MARGIN)
    shares.receipt(mu)  # refuses what is impossible, free of charge
    charge_shared(ledger, privacy, total, f"private_quantiles(n={shares.n}, k={len(wanted)})")
    found = [_bisect(shares, p, *ends, steps, mu) for p in wanted]
    order = np.argsort(wanted, kind="stable")
    result = np.empty(len(found))
    result[order] = np.sort(found)  # free post-processing
    return result


def _bisect(
    shares: Shares, probability: float, low: float, high: float, steps: int, mu: float
) -> float:
    for _ in range(steps):
        middle = low + 0.5 * (high - low)
        if shares.excess(middle, probability, mu).value[0] < 0.0:
            low = middle
        else:
            high = middle
    return low + 0.5 * (high - low)


def _is_probability(p: Any) -> bool:
    return isinstance(p, float) and 0.0 < p < 1.0


def with_private_scaling(
    schema: Schema,
    table: Any,
    columns: Sequence[str],
    *,
    privacy: Budget | float,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> Schema:
    """A schema whose named columns are centred at a private median and scaled by a private IQR.

    Parameters
    ----------
    schema : Schema
        Its public ranges bound the search.
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
    columns : sequence of str
        Numeric columns.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total for all columns.
    ledger : Ledger, optional
    noise : NoiseSource, optional

    Returns
    -------
    Schema
        ``centre`` is the median, ``unit`` the interquartile range over 1.349 (a standard
        deviation, for normal data), at least a thousandth of the declared range.

    Privacy
    -------
    ``privacy`` in total (claim C46): the three quartiles of each column.
    """
    declared: Mapping[str, Numeric] = {
        name: _numeric(schema, name) for name in schema.declared(columns, "columns")
    }
    if not declared:
        raise InvalidInput("columns is empty: name at least one numeric column.")
    total = GDP.within(privacy)
    charge_shared(ledger, privacy, total, f"with_private_scaling({len(declared)} columns)")
    each = GDP(total.mu / math.sqrt(len(declared)) * (1.0 - ROUNDING_MARGIN))
    scaling = {}
    for name, public in declared.items():
        first, median, third = private_quantiles(
            numbers(column(table, name), name),
            (0.25, 0.5, 0.75),
            low=public.low,
            high=public.high,
            privacy=each,
            noise=noise,
        )
        unit = max((third - first) / NORMAL_IQR, 1e-3 * (public.high - public.low))
        scaling[name] = (float(median), float(unit))
    return schema.with_scaling(**scaling)


def _numeric(schema: Schema, name: str) -> Numeric:
    found = schema[name]
    if not isinstance(found, Numeric):
        raise InvalidInput(
            f"column {described(name, text=True)} is declared {found.kind}; only numbers are "
            "scaled."
        )
    return found
