"""Figures that show themselves, say themselves in words, and have a dark mode."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.errors import InvalidInput, described
from dpfast.inference.rendering.digits import short_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # distinguishable without red and green
MARKERS = "osD^vP*X<>"  # and without any colour
STYLES = ("-", "--", ":", "-.")

#: Ink and paper of the dark mode; colours of lines are seen on both.
INK, PAPER = "#eeeeee", "#161616"


def matplotlib_figure() -> type[Figure]:
    """Return Matplotlib's figure, which also shows itself in notebooks and says itself in words."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need Matplotlib: pip install 'dpfast[plot]'.") from error
    return _shown(Figure)


@cache
def _shown(plain: type[Figure]) -> type[Figure]:
    class ShownFigure(plain):  # type: ignore[misc, valid-type]
        """A figure with an alternative text, which notebooks, PNG and SVG files carry."""

        alternative = ""

        def savefig(self, fname: Any, **options: Any) -> None:
            kind = options.get("format") or str(fname).rpartition(".")[2]
            if self.alternative and kind in ("png", "svg"):
                words = {"Description": self.alternative} | (options.get("metadata") or {})
                options["metadata"] = words
            super().savefig(fname, **options)

        def dark(self) -> Any:
            """Turn to light ink on dark paper; return the figure."""
            paint(self, INK, PAPER)
            return self

        def _repr_html_(self) -> str:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=96)
            picture = base64.b64encode(file.getvalue()).decode()
            words = escape(self.alternative)
            return f'<img alt="{words}" src="data:image/png;base64,{picture}">'

    return ShownFigure


def paint(figure: Any, ink: str, paper: str) -> None:
    """Give text, ticks and frames of a figure one colour, and its ground another."""
    from matplotlib.text import Text

    figure.set_facecolor(paper)
    for axes in figure.axes:
        axes.set_facecolor(paper)
        axes.tick_params(colors=ink, which="both")
        for spine in axes.spines.values():
            spine.set_color(ink)
    for text in figure.findobj(Text):
        text.set_color(ink)


def canvas(ax: Any, size: tuple[float, float], columns: int = 1) -> tuple[Any, Any]:
    """Return a figure and its axes: the given ones, or new ones."""
    new_figure = matplotlib_figure()
    if ax is None:
        figure = new_figure(figsize=size, layout="constrained")
        return figure, figure.subplots(1, columns, sharey=columns > 1)
    if columns > 1:
        axes = list(ax) if isinstance(ax, (tuple, list, np.ndarray)) else []
        if len(axes) != columns:
            raise InvalidInput(
                f"ax must be {columns} axes, side by side; received {described(ax)}."
            )
        return axes[0].figure, axes
    return ax.figure, ax


def panels(count: int, size: tuple[float, float], heights: Sequence[float] | None = None) -> Any:
    """Return a new figure and a list of panels: one above the other, or in rows of up to three."""
    figure: Any = matplotlib_figure()(figsize=size, layout="constrained")
    if heights is not None:
        axes = figure.subplots(count, 1, height_ratios=list(heights), squeeze=False)
        return figure, axes.ravel().tolist()
    columns = min(count, 3)
    grid = figure.subplots(-(-count // columns), columns, squeeze=False).ravel().tolist()
    for unused in grid[count:]:
        unused.set_visible(False)
    return figure, grid[:count]


def finished(figure: Any, axes: Any, title: str | None, words: str) -> Figure:
    """Write the title and the alternative text."""
    if title is not None:
        axes.set_title(title)
    if isinstance(figure, matplotlib_figure()):
        figure.alternative = f"{title}. {words}" if title else words  # type: ignore[attr-defined]
    return figure


def legend(figure: Any, axes: Any, count: int, *, new_figure: bool, always: bool = False) -> None:
    """Write names beside the panels, so that they hide nothing; within axes of another figure."""
    if count <= 1 and not always:
        return
    if new_figure:
        handles, labels = axes.get_legend_handles_labels()
        small = "small" if count > 6 else None
        figure.legend(handles, labels, frameon=False, loc="outside right upper", fontsize=small)
    else:
        axes.legend(frameon=False)


def said(value: float, low: float, high: float) -> str:
    """Write an estimate with its interval in words."""
    return f"{short_number(value)} ({short_number(low)} to {short_number(high)})"


def look(index: int) -> tuple[str, str]:
    """Return colour and marker, different for each of forty."""
    return COLOURS[index % len(COLOURS)], MARKERS[index // len(COLOURS) % len(MARKERS)]


def refuse_others(given: Any, right: bool, what: str) -> None:
    """Refuse what is not drawn by this function."""
    if not right:
        matplotlib_figure()  # without it nothing is drawn, whatever it is
        raise InvalidInput(f"what is drawn {what}; received {described(given)}.")
