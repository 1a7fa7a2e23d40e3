"""Double-noise Newton (Ganesh et al. 2023): noise on the direction, not on the matrix.

Its noise pays ``1/l^2`` for the damping l: bench/results/double_noise.md says where that is worse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import number_in, positive, whole_number
from dpfast.curator import JointAnswer
from dpfast.curator.steps import direction_receipt
from dpfast.kernels.linalg import capped_step
from dpfast.models import Objective
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.propagation import (
    Curvature,
    PrivacyNoise,
    along,
    double_noise_variance,
    start_left,
)
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.schedules import Geometric, Schedule
from dpfast.optimize.trajectory import Trajectory, walked
from dpfast.privacy.rounding import MARGIN_8000

Array = NDArray[np.float64]


class Directions(NamedTuple):
    """A run: its public damping, and the noise scales of its gradients and directions."""

    damping: float
    gradient_scales: list[float]
    direction_scales: list[float]


@dataclass(eq=False, repr=False, kw_only=True)
class DoubleNoise(Method):
    """Settings of the double-noise Newton method; all public.

    Parameters
    ----------
    damping : float, optional
        Public ``l``, in units of the mean curvature.  Default: ``Bbar max(2/p, 10 sqrt(p)/(n
        mu))``, with the public curvature bound ``Bbar``: at least twice the curvature of p equally
        strong directions, and large enough that the noise of a direction is below its length.
    direction_share : float in (0, 1)
        Part of the total ``mu^2`` that the directions cost together, divided evenly.
    newton_steps : int
        How many of the last steps use the Hessian itself; those before use the majorising
        curvature, whose damped steps decrease the loss from any start.
    max_step : float, optional
        Public cap on the length of a step.  Default: ``1e3 * scale``.
    steps, schedule, start
        As for every :class:`dpfast.optimize.Method`: number of steps, "geometric", "uniform" or a
        schedule such as :class:`dpfast.optimize.Geometric`, and a public starting point.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 200)[:, None]
    >>> y = 0.5 * X[:, 0]
    >>> dpfast.fit(
    ...     X,
    ...     y,
    ...     dpfast.Objective("log-cosh", scale=1.0),
    ...     privacy=2.0,
    ...     method=dpfast.optimize.DoubleNoise(),
    ... ).names
    ('intercept', 'x1')
    """

    name = "double-noise"

    damping: float | None = None
    direction_share: float = 0.3
    newton_steps: int = 2
    max_step: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("damping", "max_step"):
            if getattr(self, name) is not None:
                setattr(self, name, positive(getattr(self, name), name))
        self.direction_share = number_in(self.direction_share, "direction_share", "(0, 1)")
        self.newton_steps = whole_number(self.newton_steps, "newton_steps")

    @property
    def needs(self) -> frozenset[str]:
        """A direction needs a Hessian, of a known scale."""
        return frozenset({"curvature", "known scale"})

    @property
    def steering_share(self) -> float:
        """Part of the total ``mu^2`` spent on directions."""
        return self.direction_share

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Number of steps and schedule; damped steps average, so the schedule is nearly flat."""
        return 25, Geometric(ratio=1.2, uniform_share=0.1)

    def resolve_damping(self, objective: Objective, n: int, mu: float) -> float:
        """The public damping.

        Parameters
        ----------
        objective, n, mu
            As for :meth:`defaults`.

        Returns
        -------
        float
            What was passed, or a default above the noise of a direction.
        """
        if self.damping is not None:
            return self.damping
        p = objective.dimension
        return objective.curvature_bound * max(2.0 / p, 10.0 * p**0.5 / (n * mu))

    def check(self, answers: Answers, budgets: Budgets) -> None:
        """Refuse, from public numbers, what :meth:`run` would be refused for; costs nothing."""
        damping, mu = self._direction(answers, budgets)
        # a margin for the rounding of lengths, whose ratio to the noise decides
        mu *= 1.0 + MARGIN_8000
        direction_receipt(answers, 1.0, damping + answers.objective.ridge, mu)

    def _direction(self, answers: Answers, budgets: Budgets) -> tuple[float, float]:
        """Public damping and the budget of each direction."""
        total_mu = budgets.steering_mu / self.direction_share**0.5
        damping = self.resolve_damping(answers.objective, answers.n, total_mu)
        return damping, budgets.steering_mu / len(budgets) ** 0.5 * (1.0 - MARGIN_8000)

    def run(
        self,
        answers: Answers,
        start: Array,
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the Hessian and the meat.

        Privacy
        -------
        Post-processing of the curator's answers, which charge their own ledger.
        """
        objective, n_steps = answers.objective, len(budgets)
        damping, direction_mu = self._direction(answers, budgets)
        max_step = self.max_step if self.max_step is not None else 1e3 * objective.scale
        direction_scales: list[float] = []

        def step(k: int, theta: Array, answer: JointAnswer) -> Array:
            gradient = answer.gradient.value + objective.ridge_gradient(theta)
            direction, scale = 0.0 * theta, 0.0
            if 0.0 < float(np.linalg.norm(gradient)) < np.inf:
                ridged, majorize = damping + objective.ridge, k < n_steps - self.newton_steps
                released = answers.damped_direction(
                    theta, gradient, ridged, direction_mu, majorize=majorize
                )
                direction, scale = released.value, released.noise_scale
            direction_scales.append(scale)
            return capped_step(theta, direction, 1.0, max_step)

        iterates, received = walked(answers, start, budgets, progress, step)
        scales = [answer.gradient.noise_scale for answer in received]
        details = Directions(damping, scales, direction_scales)
        return Trajectory(iterates[-1], iterates, received[-1], details=details)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """The linear recursion of the steps along each eigenvector of the Hessian."""
        damping, scales, direction_scales = trajectory.details
        values, vectors = curvature.eigen()
        variance = double_noise_variance(values, scales, direction_scales, damping)
        remaining = (damping / (values + damping)) ** len(scales)
        left = start_left(trajectory.iterates, trajectory.theta, remaining, vectors)
        return PrivacyNoise(along(vectors, variance), left)

    def settings(self) -> list[str]:
        parts = [f"direction_share={self.direction_share:g}"]
        if self.damping is not None:
            parts.append(f"damping={self.damping:g}")
        if self.newton_steps != 2:
            parts.append(f"newton_steps={self.newton_steps}")
        if self.max_step is not None:
            parts.append(f"max_step={self.max_step:g}")
        return parts
