"""dpfast: fast, private M-estimation with honest confidence intervals.

What the commonest tasks need is here, and the rest in rooms: ``dpfast.models``,
``dpfast.optimize``, ``dpfast.audit`` and others, which ``dir(dpfast)`` lists.  Importing this
package loads neither NumPy nor SciPy; each public name is loaded on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms

__version__ = "1.0.0"

#: Where each public name lives.  The imports at the end say the same to type checkers; a test holds
#: the two against each other and against docs/api.md.
_HOMES = {
    "ApproxDP": "dpfast.privacy.budget",
    "Binary": "dpfast.data.schema",
    "Bounded": "dpfast.models",
    "BudgetExceeded": "dpfast.errors",
    "Categorical": "dpfast.data.schema",
    "CustomLoss": "dpfast.models",
    "DpfastError": "dpfast.errors",
    "Fit": "dpfast.inference",
    "FreeScale": "dpfast.models",
    "GDP": "dpfast.privacy.budget",
    "Huber": "dpfast.models",
    "InvalidInput": "dpfast.errors",
    "Ledger": "dpfast.privacy.ledger",
    "LogCosh": "dpfast.models",
    "Logistic": "dpfast.models",
    "Mallows": "dpfast.models",
    "Numeric": "dpfast.data.schema",
    "Objective": "dpfast.models",
    "Poisson": "dpfast.models.poisson",
    "PureDP": "dpfast.privacy.budget",
    "Quantile": "dpfast.models.quantile",
    "Schema": "dpfast.data.schema",
    "SeededNoise": "dpfast.privacy.noise",
    "Study": "dpfast.studies",
    "ZCDP": "dpfast.privacy.budget",
    "compare": "dpfast.inference.shown.compare",
    "fit": "dpfast.regression.fit",
    "fit_formula": "dpfast.regression.formula",
    "fit_quantiles": "dpfast.regression.quantiles.fitting",
    "minimize": "dpfast.nonconvex.minimize",
    "nonprivate_fit": "dpfast.regression.nonprivate",
    "open_parquet": "dpfast.data.files.parquet",
    "plan": "dpfast.regression.forecast",
    "private_quantiles": "dpfast.quantiles",
    "records": "dpfast.data.source",
    "release_functional": "dpfast.release",
    "release_parameter": "dpfast.release",
    "standardize": "dpfast.regression.standardise",
    "tune": "dpfast.bayesopt.tuning",
}

#: Modules that are reached as attributes, loaded on first use.
_ROOMS = {
    "audit",
    "baselines",
    "bayesopt",
    "datasets",
    "effects",
    "errors",
    "estimators",
    "inference",
    "models",
    "nonconvex",
    "optimize",
    "plots",
    "privacy",
    "quantiles",
    "regression",
    "release",
    "saved",
    "studies",
    "tables",
}

__all__ = [
    "ApproxDP",
    "Binary",
    "Bounded",
    "BudgetExceeded",
    "Categorical",
    "CustomLoss",
    "DpfastError",
    "Fit",
    "FreeScale",
    "GDP",
    "Huber",
    "InvalidInput",
    "Ledger",
    "LogCosh",
    "Logistic",
    "Mallows",
    "Numeric",
    "Objective",
    "Poisson",
    "PureDP",
    "Quantile",
    "Schema",
    "SeededNoise",
    "Study",
    "ZCDP",
    "__version__",
    "compare",
    "fit",
    "fit_formula",
    "fit_quantiles",
    "minimize",
    "nonprivate_fit",
    "open_parquet",
    "plan",
    "private_quantiles",
    "records",
    "release_functional",
    "release_parameter",
    "standardize",
    "tune",
]


if TYPE_CHECKING:
    from dpfast import (
        audit as audit,
        baselines as baselines,
        bayesopt as bayesopt,
        datasets as datasets,
        effects as effects,
        errors as errors,
        estimators as estimators,
        inference as inference,
        models as models,
        nonconvex as nonconvex,
        optimize as optimize,
        plots as plots,
        privacy as privacy,
        quantiles as quantiles,
        regression as regression,
        release as release,
        saved as saved,
        studies as studies,
        tables as tables,
    )
    from dpfast.bayesopt.tuning import tune
    from dpfast.data.files.parquet import open_parquet
    from dpfast.data.schema import Binary, Categorical, Numeric, Schema
    from dpfast.data.source import records
    from dpfast.errors import BudgetExceeded, DpfastError, InvalidInput
    from dpfast.inference import Fit
    from dpfast.inference.shown.compare import compare
    from dpfast.models import (
        Bounded,
        CustomLoss,
        FreeScale,
        Huber,
        LogCosh,
        Logistic,
        Mallows,
        Objective,
    )
    from dpfast.models.poisson import Poisson
    from dpfast.models.quantile import Quantile
    from dpfast.nonconvex.minimize import minimize
    from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
    from dpfast.privacy.ledger import Ledger
    from dpfast.privacy.noise import SeededNoise
    from dpfast.quantiles import private_quantiles
    from dpfast.regression.fit import fit
    from dpfast.regression.forecast import plan
    from dpfast.regression.formula import fit_formula
    from dpfast.regression.nonprivate import nonprivate_fit
    from dpfast.regression.quantiles.fitting import fit_quantiles
    from dpfast.regression.standardise import standardize
    from dpfast.release import release_functional, release_parameter
    from dpfast.studies import Study


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"dpfast.{name}")
    home = _HOMES.get(name)
    if home is None:
        from dpfast.habits import NAMES

        hint = f" Write {NAMES[name]}." if name in NAMES else _elsewhere(name)
        raise AttributeError(f"module 'dpfast' has no attribute {name!r}.{hint}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def _elsewhere(name: str) -> str:
    """The room that lists a name, for those who look for it here; none is loaded for that."""
    from importlib.util import find_spec

    for room in sorted(_ROOMS) if name[:1] != "_" else ():
        found = find_spec(f"dpfast.{room}")
        if found is not None and found.origin is not None:
            with open(found.origin, encoding="utf-8") as file:
                text = file.read()
            listed = text.partition("\n__all__ = [")[2].partition("]")[0] or text
            if f'"{name}"' in listed or f"\ndef {name}(" in listed:
                return f" It is dpfast.{room}.{name}."
    return ""


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
