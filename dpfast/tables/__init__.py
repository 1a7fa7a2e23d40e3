"""Tables by declared groupings: counts, shares, means, distributions and fits, with intervals."""

from dpfast.lazy import missing
from dpfast.tables.absorbed import absorbed
from dpfast.tables.distribution import distribution, quantiles
from dpfast.tables.estimates import counts, means
from dpfast.tables.planning import plan
from dpfast.tables.small_areas import small_areas
from dpfast.tables.subgroups import fits
from dpfast.tables.waves import Waves

__all__ = [
    "Waves", "absorbed", "counts", "distribution", "fits", "means", "plan", "quantiles",
    "small_areas",
]  # fmt: skip

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
