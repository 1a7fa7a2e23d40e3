"""The same estimator without privacy, to compare with; its result could not be published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator
from dpfast.curator.gradients import GradientCurator
from dpfast.errors import InvalidInput
from dpfast.inference.guarantees import NOT_PRIVATE
from dpfast.inference.request import Request, checked_free_scale, checked_start
from dpfast.inference.results import Fit
from dpfast.inference.sandwich import Covariance
from dpfast.models import FreeScale, Loss, Objective, Weighting
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import SeededNoise

__all__ = [
    "nonprivate_curator",
    "nonprivate_descent",
    "nonprivate_fit",
    "nonprivate_minimize",
]


def nonprivate_fit(
    X: Any,
    y: Any,
    loss: str | Loss,
    *,
    scale: float | FreeScale | None = None,
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
    known, free = checked_free_scale(request.coded_scale(scale))
    objective = request.objective(loss, scale=known, weights=weights, ridge=ridge, free_scale=free)
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, so there is no unique minimiser to find by Newton's "
            "method. Use dpfast.nonprivate_minimize."
        )
    n, p = request.n, objective.dimension
    curator = request.curator(objective, Ledger(1.0))
    theta = np.zeros(p)
    if objective.free_scale is not None:
        theta[-1] = objective.free_scale.start / objective.free_scale.factor
    identity = np.eye(p)
    value = curator.nonprivate_loss(theta) + 0.5 * ridge * theta @ theta
    iterates = [theta]
    for _ in range(max_steps):
        gradient, hessian, _ = curator.nonprivate_sums(theta)
        gradient = gradient + ridge * theta
        for majorize in (False, True):
            if majorize and objective.free_scale is not None:
                candidate = _scale_step(curator, theta)
            else:
                if majorize:
                    _, hessian, _ = curator.nonprivate_sums(theta, majorize=True)
                step = np.linalg.lstsq(hessian + ridge * identity, gradient, rcond=None)[0]
                candidate = objective.project(theta - step)
            new_value = curator.nonprivate_loss(candidate) + 0.5 * ridge * candidate @ candidate
            if new_value <= value:
                break
        else:
            break  # not even the majorising step improves: rounding level
        step, theta, value = candidate - theta, candidate, new_value
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
        privacy=NOT_PRIVATE._replace(n=n),
        iterates=iterates,
        binary_response=objective.loss.binary_response,
        covariance=Covariance((covariance + covariance.T) / 2.0, 0, np.zeros(p)),
        objective=objective,
    )


def _scale_step(curator: Curator, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """Majorise-minimise steps of a joint loss, in the coefficients and then in the scale."""
    gradient, curvature, _ = curator.nonprivate_sums(theta, majorize=True)
    step = np.linalg.lstsq(curvature[:-1, :-1], gradient[:-1], rcond=None)[0]
    theta = np.append(theta[:-1] - step, theta[-1])
    gradient, curvature, _ = curator.nonprivate_sums(theta, majorize=True)
    squared = 1.0 - 2.0 * gradient[-1] / (curvature[-1, -1] * theta[-1])
    theta[-1] *= max(squared, 1e-4) ** 0.5
    return curator.objective.project(theta)


def nonprivate_minimize(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    start: Sequence[float] | None = None,
    scale: float | None = None,
    weights: Weighting | None = None,
    fit_intercept: bool = True,
    ridge: float = 0.0,
) -> Fit:
    """Find the minimum that :func:`dpfast.minimize` approximates: **not private**.

    L-BFGS from ``start`` to the local minimum it leads to; a :class:`PerRecordObjective` needs its
    ``losses``.

    Privacy
    -------
    None.  Nothing about the result is protected.
    """
    curator, origin = nonprivate_curator(
        X, y, objective, start=start, scale=scale, weights=weights,
        fit_intercept=fit_intercept, ridge=ridge,
    )  # fmt: skip
    path = nonprivate_descent(curator, origin)
    target = curator.objective
    return Fit(
        params=path[-1],
        names=tuple(f"w{j + 1}" for j in range(target.dimension)),
        n_records=curator.n,
        model=repr(target),
        method=f"L-BFGS, {len(path) - 1} exact steps",
        privacy=NOT_PRIVATE._replace(n=curator.n),
        covariance=None,
        iterates=path,
        fit_intercept=target.fit_intercept if isinstance(target, Objective) else False,
        coding=getattr(X, "coding", None),
    )


def nonprivate_curator(
    X: Any,
    y: Any,
    objective: str | Loss | Objective | PerRecordObjective,
    *,
    start: Sequence[float] | None = None,
    scale: float | None = None,
    weights: Weighting | None = None,
    fit_intercept: bool = True,
    ridge: float = 0.0,
) -> tuple[GradientCurator, NDArray[np.float64]]:
    """A curator whose exact losses and gradients are to be read, and the start: **not private**."""
    own = isinstance(objective, (Objective, PerRecordObjective))
    if isinstance(objective, Objective):
        fit_intercept = objective.fit_intercept
    elif own:
        fit_intercept = False
    request = Request(
        X, y, fit_intercept=fit_intercept, noise=SeededNoise(0), threads=None, names=None
    )
    target = (
        objective
        if isinstance(objective, (Objective, PerRecordObjective))
        else request.objective(
            objective, scale=request.coded_scale(scale), weights=weights, ridge=ridge
        )
    )
    curator = GradientCurator(request.records, target, Ledger(1.0), request.noise)
    return curator, checked_start(start, target.dimension)


def nonprivate_descent(curator: GradientCurator, start: NDArray[np.float64]) -> NDArray[np.float64]:
    """Iterates of L-BFGS on the exact objective, shape (K + 1, p): **not private**."""
    from scipy.optimize import minimize

    target = curator.objective
    path = [start]

    def value(theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        penalty = 0.5 * target.ridge * float(theta @ theta)
        gradient = curator.nonprivate_gradient(theta) + target.ridge_gradient(theta)
        return curator.nonprivate_loss(theta) + penalty, gradient

    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-12, "maxls": 50}
    minimize(
        value, start, jac=True, method="L-BFGS-B", callback=lambda x: path.append(x.copy()),
        options=options,
    )  # fmt: skip
    return np.array(path)
