"""Tables by declared groupings: counts, shares, means, quantiles and fits, with intervals."""

from dpfast.tables.absorbed import absorbed
from dpfast.tables.estimates import counts, means
from dpfast.tables.planning import plan
from dpfast.tables.quantiles import quantiles
from dpfast.tables.subgroups import fits

__all__ = ["absorbed", "counts", "fits", "means", "plan", "quantiles"]
