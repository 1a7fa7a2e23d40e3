"""scikit-learn estimators (the ``sklearn`` extra): private fits in pipelines and cross-validation.

What scikit-learn does *around* an estimator is not under its control: see ``docs/privacy.md``.
"""

from dpfast.estimators.classifier import DPLogisticRegression
from dpfast.estimators.folds import DealtFolds
from dpfast.estimators.regressors import (
    DPHuberRegressor,
    DPLinearRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)
from dpfast.estimators.validation import CrossValidation, cross_validate
from dpfast.lazy import missing

__all__ = [
    "CrossValidation",
    "DPHuberRegressor",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPPoissonRegressor",
    "DPQuantileRegressor",
    "DealtFolds",
    "cross_validate",
]

TYPE_CHECKING = False
if not TYPE_CHECKING:  # type checkers know what is missing by themselves
    __getattr__ = missing(__name__, __all__)
