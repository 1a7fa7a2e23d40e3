"""Steps that several analyses share: private units within their budget, and its lower limit."""

from __future__ import annotations

import math
from typing import Any

from dpfast.errors import InvalidBudget
from dpfast.fit_requests.request import FitRequest
from dpfast.regression.scaling_budget import MIN_RECORDS_FACTOR, ScalingBudget
from dpfast.regression.standardise import PrivateScaling


def plan_scaling(request: FitRequest, mu: float, **options: Any) -> tuple[PrivateScaling, float]:
    """Plan private units out of a mu; return their search and the mu left."""
    columns = request.n_covariates + int(options.get("response", True))
    share = ScalingBudget(request.n, columns, mu).share()
    purchase = PrivateScaling(request, mu * math.sqrt(share), whole=mu, **options)
    return purchase, mu * math.sqrt(1.0 - share)


def refuse_too_few_records(n: int, p: int, mu: float, estimates: str, fewer: str) -> None:
    """Refuse a budget at which the estimates would be mostly noise."""
    if n * mu < (needed := MIN_RECORDS_FACTOR * p**1.5):
        raise InvalidBudget(
            f"n mu = {n * mu:.3g} is below 20 p^1.5 = {needed:.3g}{estimates} would be noise. Use "
            f"more records, a larger budget, or fewer {fewer}."
        )
