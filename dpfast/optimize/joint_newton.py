"""Noisy Newton's method for coefficients and scale together (eq. (6), Avella-Medina et al. 2023).

Pure Newton on (beta, sigma) diverges from most starts.  The early steps are majorise-minimise
steps in each of the two: weighted least squares for beta at a fixed scale, and Huber's update
``sigma^2 <- sigma^2 mean(2 w chi)/(kappa mean(w))`` at fixed beta (Huber 1981, section 7.8), which
needs no more than the score and the majorising curvature.  The last steps are Newton's, with the
scale's step taken on the logarithm, in which its score is closest to linear.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import positive, whole_number
from dpfast.curator import Answer, JointAnswer
from dpfast.kernels.linalg import capped_step, eigh, newton_direction
from dpfast.models import Objective
from dpfast.optimize.budgets import Budgets
from dpfast.optimize.newton import curvature_noise
from dpfast.optimize.propagation import Curvature, PrivacyNoise, along
from dpfast.optimize.protocol import Answers, Method
from dpfast.optimize.schedules import Geometric, Schedule
from dpfast.optimize.trajectory import Trajectory, walked

Array = NDArray[np.float64]

#: Most a step may multiply the scale by, and most a majorising step may divide it by: a scale that
#: is too large comes down in one step, noise permitting.
MOST_RATIO = 3.0
MOST_DECREASE = 10.0

#: Longest step of the coefficients, in largest scales: it only keeps the iterates finite.
LONGEST_STEP = 1e3

#: Least share of the records' weights taken to be behind the scale's majorising curvature.
LEAST_WEIGHT = 0.05


@dataclass(eq=False, repr=False, kw_only=True)
class JointNewton(Method):
    """Settings of the noisy Newton method with a free scale; all public.

    Equations (6) and (9) of paper 1 (Avella-Medina, Bradshaw and Loh 2023).

    Parameters
    ----------
    newton_steps : int
        How many of the last steps use the joint Hessian; the others majorise.
    floor : float
        Public floor on the eigenvalues of the noisy curvature, in the coordinates in which the
        scale is divided by its factor.  The floor used is never below the noise level
        ``2 * noise_scale * sqrt(p)``.
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
    ...     dpfast.Objective("log-cosh", scale=dpfast.FreeScale(0.1, 2.0)),
    ...     privacy=2.0,
    ...     method=dpfast.optimize.JointNewton(),
    ... ).names
    ('intercept', 'x1', 'scale')
    """

    name = "newton"

    newton_steps: int = 2
    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.newton_steps = whole_number(self.newton_steps, "newton_steps")
        self.floor = positive(self.floor, "floor", or_zero=True)

    @property
    def needs(self) -> frozenset[str]:
        """Its steps are those of coefficients and scale together."""
        return frozenset({"curvature", "free scale"})

    def curvatures(self, objective: Objective, n: int, mu: float, n_steps: int) -> tuple[str, ...]:
        """What each step releases beside the gradient: "majorizer" or "hessian"."""
        newton = min(self.newton_steps, n_steps)
        return ("majorizer",) * (n_steps - newton) + ("hessian",) * newton

    def defaults(self, objective: Objective, n: int, mu: float) -> tuple[int, Schedule]:
        """Number of steps and schedule, from public constants only.

        As for a known scale, the early steps need more of the budget where a Hessian is noisy.
        """
        level = curvature_noise(objective, n, mu)
        ratio = min(8.0, max(2.0, 0.16 / level))
        return 8, Geometric(ratio=ratio, uniform_share=0.1)

    def run(
        self,
        answers: Answers,
        start: Array,
        budgets: Budgets,
        progress: Callable[[int, int], None] | None = None,
    ) -> Trajectory:
        """Take one step per budget; the last budget may include the meat.

        Privacy
        -------
        Post-processing of the curator's answers, which charge their own ledger.
        """
        objective = answers.objective

        def step(k: int, theta: Array, answer: JointAnswer) -> Array:
            move = self._majorize if budgets[k].majorize else self._newton
            return objective.project(move(objective, theta, answer))

        iterates, received = walked(answers, objective.project(start), budgets, progress, step)
        change = self._curvature_change(*reversed(received[-2:]))
        return Trajectory(iterates[-1], iterates, received[-1], details=change)

    def noise_covariance(self, trajectory: Trajectory, curvature: Curvature) -> PrivacyNoise:
        """After a full step only its own noise remains, through the inverse of the Hessian."""
        values, vectors = curvature.eigen()
        variance = trajectory.final.gradient.noise_scale**2 * values**-2.0
        # of the rest of the way a full step leaves the relative error of its Hessian
        taken = trajectory.iterates[-1] - trajectory.iterates[-2]
        left = np.abs(taken * min(1.0, trajectory.details))
        return PrivacyNoise(along(vectors, variance), left)

    def _floor(self, curvature: Answer, p: int) -> float:
        return max(self.floor, 2.0 * curvature.noise_scale * p**0.5)

    def _majorize(self, objective: Objective, theta: Array, answer: JointAnswer) -> Array:
        """One step in beta at this scale, and one in the scale at this beta."""
        joint = objective.free_scale
        assert joint is not None
        gradient, curvature = answer.gradient.value, answer.hessian.value
        q = len(theta) - 1
        direction, _, _ = newton_direction(
            np.ascontiguousarray(curvature[:q, :q]),
            np.ascontiguousarray(gradient[:q]),
            self._floor(answer.hessian, q),
        )
        # The gradient is small beside its noise where the scale is far too large, and full steps
        # would then carry beta away by a part of that scale.
        noise = q * answer.gradient.noise_scale**2
        signal = max(0.0, 1.0 - noise / float(gradient[:q] @ gradient[:q]))
        most = joint.kappa * joint.factor**2 / objective.scale_at(theta)
        least = max(LEAST_WEIGHT * most, 2.0 * answer.hessian.noise_scale)
        corner = max(float(curvature[q, q]), least)
        # 1 - 2 q / (kappa w): the mean of 2 w chi over its target
        squared = 1.0 - 2.0 * float(gradient[q]) / (corner * float(theta[q]))
        ratio = math.sqrt(min(max(squared, MOST_DECREASE**-2), MOST_RATIO**2))
        beta = capped_step(theta[:q], signal * direction, 1.0, LONGEST_STEP * objective.scale)
        return np.append(beta, theta[q] * ratio)

    def _newton(self, objective: Objective, theta: Array, answer: JointAnswer) -> Array:
        direction, _, _ = newton_direction(
            answer.hessian.value, answer.gradient.value, self._floor(answer.hessian, len(theta))
        )
        limit = math.log(MOST_RATIO)
        exponent = min(max(-float(direction[-1] / theta[-1]), -limit), limit)
        beta = capped_step(theta[:-1], direction[:-1], 1.0, LONGEST_STEP * objective.scale)
        return np.append(beta, theta[-1] * math.exp(exponent))

    def _curvature_change(self, last: JointAnswer, previous: JointAnswer | None = None) -> float:
        """Relative error of the last Hessian, root mean square over directions: the part of an
        error that the last step left."""
        if previous is None or last.hessian.noise_scale == 0.0:
            return 1.0
        p = last.hessian.value.shape[0]
        values, vectors = eigh(last.hessian.value)
        inverse = 1.0 / np.maximum(values, self._floor(last.hessian, p))
        # In coordinates in which the last Hessian is the identity, what noise s adds to the square
        # of the difference is s^2/2 ((tr H^-1)^2 + tr H^-2) on average.
        difference = vectors.T @ (last.hessian.value - previous.hessian.value) @ vectors
        total = float((difference**2 * np.outer(inverse, inverse)).sum())
        unit = 0.5 * float(inverse.sum() ** 2 + (inverse**2).sum())
        own = last.hessian.noise_scale**2 * unit
        known = previous.hessian.noise_scale**2 * unit
        return float((max(total - known, own) / p) ** 0.5)

    def settings(self) -> list[str]:
        return [f"newton_steps={self.newton_steps}"]
