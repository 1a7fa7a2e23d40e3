"""Private quantiles, and from them a column's location and scale.

The alternative to public scaling constants: medians and interquartile ranges that are paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import real_array, real_number, whole_number
from dpfast.curator.shares import Shares
from dpfast.data.columns import column, numbers
from dpfast.data.schema import Numeric, Schema
from dpfast.errors import InvalidInput, described, understood
from dpfast.front.partial import KeepingPaid
from dpfast.front.request import charge_shared, room_for
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import GDP, Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import MARGIN_8000

__all__ = ["private_quantiles", "with_private_scaling"]

#: Interquartile range of the standard normal distribution.
NORMAL_IQR = 1.3489795003921634

#: Halvings of the range: the answer is a point of a grid of ``2^-STEPS`` of it.
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
    ledger : Ledger, optional
        A budget shared by several analyses.
    noise : NoiseSource, optional

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
    total = GDP.within(privacy)
    search = _Bisection(x, "x", probabilities, low, high, total, steps, noise)
    label = f"private_quantiles(n={search.n}, k={len(search.wanted)})"
    with KeepingPaid(privacy=lambda: _spent(total, [search])):
        charge_shared(ledger, privacy, total, label, room_for(search.n))
        return search.run()


class _Bisection:
    """A search for quantiles whose public arguments were checked; :meth:`run` spends ``total``."""

    def __init__(
        self,
        x: Any,
        name: str,
        probabilities: Sequence[float],
        low: float,
        high: float,
        total: GDP,
        steps: int,
        noise: NoiseSource | None,
    ) -> None:
        self.wanted = np.atleast_1d(real_array(probabilities, "probabilities")).tolist()
        if not all(_is_probability(p) for p in self.wanted):
            raise InvalidInput(
                "every probability must lie strictly between 0 and 1; received "
                f"{described(probabilities)}."
            )
        if not self.wanted:
            raise InvalidInput("probabilities is empty: ask for at least one quantile.")
        self._low, self._high = _checked_range(low, high)
        steps = whole_number(steps, "steps", 1, 60)
        source = checked_noise(noise)
        values = numbers(x, name)
        self.n = len(values)
        if self.n == 0:
            raise InvalidInput(f"{name} is empty; at least one record is needed.")
        self._steps = int(steps)
        self._mu = total.mu / math.sqrt(len(self.wanted) * self._steps) * (1.0 - MARGIN_8000)
        self.ledger, self.source = Ledger(total), source
        self._shares = Shares(values, self.ledger, source)
        self._shares.receipt(self._mu)  # refuses what is impossible, free of charge

    def run(self) -> NDArray[np.float64]:
        """The quantiles, in the order they were asked for."""
        found = [self._bisect(p) for p in self.wanted]
        order = np.argsort(self.wanted, kind="stable")
        result = np.empty(len(found))
        result[order] = np.sort(found)  # free post-processing
        return result

    def _bisect(self, probability: float) -> float:
        low, high = self._low, self._high
        for _ in range(self._steps):
            middle = low + 0.5 * (high - low)
            if self._shares.excess(middle, probability, self._mu).value[0] < 0.0:
                low = middle
            else:
                high = middle
        return low + 0.5 * (high - low)


def _spent(total: GDP, searches: Sequence[_Bisection]) -> Guarantee:
    """The guarantee of searches that one total pays for."""
    entries = [(entry.label, entry.spend.mu) for s in searches for entry in s.ledger.entries]
    return Guarantee.of(total, searches[0].source, searches[0].n, entries)


def _checked_range(low: Any, high: Any) -> tuple[float, float]:
    ends = real_number(low, "low"), real_number(high, "high")
    if not (all(map(math.isfinite, ends)) and 0.0 < ends[1] - ends[0] < math.inf):
        raise InvalidInput(
            "low and high must be finite public numbers, low first, with a finite difference; "
            f"received {described(low)}, {described(high)}."
        )
    return ends


def _is_probability(p: Any) -> bool:
    return isinstance(p, float) and 0.0 < p < 1.0


def with_private_scaling(
    schema: Schema,
    table: Any,
    columns: Sequence[str],
    *,
    privacy: Budget | float | tuple[float, float],
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
    privacy : GDP, ZCDP, ApproxDP or float
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

    Examples
    --------
    >>> schema = dpfast.Schema({"x": dpfast.Numeric(0.0, 100.0)})
    >>> scaled = dpfast.quantiles.with_private_scaling(
    ...     schema, {"x": np.linspace(40.0, 60.0, 2000)}, ["x"], privacy=1.0
    ... )
    >>> bool(0.0 <= scaled["x"].centre <= 100.0)
    True
    """
    if not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a dpfast.Schema; received {described(schema)}.")
    declared: Mapping[str, Numeric] = {
        name: _numeric(schema, name) for name in schema.declared(columns, "columns")
    }
    if not declared:
        raise InvalidInput("columns is empty: name at least one numeric column.")
    total = GDP.within(privacy)
    each = GDP(total.mu / math.sqrt(len(declared)) * (1.0 - MARGIN_8000))
    searches = {}
    for name, public in declared.items():
        x, ends = column(table, name), (public.low, public.high)
        searches[name] = _Bisection(x, name, (0.25, 0.5, 0.75), *ends, each, STEPS, noise)
    scaling = {}
    with KeepingPaid(privacy=lambda: _spent(total, list(searches.values()))):
        label, rows = f"with_private_scaling({len(declared)} columns)", searches[name].n
        charge_shared(ledger, privacy, total, label, room_for(rows))
        for name, search in searches.items():
            first, median, third = search.run().tolist()
            scaling[name] = (median, max((third - first) / NORMAL_IQR, _least_unit(declared[name])))
        return schema.with_scaling(**scaling)


def _least_unit(public: Numeric) -> float:
    return 1e-3 * (public.high - public.low)


def _numeric(schema: Schema, name: str) -> Numeric:
    found = schema[name]
    if not isinstance(found, Numeric):
        raise InvalidInput(
            f"column {described(name, text=True)} is declared {found.kind}; only numbers are "
            "scaled."
        )
    if not 0.0 < _least_unit(found) < math.inf:
        raise InvalidInput(
            f"the declared range of column {described(name, text=True)}, {found.low!r} to "
            f"{found.high!r}, is too short or too long to be divided. Declare it in other units."
        )
    return found
