"""Noisy Newton's method (eq. (9), Avella-Medina et al. 2023), safe from any start.

Two departures from the paper, both measured (bench/results): the early steps use the *majorising*
curvature ``psi(r)/r`` in place of ``psi'(r)``, whose full steps decrease the loss from any start
(majorise-minimise), where pure Newton diverges on saturated residuals; and the budget goes mostly
to the last steps.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Curator, JointAnswer, StepBudget
from dpfast.kernels.linalg import newton_direction
from dpfast.models import Objective
from dpfast.optimize.schedules import Geometric, Schedule
from dpfast.optimize.trajectory import Trajectory

__all__ = ["Newton", "curvature_noise"]


def curvature_noise(objective: Objective, n: int, mu: float) -> float:
    """Spectral norm of a Hessian's noise at the whole budget, relative to ``Bbar / p``.

    ``Bbar / p`` is the curvature of p equally strong directions, the most the smallest eigenvalue
    can be; the norm is about ``sqrt(2 p)`` times ``sqrt(2) Bbar / (n mu)``.
    """
    return float(2.0 * objective.dimension**1.5 / (n * mu))


class Newton:
    """Settings of the noisy Newton method; all public.

    Parameters
    ----------
    newton_steps : int
        How many of the last steps use the Hessian itself; the earlier ones majorise.
    floor : float, optional
        Public floor on the eigenvalues of the noisy Hessian.  The floor actually used is never
        below the noise level ``2 * noise_scale * sqrt(p)``.
    max_step : float, optional
        Public cap on the length of a step (trust region).  Default: ``1e3 * scale``, which
        only keeps iterates finite.
    """

    name = "newton"

    def __init__(
        self, *, newton_steps: int = 2, floor: float = 0.0, max_step: float | None = None
    ) -> None:
        self.newton_steps = newton_steps
        self.floor = floor
        self.max_step = max_step

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Number of steps and schedule, from public constants only.

        The larger the noise of a Hessian is, relative to the curvature there can be, the more
        of the budget the early steps need to make progress at all (bench/results/schedules.md).
        """
        level = curvature_noise(objective, n, mu)
        if objective.loss.binary_response:
            level *= 2.0  # p(1 - p) is well below its bound of 1/4 almost everywhere
        ratio = min(10.0, max(2.0, 0.16 / level))
        return 8, Geometric(ratio=ratio, uniform_share=0.1)

    def run(
        self,
        curator: Curator,
        start: NDArray[np.float64],
        budgets: list[StepBudget],
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the meat.

        Privacy
        -------
        Post-processing of the curator's answers, which charge their own ledger.
        """
        objective: Objective = curator.objective
        ridge = objective.ridge
        max_step = self.max_step if self.max_step is not None else 1e3 * objective.scale
        root_p = objective.dimension**0.5
        theta = start
        iterates = [theta]
        scales = []
        smallest = 1.0
        answer: JointAnswer | None = None
        previous: JointAnswer | None = None
        n_steps = len(budgets)
        for k, budget in enumerate(budgets):
            previous = answer
            answer = curator.joint(theta, budget, majorize=k < n_steps - self.newton_steps)
            hessian = answer.hessian.value
            gradient = answer.gradient.value
            if ridge:
                hessian = hessian + ridge * np.eye(len(theta))
                gradient = gradient + ridge * theta
            floor = max(self.floor, 2.0 * answer.hessian.noise_scale * root_p)
            direction, eigenvalues, _ = newton_direction(hessian, gradient, floor)
            length = float(direction @ direction) ** 0.5
            if not length <= max_step:
                # A direction that is not finite carries no information: stay.
                direction = direction * (max_step / length) if length < np.inf else 0.0 * theta
            theta = theta - direction
            iterates.append(theta)
            scales.append(answer.gradient.noise_scale)
            smallest = max(float(eigenvalues[0]), floor)
            if progress is not None:
                progress(k + 1, n_steps)
        assert answer is not None
        return Trajectory(
            method=self.name,
            theta=theta,
            iterates=iterates,
            step_size=1.0,
            gradient_scales=scales,
            weights=None,
            final=answer,
            curvature_change=_curvature_change(answer, previous, smallest),
        )

    def __repr__(self) -> str:
        return f"Newton(newton_steps={self.newton_steps})"


def _curvature_change(last: JointAnswer, previous: JointAnswer | None, smallest: float) -> float:
    """Part of an error that the last step left: relative error of the Hessian it used.

    The change of the Hessian over the last step, with the noise it is known to contain taken
    out of the previous Hessian but not out of the last, which the step suffered from.
    """
    if previous is None:
        return 1.0
    difference = last.hessian.value - previous.hessian.value
    p = difference.shape[0]
    total = float((difference * difference).sum())
    noise_of_previous = previous.hessian.noise_scale**2 * p * (p + 1) / 2
    own_noise = last.hessian.noise_scale**2 * p * (p + 1) / 2
    return float(max(total - noise_of_previous, own_noise) ** 0.5 / smallest)
