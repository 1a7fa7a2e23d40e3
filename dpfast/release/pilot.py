"""A pilot fit: an estimate, the curvature there, and what is known of its error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator import Curator
from dpfast.curator.release.terms import difference
from dpfast.errors import InvalidInput
from dpfast.inference.rendering.targets import hidden_directions
from dpfast.inference.sandwich import pooled
from dpfast.kernels.linalg import eigh, floor_eigenvalues, sandwich as sandwich_covariance
from dpfast.optimize import Newton
from dpfast.optimize.answers import Answers
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.planning import choose_method
from dpfast.optimize.propagation import Curvature
from dpfast.optimize.protocol import Method, answers_only, own_noise, planned, public_copy
from dpfast.optimize.trajectory import Trajectory, with_ridge
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.release.request import ReleaseRequest

#: Least curvature that is divided by.
LEAST = 1e-300


class PlannedRun(NamedTuple):
    """A run of an optimiser that was found to be possible."""

    curator: Curator
    answers: Answers
    optimiser: Method
    budgets: Budgets

    def run(self) -> Trajectory:
        """Spend the budgets, from the origin."""
        start = self.curator.objective.origin()
        return self.optimiser.run(self.answers, start, self.budgets)


def plan_run(
    request: ReleaseRequest,
    ledger: Ledger,
    method: str | Method = "auto",
    inference: bool | None = None,
) -> PlannedRun:
    """Divide a ledger's GDP total among steps; refuses an impossible one and costs nothing."""
    assert isinstance(ledger.total, GDP)
    curator, mu = request.curator(ledger), ledger.total.mu
    objective = curator.objective
    if not objective.has_curvature:
        raise InvalidInput(
            f"{objective.curvature_refusal()}, which a release of single coefficients needs. Use "
            "dpfast.fit."
        )
    optimiser, _ = choose_method(method, public_copy(objective), request.n, mu)
    if inference is None:
        inference = optimiser.name == "gradient-descent"
    budgets = planned(optimiser, public_copy(objective), request.n, mu, inference)
    for step in budgets:
        curator.plan(step)
    answers = answers_only(curator, budgets)
    optimiser.check(answers, budgets)
    return PlannedRun(curator, answers, optimiser, budgets)


class Pilot(NamedTuple):
    """What a run released, and what its optimiser knows about it."""

    theta: Array
    #: With the ridge, and no eigenvalue below its noise.
    curvature: Array
    #: Of the curvature's noise.
    curvature_scale: float
    #: Covariance of the privacy noise in the estimate, and of what noise hides of the curvature.
    noise: Array
    #: What a step leaves of the second part.
    hidden: Array
    #: Estimated error left by stopping.
    unfinished: Array
    #: As those of a fit.
    warnings: tuple[str, ...]

    def steps(self, directions: Array) -> Array:
        """``H^-1 w`` for each direction w, shape (k, p)."""
        return np.asarray(np.linalg.solve(self.curvature, directions.T).T)

    def errors_left(self, steps: Array, mean: float, bend: float) -> Array:
        """About how far one Newton step from here ends from the minimiser, for each direction."""
        noise, left, curvature = self.noise, self.unfinished, self.curvature
        spread = float(np.trace(noise) + left @ left)
        along = np.einsum("ij,jk,ik->i", steps, noise, steps) + (steps @ left) ** 2
        squares = np.einsum("ij,ij->i", steps, steps)
        curved = self.curvature_scale * np.sqrt(0.5 * (squares * spread + along))
        # a row's a'x is about the root of w'H^-1 w over the mean curvature
        length = float(np.vdot(curvature, noise) + left @ curvature @ left)
        typical = np.sqrt(np.einsum("ij,jk,ik->i", steps, curvature, steps) / mean)
        bent = 0.5 * bend * typical * length
        back = steps @ curvature
        whole = np.sqrt(np.einsum("ij,jk,ik->i", back, noise, back)) + np.abs(back @ left)
        stays = np.sqrt(np.einsum("ij,jk,ik->i", back, self.hidden, back))
        return np.hypot(np.fmin(np.hypot(curved, bent), whole), stays)


def pilot_of(planned_run: PlannedRun) -> Pilot:
    """Run it, and ask the optimiser about its own error; spends as a private fit (C9 to C19)."""
    found = planned_run.run()
    hessian, scale = pooled(found.hessians or (found.final.hessian,))
    ridge = planned_run.curator.objective.ridge
    matrix = with_ridge(hessian, ridge)
    floor = 2.0 * scale * len(hessian) ** 0.5
    values, vectors = eigh(matrix)
    floored, unseen = floor_eigenvalues(matrix, floor)[0], vectors[:, values < floor]
    signal, count = float(found.theta @ floored @ found.theta), unseen.shape[1]
    if planned_run.curator.objective.fit_intercept:
        signal -= float(floored[0] @ found.theta) ** 2 / float(floored[0, 0])
    # as much of the signal may be along each as there is along others in the mean; a step, which
    # goes as far as if the curvature was the floor, leaves a part
    may_be = max(signal, 0.0) / (len(matrix) * max(floor, LEAST))
    short = 1.0 - np.maximum(values[values < floor], 0.0) / max(floor, LEAST)
    stays = np.minimum(1.0, np.square(short) + 0.25 / len(matrix))  # noise is floor/(2 sqrt(p))
    hidden = unseen @ unseen.T * may_be
    said = (hidden_directions(count, len(matrix)),) * bool(count)
    noise = own_noise(planned_run.optimiser, found, Curvature(matrix, floor, count, ridge))
    return Pilot(
        found.theta, floored, scale, noise.covariance + hidden,
        (unseen * stays) @ unseen.T * may_be, noise.unfinished,
        (*noise.remarks, *said),
    )  # fmt: skip


def divided(total: ApproxDP, share: float) -> tuple[ApproxDP, ApproxDP]:
    """What is left of a budget, and the share of it set aside: exactly the total at most."""
    aside = ApproxDP(*[whole * share for whole in total.values()])
    return difference(total, aside), aside


def plan_sandwich(request: ReleaseRequest, budget: ApproxDP) -> PlannedRun:
    """Divide a budget among the steps; refuses an impossible one and costs nothing."""
    return plan_run(request, Ledger(GDP.within(budget)), Newton(), True)


def sampling_errors(sandwich: PlannedRun, directions: Array) -> Array:
    """Standard errors of ``directions @ theta``; spends as a private fit (claims C9 to C19)."""
    curator, p = sandwich.curator, sandwich.curator.objective.dimension
    trajectory = sandwich.run()
    hessian, meat = trajectory.final.hessian, trajectory.final.meat
    floor = 2.0 * hessian.noise_scale * p**0.5
    ridged = hessian.value + curator.objective.ridge * np.eye(p)
    covariance, _, _ = sandwich_covariance(ridged, meat.value, floor)
    variance = np.einsum("ij,jk,ik->i", directions, covariance, directions) / curator.n
    return np.sqrt(np.maximum(variance, 0.0))
