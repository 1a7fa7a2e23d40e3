"""The results of tables by cell: released numbers, their errors, and what is too small to say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput, described
from dpfast.fit_requests.plain import plain_fields
from dpfast.inference.degrees import coverage, t_half_widths
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import by_error, printable, short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.regression.standardise import cell_remarks

Array = NDArray[np.float64]

#: A count is told if it is so many standard deviations of its noise, and means are made of it.
SEEN = 4.0

#: Part of a declared range up to which an interval at its end is no matter of noise.
NARROW = 0.05

AT_AN_END = (
    "means of {column} lie at an end of its declared range in {cells}: values beyond it count as "
    "the end, and if there are any, intervals do not cover the mean of the column as it is. "
    "Declare a wider range, from public knowledge."
)

#: What stands in place of a number that is hidden by noise, or by a rule.
TOO_SMALL = "too small"


class CellTable(NamedTuple):
    """Counts, shares and means by cell.  Holds no records, and released numbers only.

    Attributes
    ----------
    by, levels : tuple
        The groupings, an axis of every array for each, and their declared levels.
    columns : tuple of str
        What the means are of.
    counts, count_noise : ndarray of shape (levels...), float
        Records in each cell, as released: with noise, of this standard deviation, so that one may
        be negative.
    least : float
        Cells whose count is below it are too small to say more of: their noise is too large, or a
        public rule says so.
    mean, bse, degrees_of_freedom : ndarray of shape (columns, levels...)
        Mean of each column in its own units, its standard error, sampling and privacy noise
        together, and how well that is known; NaN in cells too small to say.
    ranges : ndarray of shape (columns, 2)
        Declared, and the ends of what an interval can be; values beyond count as these.
    warnings : tuple of str
        Whether few records have what was declared, as where levels are spelled otherwise, and
        whether means lie at an end, so that values may lie beyond it.
    n_records : int
    privacy : Guarantee

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile([2.0, 5.0], 500)}
    >>> found = dpfast.tables.means(table, "pay", "sex", schema=schema, privacy=1.0)
    >>> found.mean.shape, found.conf_int("pay").shape
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
        """Which cells are large enough to say more of than that, of the shape of ``counts``."""
        return np.asarray(self.counts >= self.least)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was declared may not be what there is, as far as released numbers tell."""
        found = [*_unmatched(self, self.columns)]
        for name, (low, high) in zip(self.columns, self.ranges.tolist(), strict=True):
            ends = self.conf_int(name)
            narrow = ends[..., 1] - ends[..., 0] < NARROW * (high - low)
            open_ends = [end for end in (low, high) if end]  # amounts have nothing below 0
            at = np.isin(ends, open_ends).any(axis=-1)
            cells = int(np.count_nonzero(at & narrow))
            if cells and (low, high) != (0.0, 1.0):  # a share may be all
                many = "all records" if not self.by else f"{cells} of {self.counts.size} cells"
                found.append(AT_AN_END.format(column=name, cells=many))
        return tuple(found)

    def conf_int(
        self, column: str | None = None, level: float = 0.95, *, alpha: float | None = None
    ) -> Array:
        """Confidence intervals of the means of a column, or of the counts, shape (levels..., 2).

        Those of counts are about these records, so privacy noise is all there is in them; those of
        means are about the population that they are a sample of.

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
        """Shares of the records in any cell, or of those in a level of a grouping.

        Parameters
        ----------
        within : str, optional
            One of ``by``: shares add up to 1 in each of its levels.

        Returns
        -------
        share, bse : ndarray of shape (levels...)
            With standard errors, sampling and privacy noise together; NaN where the whole is too
            small to say.
        """
        axes = list(range(len(self.by)))
        if within is not None:
            if within not in self.by:
                raise InvalidInput(
                    f"within must be one of the groupings {list(self.by)}; received "
                    f"{described(within)}."
                )
            axes.remove(self.by.index(within))
        whole = self.counts.sum(axis=tuple(axes), keepdims=True)
        others = self.counts.size // whole.size - 1
        seen = whole >= max(self.least, SEEN * math.sqrt(others + 1.0) * self.count_noise)
        with np.errstate(all="ignore"):
            whole = np.where(seen, whole, np.nan)
            share = held = np.clip(self.counts / whole, 0.0, 1.0)
            noise = self.count_noise**2 * ((1.0 - held) ** 2 + others * held**2)
            error = np.sqrt(held * (1.0 - held) / whole + noise / whole**2)
        return share, error

    def to_frame(self, level: float = 0.95, *, alpha: float | None = None) -> Any:
        """One row for each cell, with everything that was released.

        Returns
        -------
        pandas.DataFrame
            The levels; ``count`` with ``count_low`` and ``count_high``, ``share`` with
            ``share_std_err``; and of each column its mean under its own name, with ``_std_err``,
            ``_low`` and ``_high``.  Missing where a cell is too small to say.
        """
        from pandas import DataFrame

        level = coverage(level, alpha)
        cells = list(itertools.product(*self.levels))
        levels: dict[str, Any] = {
            name: [cell[k] for cell in cells] for k, name in enumerate(self.by)
        }
        low, high = np.moveaxis(self.conf_int(level=level), -1, 0)
        share, error = self.shares()
        found = {"count": self.counts, "count_low": low, "count_high": high}
        found |= {"share": share, "share_std_err": error}
        for j, name in enumerate(self.columns):
            low, high = np.moveaxis(self.conf_int(name, level), -1, 0)
            found |= {name: self.mean[j], f"{name}_std_err": self.bse[j]}
            found |= {f"{name}_low": low, f"{name}_high": high}
        return DataFrame(levels | {name: values.ravel() for name, values in found.items()})

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """The table and what it cost: text, and for notebooks and papers other forms."""
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
        many = len(estimates) > 1
        rows = [
            (
                f"{label}: {name}" if many else label,
                (_number_of_records(self, k), *_estimate(mean[k], error[k], *ends[k])),
            )
            for label, k in _rows(self)
            for name, mean, error, ends in estimates
        ]
        what = "means by cell" if many else f"means of {self.columns[0]}"
        return _shown(self, what, ("count", "mean", "std err", *_ends(level)), rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything published, as plain Python values (for JSON)."""
        return plain_fields(self._asdict())

    def _place(self, column: Any) -> int:
        if not isinstance(column, str) or column not in self.columns:
            raise InvalidInput(
                f"column must be one of {list(self.columns)}, or None for the counts; received "
                f"{described(column)}."
            )
        return self.columns.index(column)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return f"<CellTable {_called(self)}; {self.privacy.headline}>"


class QuantileTable(NamedTuple):
    """Quantiles by cell, with intervals.  Holds no records, and released numbers only.

    Attributes
    ----------
    by, levels, counts, count_noise, least, n_records, privacy
        As of :class:`CellTable`.
    column, probabilities : str, tuple of float
        What the quantiles are of, and which.
    quantile, low, high : ndarray of shape (probabilities, levels...)
        In the column's own units, with the ends of intervals; NaN in cells too small to say.
    level : float
        Nominal coverage of the intervals, chosen before: other ends are other questions.
    warnings : tuple of str
        Whether few records have what was declared.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 500), "pay": np.tile(np.linspace(0.0, 9.0, 500), 2)}
    >>> found = dpfast.tables.quantiles(table, "pay", "sex", schema=schema, privacy=1.0)
    >>> found.probabilities, found.quantile.shape
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
        """Which cells are large enough to say more of than that, of the shape of ``counts``."""
        return np.asarray(self.counts >= self.least)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was declared may not be what there is, as far as released counts tell."""
        return _unmatched(self, (self.column,))

    def to_frame(self) -> Any:
        """One row for each cell and probability.

        Returns
        -------
        pandas.DataFrame
            The levels, ``count``, ``probability``, ``quantile``, ``low`` and ``high``.
        """
        from pandas import DataFrame

        cells = list(itertools.product(*self.levels, self.probabilities))
        named = (*self.by, "probability")
        found: dict[str, Any] = {name: [cell[k] for cell in cells] for k, name in enumerate(named)}
        many = len(self.probabilities)
        counts = {"count": np.repeat(self.counts.ravel(), many)}
        ends = {
            name: np.moveaxis(getattr(self, name), 0, -1).ravel()
            for name in ("quantile", "low", "high")
        }
        levels = {name: found[name] for name in self.by}
        return DataFrame(levels | counts | {"probability": found["probability"]} | ends)

    def summary(self) -> Summary:
        """The table and what it cost: text, and for notebooks and papers other forms."""
        rows = []
        for label, k in _rows(self):
            for j, p in enumerate(self.probabilities):
                found = [float(some[j][k]) for some in (self.quantile, self.low, self.high)]
                error = (found[2] - found[1]) / 4.0
                numbers = by_error(found, error) if math.isfinite(error) else [TOO_SMALL, "", ""]
                rows.append((label, (_number_of_records(self, k), f"{p:g}", *numbers)))
        headings = ("count", "share", "quantile", *_ends(self.level))
        return _shown(self, f"quantiles of {self.column}", headings, rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything published, as plain Python values (for JSON)."""
        return plain_fields(self._asdict())

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return f"<QuantileTable {_called(self)}; {self.privacy.headline}>"


