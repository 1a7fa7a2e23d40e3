"""Plot of predictions along a column, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import did_you_mean, flag
from dpfast.data.columns import column, column_names, is_table, numbers
from dpfast.errors import InvalidInput, described
from dpfast.inference.degrees import coverage
from dpfast.inference.results import Fit
from dpfast.plots.figures import STYLES, canvas, finished, legend, look, refuse_others, said

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def prediction_plot(
    fit: Any,
    rows: Any,
    x: str,
    *,
    by: str | None = None,
    new_response: bool = False,
    level: float = 0.95,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Plot predictions at public rows against one of their columns, with intervals as bands.

    Parameters
    ----------
    fit : Fit
    rows : table
        Public rows, as for :meth:`dpfast.Fit.predict`.
    x : str
        The column along which predictions are drawn.
    by : str, optional
        A column whose values have lines of their own.
    new_response : bool
        Whether bands are for a new response; by default they are for the mean.
    level, title, ax
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing for public rows.  The prediction for a private row reveals something about it.

    Examples
    --------
    >>> age = np.linspace(20.0, 60.0, 2000)
    >>> table = {"age": age, "pay": 10.0 + 0.1 * age}
    >>> fit = dpfast.fit("pay ~ age", table, "least-squares", privacy=1.0)
    >>> figure = dpfast.plots.prediction_plot(fit, {"age": np.arange(20.0, 61.0)}, "age")
    """
    refuse_others(fit, isinstance(fit, Fit), "is a fit of dpfast.fit")
    if not is_table(rows):
        raise InvalidInput(f"rows must be a table of public rows; received {described(rows)}.")
    level = coverage(level)
    at = numbers(_column(rows, x, "x"), x)
    values = fit.predict(rows)
    ends = fit.predict_interval(rows, level, new_response=flag(new_response, "new_response"))
    groups = np.zeros(len(at)) if by is None else np.asarray(_column(rows, by, "by"))
    figure, axes = canvas(ax, (6.5, 3.8))
    words, lines = [], list(dict.fromkeys(groups.tolist()))
    for index, group in enumerate(lines):
        mine = np.flatnonzero(groups == group)
        mine = mine[np.argsort(at[mine], kind="stable")]
        label, style = "" if by is None else f"{by} {group}", STYLES[index // 4 % len(STYLES)]
        colour, _ = look(index)
        axes.fill_between(at[mine], *ends[mine].T, color=colour, alpha=0.2, linewidth=0)
        axes.plot(at[mine], values[mine], style, color=colour, linewidth=2, label=label)
        first, last = mine[0], mine[-1]
        told = [f"{said(values[k], *ends[k])} at {x} {at[k]:.4g}" for k in (first, last)]
        words.append(f"{label}: {', '.join(told)}" if label else ", ".join(told))
    axes.set_xlabel(x)
    what = "new response" if new_response else "mean response"
    axes.set_ylabel(f"{what} with {100 * level:g}% interval")
    legend(figure, axes, len(lines), new_figure=ax is None)
    return finished(figure, axes, title, f"Predictions with intervals. {'; '.join(words)}.")


def _column(rows: Any, name: Any, called: str) -> Any:
    names = list(column_names(rows))
    if name not in names:
        raise InvalidInput(
            f"{called} must be a column of the rows, which are {names}; received "
            f"{described(name, text=True)}{did_you_mean(name, names)}."
        )
    return column(rows, name)
