"""Plots of fits.  Matplotlib is imported by the functions, never by the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.arguments import real_array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # distinguishable without red and green


def _matplotlib() -> type[Figure]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("Plots need Matplotlib: pip install 'dpfast[plot]'.") from error
    return Figure


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

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, "huber", privacy=1.0, scale=1.0)
    >>> figure = dpfast.plots.coefficient_plot({"huber": fit})
    """
    new_figure = _matplotlib()

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
    figure = new_figure(figsize=(7.0, 0.9 + 0.6 * len(names)), layout="constrained")
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


def ellipse_plot(
    fits: Mapping[str, Any] | Any,
    first: int | str,
    second: int | str,
    *,
    level: float = 0.95,
    truth: tuple[float, float] | None = None,
    title: str | None = None,
) -> Figure:
    """Joint confidence region of two coefficients, one ellipse for each fit.

    Parameters
    ----------
    fits : Fit or mapping of str to Fit
        Fits with inference; the keys become the legend.
    first, second : int or str
        Position or name of the coefficients on the horizontal and vertical axis.
    level : float
        Joint confidence level (section 5.2 of Avella-Medina, Bradshaw and Loh 2023).
    truth : pair of float, optional
        A point to mark, for simulations.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> fit = dpfast.fit(X, y, "huber", privacy=1.0, scale=1.0)
    >>> figure = dpfast.plots.ellipse_plot(fit, "intercept", "x1")
    """
    new_figure = _matplotlib()

    labelled = dict(fits) if isinstance(fits, Mapping) else {"": fits}
    if not labelled:
        raise ValueError("fits is empty: pass a fit, or a mapping of labels to fits")
    figure = new_figure(figsize=(5.0, 4.6), layout="constrained")
    axes = figure.subplots()
    for index, (label, fit) in enumerate(labelled.items()):
        colour = COLOURS[index % len(COLOURS)]
        boundary = fit.confidence_ellipse(first, second, level)
        axes.plot(*boundary.T, color=colour, linewidth=2, label=label)
        axes.fill(*boundary.T, color=colour, alpha=0.08, linewidth=0)
        axes.plot(*boundary[:-1].mean(axis=0), "o", color=colour)
    if truth is not None:
        axes.plot(*real_array(truth, "truth"), "+", color="black", markersize=12, label="truth")
    reference = next(iter(labelled.values()))
    names = [
        name if isinstance(name, str) else str(reference.names[name]) for name in (first, second)
    ]
    axes.set_xlabel(f"{names[0]}, joint {100 * level:g}% region")
    axes.set_ylabel(names[1])
    if title is not None:
        axes.set_title(title)
    if len(labelled) > 1 or truth is not None:
        axes.legend(frameon=False)
    return figure


def tradeoff_plot(budgets: Mapping[str, Any] | Any, *, title: str | None = None) -> Figure:
    """What an attacker can do at best: true against false positives, one curve per budget.

    Parameters
    ----------
    budgets : Budget, float or mapping of str to them
        The keys become the legend; a float is mu of Gaussian DP.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: it draws guarantees, not data (claim C45).

    Examples
    --------
    >>> figure = dpfast.plots.tradeoff_plot({"strict": 0.5, "loose": dpfast.ApproxDP(1.0, 1e-6)})
    """
    new_figure = _matplotlib()

    from dpfast.privacy.tradeoff import attack_power

    labelled = dict(budgets) if isinstance(budgets, Mapping) else {repr(budgets): budgets}
    rates = np.concatenate([[0.0], np.logspace(-5, 0, 200)])
    figure = new_figure(figsize=(5.0, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="blind guessing")
    for index, (label, budget) in enumerate(labelled.items()):
        power = [attack_power(budget, float(rate)) for rate in rates]
        axes.plot(rates, power, color=COLOURS[index % len(COLOURS)], linewidth=2, label=label)
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("largest possible true-positive rate")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.01)
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="lower right")
    if title is not None:
        axes.set_title(title)
    return figure


