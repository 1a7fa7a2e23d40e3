"""dpfast: fast, private M-estimation with honest confidence intervals.

Importing this package loads neither NumPy nor SciPy; each public name is loaded on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms

__version__ = "0.1.0"

#: Where each public name lives.  The imports at the end say the same to type checkers; a test holds
#: the two against each other and against docs/api.md.
_HOMES = {
    "Adaptive": "dpfast.optimize",
    "AdaptiveNewton": "dpfast.optimize",
    "ApproxDP": "dpfast.privacy.budget",
    "Ball": "dpfast.models",
    "Binary": "dpfast.data.schema",
    "Bounded": "dpfast.models",
    "Box": "dpfast.models",
    "BudgetExceeded": "dpfast.errors",
    "Categorical": "dpfast.data.schema",
    "Cauchy": "dpfast.models",
    "Clip": "dpfast.models",
    "CustomLoss": "dpfast.models",
    "DoubleNoise": "dpfast.optimize",
    "DpfastError": "dpfast.errors",
    "EntropyNoise": "dpfast.privacy.noise",
    "Fit": "dpfast.inference",
    "FreeScale": "dpfast.models",
    "GDP": "dpfast.privacy.budget",
    "GemanMcClure": "dpfast.models",
    "Geometric": "dpfast.optimize",
    "GradientDescent": "dpfast.optimize",
    "Huber": "dpfast.models",
    "Interval": "dpfast.models",
    "InvalidBudget": "dpfast.errors",
    "InvalidInput": "dpfast.errors",
    "JointNewton": "dpfast.optimize",
    "KL": "dpfast.models",
    "Ledger": "dpfast.privacy.ledger",
    "LogCosh": "dpfast.models",
    "Logistic": "dpfast.models",
    "LpBall": "dpfast.models",
    "Mallows": "dpfast.models",
    "MallowsLinear": "dpfast.models",
    "Minimum": "dpfast.nonconvex.minimize",
    "Newton": "dpfast.optimize",
    "NoisyDescent": "dpfast.optimize",
    "Numeric": "dpfast.data.schema",
    "Objective": "dpfast.models",
    "OneHot": "dpfast.models",
    "OstrovskiiBach": "dpfast.models",
    "PerRecordObjective": "dpfast.models",
    "Plan": "dpfast.regression.forecast",
    "Poisson": "dpfast.models.poisson",
    "Product": "dpfast.models",
    "Proximal": "dpfast.optimize",
    "PseudoHuber": "dpfast.models",
    "PureDP": "dpfast.privacy.budget",
    "Quantile": "dpfast.models.quantile",
    "QuantileFits": "dpfast.regression.quantiles.results",
    "Schema": "dpfast.data.schema",
    "Schweppe": "dpfast.models",
    "SeededNoise": "dpfast.privacy.noise",
    "SmoothAbsolute": "dpfast.models",
    "SmoothedHuber": "dpfast.models",
    "Spider": "dpfast.optimize",
    "TukeyBiweight": "dpfast.models",
    "Uniform": "dpfast.optimize",
    "Welsch": "dpfast.models",
    "ZCDP": "dpfast.privacy.budget",
    "certify": "dpfast.release",
    "compare": "dpfast.inference.shown.compare",
    "estimate_kl": "dpfast.nonconvex.kl",
    "fit": "dpfast.regression.fit",
    "fit_formula": "dpfast.regression.formula",
    "fit_quantiles": "dpfast.regression.quantiles.fitting",
    "minimize": "dpfast.nonconvex.minimize",
    "nonprivate_fit": "dpfast.regression.nonprivate",
    "nonprivate_minimize": "dpfast.regression.nonprivate",
    "one_hidden_layer": "dpfast.models",
    "open_parquet": "dpfast.data.files.parquet",
    "phase_retrieval": "dpfast.models",
    "plan": "dpfast.regression.forecast",
    "plan_release": "dpfast.release",
    "private_quantiles": "dpfast.quantiles",
    "release_functional": "dpfast.release",
    "release_parameter": "dpfast.release",
    "standardize": "dpfast.regression.standardise",
    "tune": "dpfast.bayesopt.tuning",
    "verify_report": "dpfast.inference.shown.transcript",
    "with_private_scaling": "dpfast.quantiles",
}

#: Modules that are reached as attributes, loaded on first use.
_ROOMS = {
    "audit", "baselines", "bayesopt", "datasets", "effects", "errors", "estimators", "plots",
    "tables",
}  # fmt: skip

__all__ = [
    "Adaptive",
    "AdaptiveNewton",
    "ApproxDP",
    "Ball",
    "Binary",
    "Bounded",
    "Box",
    "BudgetExceeded",
    "Categorical",
    "Cauchy",
    "Clip",
    "CustomLoss",
    "DoubleNoise",
    "DpfastError",
    "EntropyNoise",
    "Fit",
    "FreeScale",
    "GDP",
    "GemanMcClure",
    "Geometric",
    "GradientDescent",
    "Huber",
    "Interval",
    "InvalidBudget",
    "InvalidInput",
    "JointNewton",
    "KL",
    "Ledger",
    "LogCosh",
    "Logistic",
    "LpBall",
    "Mallows",
    "MallowsLinear",
    "Minimum",
    "Newton",
    "NoisyDescent",
    "Numeric",
    "Objective",
    "OneHot",
    "OstrovskiiBach",
    "PerRecordObjective",
    "Plan",
    "Poisson",
    "Product",
    "Proximal",
    "PseudoHuber",
    "PureDP",
    "Quantile",
    "QuantileFits",
    "Schema",
    "Schweppe",
    "SeededNoise",
    "SmoothAbsolute",
    "SmoothedHuber",
    "Spider",
    "TukeyBiweight",
    "Uniform",
    "Welsch",
    "ZCDP",
    "__version__",
    "certify",
    "compare",
    "estimate_kl",
    "fit",
    "fit_formula",
    "fit_quantiles",
    "minimize",
    "nonprivate_fit",
    "nonprivate_minimize",
    "one_hidden_layer",
    "open_parquet",
    "phase_retrieval",
    "plan",
    "plan_release",
    "private_quantiles",
    "release_functional",
    "release_parameter",
    "standardize",
    "tune",
    "verify_report",
    "with_private_scaling",
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
        plots as plots,
        tables as tables,
    )
    from dpfast.bayesopt.tuning import tune
    from dpfast.data.files.parquet import open_parquet
    from dpfast.data.schema import Binary, Categorical, Numeric, Schema
    from dpfast.errors import BudgetExceeded, DpfastError, InvalidBudget, InvalidInput
    from dpfast.inference import Fit
    from dpfast.inference.shown.compare import compare
    from dpfast.inference.shown.transcript import verify_report
    from dpfast.models import (
        KL,
        Ball,
        Bounded,
        Box,
        Cauchy,
        Clip,
        CustomLoss,
        FreeScale,
        GemanMcClure,
        Huber,
        Interval,
        LogCosh,
        Logistic,
        LpBall,
        Mallows,
        MallowsLinear,
        Objective,
        OneHot,
        OstrovskiiBach,
        PerRecordObjective,
        Product,
        PseudoHuber,
        Schweppe,
        SmoothAbsolute,
        SmoothedHuber,
        TukeyBiweight,
        Welsch,
        one_hidden_layer,
        phase_retrieval,
    )
    from dpfast.models.poisson import Poisson
    from dpfast.models.quantile import Quantile
    from dpfast.nonconvex.kl import estimate_kl
    from dpfast.nonconvex.minimize import Minimum, minimize
    from dpfast.optimize import (
        Adaptive,
        AdaptiveNewton,
        DoubleNoise,
        Geometric,
        GradientDescent,
        JointNewton,
        Newton,
        NoisyDescent,
        Proximal,
        Spider,
        Uniform,
    )
    from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
    from dpfast.privacy.ledger import Ledger
    from dpfast.privacy.noise import EntropyNoise, SeededNoise
    from dpfast.quantiles import private_quantiles, with_private_scaling
    from dpfast.regression.fit import fit
    from dpfast.regression.forecast import Plan, plan
    from dpfast.regression.formula import fit_formula
    from dpfast.regression.nonprivate import nonprivate_fit, nonprivate_minimize
    from dpfast.regression.quantiles.fitting import fit_quantiles
    from dpfast.regression.quantiles.results import QuantileFits
    from dpfast.regression.standardise import standardize
    from dpfast.release import certify, plan_release, release_functional, release_parameter


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"dpfast.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dpfast' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
