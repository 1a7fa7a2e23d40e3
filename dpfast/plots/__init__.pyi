from .budgets import (
    budget_plot as budget_plot,
    plan_plot as plan_plot,
    search_plot as search_plot,
    tradeoff_plot as tradeoff_plot,
)
from .cells import cell_plot as cell_plot, distribution_plot as distribution_plot
from .coefficients import coefficient_plot as coefficient_plot
from .dispatch import plot as plot
from .predictions import prediction_plot as prediction_plot
from .processes import quantile_plot as quantile_plot
