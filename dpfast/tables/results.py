"""Results of tables by cell: noisy counts, means and quantiles with their errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast.arguments import Array
from dpfast.errors import InvalidInput, described
from dpfast.inference.base import FixedLevel
from dpfast.inference.degrees import coverage, t_intervals
from dpfast.inference.rendering.digits import by_error
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import end_headings
from dpfast.tables.by_cell import (
    MIN_COUNT_SDS,
    TOO_SMALL,
    ByCell,
    cell_rows,
    count_shown,
    estimate_shown,
    records_shown,
    render_cells,
    share_shown,
)
from dpfast.tables.cell_estimates import CellEstimates
from dpfast.tables.moments import ReleasedSums, moments_of, weighted_shares

#: Width of an interval, as part of the declared range, up to which it lies at an end because of the
#: values.  Wider intervals reach an end by noise alone, and do not warn.
MAX_WIDTH_AT_END = 0.05

AT_AN_END = (
    "means of {column} lie at an end of its declared range in {cells}. Values beyond the range are "
    "clipped to it; if there are any, intervals do not cover the mean of the unclipped values. "
    "Declare a wider range, from public knowledge."
)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CellTable(ByCell):
    """Counts, shares and means by cell.  Holds released numbers only, and no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, counted, suppressed, n_records, privacy
        As in :class:`dpfast.tables.by_cell.ByCell`.
    columns : tuple of str
        Columns whose means are in the table.
    counts, count_noise : ndarray of shape (levels...), float
        Noisy number of records in each cell, maybe negative; standard deviation of the noise.
    least : float
        Cells with a count below it are suppressed: their noise is too large, or a public rule says
        so.
    mean, bse, degrees_of_freedom : ndarray of shape (columns, levels...)
        Mean of each column in its own units; its standard error, from sampling and privacy noise
        together; and the degrees of freedom of that error.  NaN in suppressed cells.
    ranges : ndarray of shape (columns, 2)
        Declared ranges.  Values beyond a range are clipped to it, and so are intervals.
    total, total_error : ndarray of shape (columns, levels...)
        Total of each column in its own units, also of suppressed cells; and its standard error.
    count_error, effective : ndarray of shape (levels...)
        Standard error of each count, with sampling where weights estimate a population; and the
        effective sample size of Kish (1965).
    stated_least : float
        Size below which a public rule suppresses cells.
    sums : ReleasedSums
        The released sums that all of this follows from.
    reconciled : bool
        Whether other tables made the sums more precise.
    warnings : tuple of str
        Whether few records have declared levels, as where these are spelled otherwise, and whether
        means lie at an end of their range.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile([2.0, 5.0], 500)}
    >>> cells = dpfast.tables.means(table, "pay", "sex", schema=schema, privacy=1.0)
    >>> cells.mean.shape, cells.conf_int("pay").shape
    ((1, 2), (2, 2))
    """

    columns: tuple[str, ...]
    mean: Array
    bse: Array
    degrees_of_freedom: Array
    ranges: Array
    total: Array
    total_error: Array
    count_error: Array
    effective: Array
    stated_least: float
    sums: ReleasedSums
    reconciled: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of few records in declared cells, or of means at an end of a range."""
        messages = [*super().warnings]
        for name, (low, high) in zip(self.columns, self.ranges.tolist(), strict=True):
            ends = self.conf_int(name)
            narrow = ends[..., 1] - ends[..., 0] < MAX_WIDTH_AT_END * (high - low)
            open_ends = [end for end in (low, high) if end]  # amounts have nothing below 0
            at = np.isin(ends, open_ends).any(axis=-1)
            cells = int(np.count_nonzero(at & narrow))
            if cells and (low, high) != (0.0, 1.0):  # a share may be all
                where = "all records" if not self.by else f"{cells} of {self.counts.size} cells"
                messages.append(AT_AN_END.format(column=name, cells=where))
        return tuple(messages)

    def conf_int(
        self, column: str | None = None, level: float = 0.95, *, alpha: float | None = None
    ) -> Array:
        """Return confidence intervals of a column's means, or of the counts, shape (levels..., 2).

        Intervals of counts are for these records, so they hold privacy noise alone; with weights
        they are for the population that was sampled, as those of means always are.

        Parameters
        ----------
        column : str, optional
            One of ``columns``; by default the counts.
        """
        level = coverage(level, alpha)
        if column is None:
            ends = t_intervals(level, self.counts, self.count_error, np.array(np.inf))
            return np.clip(ends, 0.0, self._most)
        j = self._place(column)
        ends = t_intervals(level, self.mean[j], self.bse[j], self.degrees_of_freedom[j])
        return np.clip(ends, *self.ranges[j])

    def __getitem__(self, column: str) -> CellEstimates:
        """Return the means of a column, which can be compared: ``cells["pay"].ratio("F")``."""
        j = self._place(column)
        return self._estimates(
            column, "mean", self.mean[j], self.bse[j], tuple(self.ranges[j].tolist()),
            degrees_of_freedom=self.degrees_of_freedom[j],
            dependent=self.sums.clustered,
        )  # fmt: skip

    def totals(self, column: str | None = None) -> CellEstimates:
        """Estimate the total of a column in each cell, or the number of records.

        They are totals of these records, so that intervals hold privacy noise alone.  With weights
        they are totals of the population, and intervals hold sampling, too.

        Parameters
        ----------
        column : str, optional
            One of ``columns``; by default the counts.
        """
        if column is None:
            estimate, error, ends = self.counts, self.count_error, (0.0, self._most)
            name = "count"
        else:
            j, name = self._place(column), "total"
            estimate, error = self.total[j], self.total_error[j]
            low, high = self.ranges[j].tolist()
            ends = (
                min(low * self._most, 0.0) if low else 0.0,
                max(high * self._most, 0.0) if high else 0.0,
            )
        weighted = self.counted == "population"
        return self._estimates(
            column or "", name, np.clip(estimate, *ends), error, ends,
            shared=1.0 / self.n_records if weighted else 0.0,
            dependent=weighted and self.sums.clustered,
        )  # fmt: skip

    def _estimates(
        self,
        column: str,
        statistic: str,
        estimate: Array,
        error: Array,
        limits: tuple[float, float],
        **more: Any,
    ) -> CellEstimates:
        """Return one statistic of the told cells."""
        return CellEstimates(
            column=column,
            statistic=statistic,
            estimate=np.where(self.told, estimate, np.nan),
            bse=np.where(self.told, error, np.nan),
            limits=limits,
            **self._facts(),
            **more,
        )

    def margin(self, by: str | Sequence[str] | None = None) -> CellTable:
        """Add up over all groupings but these; margins of one table add up.

        Parameters
        ----------
        by : str or sequence of str, optional
            Groupings that are kept, in the table's order; by default none, for the total.
        """
        kept = [] if by is None else [by] if isinstance(by, str) else list(by)
        axes = tuple([k for k, name in enumerate(self.by) if name not in kept])
        if len(kept) != len(self.by) - len(axes):
            raise InvalidInput(
                f"by must name groupings of the table, {list(self.by)}; received {described(by)}."
            )
        if self.reconciled:
            raise InvalidInput(
                "margins of a reconciled table are those that reconcile returned beside it; other "
                "margins have less noise than their cells say. Take margins before reconciling."
            )
        facts = {
            "by": tuple([name for name in self.by if name in kept]),
            "levels": tuple([self.levels[self.by.index(n)] for n in self.by if n in kept]),
        }
        return table_of(self.sums.over(axes), self.stated_least, **self._made_of() | facts)

    def reconcile(self, *margins: CellTable) -> tuple[CellTable, ...]:
        """Make this table and margins that were released beside it agree, and more precise.

        Parameters
        ----------
        *margins : CellTable
            Tables of the same columns, records and schema by some of this table's groupings.

        Returns
        -------
        tuple of CellTable
            This table and the margins, in order: cells add up to margins.  All are best linear
            unbiased estimates (generalised least squares) from all sums together.
        """
        from dpfast.tables.reconcile import composed, reconciled

        placed = [(self._axes_of(table), table.sums) for table in margins]
        tables = (self, *margins)
        privacy = composed([table.privacy for table in tables])
        agreeing = reconciled(self.sums, placed)
        return tuple(
            [
                table_of(
                    sums, table.stated_least, **table._made_of() | {"privacy": privacy}
                )._replace(reconciled=True)
                for table, sums in zip(tables, agreeing, strict=True)
            ]
        )

    def _axes_of(self, margin: Any) -> tuple[int, ...]:
        """Return the axes that a margin of this table has; refuse what is none."""
        same = isinstance(margin, CellTable) and all(
            getattr(margin.sums, name) == getattr(self.sums, name)
            for name in ("squared", "counted", "unit", "n_units", "clustered")
        )
        if not same or margin.columns != self.columns or not set(margin.by) <= set(self.by):
            raise InvalidInput(
                f"margins must be tables of the columns {list(self.columns)} by some of "
                f"{list(self.by)}, of the same records with the same declared bound on weights; "
                f"received {described(margin)}."
            )
        axes = tuple([self.by.index(name) for name in margin.by])
        levels = tuple([self.levels[axis] for axis in axes])
        if axes != tuple(sorted(axes)) or levels != margin.levels or margin.reconciled:
            raise InvalidInput(
                "margins must have their groupings in the order of the table, with the same "
                "levels, and be as they were released."
            )
        return axes

    def suppress(self, least: float = 0.0, relative_error: float | None = None) -> CellTable:
        """Hide cells by rules that an office states, beside those that the table has.

        Parameters
        ----------
        least : float
            Cells with a smaller effective sample size are hidden (without weights, the count).
        relative_error : float, optional
            Means and counts whose standard error is more than this part of them hide their cell.
        """
        from dpfast.arguments import positive

        least = positive(least, "least", or_zero=True)
        hidden = self.effective < least
        if relative_error is not None:
            part = positive(relative_error, "relative_error")
            values = np.concatenate([self.counts[None], self.mean])
            errors = np.concatenate([self.count_error[None], self.bse])
            with np.errstate(all="ignore"):
                hidden = hidden | (errors > part * np.abs(values)).any(axis=0)
        if self.suppressed is not None:
            hidden = hidden | np.asarray(self.suppressed, bool)
        shown = self.told & ~hidden
        statistics = {
            name: np.where(shown, getattr(self, name), np.nan)
            for name in ("mean", "bse", "degrees_of_freedom")
        }
        return self._replace(suppressed=hidden, **statistics)

    def _made_of(self) -> dict[str, Any]:
        """Return the public facts that a table of the same release has."""
        names = ("by", "levels", "columns", "ranges", "n_records", "counted", "remarks", "privacy")
        return {name: getattr(self, name) for name in names}

    def shares(self, within: str | None = None) -> tuple[Array, Array]:
        """Estimate shares of the records in all cells, or within each level of a grouping.

        Parameters
        ----------
        within : str, optional
            One of ``by``: shares add up to 1 in each of its levels.

        Returns
        -------
        share, bse : ndarray of shape (levels...)
            Shares and their standard errors, from sampling and privacy noise together; NaN where
            the total is too small.
        """
        axes = list(range(len(self.by)))
        if within is not None:
            if within not in self.by:
                raise InvalidInput(
                    f"within must be one of the groupings {list(self.by)}; received "
                    f"{described(within)}."
                )
            axes.remove(self.by.index(within))
        if self.sums.counted != "records":
            return weighted_shares(self.sums, tuple(axes), self.told)
        denominator = self.counts.sum(axis=tuple(axes), keepdims=True)
        n_others = self.counts.size // denominator.size - 1
        large_enough = denominator >= max(
            self.least, MIN_COUNT_SDS * math.sqrt(n_others + 1.0) * self.count_noise
        )
        with np.errstate(all="ignore"):
            denominator = np.where(large_enough, denominator, np.nan)
            share = clipped = np.clip(self.counts / denominator, 0.0, 1.0)
            noise = self.count_noise**2 * ((1.0 - clipped) ** 2 + n_others * clipped**2)
            error = np.sqrt(clipped * (1.0 - clipped) / denominator + noise / denominator**2)
        return share, error

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell: levels, count, share, and the mean of each column by its name."""
        columns = self._level_columns()
        low, high = np.moveaxis(self.conf_int(level=level), -1, 0)
        share, error = self.shares()
        numbers = {"count": self.possible_counts, "count_conf_low": low, "count_conf_high": high}
        numbers |= {"share": share, "share_std_error": error}
        for j, name in enumerate(self.columns):
            low, high = np.moveaxis(self.conf_int(name, level), -1, 0)
            numbers |= {name: self.mean[j], f"{name}_std_error": self.bse[j]}
            numbers |= {f"{name}_conf_low": low, f"{name}_conf_high": high}
        return columns | {name: values.ravel() for name, values in numbers.items()}

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return the table and the budget spent, as text with forms for notebooks and papers."""
        level = coverage(level, alpha)
        if not self.columns:
            share, error = self.shares()
            low, high = np.moveaxis(self.conf_int(level=level), -1, 0)
            rows = [
                (label, (*count_shown(self, k, low[k], high[k]), *share_shown(share[k], error[k])))
                for label, k in cell_rows(self)
            ]
            headings = ("count", *end_headings(level), "share", "std err")
            return render_cells(self, "counts by cell", headings, rows)
        intervals = [self.conf_int(name, level) for name in self.columns]
        estimates = list(zip(self.columns, self.mean, self.bse, intervals, strict=True))
        several = len(estimates) > 1
        rows = [
            (
                f"{label}: {name}" if several else label,
                (records_shown(self, k), *estimate_shown(mean[k], error[k], *ends[k])),
            )
            for label, k in cell_rows(self)
            for name, mean, error, ends in estimates
        ]
        title = "means by cell" if several else f"means of {self.columns[0]}"
        return render_cells(self, title, ("count", "mean", "std err", *end_headings(level)), rows)

    def _place(self, column: Any) -> int:
        if not isinstance(column, str) or column not in self.columns:
            raise InvalidInput(
                f"column must be one of {list(self.columns)}, or None for the counts; received "
                f"{described(column)}."
            )
        return self.columns.index(column)


