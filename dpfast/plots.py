"""Plots of fits.  Matplotlib is imported by the functions, never by the module."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Mapping, Sequence
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
HATCHES = ("", "//", "..", "xx")

#: More lines than this are named beside the picture, not within it.
INSIDE = 6


def _matplotlib() -> type[Figure]:
    """Matplotlib's figure that shows itself in notebooks and can be told in words."""
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

        def _repr_html_(self) -> str:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=96)
            picture = base64.b64encode(file.getvalue()).decode()
            words = escape(self.alternative)
            return f'<img alt="{words}" src="data:image/png;base64,{picture}">'

    return ShownFigure


def _canvas(ax: Any, size: tuple[float, float], columns: int = 1) -> tuple[Any, Any]:
    """Return a figure and its axes: the given ones, or new ones."""
    new_figure = _matplotlib()
    if ax is None:
        figure = new_figure(figsize=size, layout="constrained")
        return figure, figure.subplots(1, columns, sharey=columns > 1)
    if columns > 1:
        axes = list(ax) if isinstance(ax, (tuple, list, np.ndarray)) else []
        if len(axes) != columns:
            raise ValueError(f"ax must be {columns} axes, side by side")
        return axes[0].figure, axes
    return ax.figure, ax


def _finished(figure: Any, axes: Any, title: str | None, words: str) -> Figure:
    if title is not None:
        axes.set_title(title)
    if isinstance(figure, _matplotlib()):
        figure.alternative = f"{title}. {words}" if title else words  # type: ignore[attr-defined]
    return figure


def _labelled(fits: Mapping[str, Any] | Any) -> dict[str, Any]:
    if type(fits) in (list, tuple):  # headed as dpfast.compare heads them
        return _labelled({f"({k})": fit for k, fit in enumerate(fits, 1)})
    labelled = dict(fits) if isinstance(fits, Mapping) else {"": fits}
    right = [
        np.ndim(getattr(fit, "params", 0)) == 1 and hasattr(fit, "conf_int")
        for fit in labelled.values()
    ]
    _refuse_others(fits, all(right), "are fits of dpfast.fit")  # values of a mapping may be data
    if not labelled:
        raise ValueError("fits is empty: pass a fit, or a mapping of labels to fits")
    return labelled


def _refuse_others(given: Any, right: bool, what: str) -> None:
    if not right:
        _matplotlib()  # without it nothing is drawn, whatever it is
        raise InvalidInput(f"what is drawn {what}; received {described(given)}.")


def _legend(figure: Any, axes: Any, count: int, *, new_figure: bool, always: bool = False) -> None:
    """Names within the axes while there is room, else beside them."""
    if count > INSIDE and new_figure:
        figure.legend(frameon=False, loc="outside right upper", fontsize="small")
    elif count > 1 or always:
        axes.legend(frameon=False, fontsize="small" if count > INSIDE else None)


def _said(value: float, low: float, high: float) -> str:
    return f"{short_number(value)} ({short_number(low)} to {short_number(high)})"


