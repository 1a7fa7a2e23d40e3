"""Plot of a private search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.inference.rendering.digits import short_number
from dpfast.plots.figures import canvas, finished, legend, look, refuse_others

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def search_plot(found: Any, *, title: str | None = None, ax: Any = None) -> Figure:
    """Where a search was after each step, and which released gradients stood out of their noise.

    Parameters
    ----------
    found : dpfast.bayesopt.Tuning
        From :func:`dpfast.bayesopt.tune`.  A filled mark follows a gradient that stands out, an
        open one another (``found.stands_out``); a choice by value has no marks.
    title, ax
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: a result of a search is released.

    Examples
    --------
    >>> ages = np.linspace(0.0, 1.0, 1_000)
    >>> found = dpfast.bayesopt.tune(
    ...     lambda at: (ages - at[0]) ** 2, [(-1.0, 1.0)], privacy=1.0, n_records=1_000, steps=4
    ... )
    >>> figure = dpfast.plots.search_plot(found)
    """
    refuse_others(found, hasattr(found, "batch_sizes"), "is a result of dpfast.bayesopt.tune")
    figure, axes = canvas(ax, (6.5, 3.8))
    path = found.iterates
    steps, standing_out = np.arange(len(path)), np.flatnonzero(found.stands_out) + 1
    for j, column in enumerate(np.transpose(path)):
        colour, marker = look(j)
        line = axes.plot(steps, column, color=colour, linewidth=1.5, label=f"theta{j + 1}")[0]
        if len(found.gradients):
            line.set(marker=marker, markerfacecolor="white")
            axes.plot(steps[standing_out], column[standing_out], marker, color=colour)
    axes.set_xlabel("step")
    axes.set_ylabel("parameter, as searched")
    legend(figure, axes, len(found.theta), new_figure=ax is None)
    ends = ", ".join(short_number(value) for value in path[-1])
    description = (
        f"{len(standing_out)} of {len(found.gradients)} gradients stand out of their noise"
    )
    return finished(figure, axes, title, f"{len(path) - 1} steps, to {ends}; {description}.")
