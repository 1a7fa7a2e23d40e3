"""Noisy gradient descent (eq. (4), Avella-Medina et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array, number_in, positive, real_number
from dpfast.curator import JointAnswer
from dpfast.curator.steps import curvature_receipt
from dpfast.errors import InvalidInput, described
from dpfast.models import Objective
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.propagation import (
    Curvature,
    PrivacyNoise,
    noise_left,
    remaining_start_error,
)
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.scale_steps import huber_update, largest_corner
from dpfast.optimize.schedules import Geometric, Schedule
from dpfast.optimize.trajectory import Trajectory, run_steps

#: Part of the total ``mu^2`` that an estimated step size costs.
ESTIMATE_SHARE = 0.02


class Descent(NamedTuple):
    """Details of a run: sizes and noise scales of its steps, and weights of averaged iterates."""

    step_sizes: list[float]
    gradient_scales: list[float]
    weights: list[float] | None
    #: Lengths of the coordinates' steps relative to these sizes; a scale's is its own.
    relative: Array
    #: Curvature at each step relative to the answer's, which a free scale changes.
    curvatures: Array


@dataclass(eq=False, repr=False, kw_only=True)
class GradientDescent(Method):
    """Settings of noisy gradient descent; all public.

    Equation (4) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    step_size : float or "estimated", optional
        Default ``1 / smoothness``, with the public smoothness of the objective.  The authors use
        the Lipschitz constant of the gradient on the data at hand, which is not public (formulas
        page, table of section 0, item 5).  "estimated" buys a noisy upper bound on it with
        ``ESTIMATE_SHARE`` of the total ``mu^2`` (section 4.4.2 of the paper).  Steps are then about
        p times longer when no direction dominates.  Unless a number is given, a free scale has a
        step length of its own: Huber's update (Huber 1981, section 7.8) for records of weight 1.
    average : float in [0, 1)
        Share of the iterates, from the end, that are averaged (Polyak-Ruppert averaging; Polyak
        and Juditsky 1992).  It costs nothing; 0 returns the last iterate.
    stop : float
        End early, as for figure 6 of the paper: after a released gradient that is shorter than this
        many expected norms of its noise, the next step is the last.  It has the budget of the steps
        left out.  0, the default, takes all steps.
    steps, schedule, start
        As for :class:`dpfast.optimize.Method`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> objective, method = dpfast.Objective("huber", scale=1.0), dpfast.optimize.GradientDescent()
    >>> dpfast.fit(X, y, objective, privacy=2.0, method=method).names
    ('intercept', 'x1')
    """

    name = "gradient-descent"

    step_size: float | str | None = None
    average: float = 0.0
    stop: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        size = self.step_size
        if isinstance(size, str):
            known = size == "estimated"
        else:
            size = None if size is None else real_number(size, "step_size")
            known = size is None or 0.0 < size < float("inf")
        if not known:
            raise InvalidInput(
                'step_size must be positive and finite, "estimated" or None (1 / the public '
                f"smoothness); received {described(size)}."
            )
        self.step_size = size
        self.average = number_in(self.average, "average", "[0, 1)")
        self.stop = positive(self.stop, "stop", or_zero=True)

    @property
    def needs(self) -> frozenset[str]:
        """An estimate of the curvature needs one, of a known scale."""
        return frozenset({"curvature", "known scale"} if self.step_size == "estimated" else ())

    @property
    def steering_share(self) -> float:
        """Part of the total ``mu^2`` spent on the estimate of the smoothness."""
        return ESTIMATE_SHARE if self.step_size == "estimated" else 0.0

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Choose the number of steps and the schedule, from public constants only."""
        if self.step_size == "estimated":
            return 40, Geometric(ratio=1.2, uniform_share=0.1)
        return 100, Geometric(ratio=1.1, uniform_share=0.3)

    def resolve_step_size(
        self,
        objective: Objective,
        theta: NDArray[np.float64] | None = None,
        largest_curvature: float | None = None,
    ) -> float:
        """Return the step size, from public or released numbers.

        Parameters
        ----------
        objective : Objective
            Loss, weighting and their public constants.
        theta : ndarray of shape (p,), optional
            The released iterate, where the smoothness depends on it (a free scale).
        largest_curvature : float, optional
            Released upper bound of the Hessian's largest eigenvalue.

        Returns
        -------
        float
            Positive.
        """
        if isinstance(self.step_size, float | int):
            return float(self.step_size)
        smoothness = objective.smoothness if theta is None else objective.smoothness_at(theta)
        if largest_curvature is not None:
            smoothness = min(smoothness, largest_curvature + objective.ridge)
        if smoothness == float("inf"):
            # Clipped scores have no smoothness constant: without a ridge a step moves by at most
            # one scale.  The ridge has one, and with a longer step it would diverge.
            smoothness = objective.score_bound / objective.scale + objective.ridge
        return 1.0 / smoothness

    def check(self, answers: Answers, budgets: Budgets) -> None:
        """Refuse, from public numbers, a run that would be refused; costs nothing.

        It also refuses steps that the public penalty alone makes diverge.
        """
        if isinstance(self.step_size, (int, float)):
            answers.objective.check_step(self.step_size)
        if self.step_size == "estimated":
            curvature_receipt(answers, budgets.steering_mu)

    def run(
        self,
        answers: Answers,
        start: NDArray[np.float64],
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the Hessian and the meat.

        Privacy
        -------
        Post-processing of the curator's answers, which charge their own ledger.
        """
        objective = answers.objective
        largest = None
        if self.step_size == "estimated":
            estimate = answers.largest_curvature(budgets.steering_mu)
            # Above the truth except in one fit of 40; never below the noise.
            largest = max(float(estimate.value[0]), 0.0) + 2.0 * estimate.noise_scale
        step_sizes: list[float] = []

        def step(k: int, theta: Array, answer: JointAnswer) -> Array:
            gradient = answer.gradient.value + objective.ridge_gradient(theta)
            step_sizes.append(self.resolve_step_size(objective, theta, largest))
            new = theta - step_sizes[-1] * gradient
            if objective.free_scale is not None and self.step_size is None:
                corner = largest_corner(objective, theta)
                new[-1] = theta[-1] * math.exp(huber_update(theta[-1], gradient[-1], corner))
            return objective.project(new)

        iterates, received, _ = run_steps(
            answers, objective.project(start), budgets, progress, step, self.stop
        )
        weights = None
        theta = iterates[-1]
        if self.average:
            count = max(1, round(self.average * len(received)))
            weights = [0.0] * (len(iterates) - count) + [1.0 / count] * count
            theta = np.mean(iterates[-count:], axis=0)
        relative = np.ones(len(theta))
        if objective.free_scale is not None and self.step_size is None:
            # both lengths are in proportion to the scale: their ratio is the same everywhere
            relative[-1] = objective.smoothness_at(theta) / largest_corner(objective, theta)
        scales = [answer.gradient.noise_scale for answer in received]
        here = objective.scale_at(theta)
        curvatures = np.array([here / objective.scale_at(point) for point in iterates[:-1]])
        details = Descent(step_sizes, scales, weights, relative, curvatures)
        return Trajectory(theta, iterates, received[-1], details=details)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """Propagate the noise of the steps along each eigenvector of the Hessian (eq. (14)).

        With steps of unequal length, in the coordinates in which they are equal.
        """
        run: Descent = trajectory.details
        root = np.sqrt(run.relative)
        values, vectors = curvature.scaled(root).eigen()
        left = noise_left(values, run.gradient_scales, run.step_sizes, run.weights, run.curvatures)
        mixing = (vectors.T * run.relative) @ vectors  # the noise in these coordinates
        covariance = vectors @ ((left.T @ left) * mixing) @ vectors.T
        covariance = covariance * np.outer(root, root)
        steps = (np.array(run.step_sizes) * run.curvatures)[:, None]
        contraction = np.cumprod(np.vstack([np.ones_like(values), 1.0 - steps * values]), axis=0)
        weights = run.weights
        remaining: NDArray[np.float64] = (
            contraction[-1] if weights is None else np.asarray(weights) @ contraction
        )
        travelled = (trajectory.iterates[0] - trajectory.theta) / root
        start_error = root * remaining_start_error(travelled, remaining, vectors)
        return PrivacyNoise(0.5 * (covariance + covariance.T), start_error)

    def settings(self) -> list[str]:
        parts = [f"step_size={self.step_size!r}", f"average={self.average:g}"]
        return parts + [f"stop={self.stop:g}"] * bool(self.stop)
