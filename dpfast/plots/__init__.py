"""Plots of results.  Matplotlib is imported by the functions, never by the modules."""

from dpfast.lazy import missing
from dpfast.plots.budgets import budget_plot, plan_plot, search_plot, tradeoff_plot
from dpfast.plots.cells import cell_plot, distribution_plot
from dpfast.plots.coefficients import coefficient_plot
from dpfast.plots.dispatch import plot
from dpfast.plots.predictions import prediction_plot
from dpfast.plots.processes import quantile_plot

__all__ = [
    "budget_plot",
    "cell_plot",
    "coefficient_plot",
    "distribution_plot",
    "plan_plot",
    "plot",
    "prediction_plot",
    "quantile_plot",
    "search_plot",
    "tradeoff_plot",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
