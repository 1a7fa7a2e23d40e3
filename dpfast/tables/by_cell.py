"""Base of tables by cell: their cells, counts and suppression, and how they are shown."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.base import Result
from dpfast.inference.degrees import t_half_widths
from dpfast.inference.guarantees import Guarantee
from dpfast.inference.rendering.digits import by_error, printable, short_number
from dpfast.inference.rendering.table import Summary
from dpfast.inference.summary import render_table
from dpfast.scaling.remarks import cell_remarks

Array = NDArray[np.float64]

#: Cells with a count below so many standard deviations of its noise are suppressed.  Below, the
#: denominator of a mean could be mostly noise; above, small cells would be suppressed needlessly.
MIN_COUNT_SDS = 4.0

#: What counts are of, where they are not of records.
COUNTS_OF = {
    "records": "",
    "rows": "of rows of persons, ",
    "persons": "of persons, ",
    "population": "of the population by weights, ",
}

#: Shown in place of the count of a suppressed cell.
TOO_SMALL = "too small"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ByCell(Result):
    """What all tables by cell have in common.

    Attributes
    ----------
    by, levels : tuple
        The groupings, an axis of every array for each, and their declared levels.
    counts, count_noise : ndarray of shape (levels...), float
        Noisy number of records in each cell, maybe negative; standard deviation of the noise.  With
        weights it is the sum of weights, which estimates the size of the population.
    least : float
        Cells with a count below it are suppressed: their noise is too large, or a public rule says
        so.
    counted : {"records", "rows", "persons", "population"}
        What counts are of: records, rows of persons with a public bound, persons of whom each
        counts once, or a population by weights.
    suppressed : ndarray of bool, shape (levels...), optional
        Cells that a rule of :meth:`CellTable.suppress` hides.
    n_records : int
        Records, or persons where these are protected.
    privacy : Guarantee
    """

    by: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...]
    counts: Array
    count_noise: float
    least: float
    n_records: int
    privacy: Guarantee
    counted: str = "records"
    remarks: tuple[str, ...] = ()
    suppressed: Any = None

    @property
    def told(self) -> NDArray[np.bool_]:
        """True for cells that are not suppressed, in the shape of ``counts``."""
        told = np.asarray(self.counts >= self.least)
        return told if self.suppressed is None else told & ~np.asarray(self.suppressed, bool)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of few records in declared cells, and of clipped weights."""
        if self.counted not in ("records", "persons"):
            return self.remarks  # how many there are is not public
        names = (*self.by, *self._named_columns)
        told = cell_remarks(self.counts, self.count_noise, self.n_records, names)
        return (*self.remarks, *told)

    @property
    def _named_columns(self) -> tuple[str, ...]:
        return ()

    @property
    def _most(self) -> float:
        """The largest count that is possible: n, or nobody knows."""
        return float(self.n_records) if self.counted in ("records", "persons") else math.inf

    @property
    def possible_counts(self) -> Array:
        """Counts from 0 to as many as there are, as their intervals; the shape is that of cells."""
        return np.clip(self.counts, 0.0, self._most)

    def _facts(self) -> dict[str, Any]:
        """Return the fields that tables made of this one have from it."""
        return {field.name: getattr(self, field.name) for field in fields(ByCell)}

    def _level_columns(self, *more: tuple[str, Sequence[Any]]) -> dict[str, Any]:
        """Return the levels of each row of a frame, and further columns that cross them."""
        cells = list(itertools.product(*self.levels, *[values for _, values in more]))
        names = (*self.by, *[name for name, _ in more])
        return {name: [cell[k] for cell in cells] for k, name in enumerate(names)}


# ---- rendering --------------------------------------------------------------------------


def cell_rows(table: ByCell) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Iterate over cells: the label of each and its index."""
    for cell in itertools.product(*[range(len(level_values)) for level_values in table.levels]):
        names = [
            str(level_values[k]) or '""' for level_values, k in zip(table.levels, cell, strict=True)
        ]
        yield ", ".join(names) or "all records", cell


def render_cells(
    table: ByCell,
    title: str,
    headings: tuple[str, ...],
    rows: Iterable[tuple[str, tuple[str, ...]]],
) -> Summary:
    groupings = zip(table.by, table.levels, strict=True)
    facts = [
        ("Cells", " x ".join(f"{name} ({len(values)})" for name, values in groupings) or "one"),
        ("Persons" if "one person" in table.privacy.relation else "Records", str(table.n_records)),
        (
            "Counts",
            f"{COUNTS_OF[table.counted]}with noise of standard deviation "
            f"{short_number(table.count_noise)}",
        ),
    ]
    n_suppressed = int(np.count_nonzero(~table.told))
    note = f"Cells under {math.ceil(table.least)} records are suppressed."
    return render_table(
        f"dpfast: private {printable(title)}", facts, headings, rows, table.privacy, table.warnings,
        note if n_suppressed else "",
    )  # fmt: skip


def count_shown(table: ByCell, k: tuple[int, ...], low: float, high: float) -> tuple[str, ...]:
    if not table.told[k]:
        return TOO_SMALL, "0", f"{max(high, table.least):.0f}"
    return f"{table.possible_counts[k]:.0f}", f"{low:.0f}", f"{high:.0f}"


def records_shown(table: ByCell, k: tuple[int, ...]) -> str:
    return f"{table.possible_counts[k]:.0f}" if table.told[k] else TOO_SMALL


def share_shown(share: float, error: float) -> tuple[str, str]:
    if not math.isfinite(error):
        return TOO_SMALL, ""
    return f"{max(share, 0.0):.4f}", f"{error:.4f}"


def estimate_shown(value: float, error: float, low: float, high: float) -> tuple[str, ...]:
    if not math.isfinite(error):
        return TOO_SMALL, "", "", ""
    return tuple(by_error([float(value), float(error), float(low), float(high)], float(error)))


def normal_half_width(level: float) -> float:
    """Return the half width of a normal interval, in standard deviations."""
    return float(t_half_widths(level, np.array([np.inf]))[0])
