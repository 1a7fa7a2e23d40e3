"""Plots of budgets, plans and searches: attacks, widths, shares of charges, steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.inference.rendering.digits import short_number
from dpfast.plots.figures import COLOURS, STYLES, canvas, finished, legend, look, refuse_others
from dpfast.privacy.budget import as_budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HATCHES = ("", "//", "..", "xx")


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
    labelled = dict(budgets) if isinstance(budgets, Mapping) else {repr(budgets): budgets}
    rates = np.concatenate([[0.0], np.logspace(-5, 0, 200)])
    figure, axes = canvas(ax, (5.0, 4.6))
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="blind guessing")
    words = []
    for index, (label, budget) in enumerate(labelled.items()):
        spend = as_budget(budget)
        power = [spend.attack_power(float(rate)) for rate in rates]
        colour, style = COLOURS[index % 4], STYLES[index // 4 % 4]
        axes.plot(rates, power, style, color=colour, linewidth=2, label=label)
        words.append(f"{label}: at most {100 * spend.attack_power(0.05):.3g}%")
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("largest possible true-positive rate")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="lower right")
    description = f"True positives of any attack at 5% false positives. {'; '.join(words)}."
    return finished(figure, axes, title, description)


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
    refuse_others(plan, hasattr(plan, "curve"), "is a result of dpfast.plan")
    figure, (left, right) = canvas(ax, (9.0, 3.8), columns=2)
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
    return finished(figure, left, title, str(plan))


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
            (entry.label, entry.paid.values()[0] ** power / whole) for entry in privacy.entries
        ]
    else:
        refuse_others(privacy, hasattr(privacy, "shares"), "is a fit, its privacy or a ledger")
        charges = privacy.shares()
    labels = list(dict.fromkeys(label for label, _ in charges))
    figure, axes = canvas(ax, (8.0, 2.0 + 0.15 * len(labels)))
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
    return finished(figure, axes, title, f"Shares of the budget: {description}.")


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
