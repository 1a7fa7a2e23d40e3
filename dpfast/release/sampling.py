"""Sampling error of released functionals: a private sandwich bought with a share of the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.linalg import sandwich
from dpfast.optimize import Newton, resolve_schedule
from dpfast.optimize.planning import plan_steps
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.release.request import ReleaseRequest

__all__ = ["sampling_errors"]

Array = NDArray[np.float64]


def sampling_errors(request: ReleaseRequest, directions: Array, budget: ApproxDP) -> Array:
    """Standard errors of ``directions @ theta``, from noisy Newton steps and a noisy sandwich.

    Parameters
    ----------
    request : ReleaseRequest
    directions : ndarray of shape (k, p)
    budget : ApproxDP

    Returns
    -------
    ndarray of shape (k,)
        ``sqrt(w' H^-1 Q H^-1 w / n)`` of the released H and Q.

    Privacy
    -------
    Spends ``budget``, as a private fit of :func:`dpfast.fit` does (claims C9 to C19).
    """
    total = GDP.within(budget)
    curator = request.curator(Ledger(total))
    objective = curator.objective
    optimiser = Newton()
    n_steps, schedule = optimiser.defaults(objective, request.n, total.mu)
    budgets = plan_steps(
        optimiser, objective, total.mu, resolve_schedule(schedule, schedule), n_steps, True
    )
    trajectory = optimiser.run(curator, np.zeros(request.dimension), budgets, None, 0.0)
    hessian, meat = trajectory.final.hessian, trajectory.final.meat
    floor = 2.0 * hessian.noise_scale * request.dimension**0.5
    ridged = hessian.value + objective.ridge * np.eye(request.dimension)
    covariance, _, _ = sandwich(ridged, meat.value, floor)
    variance = np.einsum("ij,jk,ik->i", directions, covariance, directions) / request.n
    return np.sqrt(np.maximum(variance, 0.0))
