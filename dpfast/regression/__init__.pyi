from ..scaling.like import like as like
from ..scaling.standardized import Standardized as Standardized
from .forecast import Plan as Plan
from .goodness import GoodnessOfFit as GoodnessOfFit, goodness_of_fit as goodness_of_fit
from .quantiles.results import QuantileFits as QuantileFits
from .sparse import fit_sparse as fit_sparse
