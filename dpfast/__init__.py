"""dpfast: fast, private M-estimation with honest confidence intervals.

Importing this package loads neither NumPy nor SciPy; each public name is loaded on first use.
"""

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it for true; importing typing would cost 8 ms

__version__ = "0.1.0"

_HOMES = {
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
    "DpfastError": "dpfast.errors",
    "EntropyNoise": "dpfast.privacy.noise",
    "Fit": "dpfast.inference",
    "GDP": "dpfast.privacy.budget",
    "GemanMcClure": "dpfast.models",
    "Geometric": "dpfast.optimize",
    "GradientDescent": "dpfast.optimize",
    "Huber": "dpfast.models",
    "Interval": "dpfast.models",
    "InvalidBudget": "dpfast.errors",
    "InvalidInput": "dpfast.errors",
    "Ledger": "dpfast.privacy.ledger",
    "LogCosh": "dpfast.models",
    "Logistic": "dpfast.models",
    "LpBall": "dpfast.models",
    "Mallows": "dpfast.models",
    "MallowsLinear": "dpfast.models",
    "Newton": "dpfast.optimize",
    "Numeric": "dpfast.data.schema",
    "OneHot": "dpfast.models",
    "OstrovskiiBach": "dpfast.models",
    "Product": "dpfast.models",
    "PseudoHuber": "dpfast.models",
    "PureDP": "dpfast.privacy.budget",
    "Schema": "dpfast.data.schema",
    "Schweppe": "dpfast.models",
    "SeededNoise": "dpfast.privacy.noise",
    "SmoothAbsolute": "dpfast.models",
    "SmoothedHuber": "dpfast.models",
    "TukeyBiweight": "dpfast.models",
    "Uniform": "dpfast.optimize",
    "Welsch": "dpfast.models",
    "ZCDP": "dpfast.privacy.budget",
    "certify": "dpfast.release",
    "fit": "dpfast.regression",
    "fit_formula": "dpfast.tables",
    "nonprivate_fit": "dpfast.nonprivate",
    "plan": "dpfast.study",
    "private_quantiles": "dpfast.quantiles",
    "tune": "dpfast.bayesopt.tuning",
    "with_private_scaling": "dpfast.quantiles",
    "release_functional": "dpfast.release",
    "release_parameter": "dpfast.release",
}

__all__ = [
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
    "DpfastError",
    "EntropyNoise",
    "Fit",
    "GDP",
    "GemanMcClure",
    "Geometric",
    "GradientDescent",
    "Huber",
    "Interval",
    "InvalidBudget",
    "InvalidInput",
    "Ledger",
    "LogCosh",
    "Logistic",
    "LpBall",
    "Mallows",
    "MallowsLinear",
    "Newton",
    "Numeric",
    "OneHot",
    "OstrovskiiBach",
    "Product",
    "PseudoHuber",
    "PureDP",
    "Schema",
    "Schweppe",
    "SeededNoise",
    "SmoothAbsolute",
    "SmoothedHuber",
    "TukeyBiweight",
    "Uniform",
    "Welsch",
    "ZCDP",
    "__version__",
    "certify",
    "fit",
    "fit_formula",
    "nonprivate_fit",
    "plan",
    "private_quantiles",
    "tune",
    "with_private_scaling",
    "release_functional",
    "release_parameter",
]


if TYPE_CHECKING:
    from dpfast.bayesopt.tuning import tune
    from dpfast.data.schema import Binary, Categorical, Numeric, Schema
    from dpfast.errors import BudgetExceeded, DpfastError, InvalidBudget, InvalidInput
    from dpfast.inference import Fit
    from dpfast.models import (
        Ball,
        Bounded,
        Box,
        Cauchy,
        Clip,
        GemanMcClure,
        Huber,
        Interval,
        LogCosh,
        Logistic,
        LpBall,
        Mallows,
        OneHot,
        Product,
        PseudoHuber,
        TukeyBiweight,
        Welsch,
    )
    from dpfast.nonprivate import nonprivate_fit
    from dpfast.optimize import Geometric, GradientDescent, Newton, Uniform
    from dpfast.privacy.budget import GDP, ZCDP, ApproxDP, PureDP
    from dpfast.privacy.ledger import Ledger
    from dpfast.privacy.noise import EntropyNoise, SeededNoise
    from dpfast.quantiles import private_quantiles, with_private_scaling
    from dpfast.regression import fit
    from dpfast.release import certify, release_functional, release_parameter
    from dpfast.study import plan
    from dpfast.tables import fit_formula


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        if name in {"audit", "baselines", "bayesopt", "datasets"}:
            return import_module(f"dpfast.{name}")
        raise AttributeError(f"module 'dpfast' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
