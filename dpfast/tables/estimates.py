"""``counts`` and ``means``: tables by declared groupings, each of one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive
from dpfast.curator.answers import Answer
from dpfast.curator.tables.cells import Cells
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, understood
from dpfast.fit_requests.partial import KeepReleased
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.degrees import LEAST
from dpfast.inference.guarantees import Guarantee
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.privacy.tables.sensitivity import SQUARE_AT, SQUARE_WEIGHT
from dpfast.tables.grouping import Grouping, grouping_of
from dpfast.tables.results import SEEN, CellTable

Array = NDArray[np.float64]
Made = TypeVar("Made")

#: Copies of the coded columns that there are at a time at most.
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
    """How many records are in each cell of one or two declared groupings, with intervals.

    Parameters
    ----------
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        A record that lacks a column or has a level that is not declared is in no cell; it counts in
        n.
    by : str or sequence of str
        One or two columns that the schema declares categorical or binary.
    schema : Schema
        Every level is in the table, whether or not a record has it.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total to spend; a float is mu of Gaussian DP.
    least : float
        Public: cells with fewer records are not told.  Those whose count is below
        four standard deviations of its noise never are.
    ledger, noise
        As of :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T1): noise of
    ``sqrt(2) / mu`` records in each cell, however many these are.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> table = {"sex": ["F"] * 300 + ["M"] * 700}
    >>> found = dpfast.tables.counts(table, "sex", schema=schema, privacy=1.0)
    >>> bool(abs(found.counts[1] - 700) < 20)
    True
    """
    account = Account(privacy, ledger)
    asked = TableQuery("counts", table, grouping_of(schema, by, ()), account, least, noise)
    asked.cells.counts_receipt(asked.mu)  # refuses what is impossible, free of charge

    def made() -> CellTable:
        answer = asked.cells.counts(asked.mu)
        return asked.table(answer.value, answer.noise_scale, None)

    return asked.paid(made)


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
    """Means of columns in each cell of up to two declared groupings, with intervals.

    Sums, sums of squares and counts of all cells are one release, which costs what the sums alone
    would: the variances in the intervals are of the records, and released.

    Parameters
    ----------
    columns : str or sequence of str
        Columns that the schema declares numeric, whose values are held to the declared range, or
        binary, whose means are shares.  Noise is in proportion to the range and to the root of
        their number.
    by : str or sequence of str, optional
        One or two columns declared categorical or binary; by default all records are one cell.
    table, schema, privacy, least, ledger, noise
        As of :func:`dpfast.tables.counts`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T2 to T4).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile([2.0, 5.0], 500)}
    >>> found = dpfast.tables.means(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(abs(found.mean[0, 1] - 3.5) < 5.0 * found.bse[0, 1])
    True
    """
    grouping = grouping_of(schema, by, columns)
    if not grouping.columns:
        raise InvalidInput("columns is empty: name at least one column, or ask for counts.")
    asked = TableQuery("means", table, grouping, Account(privacy, ledger), least, noise)
    asked.cells.moments_receipt(asked.mu)  # refuses what is impossible, free of charge

    def made() -> CellTable:
        moments = moments_of(asked.cells.moments(asked.mu), grouping, asked.cells.count_weight)
        return asked.table(moments.counts, moments.count_noise, moments)

    return asked.paid(made)


class Moments(NamedTuple):
    """Means of coded columns, their errors, and counts, by cell."""

    counts: Array
    count_noise: float
    mean: Array
    bse: Array
    degrees: Array


def moments_of(answer: Answer, grouping: Grouping, weight: float) -> Moments:
    """What a release of moments says; where a count is no positive number there is nothing."""
    q, scale = len(grouping.columns), answer.noise_scale
    count, count_noise = answer.value[:, -1] / weight, scale / weight
    squares = iter(answer.value[:, q:-1].T / SQUARE_WEIGHT)
    means, errors, degrees = [], [], []
    with np.errstate(all="ignore"):
        n = np.where(count > 0.0, count, np.nan)
        for j, squared in enumerate(grouping.squared):
            r = answer.value[:, j] / n
            noise = (scale**2 + (r * count_noise) ** 2) / n**2
            if squared:
                square = next(squares) / n + SQUARE_AT
                by_count = 2.0 * r * r - square + SQUARE_AT
                parts = (scale / SQUARE_WEIGHT) ** 2 + (by_count * count_noise) ** 2
                unsure = np.sqrt(parts + (2.0 * r * scale) ** 2) / n
            else:
                square = np.ones_like(n)
                unsure = 2.0 * np.abs(r) * np.sqrt(noise)
            sampling = np.maximum(square - r * r, unsure) / n
            variance = sampling + noise
            relative = unsure / n / variance
            means.append(r)
            errors.append(np.sqrt(variance))
            degrees.append(np.maximum(LEAST, 2.0 / relative**2))
    return Moments(count, count_noise, np.array(means), np.array(errors), np.array(degrees))


class TableQuery:
    """Everything about a table that is decided before the charge."""

    def __init__(
        self,
        what: str,
        table: Any,
        grouping: Grouping,
        account: Account,
        least: float,
        noise: NoiseSource | None,
    ) -> None:
        self._what, self._account = what, account
        self.mu = account.total.mu * (1.0 - ROUNDING_SUM)
        self.least = positive(least, "least", or_zero=True)
        self.grouping = grouping
        self._source = checked_noise(noise)
        self._ledger = Ledger(account.total)
        records = grouping.records(table)
        self.cells = Cells(records, grouping.n_cells, grouping.squared, self._ledger, self._source)

    def guarantee(self) -> Guarantee:
        """What was spent so far."""
        entries = [(entry.label, entry.spend.mu) for entry in self._ledger.entries]
        return Guarantee.of(self._account.total, self._source, self.cells.n, entries)

    def paid(self, made: Callable[[], Made]) -> Made:
        """Charge the shared ledger, then ask."""
        n, q, size = self.cells.n, len(self.grouping.columns), self.grouping.n_cells
        label = f"tables.{self._what}(n={n}, cells={size}, columns={q})"
        room = memory_needed(n, q, COPIES) + memory_needed(size, 2 * q, COPIES)
        with KeepReleased(privacy=self.guarantee):
            self._account.charge(label, room)
            return made()

    def threshold(self, count_noise: float) -> float:
        """Below it a count is too small to say more of."""
        return max(self.least, SEEN * count_noise)

    def table(self, count: Array, count_noise: float, moments: Moments | None) -> CellTable:
        """The result in natural units, and what is too small to say left out of it."""
        grouping, least = self.grouping, self.threshold(count_noise)
        shape, q = grouping.shape, len(grouping.columns)
        found = [np.empty((0, *shape))] * 3
        if moments is not None:
            middles, halves = grouping.middles[:, None], grouping.halves[:, None]
            mean = np.clip(middles + halves * moments.mean, middles - halves, middles + halves)
            numbers = (mean, halves * moments.bse, moments.degrees)
            told = count >= least
            found = [np.where(told, some, np.nan).reshape(q, *shape) for some in numbers]
        ends = np.stack([grouping.middles - grouping.halves, grouping.middles + grouping.halves])
        return CellTable(
            by=grouping.by,
            levels=grouping.levels,
            columns=grouping.columns,
            counts=count.reshape(shape),
            count_noise=count_noise,
            least=least,
            mean=found[0],
            bse=found[1],
            degrees_of_freedom=found[2],
            ranges=ends.T,
            n_records=self.cells.n,
            privacy=self.guarantee(),
        )
