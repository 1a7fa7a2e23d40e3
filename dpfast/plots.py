"""Plots of fits.  Matplotlib is imported by the functions, never by the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # distinguishable without red and green


def coefficient_plot(
    fits: Mapping[str, Any] | Any, *, level: float = 0.95, title: str | None = None
) -> Figure:
    """Coefficients with their confidence intervals, one row each.

    Parameters
    ----------
    fits : Fit or mapping of str to Fit
        Fits with inference and the same coefficients; the keys become the legend.
    level : float
        Confidence level of the intervals.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Not attached to pyplot, so that nothing has to be closed; ``figure.savefig(...)`` writes
        it.

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.
    """
    from matplotlib.figure import Figure

    labelled = dict(fits) if isinstance(fits, Mapping) else {"": fits}
    if not labelled:
        raise ValueError("fits is empty: pass a fit, or a mapping of labels to fits")
    names = next(iter(labelled.values())).names
    for label, fit in labelled.items():
        if tuple(fit.names) != tuple(names):
            raise ValueError(
                f"all fits must have the same coefficients; {label!r} has {list(fit.names)}, "
                f"the first one {list(names)}"
            )
    figure = Figure(figsize=(7.0, 0.9 + 0.6 * len(names)), layout="constrained")
    axes = figure.subplots()
    rows = np.arange(len(names))[::-1]
    offsets = np.linspace(0.15, -0.15, len(labelled)) if len(labelled) > 1 else [0.0]
    for index, ((label, fit), offset) in enumerate(zip(labelled.items(), offsets, strict=True)):
        low, high = np.asarray(fit.conf_int(level)).T
        colour = COLOURS[index % len(COLOURS)]
        axes.hlines(rows + offset, low, high, color=colour, linewidth=2)
        axes.plot(fit.params, rows + offset, "o", color=colour, label=label)
    axes.axvline(0.0, color="0.7", linewidth=1, zorder=0)
    axes.set_yticks(rows, names)
    axes.set_xlabel(f"coefficient with {100 * level:g}% interval")
    if title is not None:
        axes.set_title(title)
    if len(labelled) > 1:
        axes.legend(frameon=False)
    return figure
