"""``counts`` and ``means``: tables by declared groupings, each of one query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from dpfast.arguments import positive
from dpfast.curator.answers import Answer
from dpfast.curator.tables.cells import Cells
from dpfast.curator.tables.weighted import WeightedCells
from dpfast.data import Records
from dpfast.data.cell_records import CellRecords
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, understood
from dpfast.fit_requests.planned_run import Query, run
from dpfast.fit_requests.request import Account, memory_needed
from dpfast.inference.guarantees import MEANS_RELATION, RELATION, Guarantee, group_relation
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource, checked_noise
from dpfast.privacy.rounding import ROUNDING_SUM
from dpfast.tables.by_cell import MIN_COUNT_SDS
from dpfast.tables.grouping import Grouping, grouping_of
from dpfast.tables.moments import ReleasedSums
from dpfast.tables.results import CellTable, table_of
from dpfast.tables.weight_bound import WeightBound

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
    """Count the records in each cell of declared groupings, with intervals.

    Parameters
    ----------
    table : pandas or polars DataFrame, Arrow table, or mapping of names to arrays
        A record with a missing or undeclared level is in no cell; it still counts in n.
        :func:`dpfast.records` adds weights or persons: counts are then of the population, of rows
        of persons, or of persons.  Weights without ``largest_weight`` pay for a bound on them.
    by : str or sequence of str
        Columns that the schema declares categorical or binary, with 100,000 cells at most.
    schema : Schema
        Every level is in the table, whether or not a record has it.
    privacy : GDP, ZCDP, PureDP, ApproxDP or float
        The total to spend; a float is mu of Gaussian DP.
    least : float
        Public: cells with fewer records are suppressed (with weights, a smaller effective sample
        size).  So are those whose count is below four standard deviations of its noise.
    ledger, noise
        As for :func:`dpfast.fit`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claim T1).  Each cell has noise
    of ``sqrt(2) / mu`` records, for any number of cells.  Under replacement of one person with all
    rows where ``table`` has persons, of whom the number is public; with weights or persons noise is
    ``1.5 / mu`` of the largest contribution (claim T9).

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
        return query.table(query.cells.counts(query.mu))

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
    """Estimate means and totals of columns in each cell of declared groupings, with intervals.

    Sums, sums of squares and counts are one release, at the cost of the sums alone.  So
    the intervals use released variances of the records; with weights or persons those of the
    persons' sums, as in surveys with clusters.

    Parameters
    ----------
    columns : str or sequence of str
        Numeric columns, whose values are clipped to the declared range, or binary columns, whose
        means are shares.  Noise is in proportion to the range and to the root of their number.
    by : str or sequence of str, optional
        Columns declared categorical or binary; by default all records are one cell.
    table, schema, privacy, least, ledger, noise
        As for :func:`dpfast.tables.counts`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T2 to T4), or of one
    person with all rows (claim T9).

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
        return query.table(query.cells.moments(query.mu))

    return query.paid(compute)


class TableQuery:
    """Query of a table: checked and planned before the charge, then paid for and answered."""

    def __init__(
        self,
        name: str,
        records: Records | CellRecords,
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
        self.bound: WeightBound | None = None
        self.cells: Cells | WeightedCells
        if isinstance(records, CellRecords):
            self.cells = WeightedCells(records, grouping.n_cells, self._ledger, self._source)
            if self.cells.bound is None:
                self.bound = WeightBound(self.cells, self.mu)
                self.mu = self.bound.rest
        else:
            self.cells = Cells(
                records, grouping.n_cells, grouping.squared, self._ledger, self._source
            )

    @property
    def counted(self) -> str:
        """What a count is of; one of ``COUNTED``."""
        return self.cells.counted if isinstance(self.cells, WeightedCells) else "records"

    @property
    def clustered(self) -> bool:
        """Whether a person may be in several cells."""
        return isinstance(self.cells, WeightedCells) and self.cells.clustered

    @property
    def unit(self) -> float:
        """Weighted rows that the largest contribution stands for; known after the bound is."""
        return self.cells.unit if isinstance(self.cells, WeightedCells) else 1.0

    def guarantee(self) -> Guarantee:
        """Return the guarantee of the charges made so far."""
        entries = [(entry.label, entry.spend.mu) for entry in self._ledger.entries]
        relation = RELATION
        if isinstance(self.cells, WeightedCells) and self.clustered:
            m = self.cells.group_size
            relation = MEANS_RELATION if m is None else group_relation(m)
        return Guarantee.of(
            self.account.total, self._source, self.cells.n, entries, relation=relation
        )

    def paid(self, release: Callable[[], Result], n_bins: int = 0) -> Result:
        """Charge the shared ledger, then estimate the bound of weights and compute the answer."""
        n, q, n_cells = self.cells.n, len(self.grouping.columns), self.grouping.n_cells
        label = f"tables.{self._what}(n={n}, cells={n_cells}, columns={q})"
        memory = memory_needed(n, q, COPIES) + memory_needed(n_cells, 3 * q + n_bins, COPIES)

        def answer() -> Result:
            if self.bound is not None:
                self.bound.estimate()
            return release()

        return run(Query(self, answer), label, memory)

    def threshold(self, count_noise: float) -> float:
        """Return the count below which a cell is suppressed."""
        least = 0.0 if self.counted == "population" else self.least
        return max(least, MIN_COUNT_SDS * count_noise)

    def facts(self) -> dict[str, Any]:
        """Return what every result of the query says of itself."""
        return {
            "by": self.grouping.by,
            "levels": self.grouping.levels,
            "n_records": self.cells.n,
            "counted": self.counted,
            "remarks": () if self.bound is None else self.bound.remarks,
            "privacy": self.guarantee(),
        }

    def table(self, answer: Answer) -> CellTable:
        """Build the result in natural units, with small cells suppressed."""
        grouping = self.grouping
        sums = ReleasedSums(
            answer.value.reshape(*grouping.shape, -1),
            answer.noise_scale,
            grouping.squared,
            self.counted,
            self.unit,
            self.cells.n,
            self.clustered,
            0.0 if self.bound is None else self.bound.lost,
        )
        ends = np.stack([grouping.middles - grouping.halves, grouping.middles + grouping.halves])
        return table_of(sums, self.least, columns=grouping.columns, ranges=ends.T, **self.facts())
