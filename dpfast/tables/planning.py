"""``plan``: the expected precision of a table, from declared levels and public numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import whole_number
from dpfast.curator.tables.cells import MAX_RECORDS, Cells
from dpfast.data import Records
from dpfast.data.schema import Schema
from dpfast.fit_requests.request import Account
from dpfast.inference.base import Planned
from dpfast.inference.degrees import coverage
from dpfast.inference.rendering.digits import short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.privacy.budget import Budget
from dpfast.tables.by_cell import normal_half_width
from dpfast.tables.estimates import TableQuery
from dpfast.tables.grouping import grouping_of


@dataclass(frozen=True, eq=False, repr=False)
class CellPlan(Planned):
    """Expected noise of a table by cell.

    Attributes
    ----------
    n_cells, typical : int, float
        Number of cells, and the records of each if all cells were equal.
    count_noise : float
        Standard deviation of the noise of a count.
    least : float
        Cells with a count below it will be suppressed.
    columns, half_widths : tuple of str, ndarray of shape (columns,)
        Half widths of the intervals of means from privacy noise alone, in the columns' own units.
        They are for a cell of ``typical`` records.
    level : float

    Privacy
    -------
    Made of public numbers: it costs nothing.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> dpfast.tables.plan(schema, "sex", n=1000, privacy=1.0).n_cells
    2
    """

    _headed = ("Cells", "Suppressed")

    n_cells: int
    count_noise: float
    least: float
    columns: tuple[str, ...]
    half_widths: NDArray[np.float64]
    typical: float
    level: float

    @property
    def count_width(self) -> float:
        """Width of the interval of a count, from privacy noise alone."""
        return 2.0 * normal_half_width(self.level) * self.count_noise

    def summary(self) -> Summary:  # type: ignore[override]
        """Return the expected precision of counts and means, as text with other forms."""
        rows = [("count", (f"+- {short_number(0.5 * self.count_width)}",))]
        for name, half in zip(self.columns, self.half_widths, strict=True):
            precision = "suppressed" if np.isnan(half) else f"+- {short_number(float(half))}"
            rows.append((f"mean of {name}", (precision,)))
        facts = (
            ("Cells", f"{self.n_cells} of {self.typical:.0f} records each, if all are equal"),
            ("Suppressed", f"counts below {self.least:.0f}"),
        )
        heading = (f"{100 * self.level:g}%, privacy noise alone",)
        return render_table("dpfast: expected precision by cell", facts, heading, rows, None)

    def _columns(self, level: float) -> dict[str, Any]:
        halves = [0.5 * self.count_width, *self.half_widths.tolist()]
        return {"term": ["count", *self.columns], "half_width": halves}


def plan(
    schema: Schema,
    by: str | Sequence[str] | None = None,
    columns: str | Sequence[str] = (),
    *,
    n: int,
    privacy: Budget | float | tuple[float, float],
    least: float = 0.0,
    level: float = 0.95,
) -> CellPlan:
    """Forecast the noise of counts or means by cell; reads no data and costs nothing.

    Parameters
    ----------
    columns : str or sequence of str
        Columns whose means are planned; none for counts.
    n : int
        Number of records.
    level : float in [0.5, 1)
        Nominal coverage of the intervals.
    schema, by, privacy, least
        As for :func:`dpfast.tables.counts`.

    Privacy
    -------
    Public numbers only.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"]), "pay": dpfast.Numeric(0, 9)})
    >>> planned = dpfast.tables.plan(schema, "sex", "pay", n=1000, privacy=1.0)
    >>> bool(planned.half_widths[0] < 0.1)
    True
    """
    grouping = grouping_of(schema, by, columns)
    n = whole_number(n, "n", 1, MAX_RECORDS - 1)
    level, q = coverage(level), len(grouping.columns)
    nothing: Any = np.broadcast_to(np.nan, (n, q + 1))
    records = Records(nothing[:, 1:], nothing[:, 0], None)
    query = TableQuery("plan", records, grouping, Account(privacy), least, None)
    cells, mu = query.cells, query.mu
    receipt = cells.moments_receipt(mu) if q else cells.counts_receipt(mu)
    assert isinstance(cells, Cells)
    count_noise = receipt.noise_scale / (cells.count_weight if q else 1.0)
    threshold = query.threshold(count_noise)
    typical = n / grouping.n_cells
    n_in_cell = typical if typical >= threshold else np.nan
    half_widths = normal_half_width(level) * grouping.halves * receipt.noise_scale / n_in_cell
    return CellPlan(
        grouping.n_cells, count_noise, threshold, grouping.columns, half_widths, typical, level
    )
