"""The plot of a result, by its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpfast.bayesopt.result import Tuning
from dpfast.plots.budgets import plan_plot, search_plot
from dpfast.plots.cells import cell_plot, distribution_plot
from dpfast.plots.coefficients import coefficient_plot
from dpfast.plots.processes import quantile_plot
from dpfast.regression.forecast import Plan
from dpfast.regression.quantiles.results import QuantileFits
from dpfast.tables.cell_estimates import CellEstimates
from dpfast.tables.distribution_table import DistributionTable
from dpfast.tables.results import CellTable, QuantileTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Which function draws which kind; others have coefficients.
KINDS: tuple[tuple[Any, Any], ...] = (
    (QuantileFits, quantile_plot),
    ((CellTable, QuantileTable, CellEstimates), cell_plot),
    (DistributionTable, distribution_plot),
    (Tuning, search_plot),
    (Plan, plan_plot),
)


def plot(result: Any, **options: Any) -> Figure:
    """Plot a result as its kind is drawn.

    Parameters
    ----------
    result : Fit or another result
    **options
        Of the function for its kind: :func:`quantile_plot` of quantile fits, :func:`cell_plot` of
        tables by cell, :func:`distribution_plot`, :func:`search_plot`, :func:`plan_plot`, and
        :func:`coefficient_plot` of all others.

    Privacy
    -------
    Spends nothing: it draws numbers that were already released.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> fit = dpfast.fit(X, 0.5 * X[:, 0], dpfast.Objective("huber", scale=1.0), privacy=1.0)
    >>> figure = dpfast.plots.plot(fit, keep="x1")
    """
    drawn = next((draw for kind, draw in KINDS if isinstance(result, kind)), coefficient_plot)
    return drawn(result, **options)
