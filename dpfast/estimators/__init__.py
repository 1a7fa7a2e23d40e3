"""scikit-learn estimators (the ``sklearn`` extra): private fits in pipelines and cross-validation.

Bounds, classes and the number of columns are declared, ``score`` is a paid noisy query, and no
message quotes a value.  What scikit-learn does *around* an estimator is not under its control:
stratified folds, bootstraps, boosting, stacking, exact scorers, scalers and imputers see records
without paying (``docs/privacy.md``).
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
