"""Estimators with public constants, for tables that are too small to buy them from."""

from __future__ import annotations

from typing import Any

import dpfast.estimators
from dpfast.estimators import (
    DPHuberRegressor,
    DPLogisticRegression,
    DPPoissonRegressor,
    DPQuantileRegressor,
)

#: Every estimator there is.
ESTIMATORS = tuple(
    getattr(dpfast.estimators, name)
    for name in sorted(dpfast.estimators.__all__)
    if name.startswith("DP")
)

CONSTANTS: dict[Any, dict[str, Any]] = {
    DPHuberRegressor: {"scale": 1.0},
    DPQuantileRegressor: {"scale": 1.0},
    DPLogisticRegression: {"standardize": False},
    DPPoissonRegressor: {"loss": dpfast.Poisson(3.0), "standardize": False},
}


def declared(kind: Any, *arguments: Any, **options: Any) -> Any:
    """The estimator, with what its class needs to buy nothing."""
    return kind(*arguments, **(CONSTANTS.get(kind, {}) | options))
