"""One statistic by cell, with errors; differences and ratios of cells, or of two tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, flag, positive
from dpfast.errors import InvalidInput, described
from dpfast.inference.degrees import coverage, t_half_widths, t_pvalues
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import end_headings
from dpfast.tables.by_cell import (
    ByCell,
    cell_rows,
    estimate_shown,
    records_shown,
    render_cells,
)

#: Statistics that are means of those of strata.
MEAN_OR_SHARE = re.compile(r"mean|share up to \S+")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CellEstimates(ByCell):
    """One statistic of a column by cell, with standard errors.  Holds no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, counted, suppressed, n_records, privacy
        As in :class:`dpfast.tables.by_cell.ByCell`.
    column, statistic : str
    estimate, bse : ndarray of shape (levels...)
        The estimates, and their standard errors from sampling and privacy noise together; NaN in
        suppressed cells.
    limits : tuple of float
        Smallest and largest possible values, to which estimates and intervals are clipped.
    degrees_of_freedom : ndarray, optional
        Of the standard errors; by default they are as good as known.
    shared : float
        The covariance of two cells is minus this times both estimates: one over n for totals of a
        sample of n, and zero where cells are independent.
    dependent : bool
        Whether a person may be in several cells, so that nothing is known of the covariance.
    ratio_of : tuple of ndarray, optional
        Of a ratio: numerator, denominator, their variances and their covariance.
    null : float, optional
        Of a difference or a ratio: the value that is tested, 0 or 1.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9), "sex": dpfast.Categorical(["F", "M"])})
    >>> table = {"pay": np.linspace(0.0, 9.0, 4000), "sex": np.repeat(["F", "M"], 2000)}
    >>> pay = dpfast.tables.distribution(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> gap = pay.mean().difference("F")
    >>> low, high = gap.conf_int()[1]
    >>> bool(low < 4.5 < high), bool(gap.pvalues[1] < 0.001)
    (True, True)
    """

    column: str
    statistic: str
    estimate: Array
    bse: Array
    limits: tuple[float, float]
    degrees_of_freedom: Any = None
    shared: float = 0.0
    dependent: bool = False
    ratio_of: Any = None
    null: float | None = None

    @property
    def _named_columns(self) -> tuple[str, ...]:
        return (self.column,) if self.column else ()

    @property
    def _degrees(self) -> Array:
        known = self.degrees_of_freedom is None
        return np.full(self.estimate.shape, math.inf) if known else self.degrees_of_freedom

    @property
    def tvalues(self) -> Array:
        """Estimates less the tested value, in standard errors; of ratios by Fieller's test."""
        null = self._tested_value()
        with np.errstate(all="ignore"):
            if self.ratio_of is None:
                return np.asarray((self.estimate - null) / self.bse)
            numerator, denominator, *covariances = self.ratio_of
            error = np.sqrt(_variance_of_excess(null, *covariances))
            return np.asarray((numerator - null * denominator) / error)

    @property
    def pvalues(self) -> Array:
        """Two-sided p-values of a difference of 0, or a ratio of 1."""
        return np.asarray(t_pvalues(self.tvalues, self._degrees))

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Array:
        """Return confidence intervals, shape (levels..., 2); of ratios those of Fieller (1954).

        The interval of a ratio is unbounded where its denominator may be zero.
        """
        t = t_half_widths(coverage(level, alpha), self._degrees)
        if self.ratio_of is not None:
            return np.clip(_fieller(t, *self.ratio_of), *self.limits)
        half = t * self.bse
        ends = np.stack([self.estimate - half, self.estimate + half], axis=-1)
        return np.clip(ends, *self.limits)

    def difference(self, reference: Any) -> CellEstimates:
        """Subtract a reference cell, or the same cells of another table, and test for 0.

        Parameters
        ----------
        reference : level, tuple, mapping or CellEstimates
            A cell by its level (one grouping) or levels; or ``{"year": 2020}`` for the cells that
            differ in that grouping alone; or the same statistic of another table, as of another
            year, whose records are other ones.

        Returns
        -------
        CellEstimates
            The differences, with ``tvalues`` and ``pvalues``.  Of records that are in both, errors
            are too large rather than too small if they are alike.
        """
        other, covariance, same, name = self._reference(reference)
        with np.errstate(all="ignore"):
            variance = self.bse**2 + other.bse**2 - 2.0 * covariance
            error = np.where(same, 0.0, np.sqrt(np.maximum(variance, 0.0)))
        width = self.limits[1] - self.limits[0]
        estimate = np.where(same & np.isfinite(self.bse), 0.0, self.estimate - other.estimate)
        return self._compared(
            other, f"{self.statistic} less {name}", estimate, np.where(same, np.nan, error),
            limits=(-width, width), null=0.0, ratio_of=None,
        )  # fmt: skip

    def ratio(self, reference: Any) -> CellEstimates:
        """Divide by a reference cell, or by the same cells of another table, and test for 1.

        Parameters
        ----------
        reference : level, tuple, mapping or CellEstimates
            As for :meth:`difference`.

        Returns
        -------
        CellEstimates
            Ratios with Fieller's intervals, ``tvalues`` and ``pvalues``.
        """
        other, covariance, same, name = self._reference(reference)
        parts = self.estimate, other.estimate, self.bse**2, other.bse**2, covariance
        with np.errstate(all="ignore"):
            ratio = self.estimate / other.estimate
            error = np.sqrt(_variance_of_excess(ratio, *parts[2:])) / np.abs(other.estimate)
        error = np.where(same, np.nan, error)
        known = tuple([np.where(same, np.nan, part) for part in parts])
        lowest = 0.0 if self.limits[0] >= 0.0 else -math.inf
        return self._compared(
            other, f"{self.statistic} over {name}", ratio, error, limits=(lowest, math.inf),
            null=1.0, ratio_of=known,
        )  # fmt: skip

    def poststratified(
        self, strata: str, sizes: Mapping[Any, float], *, total: bool = False
    ) -> CellEstimates:
        """Weight the levels of a grouping by public sizes of the population, as its strata.

        This is the stratified estimator (Cochran 1977, chapter 5): its variance is the sum of those
        within strata, and weights within a stratum play no part if they are equal.  With further
        groupings all cells have the same sizes, which is direct standardisation.

        Parameters
        ----------
        strata : str
            One of ``by``.
        sizes : mapping of level to float
            Size of the population in each of its levels; public.
        total : bool
            Return totals: the mean times the sum of the sizes.

        Returns
        -------
        CellEstimates
            By the other groupings; NaN where a stratum is suppressed.  Finite population
            corrections are left out, so that intervals are too wide rather than too narrow.

        Examples
        --------
        >>> size = dpfast.Categorical(["small", "large"])
        >>> schema = dpfast.Schema({"size": size, "pay": dpfast.Numeric(0, 9)})
        >>> pay = np.repeat([2.0, 6.0], 2000)
        >>> table = {"size": np.repeat(["small", "large"], 2000), "pay": pay}
        >>> cells = dpfast.tables.means(table, "pay", "size", schema=schema, privacy=2.0)
        >>> of_all = cells["pay"].poststratified("size", {"small": 9e5, "large": 1e5})
        >>> bool(abs(of_all.estimate - 2.4) < 0.1)
        True
        """
        axis, sizes_by_level = self._strata(strata, sizes)
        whole = float(sizes_by_level.sum())
        shape = [-1 if k == axis else 1 for k in range(self.counts.ndim)]
        part = (sizes_by_level / whole).reshape(shape)
        used = part > 0.0
        with np.errstate(all="ignore"):
            estimate = np.where(used, part * self.estimate, 0.0).sum(axis=axis)
            errors = np.where(used, part * self.bse, 0.0)
            squares = errors**2
            variance = squares.sum(axis=axis)
            if self.dependent:  # the least favourable covariances
                variance = errors.sum(axis=axis) ** 2
            # Satterthwaite (1946)
            scatter = np.where(used, squares**2 / self._degrees, 0.0).sum(axis=axis)
            degrees = squares.sum(axis=axis) ** 2 / np.maximum(scatter, 1e-300)
        times = whole if flag(total, "total") else 1.0
        kept = [k for k in range(len(self.by)) if k != axis]
        return self._replace(
            statistic=f"stratified {'total' if total else self.statistic}",
            by=tuple([self.by[k] for k in kept]),
            levels=tuple([self.levels[k] for k in kept]),
            counts=self.counts.sum(axis=axis),
            count_noise=self.count_noise * math.sqrt(self.counts.shape[axis]),
            suppressed=(used & ~self.told).any(axis=axis),
            estimate=times * estimate,
            bse=times * np.sqrt(variance),
            degrees_of_freedom=degrees,
            limits=(times * self.limits[0], times * self.limits[1]),
        )

    def _strata(self, strata: Any, sizes: Any) -> tuple[int, Array]:
        """Return the axis of a grouping, and the public size of each of its levels."""
        if self.null is not None or not MEAN_OR_SHARE.fullmatch(self.statistic):
            raise InvalidInput(
                f"a {self.statistic} of all is no mean of those of strata. Means and shares up to "
                "a line are: cells[column], or .share_below(line) of a distribution."
            )
        if not isinstance(strata, str) or strata not in self.by:
            raise InvalidInput(
                f"strata must be a grouping of the table, one of {list(self.by)}; received "
                f"{described(strata, text=True)}."
            )
        axis = self.by.index(strata)
        levels = self.levels[axis]
        if not isinstance(sizes, Mapping) or {*sizes} != {*levels}:
            raise InvalidInput(
                f"sizes must be a mapping with the size of each of {list(levels)}; received "
                f"{described(sizes)}."
            )
        numbers = [positive(sizes[level], "sizes", or_zero=True) for level in levels]
        if not any(numbers):
            raise InvalidInput("sizes are all zero: at least one must be positive.")
        return axis, np.array(numbers)

    def _compared(
        self, other: CellEstimates, statistic: str, estimate: Array, bse: Array, **changes: Any
    ) -> CellEstimates:
        degrees = np.minimum(self._degrees, other._degrees)
        suppressed = ~(self.told & other.told)
        return self._replace(
            statistic=statistic,
            estimate=np.where(suppressed, np.nan, estimate),
            bse=np.where(suppressed, np.nan, bse),
            degrees_of_freedom=degrees,
            suppressed=suppressed,
            shared=0.0,
            **changes,
        )

    def _reference(self, reference: Any) -> tuple[CellEstimates, Array, NDArray[np.bool_], str]:
        """Return what to compare with, its covariances, whether it is the same cell, its name."""
        if isinstance(reference, CellEstimates):
            if (reference.levels, reference.statistic) != (self.levels, self.statistic):
                raise InvalidInput(
                    "two tables are compared cell by cell: they need the same levels and the same "
                    f"statistic, {self.statistic!r}; received {reference.statistic!r} by "
                    f"{list(reference.by)}."
                )
            nothing = np.zeros(self.estimate.shape)
            return reference, nothing, nothing.astype(bool), "the other table"
        wanted = self._wanted_levels(reference)
        index = np.indices(self.estimate.shape)
        same = np.ones(self.estimate.shape, dtype=bool)
        for axis, (name, values) in enumerate(zip(self.by, self.levels, strict=True)):
            if name in wanted:
                place = values.index(wanted[name])
                same &= index[axis] == place
                index[axis] = place
        at = tuple(index)
        other = self._replace(
            estimate=self.estimate[at],
            bse=self.bse[at],
            degrees_of_freedom=self._degrees[at],
            counts=self.counts[at],
            suppressed=~self.told[at],
        )
        with np.errstate(all="ignore"):
            covariance = -self.shared * self.estimate * other.estimate
            if self.dependent:  # the least favourable one
                covariance = -self.bse * other.bse
        return other, covariance, same, ", ".join(map(str, wanted.values()))

    def _wanted_levels(self, reference: Any) -> dict[str, Any]:
        """Return the levels of the reference by grouping."""
        if not self.by:
            raise InvalidInput("a table of one cell has no other one to compare with.")
        wanted = reference
        if not isinstance(reference, Mapping):
            levels = reference if isinstance(reference, tuple) else (reference,)
            wanted = dict(zip(self.by, levels, strict=False))
            if len(levels) != len(self.by):
                wanted = {}
        for name, level in wanted.items():
            if name not in self.by or level not in self.levels[self.by.index(name)]:
                wanted = {}
                break
        if not wanted:
            raise InvalidInput(
                f"reference must be one level of each of {list(self.by)} in a tuple, or a mapping "
                "such as {grouping: level}; received "
                f"{described(reference)}. Levels are in .levels."
            )
        return dict(wanted)

    def _tested_value(self) -> float:
        """Return the value that is tested; refuse where there is none."""
        if self.null is None:
            raise InvalidInput(
                "an estimate alone is not tested. Ask .difference(reference) or .ratio(reference) "
                "for tests of cells, or see whether a value is in conf_int()."
            )
        return self.null

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell."""
        low, high = np.moveaxis(self.conf_int(level), -1, 0)
        numbers = {"count": self.possible_counts, "estimate": self.estimate, "std_error": self.bse}
        if self.null is not None:
            numbers |= {"statistic": self.tvalues, "p_value": self.pvalues}
        numbers |= {"conf_low": low, "conf_high": high}
        n_cells = self.counts.size
        names = {"column": [self.column] * n_cells, "term": [self.statistic] * n_cells}
        return (
            self._level_columns() | names | {name: array.ravel() for name, array in numbers.items()}
        )

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return the table and the budget spent, as text with forms for notebooks and papers."""
        level = coverage(level, alpha)
        ends = self.conf_int(level)
        rows = []
        for label, k in cell_rows(self):
            numbers = estimate_shown(self.estimate[k], self.bse[k], *ends[k])
            if self.null is not None:
                p = float(self.pvalues[k])
                numbers += ("" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}",)
            rows.append((label, (records_shown(self, k), *numbers)))
        headings: tuple[str, ...] = ("count", "estimate", "std err", *end_headings(level))
        if self.null is not None:
            headings += (f"P(= {self.null:g})",)
        title = f"{self.statistic} of {self.column}" if self.column else self.statistic
        return render_cells(self, title, headings, rows)


def _variance_of_excess(ratio: Any, numerator: Array, denominator: Array, shared: Array) -> Array:
    """Return the variance of the numerator less a multiple of the denominator."""
    variance = numerator - 2.0 * ratio * shared + ratio**2 * denominator
    return np.asarray(np.maximum(variance, 0.0))


def _fieller(
    t: Array, a: Array, b: Array, a_variance: Array, b_variance: Array, shared: Array
) -> Array:
    """Return all ratios r at which ``a - r b`` is within t of its errors of 0 (Fieller 1954).

    Where b may be zero the set is no interval, and all numbers are returned.
    """
    with np.errstate(all="ignore"):
        square, middle = b**2 - t**2 * b_variance, a * b - t**2 * shared
        root = np.sqrt(np.maximum(middle**2 - square * (a**2 - t**2 * a_variance), 0.0))
        ends = np.stack([middle - root, middle + root], axis=-1) / square[..., None]
    bounded = (square > 0.0)[..., None]
    unbounded = np.where(np.isfinite(b), 1.0, np.nan)[..., None] * np.array([-np.inf, np.inf])
    return np.where(bounded, ends, unbounded)