# ---- how they are shown --------------------------------------------------------------------------


def _rows(table: CellTable | QuantileTable) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The name of each cell and its place."""
    for place in itertools.product(*[range(len(some)) for some in table.levels]):
        names = [str(some[k]) or '""' for some, k in zip(table.levels, place, strict=True)]
        yield ", ".join(names) or "all records", place


def _shown(
    table: CellTable | QuantileTable,
    what: str,
    headings: tuple[str, ...],
    rows: Iterable[tuple[str, tuple[str, ...]]],
) -> Summary:
    groupings = zip(table.by, table.levels, strict=True)
    facts = [
        ("Cells", " x ".join(f"{name} ({len(some)})" for name, some in groupings) or "one"),
        ("Records", str(table.n_records)),
        ("Counts", f"noise with a standard deviation of {short_number(table.count_noise)}"),
    ]
    hidden = int(np.count_nonzero(~table.told))
    told = f"Fewer than {math.ceil(table.least)} records are too few to say more of."
    return render_table(
        f"dpfast: private {printable(what)}", facts, headings, rows, table.privacy, table.warnings,
        told if hidden else "",
    )  # fmt: skip


def _unmatched(table: CellTable | QuantileTable, columns: tuple[str, ...]) -> tuple[str, ...]:
    """That few records are in any cell, from released counts."""
    names = (*table.by, *columns)
    return cell_remarks(table.counts, table.count_noise, table.n_records, names)


def _ends(level: float) -> tuple[str, str]:
    tail = (1.0 - level) / 2.0
    return f"[{tail:.4g}", f"{1.0 - tail:.4g}]"


def _count(table: CellTable, k: tuple[int, ...], low: float, high: float) -> tuple[str, ...]:
    if not table.told[k]:
        return TOO_SMALL, "0", f"{max(high, table.least):.0f}"
    return f"{table.counts[k]:.0f}", f"{low:.0f}", f"{high:.0f}"


def _number_of_records(table: CellTable | QuantileTable, k: tuple[int, ...]) -> str:
    return f"{table.counts[k]:.0f}" if table.told[k] else TOO_SMALL


def _share(share: float, error: float) -> tuple[str, str]:
    if not math.isfinite(error):
        return TOO_SMALL, ""
    return f"{max(share, 0.0):.4f}", f"{error:.4f}"


def _estimate(value: float, error: float, low: float, high: float) -> tuple[str, ...]:
    if not math.isfinite(error):
        return TOO_SMALL, "", "", ""
    return tuple(by_error([float(value), float(error), float(low), float(high)], float(error)))


def _called(table: CellTable | QuantileTable) -> str:
    cells = f"{table.counts.size} cells" if table.by else "one cell"
    return f"of {cells}, {table.n_records} records"


def normal_half_width(level: float) -> float:
    """Of an interval whose noise is known, in its standard deviations."""
    return float(t_half_widths(level, np.array([np.inf]))[0])
