"""Records and objective of what asks for gradients only, records' own objectives among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpfast.front.parts import parts_of, refuse_beside
from dpfast.front.request import Request
from dpfast.models import Loss, Objective, Weighting
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.privacy.noise import NoiseSource

__all__ = ["target_of"]


def target_of(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    scale: float | None,
    weights: Weighting | None,
    fit_intercept: bool,
    ridge: float,
    noise: NoiseSource | None,
    threads: int | None = None,
    names: Sequence[str] | None = None,
) -> tuple[Request, Objective | PerRecordObjective]:
    """The checked arguments and objective of what asks for gradients only."""
    if isinstance(objective, PerRecordObjective):
        refuse_beside(objective, scale, weights, ridge)
        return Request(
            X, y, fit_intercept=False, noise=noise, threads=threads, names=None
        ), objective
    given = parts_of(objective, scale, weights, ridge, fit_intercept)
    request = Request(
        X, y, fit_intercept=given.fit_intercept, noise=noise, threads=threads, names=names,
        bound_to=given.n_covariates,
    )  # fmt: skip
    scale = request.coded_scale(given.scale)
    target = request.objective(given.loss, scale=scale, weights=given.weights, ridge=given.ridge)
    request.check_response(target.loss)
    return request, target
