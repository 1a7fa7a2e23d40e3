from .forecast import Plan as Plan
from .quantiles.results import QuantileFits as QuantileFits
from .standardise import Standardized as Standardized
