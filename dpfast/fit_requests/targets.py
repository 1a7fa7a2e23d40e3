"""Records and objectives of methods that use gradients only, per-record objectives included."""

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
    """Check the arguments of a method that uses gradients only; return request and objective."""
    if isinstance(objective, PerRecordObjective):
        source = source_of(X, y).but(names=None)  # of parameters
        request = FitRequest(
            source, None, fit_intercept=False, noise=noise,
            instead="A gradient of your own reads the columns of X: put it there.",
        )  # fmt: skip
        return request, objective
    terms = terms_of(objective)
    request = FitRequest(
        X, y, fit_intercept=terms.fit_intercept, noise=noise, bound_to=terms.n_covariates,
        takes=("sample_weight",),
    )  # fmt: skip
    scale = request.coded_scale(terms.scale)
    target = request.objective(terms.loss, scale=scale, weights=terms.weights, ridge=terms.ridge)
    request.check_response(target.loss)
    return request, target