def table_of(
    sums: ReleasedSums, least: float, *, ranges: Array, columns: tuple[str, ...], **facts: Any
) -> CellTable:
    """Make the table of released sums, with small cells suppressed."""
    low, high = ranges.T
    middles, halves = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    moments = moments_of(sums, middles, halves)
    weighted = sums.counted == "population"
    with np.errstate(all="ignore"):
        effective = moments.counts**2 / moments.squares if weighted else moments.counts
    threshold = max(0.0 if weighted else least, MIN_COUNT_SDS * moments.count_noise)
    hidden = ~(effective >= least) if weighted else None
    shown = moments.counts >= threshold
    if hidden is not None:
        shown = shown & ~hidden
    across = (-1, *[1] * moments.counts.ndim)
    middle, half = middles.reshape(across), halves.reshape(across)
    mean = np.clip(middle + half * moments.mean, middle - half, middle + half)
    return CellTable(
        columns=columns,
        ranges=ranges,
        counts=moments.counts,
        count_noise=float(moments.count_noise),
        least=threshold,
        suppressed=hidden,
        mean=np.where(shown, mean, np.nan),
        bse=np.where(shown, half * moments.bse, np.nan),
        degrees_of_freedom=np.where(shown, moments.degrees, np.nan),
        total=moments.totals,
        total_error=moments.total_error,
        count_error=moments.count_error,
        effective=effective,
        stated_least=least,
        sums=sums,
        **facts,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class QuantileTable(FixedLevel, ByCell):
    """Quantiles by cell, with intervals.  Holds released numbers only, and no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, counted, suppressed, n_records, privacy
        As in :class:`dpfast.tables.by_cell.ByCell`.
    column, probabilities : str, tuple of float
        The column, and the probabilities of its quantiles.
    quantile, low, high : ndarray of shape (probabilities, levels...)
        Quantiles in the column's own units, and the ends of their intervals; NaN in suppressed
        cells.
    level : float
        Nominal coverage of the intervals, fixed before the search.
    warnings : tuple of str
        Whether few records have declared levels.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile(np.linspace(0.0, 9.0, 500), 2)}
    >>> medians = dpfast.tables.quantiles(table, "pay", "sex", schema=schema, privacy=1.0)
    >>> medians.probabilities, medians.quantile.shape
    ((0.5,), (1, 2))
    """

    column: str
    probabilities: tuple[float, ...]
    quantile: Array
    low: Array
    high: Array
    level: float

    @property
    def _named_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell and probability."""
        index = self._level_columns(("probability", self.probabilities))
        estimates = {"estimate": self.quantile, "conf_low": self.low, "conf_high": self.high}
        return {
            **{name: index[name] for name in self.by},
            "count": np.repeat(self.possible_counts.ravel(), len(self.probabilities)),
            "probability": index["probability"],
            **{name: np.moveaxis(v, 0, -1).ravel() for name, v in estimates.items()},
        }

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the table and the budget spent, as text with forms for notebooks and papers."""
        rows = []
        for label, k in cell_rows(self):
            for j, p in enumerate(self.probabilities):
                values = [
                    float(estimates[j][k]) for estimates in (self.quantile, self.low, self.high)
                ]
                error = (values[2] - values[1]) / 4.0
                numbers = by_error(values, error) if math.isfinite(error) else [TOO_SMALL, "", ""]
                rows.append((label, (records_shown(self, k), f"{p:g}", *numbers)))
        headings = ("count", "share", "quantile", *end_headings(self.level))
        return render_cells(self, f"quantiles of {self.column}", headings, rows)
