"""The same estimator without privacy, to compare with; its result could not be published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpfast.errors import InvalidInput
from dpfast.inference.request import Request
from dpfast.inference.results import Fit, Guarantee
from dpfast.inference.sandwich import Covariance
from dpfast.models import Loss, Weighting
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise

__all__ = ["nonprivate_fit"]


def nonprivate_fit(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    scale: float | None = None,
    fit_intercept: bool = True,
    weights: Weighting | None = None,
    ridge: float = 0.0,
    names: Sequence[str] | None = None,
    tolerance: float = 1e-10,
    max_steps: int = 200,
) -> Fit:
    """Fit the objective of :func:`dpfast.fit` exactly: **not private**, for comparison only.

    Majorise-minimise steps from zero until Newton's steps take over; ordinary sandwich errors.

    Privacy
    -------
    None.  Nothing about the result is protected.
    """
    request = Request(
        X, y, fit_intercept=fit_intercept, noise=SeededNoise(0), threads=None, names=names
    )
    objective = request.objective(loss, scale=scale, weights=weights, ridge=ridge)
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, so there is no unique minimiser to find by Newton's "
            "method. Use dpfast.nonprivate_minimize."
        )
    n, p = request.n, request.dimension
    curator = request.curator(objective, Ledger(1.0))
    theta = np.zeros(p)
    identity = np.eye(p)
    value = curator.nonprivate_loss(theta) + 0.5 * ridge * theta @ theta
    iterates = [theta]
    for _ in range(max_steps):
        gradient, hessian, _ = curator.nonprivate_sums(theta)
        gradient = gradient + ridge * theta
        for majorize in (False, True):
            if majorize:
                _, hessian, _ = curator.nonprivate_sums(theta, majorize=True)
            step = np.linalg.lstsq(hessian + ridge * identity, gradient, rcond=None)[0]
            candidate = theta - step
            new_value = curator.nonprivate_loss(candidate) + 0.5 * ridge * candidate @ candidate
            if new_value <= value:
                break
        else:
            break  # not even the majorising step improves: rounding level
        theta, value = candidate, new_value
        iterates.append(theta)
        if np.abs(step).max() <= tolerance * (1.0 + np.abs(theta).max()):
            break
    _, hessian, meat = curator.nonprivate_sums(theta)
    inverse = np.linalg.pinv(hessian + ridge * identity)
    covariance = inverse @ meat @ inverse / n
    return request.fit(
        theta,
        model=repr(objective),
        method=f"Newton, {len(iterates) - 1} exact steps",
        privacy=Guarantee("none (not private)", float("inf"), "none", n, ()),
        iterates=iterates,
        binary_response=objective.loss.binary_response,
        covariance=Covariance((covariance + covariance.T) / 2.0, 0, np.zeros(p)),
    )
