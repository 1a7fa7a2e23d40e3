"""Records and objective of what asks for gradients only, records' own objectives among them."""

from __future__ import annotations

from typing import Any

from dpfast.data.source import source_of
from dpfast.fit_requests.request import FitRequest
from dpfast.models import Loss, Objective
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.models.objective import terms_of
from dpfast.privacy.noise import NoiseSource


def target_of(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    noise: NoiseSource | None,
) -> tuple[FitRequest, Objective | PerRecordObjective]:
    """The checked arguments and objective of what asks for gradients only."""
    if isinstance(objective, PerRecordObjective):
        source = source_of(X, y).but(names=None)  # of parameters
        return FitRequest(source, None, fit_intercept=False, noise=noise), objective
    given = terms_of(objective)
    request = FitRequest(
        X, y, fit_intercept=given.fit_intercept, noise=noise, bound_to=given.n_covariates
    )
    scale = request.coded_scale(given.scale)
    target = request.objective(given.loss, scale=scale, weights=given.weights, ridge=given.ridge)
    request.check_response(target.loss)
    return request, target
