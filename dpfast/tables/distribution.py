"""``distribution`` and ``quantiles``: the distribution of a column by cell, from one release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpfast.arguments import Array, real_array, whole_number
from dpfast.curator.answers import Answer
from dpfast.data.schema import Schema
from dpfast.errors import InvalidInput, described, understood
from dpfast.fit_requests.request import Account
from dpfast.inference.degrees import coverage
from dpfast.privacy.budget import Budget
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.tables.prefix_sums import MAX_BINS
from dpfast.privacy.tables.sensitivity import count_square_factor, histogram_square_factor
from dpfast.tables.distribution_table import DistributionTable, checked_probabilities
from dpfast.tables.estimates import TableQuery
from dpfast.tables.grouping import Grouping, grouping_of
from dpfast.tables.prefix_noise import PrefixNoise
from dpfast.tables.results import QuantileTable

#: Default number of bins.  Noise grows with the logarithm of their number: 4,096 have a tenth more
#: than 1,024.
BINS = 4096

#: Largest number of bins of all cells together.
MAX_COUNTS = 1 << 22

#: Share of the squared budget for the counts of cells.  The last prefix sum counts them, too.  The
#: noise of quantiles is within 5% of the least possible from .05 to .2.
COUNTS_SHARE = 0.1


@understood
def distribution(
    table: Any,
    column: str,
    by: str | Sequence[str] | None = None,
    *,
    schema: Schema,
    privacy: Budget | float | tuple[float, float],
    bins: int | Sequence[float] | None = None,
    least: float = 0.0,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> DistributionTable:
    """Release the distribution of a column in each cell of declared groupings.

    Counts below public thresholds have the noise of the square-root factorisation of prefix sums
    (Fichtenberger, Henzinger and Upadhyay 2023).  From one release follow any quantiles, shares
    below a line, Lorenz curves, top shares, Gini coefficients and poverty rates, with intervals.

    Parameters
    ----------
    column : str
        A column that the schema declares numeric.  Values are clipped to its range: Gini
        coefficients and top shares are those of the clipped values.
    bins : int or sequence of float, optional
        Number of equal bins of the declared range, or inner edges from public knowledge.  By
        default 4,096 bins, and fewer for more than 1,024 cells.  Noise grows with the logarithm of
        their number.
    table, by, schema, privacy, least, ledger, noise
        As for :func:`dpfast.tables.means`.

    Raises
    ------
    InvalidInput
        If an argument is not as described; before the charge.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T1 and T5), or of one
    person with all rows (claims T9 and T10).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 2000), "pay": np.tile(np.linspace(0.0, 9.0, 2000), 2)}
    >>> pay = dpfast.tables.distribution(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(abs(pay.gini().estimate[0] - 1 / 3) < 0.02)
    True
    """
    account = Account(privacy, ledger)
    grouping, edges = _grouping_and_edges(schema, by, column, bins)
    query = TableQuery("distribution", grouping.records(table), grouping, account, least, noise)
    release = _Release(query, edges)
    return query.paid(release.run, len(edges))


@understood
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
    bins: int | Sequence[float] | None = None,
    ledger: Ledger | None = None,
    noise: NoiseSource | None = None,
) -> QuantileTable:
    """Estimate quantiles of a column in each cell of declared groupings, with intervals.

    This is :func:`dpfast.tables.distribution` and its ``quantiles``: the cost does not depend on
    how many quantiles are asked for.

    Parameters
    ----------
    column : str
        A column that the schema declares numeric.
    probabilities : sequence of float in (0, 1)
    level : float in [0.5, 1)
        Nominal coverage of the intervals.
    table, by, schema, privacy, least, bins, ledger, noise
        As for :func:`dpfast.tables.distribution`.

    Privacy
    -------
    ``privacy`` in total under replacement of one record, n public (claims T1 and T5), or of one
    person with all rows (claims T9 and T10).

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> table = {"sex": np.repeat(["F", "M"], 2000), "pay": np.tile(np.linspace(0.0, 9.0, 2000), 2)}
    >>> medians = dpfast.tables.quantiles(table, "pay", "sex", schema=schema, privacy=2.0)
    >>> bool(medians.low[0, 1] <= 4.5 <= medians.high[0, 1])
    True
    """
    wanted, level = checked_probabilities(probabilities), coverage(level)
    account = Account(privacy, ledger)
    grouping, edges = _grouping_and_edges(schema, by, column, bins)
    query = TableQuery("quantiles", grouping.records(table), grouping, account, least, noise)
    release = _Release(query, edges)
    return query.paid(lambda: release.run().quantiles(wanted, level), len(edges))


def _grouping_and_edges(schema: Any, by: Any, column: Any, bins: Any) -> tuple[Grouping, Array]:
    """Check the cells, the column and the bins; return the edges of bins in natural units."""
    if not isinstance(column, str):
        raise InvalidInput(f"column must be the name of one; received {described(column)}.")
    grouping = grouping_of(schema, by, column, "column")
    if not all(grouping.squared):
        raise InvalidInput(
            f"column {described(column, text=True)} is declared binary; its mean says all."
        )
    centre, half = float(grouping.middles[0]), float(grouping.halves[0])
    most = min(MAX_BINS, MAX_COUNTS // grouping.n_cells)
    if bins is None:
        bins = min(BINS, 1 << (most.bit_length() - 1))
    if isinstance(bins, (int, np.integer)) and not isinstance(bins, bool):
        n_bins = whole_number(bins, "bins", 2, most)
        return grouping, centre + half * np.linspace(-1.0, 1.0, n_bins + 1)
    inner = np.atleast_1d(real_array(bins, "bins"))
    inside = (inner > centre - half) & (inner < centre + half)
    if inner.ndim != 1 or not inside.all() or not (np.diff(inner) > 0.0).all():
        raise InvalidInput(
            "bins must be a whole number, or inner edges that increase within the declared range "
            f"of column {described(column, text=True)}; received {described(bins)}."
        )
    if inner.size >= most:
        raise InvalidInput(
            f"bins has {inner.size} inner edges; at most {most - 1} for {grouping.n_cells} cells."
        )
    return grouping, np.concatenate([[centre - half], inner, [centre + half]])


class _Release:
    """One release of counts and mapped histograms.

    What can be refused is refused when it is made, before the charge.
    """

    def __init__(self, query: TableQuery, edges: Array) -> None:
        self._query, self._edges = query, edges
        self._mu_counts = query.mu * math.sqrt(COUNTS_SHARE)
        self._mu = query.mu * math.sqrt(1.0 - COUNTS_SHARE)
        query.cells.counts_receipt(self._mu_counts)
        query.cells.distribution_receipt(len(edges) - 1, self._mu)

    def run(self) -> DistributionTable:
        """Release, and build the table in natural units."""
        query, grouping = self._query, self._query.grouping
        counted = query.cells.counts(self._mu_counts)
        inner = (self._edges[1:-1] - grouping.middles[0]) / grouping.halves[0]
        mapped = query.cells.distribution(inner, self._mu)
        weighted, squares = query.counted != "records", None
        counts, histograms = counted.value, mapped.value
        if weighted:
            counts, histograms = counted.value[:, 0], mapped.value[0]
            squares = self._squares(counted, mapped)
        noise = PrefixNoise(
            len(self._edges) - 1, query.unit * mapped.noise_scale, query.unit * counted.noise_scale
        )
        below = noise.below(query.unit * histograms, query.unit * counts)
        count_noise = math.sqrt(float(noise.variances()[1][-1]))
        total = below[:, -1].reshape(grouping.shape)
        return DistributionTable(
            column=grouping.columns[0],
            edges=self._edges,
            counts=total,
            count_noise=count_noise,
            least=query.threshold(count_noise),
            suppressed=self._too_small(total, squares),
            below=below.reshape(*grouping.shape, -1),
            noise=noise,
            squares=squares,
            **query.facts(),
        )

    def _squares(self, counted: Answer, mapped: Answer) -> Array:
        """Return sums of squared weights up to each edge by cell."""
        of_counts, of_bins = count_square_factor(), histogram_square_factor()
        noise = PrefixNoise(
            len(self._edges) - 1, mapped.noise_scale / of_bins, counted.noise_scale / of_counts
        )
        below = noise.below(mapped.value[1] / of_bins, counted.value[:, 1] / of_counts)
        return self._query.unit**2 * below.reshape(*self._query.grouping.shape, -1)

    def _too_small(self, counts: Array, squares: Array | None) -> Any:
        """Return which cells have a smaller effective sample than was stated; None if by count."""
        if squares is None or self._query.counted != "population":
            return None
        with np.errstate(all="ignore"):
            return ~(counts**2 / np.maximum(squares[..., -1], 0.0) >= self._query.least)
