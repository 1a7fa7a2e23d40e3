"""Plots of tables by cell: estimates with intervals, and distributions."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import did_you_mean, names_given
from dpfast.errors import InvalidInput, described
from dpfast.inference.degrees import coverage
from dpfast.plots.figures import STYLES, canvas, finished, legend, look, panels, refuse_others, said
from dpfast.tables.cell_estimates import CellEstimates
from dpfast.tables.distribution_table import DistributionTable
from dpfast.tables.results import CellTable, QuantileTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A panel: its title, and of each series its name, estimates and ends by cell.
Panel = tuple[str, list[tuple[str, Any, Any]]]


def cell_plot(
    cells: Any,
    *,
    columns: str | Sequence[str] | None = None,
    level: float = 0.95,
    title: str | None = None,
) -> Figure:
    """Plot counts, means, quantiles or other estimates by cell, a panel for each column.

    Parameters
    ----------
    cells : CellTable, QuantileTable or CellEstimates
        From :mod:`dpfast.tables`.  Suppressed cells are named, without a mark.
    columns : str or sequence of str, optional
        Only these; by default all means, or the counts of a table without means.
    level : float
        Confidence level; quantiles have the one that they were made with.
    title : str, optional
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> schema = dpfast.Schema({"sex": dpfast.Categorical(["F", "M"])})
    >>> table = {"sex": ["F"] * 300 + ["M"] * 700}
    >>> cells = dpfast.tables.counts(table, "sex", schema=schema, privacy=1.0)
    >>> figure = dpfast.plots.cell_plot(cells)
    """
    kinds = CellTable, QuantileTable, CellEstimates
    refuse_others(cells, isinstance(cells, kinds), "is a table of dpfast.tables")
    shown, level = _panels(cells, columns, coverage(level))
    names = [
        ", ".join(map(str, cell)) or "all records" for cell in itertools.product(*cells.levels)
    ]
    series = max(len(lines) for _, lines in shown)
    height = 1.0 + max(0.35, 0.16 * series) * len(names)
    figure, axes = panels(len(shown), (1.5 + 3.6 * min(len(shown), 3), height))
    rows, words = np.arange(len(names))[::-1], []
    for (heading, lines), panel in zip(shown, axes, strict=True):
        offsets = np.linspace(0.25, -0.25, len(lines)) if len(lines) > 1 else [0.0]
        for index, ((label, values, ends), offset) in enumerate(zip(lines, offsets, strict=True)):
            colour, marker = look(index)
            values, ends = np.ravel(values), np.reshape(ends, (-1, 2))
            panel.hlines(rows + offset, *ends.T, color=colour, linewidth=2)
            panel.plot(values, rows + offset, marker, color=colour, label=label)
            told = zip(names, values, ends, strict=True)
            texts = [f"{name} {_said(value, *pair)}" for name, value, pair in told]
            words.append(f"{heading} {label}".strip() + f": {', '.join(texts)}")
        panel.set_yticks(rows, [textwrap.fill(name, 28) for name in names])
        panel.set_ylim(-0.6, len(names) - 0.4)
        panel.set_xlabel(f"{heading} with {100 * level:g}% interval")
    for panel in axes[1:]:
        panel.tick_params(labelleft=False)
    legend(figure, axes[0], series, new_figure=True)
    return finished(figure, axes[0], title, f"{'; '.join(words)}.")


def _panels(cells: Any, columns: Any, level: float) -> tuple[list[Panel], float]:
    """Return what stands in each panel, and the level of its intervals."""
    if isinstance(cells, QuantileTable):
        ends = np.stack([cells.low, cells.high], axis=-1)
        pairs = zip(cells.probabilities, cells.quantile, ends, strict=True)
        lines = [(f"{p:g} quantile", values, pair) for p, values, pair in pairs]
        return [(cells.column, lines)], cells.level
    if isinstance(cells, CellEstimates):
        lines = [("", cells.estimate, cells.conf_int(level))]
        return [(f"{cells.statistic} of {cells.column}", lines)], level
    names = list(cells.columns) if columns is None else names_given(columns, "columns")
    if not names:
        counts = np.where(cells.told, cells.counts, np.nan)
        return [("records", [("", counts, cells.conf_int(level=level))])], level
    shown: list[Panel] = []
    for name in names:
        if name not in cells.columns:
            raise InvalidInput(
                f"columns must be of {list(cells.columns)}; received "
                f"{described(columns, text=True)}{did_you_mean(name, cells.columns)}."
            )
        mean = cells.mean[cells.columns.index(name)]
        shown.append((f"mean of {name}", [("", mean, cells.conf_int(name, level))]))
    return shown, level


def _said(value: float, low: float, high: float) -> str:
    return said(value, low, high) if np.isfinite(value) else "too small to be shown"


def distribution_plot(distribution: Any, *, title: str | None = None, ax: Any = None) -> Figure:
    """Plot the share of records up to each value, a line for each cell.

    Parameters
    ----------
    distribution : DistributionTable
        From :func:`dpfast.tables.distribution`.
    title, ax
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> schema = dpfast.Schema({"pay": dpfast.Numeric(0, 9)})
    >>> table = {"pay": np.linspace(0.0, 9.0, 4000)}
    >>> pay = dpfast.tables.distribution(table, "pay", schema=schema, privacy=2.0)
    >>> figure = dpfast.plots.distribution_plot(pay)
    """
    right = isinstance(distribution, DistributionTable)
    refuse_others(distribution, right, "is a result of dpfast.tables.distribution")
    frame = distribution._columns(0.95)
    edges = distribution.edges
    shares = np.reshape(frame["share"], (-1, len(edges) - 1))
    figure, axes = canvas(ax, (6.5, 3.8))
    words = []
    cells = [", ".join(map(str, cell)) for cell in itertools.product(*distribution.levels)]
    for index, (name, row) in enumerate(zip(cells, shares, strict=True)):
        colour, style = look(index)[0], STYLES[index // 4 % len(STYLES)]
        axes.step(edges, [0.0, *row], style, where="post", color=colour, linewidth=1.5, label=name)
        middle = edges[1:][np.searchsorted(row, 0.5)] if np.isfinite(row).all() else np.nan
        words.append(f"{name} median {middle:.4g}".strip())
    axes.set_xlabel(distribution.column)
    axes.set_ylabel("share of records up to here")
    axes.set_ylim(0.0, 1.0)
    legend(figure, axes, len(cells), new_figure=ax is None)
    return finished(
        figure, axes, title, f"Distribution of {distribution.column}. {'; '.join(words)}."
    )
