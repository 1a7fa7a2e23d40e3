from .classifier import DPLogisticRegression as DPLogisticRegression
from .folds import DealtFolds as DealtFolds
from .regressors import (
    DPHuberRegressor as DPHuberRegressor,
    DPLinearRegression as DPLinearRegression,
    DPPoissonRegressor as DPPoissonRegressor,
    DPQuantileRegressor as DPQuantileRegressor,
)
from .validation import CrossValidation as CrossValidation, cross_validate as cross_validate
