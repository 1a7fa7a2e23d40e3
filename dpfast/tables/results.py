"""Results of tables by cell: noisy counts, means and quantiles with their errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described
from dpfast.inference.base import FixedLevel, Result
from dpfast.inference.degrees import coverage, t_half_widths
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import by_error, printable, short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.scaling.remarks import cell_remarks

Array = NDArray[np.float64]

#: Cells with a count below so many standard deviations of its noise are suppressed.  Below, the
#: denominator of a mean could be mostly noise; above, small cells would be suppressed needlessly.
MIN_COUNT_SDS = 4.0

#: Width of an interval, as part of the declared range, up to which it lies at an end because of the
#: values.  Wider intervals reach an end by noise alone, and do not warn.
MAX_WIDTH_AT_END = 0.05

AT_AN_END = (
    "means of {column} lie at an end of its declared range in {cells}. Values beyond the range are "
    "clipped to it; if there are any, intervals do not cover the mean of the unclipped values. "
    "Declare a wider range, from public knowledge."
)

#: Shown in place of the count of a suppressed cell.
TOO_SMALL = "too small"


@dataclass(frozen=True, eq=False, repr=False)
class CellTable(Result):
    """Counts, shares and means by cell.  Holds released numbers only, and no records.

    Attributes
    ----------
    by, levels : tuple
        The groupings, an axis of every array for each, and their declared levels.
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
    warnings : tuple of str
        Whether few records have declared levels, as where these are spelled otherwise, and whether
        means lie at an end of their range.
    n_records : int
    privacy : Guarantee

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

    by: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    columns: tuple[str, ...]
    counts: Array
    count_noise: float
    least: float
    mean: Array
    bse: Array
    degrees_of_freedom: Array
    ranges: Array
    n_records: int
    privacy: Guarantee

    @property
    def told(self) -> NDArray[np.bool_]:
        """True for cells that are not suppressed, in the shape of ``counts``."""
        return np.asarray(self.counts >= self.least)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of few records in declared cells, or of means at an end of a range."""
        messages = [*_unmatched(self, self.columns)]
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

        Intervals of counts are for these records, so they hold privacy noise alone.  Intervals of
        means are for the population that was sampled.

        Parameters
        ----------
        column : str, optional
            One of ``columns``; by default the counts.
        """
        level = coverage(level, alpha)
        if column is None:
            half = normal_half_width(level) * self.count_noise
            ends = np.stack([self.counts - half, self.counts + half], axis=-1)
            return np.clip(ends, 0.0, float(self.n_records))
        j = self._place(column)
        half = t_half_widths(level, self.degrees_of_freedom[j]) * self.bse[j]
        ends = np.stack([self.mean[j] - half, self.mean[j] + half], axis=-1)
        return np.clip(ends, *self.ranges[j])

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
        cells = list(itertools.product(*self.levels))
        columns: dict[str, Any] = {
            name: [cell[k] for cell in cells] for k, name in enumerate(self.by)
        }
        low, high = np.moveaxis(self.conf_int(level=level), -1, 0)
        share, error = self.shares()
        numbers = {"count": self.counts, "count_conf_low": low, "count_conf_high": high}
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
                (label, (*_count(self, k, low[k], high[k]), *_share(share[k], error[k])))
                for label, k in _rows(self)
            ]
            headings = ("count", *_ends(level), "share", "std err")
            return _shown(self, "counts by cell", headings, rows)
        intervals = [self.conf_int(name, level) for name in self.columns]
        estimates = list(zip(self.columns, self.mean, self.bse, intervals, strict=True))
        several = len(estimates) > 1
        rows = [
            (
                f"{label}: {name}" if several else label,
                (_number_of_records(self, k), *_estimate(mean[k], error[k], *ends[k])),
            )
            for label, k in _rows(self)
            for name, mean, error, ends in estimates
        ]
        title = "means by cell" if several else f"means of {self.columns[0]}"
        return _shown(self, title, ("count", "mean", "std err", *_ends(level)), rows)

    def _place(self, column: Any) -> int:
        if not isinstance(column, str) or column not in self.columns:
            raise InvalidInput(
                f"column must be one of {list(self.columns)}, or None for the counts; received "
                f"{described(column)}."
            )
        return self.columns.index(column)


@dataclass(frozen=True, eq=False, repr=False)
class QuantileTable(FixedLevel):
    """Quantiles by cell, with intervals.  Holds released numbers only, and no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, n_records, privacy
        As in :class:`CellTable`.
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

    by: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    column: str
    probabilities: tuple[float, ...]
    counts: Array
    count_noise: float
    least: float
    quantile: Array
    low: Array
    high: Array
    level: float
    n_records: int
    privacy: Guarantee

    @property
    def told(self) -> NDArray[np.bool_]:
        """True for cells that are not suppressed, in the shape of ``counts``."""
        return np.asarray(self.counts >= self.least)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warning of few records in declared cells, from released counts."""
        return _unmatched(self, (self.column,))

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell and probability."""
        cells = list(itertools.product(*self.levels, self.probabilities))
        index_names = (*self.by, "probability")
        index: dict[str, Any] = {
            name: [cell[k] for cell in cells] for k, name in enumerate(index_names)
        }
        estimates = {"estimate": self.quantile, "conf_low": self.low, "conf_high": self.high}
        return {
            **{name: index[name] for name in self.by},
            "count": np.repeat(self.counts.ravel(), len(self.probabilities)),
            "probability": index["probability"],
            **{name: np.moveaxis(v, 0, -1).ravel() for name, v in estimates.items()},
        }

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the table and the budget spent, as text with forms for notebooks and papers."""
        rows = []
        for label, k in _rows(self):
            for j, p in enumerate(self.probabilities):
                values = [
                    float(estimates[j][k]) for estimates in (self.quantile, self.low, self.high)
                ]
                error = (values[2] - values[1]) / 4.0
                numbers = by_error(values, error) if math.isfinite(error) else [TOO_SMALL, "", ""]
                rows.append((label, (_number_of_records(self, k), f"{p:g}", *numbers)))
        headings = ("count", "share", "quantile", *_ends(self.level))
        return _shown(self, f"quantiles of {self.column}", headings, rows)


