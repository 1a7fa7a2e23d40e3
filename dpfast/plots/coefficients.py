"""Plot of coefficients, of one result or of several side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import flag
from dpfast.errors import understood
from dpfast.inference.degrees import coverage
from dpfast.plots.estimates import Estimate, chosen_names, labelled, renamed
from dpfast.plots.figures import canvas, finished, legend, look, panels as new_panels, said

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A panel holds intervals that reach from a 20th of its scale to all of it.  Shorter ones would be
#: hidden by their marks, which are a 50th of the panel.
SCALE_OF_PANEL = 20.0


@understood
def coefficient_plot(
    fits: Mapping[str, Any] | Sequence[Any] | Any,
    *,
    keep: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    exponentiate: bool = False,
    panels: bool = True,
    level: float = 0.95,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Plot coefficients with their confidence intervals, one row each.

    Parameters
    ----------
    fits : Fit or another result, sequence or mapping of str to them
        Results with names and intervals; their terms may differ.  Fits by level and quantiles are
        drawn level by level.  The keys become the legend, which is beside the panels.
    keep : str or sequence of str, optional
        Only these coefficients, in this order; a factor's name is all its levels.
    drop : str or sequence of str
        Not these.
    labels : mapping of str to str, optional
        What to write in the place of names.
    exponentiate : bool
        Draw ratios, exp(coefficient), on a logarithmic axis.
    panels : bool
        Whether coefficients of different scales have panels of their own, so that one wide
        interval hides none.  With ``ax`` there is one panel.
    level : float
        Confidence level of the intervals.
    title : str, optional
    ax : matplotlib.axes.Axes, optional
        Draw there, and not in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Notebooks show it; ``figure.alternative`` says it in words, and ``figure.dark()`` makes its
        paper dark.  Not attached to pyplot, so that nothing has to be closed;
        ``figure.savefig(...)`` writes it, words included.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0), privacy=1.0)
    >>> figure = dpfast.plots.coefficient_plot({"huber": fit}, keep="x1", labels={"x1": "Dose"})
    """
    found = labelled(fits, coverage(level))
    names = chosen_names(found, keep, drop)
    shown = dict(zip(names, renamed(names, labels), strict=True))
    exponentiate = flag(exponentiate, "exponentiate")
    if exponentiate:
        found = {label: _exponentials(estimates) for label, estimates in found.items()}
    groups = [names]
    if ax is None and flag(panels, "panels"):
        groups = by_scale(names, found, logarithms=exponentiate)
    height = max(0.4, 0.16 * len(found))
    if ax is None:
        size = (7.0, 0.8 + 0.5 * len(groups) + height * len(names))
        figure, axes = new_panels(len(groups), size, [len(group) + 0.5 for group in groups])
    else:
        figure, axes = canvas(ax, (7.0, 1.0))[0], [ax]
    for group, panel in zip(groups, axes, strict=True):
        _draw(panel, group, found, shown, exponentiate)
    what = "ratio" if exponentiate else "coefficient"
    axes[-1].set_xlabel(f"{what} with {100 * level:g}% interval")
    legend(figure, axes[0], len(found), new_figure=ax is None)
    return finished(figure, axes[0], title, _in_words(found, shown, exponentiate))


def _draw(
    axes: Any,
    names: Sequence[str],
    found: Mapping[str, Mapping[str, Estimate]],
    shown: Mapping[str, str],
    exponentiate: bool,
) -> None:
    """Draw some coefficients of every result in one panel."""
    rows = {name: len(names) - 1 - k for k, name in enumerate(names)}
    offsets = np.linspace(0.3, -0.3, len(found)) if len(found) > 1 else [0.0]
    for index, ((label, estimates), offset) in enumerate(zip(found.items(), offsets, strict=True)):
        mine = [name for name in names if name in estimates]
        at = np.array([rows[name] + offset for name in mine])
        numbers = np.array([estimates[name] for name in mine]).reshape(-1, 3).T
        colour, marker = look(index)
        axes.hlines(at, numbers[1], numbers[2], color=colour, linewidth=2)
        axes.plot(numbers[0], at, marker, color=colour, label=label)
    axes.axvline(1.0 if exponentiate else 0.0, color="0.7", linewidth=1, zorder=0)
    axes.set_yticks([rows[name] for name in names], [textwrap.fill(shown[n], 32) for n in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    if exponentiate:
        _logarithmic(axes)
    axes.margins(x=0.06)


def _logarithmic(axes: Any) -> None:
    """Make a logarithmic axis with plain numbers, where numbers span more than a factor of 2."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axes.get_xlim()
    if high < 2.0 * low:  # where it differs little from a linear one
        return
    axes.set_xscale("log")
    parts = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 12.0 * low else (1.0, 2.0, 5.0)
    axes.xaxis.set_major_locator(LogLocator(subs=parts if high < 1e3 * low else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def by_scale(
    names: Sequence[str],
    found: Mapping[str, Mapping[str, Estimate]],
    *,
    logarithms: bool = False,
) -> list[list[str]]:
    """Group names whose intervals can be seen on one axis, in the order of their first one."""
    reach = {name: _reach(name, found, logarithms) for name in names}
    panel: dict[str, int] = {}
    limit, count = np.inf, -1
    for name in sorted(names, key=lambda name: -reach[name]):
        if reach[name] * SCALE_OF_PANEL < limit:
            limit, count = reach[name], count + 1
        panel[name] = count
    order = dict.fromkeys(panel[name] for name in names)
    return [[name for name in names if panel[name] == k] for k in order]


def _reach(name: str, found: Mapping[str, Mapping[str, Estimate]], logarithms: bool) -> float:
    """Return how far from no effect the intervals of a coefficient reach."""
    ends = np.array([estimates[name] for estimates in found.values() if name in estimates])
    with np.errstate(all="ignore"):
        ends = np.log(ends) if logarithms else ends
    finite = np.abs(ends[np.isfinite(ends)])
    return float(finite.max()) if finite.size and finite.max() > 0.0 else 1.0


def _exponentials(estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
    with np.errstate(all="ignore"):
        return {name: Estimate(*map(float, np.exp(e))) for name, e in estimates.items()}


def _in_words(
    found: Mapping[str, Mapping[str, Estimate]], shown: Mapping[str, str], ratios: bool
) -> str:
    words = []
    for label, estimates in found.items():
        texts = [f"{text} {said(*estimates[n])}" for n, text in shown.items() if n in estimates]
        words.append(f"{label}: {', '.join(texts)}" if label else ", ".join(texts))
    return f"{'Ratios' if ratios else 'Coefficients'} with intervals. {'; '.join(words)}."