def _look(index: int) -> tuple[str, str]:
    """Colour and marker, different for each of forty."""
    return COLOURS[index % len(COLOURS)], MARKERS[index // len(COLOURS) % len(MARKERS)]


def _chosen(names: Sequence[str], all_names: list[str]) -> list[str]:
    """Names of coefficients to be drawn; one alone may stand without brackets."""
    chosen = [names] if isinstance(names, str) else list(names)
    unknown = sum(name not in all_names for name in chosen)
    if unknown or not chosen:
        raise ValueError(
            f"names must be of coefficients, which are {all_names}; got {len(chosen)} names, "
            f"of which {unknown} are of none"
        )
    return chosen


def coefficient_plot(
    fits: Mapping[str, Any] | Any,
    *,
    names: Sequence[str] | None = None,
    level: float = 0.95,
    title: str | None = None,
    ax: Any = None,
) -> Figure:
    """Coefficients with their confidence intervals, one row each.

    Parameters
    ----------
    fits : Fit, sequence of Fit or mapping of str to Fit
        Fits with inference and the same coefficients; the keys become the legend.
    names : sequence of str, optional
        Only these coefficients, in this order; an intercept is often far from the others.
    level : float
        Confidence level of the intervals.
    title : str, optional
    ax : matplotlib.axes.Axes, optional
        Draw there, and not in a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        Notebooks show it; ``figure.alternative`` says it in words.  Not attached to
        pyplot, so that nothing has to be closed; ``figure.savefig(...)`` writes it, words included.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, dpfast.Objective("huber", scale=1.0), privacy=1.0)
    >>> figure = dpfast.plots.coefficient_plot({"huber": fit}, names=["x1"])
    """
    _matplotlib()
    labelled = _labelled(fits)
    all_names = list(next(iter(labelled.values())).names)
    for label, fit in labelled.items():
        if list(fit.names) != all_names:
            raise ValueError(
                f"all fits must have the same coefficients; {label!r} has {list(fit.names)}, "
                f"the first one {all_names}"
            )
    names = all_names if names is None else _chosen(names, all_names)
    indices = [all_names.index(name) for name in names]
    height = max(0.4, 0.16 * len(labelled)) * len(names)
    figure, axes = _canvas(ax, (7.0, 1.2 + height))
    rows, words = np.arange(len(names))[::-1], []
    offsets = np.linspace(0.3, -0.3, len(labelled)) if len(labelled) > 1 else [0.0]
    for index, ((label, fit), offset) in enumerate(zip(labelled.items(), offsets, strict=True)):
        low, high = np.asarray(fit.conf_int(level))[indices].T
        values = np.asarray(fit.params)[indices]
        colour, marker = _look(index)
        axes.hlines(rows + offset, low, high, color=colour, linewidth=2)
        axes.plot(values, rows + offset, marker, color=colour, label=label)
        told = zip(names, values, low, high, strict=True)
        texts = [f"{name} {_said(value, *ends)}" for name, value, *ends in told]
        words.append(f"{label}: {', '.join(texts)}" if label else ", ".join(texts))
    axes.axvline(0.0, color="0.7", linewidth=1, zorder=0)
    axes.set_yticks(rows, [textwrap.fill(name, 32) for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.margins(x=0.06)
    axes.set_xlabel(f"coefficient with {100 * level:g}% interval")
    _legend(figure, axes, len(labelled), new_figure=ax is None)
    return _finished(figure, axes, title, f"Coefficients with intervals. {'; '.join(words)}.")


def tradeoff_plot(
    budgets: Mapping[str, Any] | Any, *, title: str | None = None, ax: Any = None
) -> Figure:
    """Plot the best attack: true against false positives, one curve per budget.

    Parameters
    ----------
    budgets : Budget, float or mapping of str to them
        The keys become the legend; a float is mu of Gaussian DP.
    title, ax
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: it draws guarantees, not data (claim C45).

    Examples
    --------
    >>> figure = dpfast.plots.tradeoff_plot({"strict": 0.5, "loose": dpfast.ApproxDP(1.0, 1e-6)})
    """
    from dpfast.privacy.tradeoff import attack_power

    labelled = dict(budgets) if isinstance(budgets, Mapping) else {repr(budgets): budgets}
    rates = np.concatenate([[0.0], np.logspace(-5, 0, 200)])
    figure, axes = _canvas(ax, (5.0, 4.6))
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="blind guessing")
    words = []
    for index, (label, budget) in enumerate(labelled.items()):
        power = [attack_power(budget, float(rate)) for rate in rates]
        colour, style = COLOURS[index % 4], STYLES[index // 4 % 4]
        axes.plot(rates, power, style, color=colour, linewidth=2, label=label)
        words.append(f"{label}: at most {100 * attack_power(budget, 0.05):.3g}%")
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("largest possible true-positive rate")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="lower right")
    description = f"True positives of any attack at 5% false positives. {'; '.join(words)}."
    return _finished(figure, axes, title, description)


def plan_plot(plan: Any, *, title: str | None = None, ax: Any = None) -> Figure:
    """Plot expected interval width against the budget and the number of records.

    Parameters
    ----------
    plan : dpfast.regression.forecast.Plan
        From :func:`dpfast.plan`; it is marked in both panels.
    title, ax
        As of :func:`coefficient_plot`, whose figure it is like; ``ax`` is a pair of axes.

    Privacy
    -------
    Spends nothing: a plan holds public numbers only.

    Examples
    --------
    >>> figure = dpfast.plots.plan_plot(
    ...     dpfast.plan(n=10_000, p=3, privacy=1.0, loss=dpfast.Objective("log-cosh", scale=1.0))
    ... )
    """
    _refuse_others(plan, hasattr(plan, "curve"), "is a result of dpfast.plan")
    figure, (left, right) = _canvas(ax, (9.0, 3.8), columns=2)
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    budgets = plan.mu * np.logspace(-1, 1, 25)
    sizes = np.unique(np.rint(plan.n * np.logspace(-1, 1, 25)).astype(int))
    sizes = sizes[sizes >= 10]
    floor = float(plan.sampling_widths[np.argmin(np.abs(plan.widths - plan.width))])
    left.plot(budgets, plan.curve(mu=budgets), color=COLOURS[0], linewidth=2, label="private")
    left.axhline(floor, color="0.5", linewidth=1.5, linestyle="--", label="without privacy")
    left.set_xlabel(f"total budget mu (n = {plan.n:,})")
    left.set_ylabel(f"width of the widest {100 * plan.level:g}% interval")
    right.plot(sizes, plan.curve(n=sizes), color=COLOURS[0], linewidth=2, label="private")
    without = floor * np.sqrt(plan.n / sizes)
    right.plot(sizes, without, color="0.5", linewidth=1.5, linestyle="--", label="without privacy")
    right.set_xlabel(f"number of records (mu = {plan.mu:.3g})")
    for axes, x in ((left, plan.mu), (right, plan.n)):
        axes.plot([x], [plan.width], "o", color=COLOURS[1], label="the plan")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            has_few_ticks = axis is right.xaxis or high > 1e4 * low
            axis.set_major_locator(LogLocator(subs=(1.0,) if has_few_ticks else (1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axis.set_minor_formatter(NullFormatter())
    right.legend(frameon=False)
    if title is not None and ax is None:
        figure.suptitle(title)
        title = None
    return _finished(figure, left, title, str(plan))


def budget_plot(privacy: Any, *, title: str | None = None, ax: Any = None) -> Figure:
    """Plot the share of each charge in the budget, in order.

    Parameters
    ----------
    privacy : Fit, Guarantee or Ledger
        A ledger's unspent part is drawn, too.  Shares add in the ledger's own currency (Gaussian
        DP: squares of mu).
    title, ax
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: charges are public.

    Examples
    --------
    >>> ledger = dpfast.Ledger(1.0)
    >>> ledger.charge(0.5, "a query")
    >>> figure = dpfast.plots.budget_plot(ledger)
    """
    from dpfast.privacy.ledger import Ledger

    privacy = getattr(privacy, "privacy", privacy)
    if isinstance(privacy, Ledger):
        power = 2.0 if hasattr(privacy.total, "mu") else 1.0
        whole = privacy.total.values()[0] ** power
        charges = [
            (entry.label, entry.charged.values()[0] ** power / whole) for entry in privacy.entries
        ]
    else:
        _refuse_others(privacy, hasattr(privacy, "shares"), "is a fit, its privacy or a ledger")
        charges = privacy.shares()
    labels = list(dict.fromkeys(label for label, _ in charges))
    figure, axes = _canvas(ax, (8.0, 2.0 + 0.15 * len(labels)))
    position, drawn = 0.0, set()
    for label, share in charges:
        index = labels.index(label)
        first = label not in drawn
        drawn.add(label)
        axes.barh(
            0.0,
            share,
            left=position,
            color=COLOURS[index % len(COLOURS)],
            hatch=HATCHES[index // len(COLOURS) % len(HATCHES)],
            edgecolor="white",
            label=label if first else None,
        )
        position += share
    if position < 1.0 - 1e-6:
        axes.barh(0.0, 1.0 - position, left=position, color="0.9", label="not spent")
    axes.set_xlim(0.0, max(1.0, position))
    axes.set_yticks([])
    axes.set_xlabel("share of the total budget, in order of the charges")
    if ax is None:
        figure.legend(frameon=False, loc="outside lower center", ncols=2)
    else:
        axes.legend(frameon=False, ncols=2)
    sums = {label: sum(share for name, share in charges if name == label) for label in labels}
    description = ", ".join(f"{label} {100 * share:.3g}%" for label, share in sums.items())
    return _finished(figure, axes, title, f"Shares of the budget: {description}.")


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
    _refuse_others(found, hasattr(found, "batch_sizes"), "is a result of dpfast.bayesopt.tune")
    figure, axes = _canvas(ax, (6.5, 3.8))
    path = found.iterates
    steps, standing_out = np.arange(len(path)), np.flatnonzero(found.stands_out) + 1
    for j, column in enumerate(np.transpose(path)):
        colour, marker = _look(j)
        line = axes.plot(steps, column, color=colour, linewidth=1.5, label=f"theta{j + 1}")[0]
        if len(found.gradients):
            line.set(marker=marker, markerfacecolor="white")
            axes.plot(steps[standing_out], column[standing_out], marker, color=colour)
    axes.set_xlabel("step")
    axes.set_ylabel("parameter, as searched")
    _legend(figure, axes, len(found.theta), new_figure=ax is None)
    ends = ", ".join(short_number(value) for value in path[-1])
    description = (
        f"{len(standing_out)} of {len(found.gradients)} gradients stand out of their noise"
    )
    return _finished(figure, axes, title, f"{len(path) - 1} steps, to {ends}; {description}.")
