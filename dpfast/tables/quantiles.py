"""Noisy bisection for ``quantiles``: all cells of a table are searched at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import real_array, whole_number
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.request import Account
from dpfast.inference.degrees import coverage
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.tables.estimates import TableQuery
from dpfast.tables.grouping import grouping_of
from dpfast.tables.results import QuantileTable, normal_half_width

Array = NDArray[np.float64]

#: Default number of bisection steps: answers lie on a grid of ``2^-STEPS`` of the declared range.
#: More steps make the grid finer and each answer noisier, since the budget is divided by them.
STEPS = 14

#: Share of the squared budget for the counts of cells.  They set how far out the ends of intervals
#: are searched, which needs little precision; the steps of the search have the rest.
COUNTS_SHARE = 0.1


def quantiles(
    table: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    probabilities: Sequence[float] = (0.5,),
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    level: float = 0.95,
    steps: int = STEPS,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> QuantileTable:
    """Estimate quantiles of a column in each cell of up to two groupings, with intervals.

    Noisy bisection searches all cells at once.  Each step asks how many records of a cell are below
    its own threshold.  The ends of an interval are quantiles, too: their shares lie to either side,
    by the sampling error and the privacy noise together.

    Parameters
    ----------
    column : str
        A column that the schema declares numeric; its declared range is searched.
    probabilities : sequence of float in (0, 1)
    level : float in [0.5, 1)
        Nominal coverage of the intervals.
    steps : int
        Bisection steps.  The noise of each answer grows with the root of their number.
    table, by, schema, privacy, least, ledger, noise
        As for :func:`dpfast.tables.means`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T1 and T5).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 2000), "pay": np.tile(np.linspace(0.0, 9.0, 2000), 2)}
    >>> medians = dpfast.tables.quantiles(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(medians.low[0, 1] <= 4.5 <= medians.high[0, 1])
    True
    """
    query_probabilities = np.atleast_1d(real_array(probabilities, "probabilities"))
    allowed = (query_probabilities > 0.0) & (query_probabilities < 1.0)
    if query_probabilities.ndim != 1 or not query_probabilities.size or not allowed.all():
        raise InvalidInput(
            "probabilities must be at least one number strictly between 0 and 1; received "
            f"{described(probabilities)}."
        )
    level, steps = coverage(level), whole_number(steps, "steps", 1, 60)
    if not isinstance(column, str):
        raise InvalidInput(f"column must be the name of one; received {described(column)}.")
    grouping = grouping_of(schema, by, column, "column")
    if not all(grouping.squared):
        raise InvalidInput(
            f"column {described(column, text=True)} is declared binary; its mean says all."
        )
    account = Account(privacy, ledger)
    query = TableQuery("quantiles", grouping.records(table), grouping, account, least, noise)
    search = _Search(query, query_probabilities, level, steps)
    return query.paid(search.run)


class _Search:
    """Noisy bisection for quantiles and the ends of their intervals, in all cells at once.

    Columns are coded to [-1, 1].  What can be refused is refused when the search is made, before
    the charge.
    """

    def __init__(self, query: TableQuery, probabilities: Array, level: float, steps: int) -> None:
        self._query, self._probabilities = query, probabilities
        self._level, self._steps = level, steps
        self._mu_counts = query.mu * math.sqrt(COUNTS_SHARE)
        self._mu_step = query.mu * math.sqrt((1.0 - COUNTS_SHARE) / steps)
        shape = (3 * len(probabilities), query.grouping.n_cells)
        for shares in (np.full(shape, 0.5), np.ones(shape)):  # the extremes of all possible shares
            query.cells.below_receipt(shares, self._mu_step)
        query.cells.counts_receipt(self._mu_counts)
        self._sampling_sds = normal_half_width(level)
        # where many values are equal, a wrong answer at any one step decides the result
        self._search_sds = normal_half_width(1.0 - (1.0 - level) / steps)

    def run(self) -> QuantileTable:
        """Release the counts, search, and build the table in natural units."""
        query, grouping = self._query, self._query.grouping
        counted = query.cells.counts(self._mu_counts)
        threshold = query.threshold(counted.noise_scale)
        published = counted.value >= threshold
        n = np.where(published, np.maximum(counted.value, 1.0), 1.0)
        shares = self._shares(n)
        points = np.where(published, self._bisect(shares), np.nan)
        quantile, low, high = self._ordered(points, shares, published)
        centre, half = float(grouping.middles[0]), float(grouping.halves[0])

        def natural(coded: Array) -> Array:
            return np.asarray((centre + half * coded).reshape(-1, *grouping.shape))

        return QuantileTable(
            by=grouping.by,
            levels=grouping.levels,
            column=grouping.columns[0],
            probabilities=tuple(self._probabilities.tolist()),
            counts=counted.value.reshape(grouping.shape),
            count_noise=counted.noise_scale,
            least=threshold,
            quantile=natural(quantile),
            low=natural(low),
            high=natural(high),
            level=self._level,
            n_records=query.cells.n,
            privacy=query.guarantee(),
        )

    def _shares(self, n: Array) -> Array:
        """Choose the shares to search in cells of n records: quantiles, lower ends, upper ends.

        Half widths add the sampling error of a share and the noise of a search in squares.
        """
        middle = np.repeat(self._probabilities[:, None], self._query.grouping.n_cells, axis=1)
        shares = np.concatenate([middle, middle, middle])
        for _ in range(2):  # the noise depends a little on the ends
            receipt = self._query.cells.below_receipt(shares, self._mu_step)
            rank_error = self._search_sds * receipt.noise_scale
            sampling = self._sampling_sds**2 * middle * (1.0 - middle) * n
            half_width = np.sqrt(sampling + rank_error * rank_error) / n
            low, high = np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)
            shares = np.concatenate([middle, low, high])
        return shares

    def _bisect(self, shares: Array) -> Array:
        """Find the coded quantiles at these shares of each cell by noisy bisection."""
        low, high = np.full(shares.shape, -1.0), np.ones(shares.shape)
        for _ in range(self._steps):
            middle = low + 0.5 * (high - low)
            less = self._query.cells.below(middle, shares, self._mu_step).value < 0.0
            low, high = np.where(less, middle, low), np.where(less, high, middle)
        return low + 0.5 * (high - low)

    def _ordered(
        self, points: Array, shares: Array, published: NDArray[np.bool_]
    ) -> tuple[Array, Array, Array]:
        """Sort the quantiles of each cell, and widen intervals to hold them (post-processing)."""
        quantile, below, above = np.split(points, 3)
        _, low_share, high_share = np.split(shares, 3)
        order = np.argsort(np.argsort(self._probabilities, kind="stable"), kind="stable")
        quantile = np.sort(quantile, axis=0)[order]
        grid = 2.0**-self._steps  # a point stands for all values that near
        low, high = np.minimum(below, quantile) - grid, np.maximum(above, quantile) + grid
        low = np.where(published & (low_share == 0.0), -1.0, np.maximum(low, -1.0))
        high = np.where(published & (high_share == 1.0), 1.0, np.minimum(high, 1.0))
        return quantile, low, high
