from . import (
    audit as audit,
    bayesopt as bayesopt,
    datasets as datasets,
    effects as effects,
    errors as errors,
    estimators as estimators,
    inference as inference,
    models as models,
    nonconvex as nonconvex,
    optimize as optimize,
    papers as papers,
    plots as plots,
    privacy as privacy,
    quantiles as quantiles,
    regression as regression,
    release as release,
    saved as saved,
    studies as studies,
    tables as tables,
)
from .bayesopt.tuning import tune as tune
from .data.files.parquet import open_parquet as open_parquet
from .data.schema import (
    Binary as Binary,
    Categorical as Categorical,
    Numeric as Numeric,
    Schema as Schema,
)
from .data.source import records as records
from .errors import (
    BudgetExceeded as BudgetExceeded,
    DpfastError as DpfastError,
    InvalidInput as InvalidInput,
)
from .inference import Fit as Fit
from .inference.rendering.compare import compare as compare
from .models import (
    Bounded as Bounded,
    CustomLoss as CustomLoss,
    FreeScale as FreeScale,
    Huber as Huber,
    LogCosh as LogCosh,
    Logistic as Logistic,
    Mallows as Mallows,
    Objective as Objective,
)
from .models.poisson import Poisson as Poisson
from .models.quantile import Quantile as Quantile
from .nonconvex.minimize import minimize as minimize
from .privacy.budget import GDP as GDP, ZCDP as ZCDP, ApproxDP as ApproxDP, PureDP as PureDP
from .privacy.ledger import Ledger as Ledger
from .privacy.noise import SeededNoise as SeededNoise
from .quantiles import private_quantiles as private_quantiles
from .regression.fit import fit as fit
from .regression.forecast import plan as plan
from .regression.many import fit_many as fit_many
from .regression.nonprivate import nonprivate_fit as nonprivate_fit
from .regression.quantiles.fitting import fit_quantiles as fit_quantiles
from .release import (
    release_functional as release_functional,
    release_parameter as release_parameter,
)
from .scaling.standardize import standardize as standardize
from .studies import Study as Study

__version__: str
