"""Tables by declared groupings: counts, shares, means and quantiles with their intervals."""

from dpfast.tables.estimates import counts, means
from dpfast.tables.planning import plan
from dpfast.tables.quantiles import quantiles

__all__ = ["counts", "means", "plan", "quantiles"]
