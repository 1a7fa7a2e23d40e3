"""Sampling error of released functionals: a private sandwich bought with a share of the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.release.terms import difference, in_units
from dpfast.kernels.linalg import sandwich as sandwich_covariance
from dpfast.optimize import Newton
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.release.pilot import PlannedRun, plan_run
from dpfast.release.request import ReleaseRequest

Array = NDArray[np.float64]


def divided(total: ApproxDP, share: float) -> tuple[ApproxDP, ApproxDP]:
    """What is left of a budget, and the share of it that is set aside: exactly the total at most.
    ``total * (1 - share)``, rounded, and ``total * share``, rounded, are more than the total for
    one pair of numbers in three, by a last bit."""
    aside = ApproxDP(*[in_units(whole * share, whole) for whole in total.values()])
    return difference(total, aside), aside


def plan_sandwich(request: ReleaseRequest, budget: ApproxDP) -> PlannedRun:
    """Divide a budget among the steps; refuses an impossible one and costs nothing."""
    return plan_run(request, Ledger(GDP.within(budget)), Newton(), True)


def sampling_errors(sandwich: PlannedRun, directions: Array) -> Array:
    """Standard errors of ``directions @ theta``, from noisy Newton steps and a noisy sandwich.
    Spends the plan's budget, as a private fit of :func:`dpfast.fit` does (claims C9 to C19)."""
    curator, p = sandwich.curator, sandwich.curator.objective.dimension
    trajectory = sandwich.run()
    hessian, meat = trajectory.final.hessian, trajectory.final.meat
    floor = 2.0 * hessian.noise_scale * p**0.5
    ridged = hessian.value + curator.objective.ridge * np.eye(p)
    covariance, _, _ = sandwich_covariance(ridged, meat.value, floor)
    variance = np.einsum("ij,jk,ik->i", directions, covariance, directions) / curator.n
    return np.sqrt(np.maximum(variance, 0.0))