@dataclass(frozen=True, eq=False, repr=False)
class CellEstimates(Result):
    """One statistic of a column by cell, with standard errors.  Holds no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, n_records, privacy
        As in :class:`CellTable`.
    column, statistic : str
    estimate, bse : ndarray of shape (levels...)
        The estimates, and their standard errors from sampling and privacy noise together; NaN in
        suppressed cells.
    limits : tuple of float
        Smallest and largest possible values, to which intervals are clipped.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9)})
    >>> table = {"pay": np.linspace(0.0, 9.0, 4000)}
    >>> pay = dpfast.tables.distribution(table, "pay", schema=schema, privacy=2.0)
    >>> low, high = pay.top_share(0.1).conf_int()
    >>> bool(low < 0.19 < high)
    True
    """

    by: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    column: str
    statistic: str
    counts: Array
    count_noise: float
    least: float
    estimate: Array
    bse: Array
    limits: tuple[float, float]
    n_records: int
    privacy: Guarantee

    @property
    def told(self) -> NDArray[np.bool_]:
        """True for cells that are not suppressed, in the shape of ``counts``."""
        return np.asarray(self.counts >= self.least)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warning of few records in declared cells, from released counts."""
        return _unmatched(self, (self.column,))

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return confidence intervals, shape (levels..., 2)."""
        half = normal_half_width(coverage(level, alpha)) * self.bse
        ends = np.stack([self.estimate - half, self.estimate + half], axis=-1)
        return np.clip(ends, *self.limits)

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell."""
        cells = list(itertools.product(*self.levels))
        low, high = np.moveaxis(self.conf_int(level), -1, 0)
        numbers = {"count": self.counts, "estimate": self.estimate, "std_error": self.bse}
        numbers |= {"conf_low": low, "conf_high": high}
        levels: dict[str, Any] = {
            name: [cell[k] for cell in cells] for k, name in enumerate(self.by)
        }
        statistic = [self.statistic] * len(cells)
        values = {name: array.ravel() for name, array in numbers.items()}
        return levels | {"column": [self.column] * len(cells), "term": statistic} | values

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return the table and the budget spent, as text with forms for notebooks and papers."""
        level = coverage(level, alpha)
        ends = self.conf_int(level)
        rows = [
            (
                label,
                (_number_of_records(self, k), *_estimate(self.estimate[k], self.bse[k], *ends[k])),
            )
            for label, k in _rows(self)
        ]
        headings = ("count", "estimate", "std err", *_ends(level))
        return _shown(self, f"{self.statistic} of {self.column}", headings, rows)


# ---- rendering --------------------------------------------------------------------------


AnyTable = CellTable | QuantileTable | CellEstimates


def _rows(table: AnyTable) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Iterate over cells: the label of each and its index."""
    for cell in itertools.product(*[range(len(level_values)) for level_values in table.levels]):
        names = [
            str(level_values[k]) or '""' for level_values, k in zip(table.levels, cell, strict=True)
        ]
        yield ", ".join(names) or "all records", cell


def _shown(
    table: AnyTable,
    title: str,
    headings: tuple[str, ...],
    rows: Iterable[tuple[str, tuple[str, ...]]],
) -> Summary:
    groupings = zip(table.by, table.levels, strict=True)
    facts = [
        ("Cells", " x ".join(f"{name} ({len(values)})" for name, values in groupings) or "one"),
        ("Records", str(table.n_records)),
        ("Counts", f"with noise of standard deviation {short_number(table.count_noise)}"),
    ]
    n_suppressed = int(np.count_nonzero(~table.told))
    note = f"Cells under {math.ceil(table.least)} records are suppressed."
    return render_table(
        f"dpfast: private {printable(title)}", facts, headings, rows, table.privacy, table.warnings,
        note if n_suppressed else "",
    )  # fmt: skip


def _unmatched(table: AnyTable, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Warn of few records in any cell, from released counts."""
    names = (*table.by, *columns)
    return cell_remarks(table.counts, table.count_noise, table.n_records, names)


def _ends(level: float) -> tuple[str, str]:
    tail = (1.0 - level) / 2.0
    return f"[{tail:.4g}", f"{1.0 - tail:.4g}]"


def _count(table: CellTable, k: tuple[int, ...], low: float, high: float) -> tuple[str, ...]:
    if not table.told[k]:
        return TOO_SMALL, "0", f"{max(high, table.least):.0f}"
    return f"{table.counts[k]:.0f}", f"{low:.0f}", f"{high:.0f}"


def _number_of_records(table: AnyTable, k: tuple[int, ...]) -> str:
    return f"{table.counts[k]:.0f}" if table.told[k] else TOO_SMALL


def _share(share: float, error: float) -> tuple[str, str]:
    if not math.isfinite(error):
        return TOO_SMALL, ""
    return f"{max(share, 0.0):.4f}", f"{error:.4f}"


def _estimate(value: float, error: float, low: float, high: float) -> tuple[str, ...]:
    if not math.isfinite(error):
        return TOO_SMALL, "", "", ""
    return tuple(by_error([float(value), float(error), float(low), float(high)], float(error)))


def normal_half_width(level: float) -> float:
    """Return the half width of a normal interval, in standard deviations."""
    return float(t_half_widths(level, np.array([np.inf]))[0])