def plan_plot(plan: Any, *, title: str | None = None) -> Figure:
    """Expected interval width against the budget and against the number of records.

    Parameters
    ----------
    plan : dpfast.regression.forecast.Plan
        From :func:`dpfast.plan`; it is marked in both panels.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: a plan holds public numbers only.

    Examples
    --------
    >>> figure = dpfast.plots.plan_plot(dpfast.plan(n=10_000, p=3, mu=1.0, scale=1.0))
    """
    new_figure = _matplotlib()

    figure = new_figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    budgets = plan.mu * np.logspace(-1, 1, 25)
    sizes = np.unique(np.rint(plan.n * np.logspace(-1, 1, 25)).astype(int))
    sizes = sizes[sizes >= 10]
    floor = float(plan.sampling_widths[np.argmin(np.abs(plan.widths - plan.width))])
    left.plot(budgets, plan.curve(mu=budgets), color=COLOURS[0], linewidth=2)
    left.axhline(floor, color="0.6", linewidth=1, label="without privacy")
    left.set_xlabel(f"total budget mu (n = {plan.n:,})")
    left.set_ylabel(f"width of the widest {100 * plan.level:g}% interval")
    right.plot(sizes, plan.curve(n=sizes), color=COLOURS[0], linewidth=2, label="private")
    right.plot(
        sizes, floor * np.sqrt(plan.n / sizes), color="0.6", linewidth=1, label="without privacy"
    )
    right.set_xlabel(f"number of records (mu = {plan.mu:.3g})")
    for axes, x in ((left, plan.mu), (right, plan.n)):
        axes.plot([x], [plan.width], "o", color=COLOURS[1])
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    right.legend(frameon=False)
    if title is not None:
        figure.suptitle(title)
    return figure


def trajectory_plot(fit: Any, *, title: str | None = None) -> Figure:
    """Released path of the optimiser: every coefficient after every step.

    Parameters
    ----------
    fit : Fit
        Its last value is drawn with its interval if inference was bought.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: every iterate was released.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> figure = dpfast.plots.trajectory_plot(dpfast.fit(X, y, "huber", privacy=1.0, scale=1.0))
    """
    new_figure = _matplotlib()

    figure = new_figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    path = np.asarray(fit.iterates)
    intervals = np.asarray(fit.conf_int()) if hasattr(fit, "bse") else None
    for j, name in enumerate(fit.names):
        colour = COLOURS[j % len(COLOURS)]
        style = "-" if j < len(COLOURS) else "--"
        axes.plot(path[:, j], style, color=colour, label=name, marker=".")
        if intervals is not None:
            axes.vlines(len(path) - 0.8, *intervals[j], color=colour, linewidth=3)
    note = "" if intervals is None else "; at the end: 95% intervals"
    axes.set_xlabel(f"step (0 is the public start){note}")
    axes.set_ylabel("coefficient")
    axes.legend(frameon=False)
    if title is not None:
        axes.set_title(title)
    return figure


def budget_plot(privacy: Any, *, title: str | None = None) -> Figure:
    """What the budget was spent on: share of each charge, in order.

    Parameters
    ----------
    privacy : Fit, Guarantee or Ledger
        A ledger's unspent part is drawn, too.  Shares add in the ledger's own currency (Gaussian
        DP: squares of mu).
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        If Matplotlib is missing (``pip install 'dpfast[plot]'``).

    Privacy
    -------
    Spends nothing: charges are public.

    Examples
    --------
    >>> ledger = dpfast.Ledger(1.0)
    >>> ledger.charge(0.5, "a query")
    >>> figure = dpfast.plots.budget_plot(ledger)
    """
    new_figure = _matplotlib()

    from dpfast.privacy.ledger import Ledger

    privacy = getattr(privacy, "privacy", privacy)
    if isinstance(privacy, Ledger):
        power = 2.0 if hasattr(privacy.total, "mu") else 1.0
        whole = privacy.total.values()[0] ** power
        charges = [
            (entry.label, entry.charged.values()[0] ** power / whole) for entry in privacy.entries
        ]
    else:
        charges = privacy.shares()
    labels = list(dict.fromkeys(label for label, _ in charges))
    figure = new_figure(figsize=(8.0, 2.0 + 0.15 * len(labels)), layout="constrained")
    axes = figure.subplots()
    left, drawn = 0.0, set()
    for label, share in charges:
        index = labels.index(label)
        first = label not in drawn
        drawn.add(label)
        axes.barh(
            0.0,
            share,
            left=left,
            color=COLOURS[index % len(COLOURS)],
            edgecolor="white",
            label=label if first else None,
        )
        left += share
    if left < 1.0 - 1e-6:
        axes.barh(0.0, 1.0 - left, left=left, color="0.9", label="not spent")
    axes.set_xlim(0.0, max(1.0, left))
    axes.set_yticks([])
    axes.set_xlabel("share of the total budget, in order of the charges")
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    if title is not None:
        axes.set_title(title)
    return figure
