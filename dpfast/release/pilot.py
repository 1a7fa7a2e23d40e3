"""Pilot fit: an estimate, the curvature there, and its estimated error."""

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
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.planning import choose_method
from dpfast.optimize.propagation import Curvature
from dpfast.optimize.protocol import Answers, Method, answers_only, own_noise, planned, public_copy
from dpfast.optimize.trajectory import Trajectory, with_ridge
from dpfast.privacy.budget import GDP, ApproxDP
from dpfast.privacy.ledger import Ledger
from dpfast.release.request import ReleaseRequest

#: Lower bound of a divisor: far below every curvature, and its quotients stay finite.
MIN_CURVATURE = 1e-300


#: Of 98 cells of 20 tables in which a direction is hidden .61 are nearer without a domain, and .25
#: four times.  Noise intervals have .41 of the width there, and cover .94 in place of .90.
WITHOUT_DOMAIN = (
    " Columns that correlate with one another are told apart better without domain=: they are "
    "whitened first."
)


class PlannedRun(NamedTuple):
    """Run of an optimiser that passed all checks."""

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
    curator = request.curator(ledger)
    mu = ledger.total.mu
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
    """Released estimate and curvature, with the optimiser's estimate of its error."""

    theta: Array
    #: With the ridge, and no eigenvalue below its noise.
    curvature: Array
    #: Standard deviation of the curvature's noise.
    curvature_scale: float
    #: Covariance of the privacy noise in the estimate, plus that of directions too noisy to see.
    noise: Array
    #: The part of the second term that remains after a step.
    hidden: Array
    #: Estimated error from stopping early.
    unfinished: Array
    #: Warnings, as those of a fit.
    warnings: tuple[str, ...]

    def steps(self, directions: Array) -> Array:
        """``H^-1 w`` for each direction w, shape (k, p)."""
        return np.asarray(np.linalg.solve(self.curvature, directions.T).T)

    def errors_after_step(self, steps: Array, mean: float, bend_rate: float) -> Array:
        """Estimate the distance from the minimiser after one Newton step, for each direction."""
        noise, unfinished, curvature = self.noise, self.unfinished, self.curvature
        spread = float(np.trace(noise) + unfinished @ unfinished)
        noise_along = np.einsum("ij,jk,ik->i", steps, noise, steps) + (steps @ unfinished) ** 2
        squares = np.einsum("ij,ij->i", steps, steps)
        curvature_error = self.curvature_scale * np.sqrt(0.5 * (squares * spread + noise_along))
        # a row's a'x is about the root of w'H^-1 w over the mean curvature
        length = float(np.vdot(curvature, noise) + unfinished @ curvature @ unfinished)
        typical = np.sqrt(np.einsum("ij,jk,ik->i", steps, curvature, steps) / mean)
        bend_error = 0.5 * bend_rate * typical * length
        mapped_back = steps @ curvature
        # without a step the pilot's own error remains
        full = np.sqrt(np.einsum("ij,jk,ik->i", mapped_back, noise, mapped_back))
        full = full + np.abs(mapped_back @ unfinished)
        remaining = np.sqrt(np.einsum("ij,jk,ik->i", mapped_back, self.hidden, mapped_back))
        after = np.hypot(np.hypot(curvature_error, bend_error), remaining)
        return np.fmin(after, full)


def pilot_of(planned_run: PlannedRun) -> Pilot:
    """Run the fit and estimate its error; spends as a private fit (C9 to C19)."""
    trajectory = planned_run.run()
    hessian, scale = pooled(trajectory.hessians or (trajectory.final.hessian,))
    ridge = planned_run.curator.objective.ridge
    matrix = with_ridge(hessian, ridge)
    floor = 2.0 * scale * len(hessian) ** 0.5
    values, vectors = eigh(matrix)
    floored = floor_eigenvalues(matrix, floor)[0]
    hidden_vectors = vectors[:, values < floor]
    count = hidden_vectors.shape[1]
    signal = float(trajectory.theta @ floored @ trajectory.theta)
    if planned_run.curator.objective.fit_intercept:
        signal -= float(floored[0] @ trajectory.theta) ** 2 / float(floored[0, 0])
    # each hidden direction may carry the average signal of the others; a step uses the floor as
    # curvature there, so a part of it remains
    may_be = max(signal, 0.0) / (len(matrix) * max(floor, MIN_CURVATURE))
    shortfall = 1.0 - np.maximum(values[values < floor], 0.0) / max(floor, MIN_CURVATURE)
    noise_part = 0.25 / len(matrix)  # the noise is floor/(2 sqrt(p))
    remaining = np.minimum(1.0, np.square(shortfall) + noise_part)
    hidden = hidden_vectors @ hidden_vectors.T * may_be
    remarks = (hidden_directions(count, len(matrix)) + WITHOUT_DOMAIN,) * bool(count)
    noise = own_noise(planned_run.optimiser, trajectory, Curvature(matrix, floor, count, ridge))
    return Pilot(
        trajectory.theta, floored, scale, noise.covariance + hidden,
        (hidden_vectors * remaining) @ hidden_vectors.T * may_be, noise.unfinished,
        (*noise.remarks, *remarks),
    )  # fmt: skip


def divided(total: ApproxDP, share: float) -> tuple[ApproxDP, ApproxDP]:
    """Split a budget into the rest and the share set aside; the sum never exceeds the total."""
    aside = ApproxDP(*[amount * share for amount in total.values()])
    return difference(total, aside), aside


def plan_sandwich(request: ReleaseRequest, budget: ApproxDP) -> PlannedRun:
    """Divide a budget among the steps; refuses an impossible one and costs nothing."""
    return plan_run(request, Ledger(GDP.within(budget)), Newton(), True)


def sampling_errors(sandwich: PlannedRun, directions: Array) -> Array:
    """Estimate standard errors of ``directions @ theta``; spends as a private fit (C9 to C19)."""
    curator = sandwich.curator
    p = curator.objective.dimension
    final = sandwich.run().final
    floor = 2.0 * final.hessian.noise_scale * p**0.5
    ridged = final.hessian.value + curator.objective.ridge * np.eye(p)
    covariance, _, _ = sandwich_covariance(ridged, final.meat.value, floor)
    variance = np.einsum("ij,jk,ik->i", directions, covariance, directions) / curator.n
    return np.sqrt(np.maximum(variance, 0.0))
