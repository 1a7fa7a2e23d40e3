"""dpfast: fast, private M-estimation with honest confidence intervals.

What the commonest tasks need is here, and the rest in rooms: ``dpfast.models``,
``dpfast.optimize``, ``dpfast.audit`` and others, which ``dir(dpfast)`` lists.  Importing this
package loads neither NumPy nor SciPy; each public name is loaded on first use.
"""

from importlib import import_module

from dpfast.lazy import lazy_getattr

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms

__version__ = "1.0.0"

#: Where each public name lives.  The imports at the end say the same to type checkers; a test holds
#: the two against each other and against docs/api.md.
_HOMES = {
    "dpfast.bayesopt.tuning": "tune",
    "dpfast.data.files.parquet": "open_parquet",
    "dpfast.data.schema": "Binary Categorical Numeric Schema",
    "dpfast.data.source": "records",
    "dpfast.errors": "BudgetExceeded DpfastError InvalidInput",
    "dpfast.inference": "Fit",
    "dpfast.inference.rendering.compare": "compare",
    "dpfast.models": "Bounded CustomLoss FreeScale Huber LogCosh Logistic Mallows Objective",
    "dpfast.models.poisson": "Poisson",
    "dpfast.models.quantile": "Quantile",
    "dpfast.nonconvex.minimize": "minimize",
    "dpfast.privacy.budget": "ApproxDP GDP PureDP ZCDP",
    "dpfast.privacy.ledger": "Ledger",
    "dpfast.privacy.noise": "SeededNoise",
    "dpfast.quantiles": "private_quantiles",
    "dpfast.regression.fit": "fit",
    "dpfast.regression.forecast": "plan",
    "dpfast.regression.formula": "fit_formula",
    "dpfast.regression.nonprivate": "nonprivate_fit",
    "dpfast.regression.quantiles.fitting": "fit_quantiles",
    "dpfast.regression.standardise": "standardize",
    "dpfast.release": "release_functional release_parameter",
    "dpfast.studies": "Study",
}

#: Modules that are reached as attributes, loaded on first use.
_ROOMS = {
    "audit",
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

__all__ = ["__version__", *" ".join(_HOMES.values()).split()]


if TYPE_CHECKING:
    from dpfast import (
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
        plots as plots,
        privacy as privacy,
        quantiles as quantiles,
        regression as regression,
        release as release,
        saved as saved,
        studies as studies,
        tables as tables,
    )
    from dpfast.bayesopt.tuning import tune as tune
    from dpfast.data.files.parquet import open_parquet as open_parquet
    from dpfast.data.schema import (
        Binary as Binary,
        Categorical as Categorical,
        Numeric as Numeric,
        Schema as Schema,
    )
    from dpfast.data.source import records as records
    from dpfast.errors import (
        BudgetExceeded as BudgetExceeded,
        DpfastError as DpfastError,
        InvalidInput as InvalidInput,
    )
    from dpfast.inference import Fit as Fit
    from dpfast.inference.rendering.compare import compare as compare
    from dpfast.models import (
        Bounded as Bounded,
        CustomLoss as CustomLoss,
        FreeScale as FreeScale,
        Huber as Huber,
        LogCosh as LogCosh,
        Logistic as Logistic,
        Mallows as Mallows,
        Objective as Objective,
    )
    from dpfast.models.poisson import Poisson as Poisson
    from dpfast.models.quantile import Quantile as Quantile
    from dpfast.nonconvex.minimize import minimize as minimize
    from dpfast.privacy.budget import (
        GDP as GDP,
        ZCDP as ZCDP,
        ApproxDP as ApproxDP,
        PureDP as PureDP,
    )
    from dpfast.privacy.ledger import Ledger as Ledger
    from dpfast.privacy.noise import SeededNoise as SeededNoise
    from dpfast.quantiles import private_quantiles as private_quantiles
    from dpfast.regression.fit import fit as fit
    from dpfast.regression.forecast import plan as plan
    from dpfast.regression.formula import fit_formula as fit_formula
    from dpfast.regression.nonprivate import nonprivate_fit as nonprivate_fit
    from dpfast.regression.quantiles.fitting import fit_quantiles as fit_quantiles
    from dpfast.regression.standardise import standardize as standardize
    from dpfast.release import (
        release_functional as release_functional,
        release_parameter as release_parameter,
    )
    from dpfast.studies import Study as Study


def _elsewhere(name: str) -> str:
    """What to write for a name that is looked for here, or the room that lists it; loads none."""
    from importlib.util import find_spec

    from dpfast.lazy import hint

    if told := hint(name):
        return told
    for room in sorted(_ROOMS) if name[:1] != "_" else ():
        found = find_spec(f"dpfast.{room}")
        if found is not None and found.origin is not None:
            with open(found.origin, encoding="utf-8") as file:
                text = file.read()
            listed = text.partition("\n__all__ = [")[2].partition("]")[0] or text
            if f'"{name}"' in listed or f"\ndef {name}(" in listed:
                return f". It is dpfast.{room}.{name}."
    return "."


_find = lazy_getattr(__name__, _HOMES, _elsewhere)


def __getattr__(name: str) -> object:
    return import_module(f"dpfast.{name}") if name in _ROOMS else _find(name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
