from ..scaling.standardized import Standardized as Standardized
from .forecast import Plan as Plan
from .quantiles.results import QuantileFits as QuantileFits
