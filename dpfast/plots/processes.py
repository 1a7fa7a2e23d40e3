"""Plot of quantile processes: coefficients along the quantile level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpfast.inference.degrees import coverage
from dpfast.plots.estimates import Estimate, chosen_names, renamed
from dpfast.plots.figures import COLOURS, finished, panels, refuse_others, said
from dpfast.regression.quantiles.results import QuantileFits

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def quantile_plot(
    fits: Any,
    *,
    keep: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    level: float = 0.95,
    title: str | None = None,
) -> Figure:
    """Plot each coefficient against the quantile level, in a panel of its own, with intervals.

    Parameters
    ----------
    fits : QuantileFits
        From :func:`dpfast.fit_quantiles`.
    keep, drop, labels, level, title
        As of :func:`coefficient_plot`, whose figure it is like.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (4000, 1))
    >>> y = X[:, 0] + rng.normal(size=4000)
    >>> fits = dpfast.fit_quantiles(X, y, [0.25, 0.5, 0.75], privacy=4.0)
    >>> figure = dpfast.plots.quantile_plot(fits, drop="intercept")
    """
    refuse_others(fits, isinstance(fits, QuantileFits), "is a result of dpfast.fit_quantiles")
    level = coverage(level)
    ends, values = fits.conf_int(level), fits.params
    index = {name: j for j, name in enumerate(fits.names)}
    first = {name: Estimate(0.0, 0.0, 0.0) for name in fits.names}
    names = chosen_names({"": first}, keep, drop)
    columns, rows = min(len(names), 3), -(-len(names) // 3)
    figure, axes = panels(len(names), (1.0 + 2.8 * columns, 0.6 + 2.4 * rows))
    words = []
    for name, text, panel in zip(names, renamed(names, labels), axes, strict=True):
        j = index[name]
        low, high = ends[:, j].T
        panel.fill_between(fits.taus, low, high, color=COLOURS[0], alpha=0.2, linewidth=0)
        panel.plot(fits.taus, values[:, j], "o-", color=COLOURS[0], linewidth=2)
        if np.min(low) <= 0.0 <= np.max(high):
            panel.axhline(0.0, color="0.7", linewidth=1, zorder=0)
        panel.set_title(text, fontsize="medium")
        panel.set_xlabel("quantile level")
        told = [
            f"{said(values[k, j], low[k], high[k])} at {fits.taus[k]:g}"
            for k in (0, len(fits.taus) - 1)
        ]
        words.append(f"{text} {', '.join(told)}")
    axes[0].set_ylabel(f"coefficient with {100 * level:g}% interval")
    if title is not None:
        figure.suptitle(title)
    description = f"Coefficients by quantile level. {'; '.join(words)}."
    return finished(figure, axes[0], None, f"{title}. {description}" if title else description)
