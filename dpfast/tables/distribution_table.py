"""The released distribution of a column by cell, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpfast.arguments import Array, real_array
from dpfast.errors import InvalidInput, described
from dpfast.inference.degrees import coverage
from dpfast.inference.rendering.table import Summary
from dpfast.tables.by_cell import ByCell, normal_half_width
from dpfast.tables.cell_estimates import CellEstimates
from dpfast.tables.inequality import (
    Functional,
    gini_functional,
    interpolation_weights,
    lorenz_functional,
    mean_functional,
    monotone,
    relative_share_functional,
)
from dpfast.tables.prefix_noise import PrefixNoise
from dpfast.tables.results import QuantileTable
from dpfast.tables.survival import survival_of_counts

#: Largest number of times of a survival curve.
MOST_TIMES = 60


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DistributionTable(ByCell):
    """Noisy counts of a column below public thresholds, by cell.  Holds no records.

    Attributes
    ----------
    by, levels, counts, count_noise, least, counted, suppressed, n_records, privacy
        As in :class:`dpfast.tables.by_cell.ByCell`.
    column : str
    edges : ndarray of shape (bins + 1,)
        Public edges of the bins, in the column's own units.
    below : ndarray of shape (levels..., bins)
        Noisy number of records up to the upper edge of each bin.  The last one is the count.
    noise : PrefixNoise
        Covariance of their noise.
    squares : ndarray of shape (levels..., bins), optional
        With weights or persons: noisy sums of squared weights up to the upper edge of each bin.
    warnings : tuple of str
        Whether few records have declared levels.

    Privacy
    -------
    Made of released and public numbers: its methods cost nothing, however often.

    Examples
    --------
    >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9)})
    >>> table = {"pay": np.linspace(0.0, 9.0, 4000)}
    >>> pay = dpfast.tables.distribution(table, "pay", schema=schema, privacy=2.0)
    >>> bool(abs(pay.share_below(3.0).estimate - 1 / 3) < 0.05)
    True
    """

    column: str
    edges: Array
    below: Array
    noise: PrefixNoise
    squares: Any = None

    @property
    def _named_columns(self) -> tuple[str, ...]:
        return (self.column,)

    def quantiles(
        self,
        probabilities: float | Sequence[float] | Array = (0.5,),
        level: float = 0.95,
        *,
        alpha: float | None = None,
    ) -> QuantileTable:
        """Estimate quantiles in each cell, with intervals.

        An interval holds all values whose share of the records below is not significantly
        different from the probability (Woodruff 1952).  Sampling and privacy noise are in the test.

        Parameters
        ----------
        probabilities : float or sequence of float in (0, 1)
        level : float in [0.5, 1)
        """
        wanted, level = checked_probabilities(probabilities), coverage(level, alpha)
        cells = [self._cell(k, wanted, level) for k in range(self.counts.size)]
        quantile, low, high = np.moveaxis(np.array(cells), 0, -1)
        shape = (len(wanted), *self.counts.shape)
        return QuantileTable(
            column=self.column,
            probabilities=tuple(wanted.tolist()),
            quantile=quantile.reshape(shape),
            low=low.reshape(shape),
            high=high.reshape(shape),
            level=level,
            **self._facts(),
        )

    def _cell(self, k: int, probabilities: Array, level: float) -> Array:
        """Estimate the quantiles of one cell and their intervals, shape (3, probabilities)."""
        if not self.told.ravel()[k]:
            return np.full((3, len(probabilities)), np.nan)
        n = float(self.counts.ravel()[k])
        below = monotone(self.below.reshape(self.counts.size, -1)[k], n)
        estimate = np.interp(probabilities * n, np.concatenate([[0.0], below]), self.edges)
        squares = None if self.squares is None else self._squares_below(k)
        ends = [self._interval(below, squares, n, p, level) for p in probabilities.tolist()]
        low, high = np.array(ends).T
        return np.array([estimate, np.minimum(low, estimate), np.maximum(high, estimate)])

    def _interval(
        self, below: Array, squares: Array | None, n: float, p: float, level: float
    ) -> tuple[float, float]:
        """Invert the test of each edge; a quantile may be anywhere in a bin."""
        # the variance of a sum of weighted indicators less p, and at most that for persons
        sampling = p * (1.0 - p) * n
        if squares is not None:
            sampling = (1.0 - 2.0 * p) * squares + p * p * squares[-1]
        half = normal_half_width(level) * np.sqrt(self.noise.variances_of_excess(p) + sampling)
        excess = below - p * n
        possible_from = np.flatnonzero(excess >= -half)
        possible_to = np.flatnonzero(excess <= half)
        first = int(possible_from[0]) if possible_from.size else self.noise.n_bins - 1
        last = min(int(possible_to[-1]) + 1, self.noise.n_bins - 1) if possible_to.size else 0
        return float(self.edges[first]), float(self.edges[last + 1])

    def _squares_below(self, k: int) -> Array:
        """Return sums of squared weights up to each edge, monotone; of all at least count^2 / n."""
        assert self.squares is not None
        raw = np.asarray(self.squares).reshape(self.counts.size, -1)[k]
        least = float(self.counts.ravel()[k]) ** 2 / max(self.n_records, 1)
        return monotone(raw, max(float(raw[-1]), least))

    def share_below(self, line: float) -> CellEstimates:
        """Estimate the share of records that are not above a public line, as a poverty line.

        Between the edges of a bin the share is interpolated.  Name the line in ``bins=`` of the
        release where a bin is wide.
        """
        at = float(np.atleast_1d(real_array(line, "line"))[0])
        low, high = float(self.edges[0]), float(self.edges[-1])
        if not low < at < high:
            raise InvalidInput(
                f"line must lie within the declared range, {low:g} to {high:g}; received "
                f"{described(line)}."
            )
        weights = interpolation_weights(self.edges, at)

        def functional(share: Array, cell: int) -> Functional:
            return Functional(float(weights @ share), weights)

        return self._estimates(f"share up to {line:g}", functional, (0.0, 1.0))

    def mean(self) -> CellEstimates:
        """Estimate means of the clipped values, from the same release."""
        ends = (float(self.edges[0]), float(self.edges[-1]))
        return self._estimates("mean", lambda share, _: mean_functional(share, self.edges), ends)

    def gini(self) -> CellEstimates:
        """Estimate Gini coefficients of the clipped values.

        Raises
        ------
        InvalidInput
            If the declared range has negative values.
        """
        self._refuse_negative("Gini coefficient")
        counts = self.counts.ravel()

        def functional(share: Array, cell: int) -> Functional:
            noise = self._share_variances(float(counts[cell]), share)
            return gini_functional(share, self.edges, noise)

        return self._estimates("Gini", functional, (0.0, 1.0))

    def lorenz(self, p: float) -> CellEstimates:
        """Estimate the Lorenz curve at p: the part of the total that the lowest share p has."""
        self._refuse_negative("Lorenz curve")
        (at,) = checked_probabilities(p).tolist()
        return self._estimates(
            f"Lorenz at {at:g}",
            lambda share, _: lorenz_functional(share, self.edges, at),
            (0.0, 1.0),
        )

    def top_share(self, q: float) -> CellEstimates:
        """Estimate the part of the total that the highest share q of the records has."""
        (at,) = checked_probabilities(q).tolist()
        lowest = self.lorenz(1.0 - at)
        return lowest._replace(statistic=f"share of the top {at:g}", estimate=1.0 - lowest.estimate)

    def poverty_rate(self, fraction: float = 0.6) -> CellEstimates:
        """Estimate the share of records up to a fraction of the cell's median.

        The standard error includes the error of the median (Preston 1995, Woodruff 1952).
        """
        part = float(np.atleast_1d(real_array(fraction, "fraction"))[0])
        if not 0.0 < part < 1.0:
            raise InvalidInput(
                f"fraction must lie between 0 and 1, both excluded; received {described(fraction)}."
            )
        self._refuse_negative("poverty rate")
        medians = self.quantiles((0.5,))
        widths = (medians.high - medians.low).ravel()
        centres = medians.quantile.ravel()

        def functional(share: Array, cell: int) -> Functional:
            median, window = float(centres[cell]), float(widths[cell])
            return relative_share_functional(share, self.edges, part, median, window)

        return self._estimates(f"share up to {part:g} of the median", functional, (0.0, 1.0))

    def survival(self, event: str, came: Any = None) -> CellEstimates:
        """Estimate survival curves of each group, by Kaplan and Meier, of a column of times.

        Parameters
        ----------
        event : str
            The grouping that says whether the event came at that time, or follow-up ended then.
            It has two levels.
        came : label, optional
            Its level where the event came; by default the last one.

        Returns
        -------
        CellEstimates
            Survival up to upper edges of bins, of at most 60 bins.  ``counts`` are the numbers at
            risk at the beginning of the bin.  Where these are few, the curve ends.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> weeks, ends = rng.exponential(20.0, 5000), rng.uniform(0.0, 60.0, 5000)
        >>> table = {"weeks": np.minimum(weeks, ends), "died": 1 * (weeks <= ends)}
        >>> schema = dpfast.Schema({
        ...     "weeks": dpfast.Numeric(0, 60), "died": dpfast.Categorical([0, 1]),
        ... })
        >>> options = {"schema": schema, "bins": range(5, 60, 5), "privacy": 1.0}
        >>> times = dpfast.tables.distribution(table, "weeks", "died", **options)
        >>> curve = times.survival("died")
        >>> bool(abs(curve.estimate[3] - np.exp(-1.0)) < 0.05)  # up to 20 weeks
        True
        """
        if event not in self.by or len(self.levels[self.by.index(event)]) != 2:
            raise InvalidInput(
                f"event must name a grouping of two levels, among {[*self.by]}; received "
                f"{described(event, text=True)}. Release the distribution by the event, too."
            )
        if self.counted != "records":
            raise InvalidInput(
                f"survival curves are of records that count alike; counts are of {self.counted}. "
                "Release the distribution without weights, of one row for each person."
            )
        axis = self.by.index(event)
        levels = list(self.levels[axis])
        if came is not None and came not in levels:
            raise InvalidInput(f"came must be one of {levels}; received {described(came)}.")
        place = 1 if came is None else levels.index(came)
        below = np.moveaxis(self.below, axis, 0)
        shape, bins = below.shape[1:-1], below.shape[-1]
        shown = np.unique(np.linspace(0, bins - 1, min(bins, MOST_TIMES)).astype(np.intp))
        dead, left = below[[place, 1 - place]].reshape(2, -1, bins)
        curves = [survival_of_counts(dead[k], left[k], self.noise, shown) for k in range(len(dead))]
        at_risk, estimate, error = (
            np.array(part).reshape(*shape, -1) for part in zip(*curves, strict=True)
        )
        few = at_risk < self.least
        facts = self._facts() | {
            "by": (*self.by[:axis], *self.by[axis + 1 :], self.column),
            "levels": (
                *self.levels[:axis], *self.levels[axis + 1 :], tuple(self.edges[1:][shown].tolist())
            ),
            "counts": at_risk,
            "count_noise": self.count_noise * math.sqrt(2.0),
        }  # fmt: skip
        return CellEstimates(
            column=self.column,
            statistic="survival",
            estimate=np.where(few, np.nan, estimate),
            bse=np.where(few, np.nan, error),
            limits=(0.0, 1.0),
            dependent=True,  # points of one curve
            **facts,
        )

    def _share_variances(self, n: float, share: Array) -> Array:
        """Return the noise variances of ``below / counts``."""
        return np.asarray(self.noise.variances_of_excess(share) / n**2)

    def _estimates(
        self,
        statistic: str,
        functional: Callable[[Array, int], Functional],
        limits: tuple[float, float],
    ) -> CellEstimates:
        """Evaluate a functional of the distribution in each cell, with its standard error.

        The error is that of its linear approximation: the sampling variance of the influence
        function, and the variance of the noise of the weighted prefix sums.
        """
        flat = self.below.reshape(self.counts.size, -1)
        estimates, errors = np.full((2, self.counts.size), np.nan)
        for k in np.flatnonzero(self.told.ravel()).tolist():
            n = float(self.counts.ravel()[k])
            share = flat[k] / n
            value, weights = functional(share, k)
            estimates[k] = min(max(value, limits[0]), limits[1])
            of_bin = np.diff(share, prepend=0.0) / n
            if self.squares is not None:
                of_bin = np.diff(self._squares_below(k), prepend=0.0) / n**2
            errors[k] = np.sqrt(self._functional_variance(weights, share, of_bin, n))
        shape = self.counts.shape
        return CellEstimates(
            column=self.column,
            statistic=statistic,
            estimate=estimates.reshape(shape),
            bse=errors.reshape(shape),
            limits=limits,
            dependent=self.counted in ("rows", "persons"),
            **self._facts(),
        )

    def _functional_variance(self, weights: Array, share: Array, squares: Array, n: float) -> float:
        """Compute the variance of ``weights @ share`` by sampling and by noise.

        ``squares`` are squared weights by bin over the squared count, 1/n times the shares where
        records count alike.
        """
        influence = np.cumsum(weights[::-1])[::-1]  # a record counts in its bin and above
        of_bin = np.diff(share, prepend=0.0)
        centre = float(influence @ of_bin)
        sampling = max(float((influence - centre) ** 2 @ squares), 0.0)
        contrast = weights.copy()
        contrast[-1] -= float(weights @ share)  # the count is the denominator
        return sampling + float(self.noise.variance_of(contrast)) / n**2

    def _refuse_negative(self, statistic: str) -> None:
        if self.edges[0] < 0.0:
            raise InvalidInput(
                f"a {statistic} is of amounts that are not negative; the declared range of column "
                f"{described(self.column, text=True)} begins at {self.edges[0]:g}. Declare a range "
                "from 0."
            )

    def _columns(self, level: float) -> dict[str, Any]:
        """One row for each cell and bin: its levels, its upper edge and the share up to it."""
        frame = self._level_columns(("upto", self.edges[1:].tolist()))
        flat, counts = self.below.reshape(self.counts.size, -1), self.counts.ravel()
        shares = [
            monotone(row, n) / n if shown else np.full(row.size, np.nan)
            for row, n, shown in zip(flat, counts, self.told.ravel(), strict=True)
        ]
        return frame | {"share": np.concatenate(shares)}

    def summary(self, level: float = 0.95, *, alpha: float | None = None) -> Summary:
        """Return the quartiles of each cell and the budget spent."""
        return self.quantiles((0.25, 0.5, 0.75), level, alpha=alpha).summary()

    def to_dict(self) -> dict[str, Any]:
        """Return everything published, as plain Python values (for JSON)."""
        return super().to_dict() | {"noise": self.noise._asdict()}


def checked_probabilities(probabilities: Any) -> Array:
    """Check probabilities of quantiles: numbers strictly between 0 and 1."""
    wanted = np.atleast_1d(real_array(probabilities, "probabilities"))
    allowed = (wanted > 0.0) & (wanted < 1.0)
    if wanted.ndim != 1 or not wanted.size or not allowed.all():
        raise InvalidInput(
            "probabilities must be at least one number strictly between 0 and 1; received "
            f"{described(probabilities)}."
        )
    return np.asarray(wanted, np.float64)
