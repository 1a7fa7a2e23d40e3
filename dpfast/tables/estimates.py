"""``counts`` and ``means``: tables by declared groupings, each of one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive
from dpfast.curator.answers import Answer
from dpfast.curator.tables.cells import Cells
from dpfast.data import Records
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, understood
from dpfast.fit_requests.planned_run import Query, run
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.degrees import MIN_DEGREES
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.tables.sensitivity import SQUARE_AT, SQUARE_WEIGHT
from dpfast.tables.grouping import Grouping, grouping_of
from dpfast.tables.results import MIN_COUNT_SDS, CellTable

Array = NDArray[np.float64]
Result = TypeVar("Result")

#: Copies of the coded columns in memory at the same time, at most.
COPIES = 5


@understood
def counts(
    table: Any,
    by: str | Sequence[str],
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> CellTable:
    """Count the records in each cell of one or two declared groupings, with intervals.

    Parameters
    ----------
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        A record with a missing or undeclared level is in no cell; it still counts in n.
    by : str or sequence of str
        One or two columns that the schema declares categorical or binary.
    schema : Schema
        Every level is in the table, whether or not a record has it.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total to spend; a float is mu of Gaussian DP.
    least : float
        Public: cells with fewer records are suppressed.  So are those whose count is below
        four standard deviations of its noise.
    ledger, noise
        As for :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T1).  Each cell has noise
    of ``sqrt(2) / mu`` records, for any number of cells.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> table = {"sex": ["F"] * 300 + ["M"] * 700}
    >>> cells = dpfast.tables.counts(table, "sex", schema=schema, privacy=1.0)
    >>> bool(abs(cells.counts[1] - 700) < 20)
    True
    """
    account, grouping = Account(privacy, ledger), grouping_of(schema, by, ())
    query = TableQuery("counts", grouping.records(table), grouping, account, least, noise)
    query.cells.counts_receipt(query.mu)  # refuses what is impossible, free of charge

    def compute() -> CellTable:
        answer = query.cells.counts(query.mu)
        return query.table(answer.value, answer.noise_scale, None)

    return query.paid(compute)


@understood
def means(
    table: Any,
    columns: str | Sequence[str],
    by: str | Sequence[str] | None = None,
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> CellTable:
    """Estimate means of columns in each cell of up to two declared groupings, with intervals.

    Sums, sums of squares and counts are one release, at the cost of the sums alone.  So
    the intervals use released variances of the records.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns, whose values are clipped to the declared range, or binary columns, whose
        means are shares.  Noise is in proportion to the range and to the root of their number.
    by : str or sequence of str, optional
        One or two columns declared categorical or binary; by default all records are one cell.
    table, schema, privacy, least, ledger, noise
        As for :func:`dpfast.tables.counts`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T2 to T4).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile([2.0, 5.0], 500)}
    >>> cells = dpfast.tables.means(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(abs(cells.mean[0, 1] - 3.5) < 5.0 * cells.bse[0, 1])
    True
    """
    grouping = grouping_of(schema, by, columns)
    if not grouping.columns:
        raise InvalidInput("columns is empty: name at least one column, or ask for counts.")
    account = Account(privacy, ledger)
    query = TableQuery("means", grouping.records(table), grouping, account, least, noise)
    query.cells.moments_receipt(query.mu)  # refuses what is impossible, free of charge

    def compute() -> CellTable:
        moments = moments_of(query.cells.moments(query.mu), grouping, query.cells.count_weight)
        return query.table(moments.counts, moments.count_noise, moments)

    return query.paid(compute)


class Moments(NamedTuple):
    """Means of coded columns, their errors, and counts, by cell."""

    counts: Array
    count_noise: float
    mean: Array
    bse: Array
    degrees: Array


def moments_of(answer: Answer, grouping: Grouping, weight: float) -> Moments:
    """Compute means and standard errors from noisy sums, sums of squares and counts.

    The variance of a ratio is by the delta method.  Cells whose count is not positive are NaN.
    """
    q, scale = len(grouping.columns), answer.noise_scale
    count, count_noise = answer.value[:, -1] / weight, scale / weight
    noisy_squares = iter(answer.value[:, q:-1].T / SQUARE_WEIGHT)
    mean_values, errors, degrees = [], [], []
    with np.errstate(all="ignore"):
        n = np.where(count > 0.0, count, np.nan)
        for j, squared in enumerate(grouping.squared):
            mean = answer.value[:, j] / n
            noise = (scale**2 + (mean * count_noise) ** 2) / n**2
            if squared:
                second_moment = next(noisy_squares) / n + SQUARE_AT
                count_effect = 2.0 * mean * mean - second_moment + SQUARE_AT
                by_squares = (scale / SQUARE_WEIGHT) ** 2 + (count_effect * count_noise) ** 2
                square_error = np.sqrt(by_squares + (2.0 * mean * scale) ** 2) / n
            else:
                second_moment = np.ones_like(n)
                square_error = 2.0 * np.abs(mean) * np.sqrt(noise)
            sampling = np.maximum(second_moment - mean * mean, square_error) / n
            variance = sampling + noise
            relative = square_error / n / variance
            mean_values.append(mean)
            errors.append(np.sqrt(variance))
            degrees.append(np.maximum(MIN_DEGREES, 2.0 / relative**2))
    return Moments(count, count_noise, np.array(mean_values), np.array(errors), np.array(degrees))


class TableQuery:
    """Query of a table: checked and planned before the charge, then paid for and answered."""

    def __init__(
        self,
        name: str,
        records: Records,
        grouping: Grouping,
        account: Account,
        least: float,
        noise: NoiseSource | None,
    ) -> None:
        self._what, self.account = name, account
        self.mu = account.total.mu * (1.0 - ROUNDING_SUM)
        self.least = positive(least, "least", or_zero=True)
        self.grouping = grouping
        self._source = checked_noise(noise)
        self._ledger = Ledger(account.total)
        self.cells = Cells(records, grouping.n_cells, grouping.squared, self._ledger, self._source)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the charges made so far."""
        entries = [(entry.label, entry.spend.mu) for entry in self._ledger.entries]
        return Guarantee.of(self.account.total, self._source, self.cells.n, entries)

    def paid(self, release: Callable[[], Result], n_bins: int = 0) -> Result:
        """Charge the shared ledger, then compute the answer."""
        n, q, n_cells = self.cells.n, len(self.grouping.columns), self.grouping.n_cells
        label = f"tables.{self._what}(n={n}, cells={n_cells}, columns={q})"
        memory = memory_needed(n, q, COPIES) + memory_needed(n_cells, 2 * q + n_bins, COPIES)
        return run(Query(self, release), label, memory)

    def threshold(self, count_noise: float) -> float:
        """Return the count below which a cell is suppressed."""
        return max(self.least, MIN_COUNT_SDS * count_noise)

    def table(self, count: Array, count_noise: float, moments: Moments | None) -> CellTable:
        """Build the result in natural units, with small cells suppressed."""
        grouping, threshold = self.grouping, self.threshold(count_noise)
        shape, q = grouping.shape, len(grouping.columns)
        statistics = [np.empty((0, *shape))] * 3
        if moments is not None:
            middles, halves = grouping.middles[:, None], grouping.halves[:, None]
            mean = np.clip(middles + halves * moments.mean, middles - halves, middles + halves)
            in_units = (mean, halves * moments.bse, moments.degrees)
            published = count >= threshold
            statistics = [
                np.where(published, values, np.nan).reshape(q, *shape) for values in in_units
            ]
        ends = np.stack([grouping.middles - grouping.halves, grouping.middles + grouping.halves])
        return CellTable(
            by=grouping.by,
            levels=grouping.levels,
            columns=grouping.columns,
            counts=count.reshape(shape),
            count_noise=count_noise,
            least=threshold,
            mean=statistics[0],
            bse=statistics[1],
            degrees_of_freedom=statistics[2],
            ranges=ends.T,
            n_records=self.cells.n,
            privacy=self.guarantee(),
        )
