"""``quantiles`` by cell, by bisection of all cells at once, with intervals."""

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

#: Halvings of the declared range: the answer is a point of a grid of ``2^-MAX_STEPS`` of it.
STEPS = 14

#: Share of the squared budget that buys the counts, from which the ends of intervals are chosen.
COUNTS = 0.1


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
    """Quantiles of a column in each cell of up to two declared groupings, with intervals.

    All cells are searched at once: each question is how many records of a cell are below its own
    threshold.  The ends of an interval are quantiles, too, of shares to either side that allow for
    sampling and for privacy noise.

    Parameters
    ----------
    column : str
        A column that the schema declares numeric; its range is what is searched.
    probabilities : sequence of float in (0, 1)
    level : float in [0.5, 1)
        Nominal coverage of the intervals.
    steps : int
        Halvings of the range.  The noise of a question grows with their square root.
    table, by, schema, privacy, least, ledger, noise
        As of :func:`dpfast.tables.means`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T1 and T5).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 2000), "pay": np.tile(np.linspace(0.0, 9.0, 2000), 2)}
    >>> found = dpfast.tables.quantiles(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(found.low[0, 1] <= 4.5 <= found.high[0, 1])
    True
    """
    wanted = np.atleast_1d(real_array(probabilities, "probabilities"))
    inside = wanted.ndim == 1 and wanted.size and ((wanted > 0.0) & (wanted < 1.0)).all()
    if not inside:
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
    asked = TableQuery("quantiles", table, grouping, Account(privacy, ledger), least, noise)
    mu_counts = asked.mu * math.sqrt(COUNTS)
    mu_step = asked.mu * math.sqrt((1.0 - COUNTS) / steps)
    shape = (3 * len(wanted), grouping.n_cells)
    for p in (np.full(shape, 0.5), np.ones(shape)):  # all shares there can be; free of charge
        asked.cells.below_receipt(p, mu_step)
    asked.cells.counts_receipt(mu_counts)
    # where values are alike every question of a search is as near, and the first to err decides
    deviations, searched = normal_half_width(level), normal_half_width(1.0 - (1.0 - level) / steps)

    def made() -> QuantileTable:
        counted = asked.cells.counts(mu_counts)
        least = asked.threshold(counted.noise_scale)
        told = counted.value >= least
        n = np.where(told, np.maximum(counted.value, 1.0), 1.0)
        middle = np.repeat(wanted[:, None], grouping.n_cells, axis=1)
        shares = np.concatenate([middle, middle, middle])
        for _ in range(2):  # the noise depends a little on the ends
            rank = searched * asked.cells.below_receipt(shares, mu_step).noise_scale
            away = np.sqrt(deviations**2 * middle * (1.0 - middle) * n + rank * rank) / n
            low, high = np.maximum(middle - away, 0.0), np.minimum(middle + away, 1.0)
            shares = np.concatenate([middle, low, high])
        ends = _searched(asked, shares, mu_step, steps)
        found, below, above = np.split(np.where(told, ends, np.nan), 3)
        order = np.argsort(np.argsort(wanted, kind="stable"), kind="stable")
        found = np.sort(found, axis=0)[order]  # free post-processing, as what follows
        grid = 2.0**-steps  # a point stands for what is that far from it
        below, above = np.minimum(below, found) - grid, np.maximum(above, found) + grid
        below = np.where(told & (low == 0.0), -1.0, np.maximum(below, -1.0))
        above = np.where(told & (high == 1.0), 1.0, np.minimum(above, 1.0))
        centre, half = float(grouping.middles[0]), float(grouping.halves[0])
        natural = [
            (centre + half * some).reshape(-1, *grouping.shape) for some in (found, below, above)
        ]
        return QuantileTable(
            by=grouping.by,
            levels=grouping.levels,
            column=grouping.columns[0],
            probabilities=tuple(wanted.tolist()),
            counts=counted.value.reshape(grouping.shape),
            count_noise=counted.noise_scale,
            least=least,
            quantile=natural[0],
            low=natural[1],
            high=natural[2],
            level=level,
            n_records=asked.cells.n,
            privacy=asked.guarantee(),
        )

    return asked.paid(made)


def _searched(asked: TableQuery, probabilities: Array, mu: float, steps: int) -> Array:
    """The coded quantiles at these shares of each cell."""
    low, high = np.full(probabilities.shape, -1.0), np.ones(probabilities.shape)
    for _ in range(steps):
        middle = low + 0.5 * (high - low)
        less = asked.cells.below(middle, probabilities, mu).value < 0.0
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return low + 0.5 * (high - low)
