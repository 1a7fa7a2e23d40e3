"""The adaptive method where the residual scale is estimated beside the coefficients."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer, JointAnswer
from dpfast.kernels.linalg import measured_step
from dpfast.optimize.adaptive.run import Run
from dpfast.optimize.adaptive.scale import MOST_ANSWERS, released_location, scale_ratio
from dpfast.optimize.adaptive.steps import Step
from dpfast.optimize.protocol import Answers

Array = NDArray[np.float64]

#: Part by which a Newton step may lower the scale, and multiple by which it may raise it.
MOST_LOWERED, MOST_RAISED = 0.67, 1.1

#: Change of the scale's logarithm that is far to go, if its score is so many standard deviations
#: from zero; and how far the scale of an answer that counts may be from that of the last.
FAR, SEEN, COUNTS = 0.3, 2.0, math.log(1.8)

#: n mu of an answer that tells the scale, and least and most it may take of ``mu^2``.
SIGNAL, LEAST_PART, MOST_PART = 30.0, 0.001, 0.02

#: Relative distance from an end of the interval that is rounding.
AT_END = 1e-9

#: Standard deviations by which a score points out of the interval before it is said.
OUTSIDE = 4.0


class JointRun(Run):
    """A run whose last parameter is the scale over its public factor.

    Far from the solution the scale moves by what its score says of the size of the residuals, which
    works from any distance; near it, by Newton's steps of all parameters together.  Lengths are in
    the scale of the moment.
    """

    most_share = 0.3

    def __init__(
        self, source: Answers, start: Array, mu: float, progress: Callable[[int, int], None] | None
    ) -> None:
        super().__init__(source, start, mu, progress)
        free = self.objective.free_scale
        assert free is not None
        self.free = free
        needed = SIGNAL / (source.n * mu)
        self.start_share = MOST_ANSWERS * min(max(needed * needed, LEAST_PART), MOST_PART)
        self.settle(start)

    def settle(self, theta: Array) -> None:
        """Be at a parameter."""
        self.theta = self.bounded(theta)
        self.unit = self.objective.scale_at(self.theta)

    def measure_by(self, curvature: Answer) -> None:
        super().measure_by(curvature)
        self.mean_weight = self.unit

    def begin(self, source: Answers, mu: float) -> float:
        if not self.objective.fit_intercept or self.theta[:-1].any():
            return 0.0
        theta = self.theta.copy()
        theta[0], scale, spent = released_location(source, mu)
        theta[-1] = scale / self.free.factor
        self.settle(theta)
        self.iterates = [self.theta]
        return spent

    def refined(self, step: Step, answer: JointAnswer, hessian: bool) -> Step:
        """With the scale's own step in place of what its majorising curvature allows."""
        step = super().refined(step, answer, hessian)
        if hessian:
            return step
        ratio, deviation, seen = scale_ratio(self.objective, self.theta, answer)
        direction, inverse = step.direction.copy(), step.inverse[:-1, :-1]
        direction[-1] = -self.theta[-1] * math.log(ratio)
        scale, corner = answer.gradient.noise_scale, self.theta[-1] * deviation
        noise = scale**2 * float(np.vdot(self.measure[:-1, :-1], inverse @ inverse))
        noise += float(self.measure[-1, -1]) * corner**2
        whole = self.length_of(direction)
        length = math.sqrt(max(0.0, whole**2 - noise / self.mean_weight))
        if seen > SEEN and abs(math.log(ratio)) > FAR:
            length = math.inf  # the noise that shortens its steps shortens none of the way
        return step._replace(direction=direction, length=length)

    def move(self, step: Step) -> None:
        """The scale moves on the logarithm, on which its score is closest to linear."""
        exponent = -float(step.direction[-1] / self.theta[-1])
        theta: Array = self.theta - step.direction
        theta[-1] = self.theta[-1] * math.exp(exponent)
        self.settle(theta)
        self.moved()

    def step(
        self,
        theta: Array,
        gradient: Array,
        hessian: Array,
        scale: float,
        hessian_scale: float,
        longest: float,
        own: bool = False,
    ) -> Step:
        """Of the coefficients alone where the scale would leave its interval."""
        step = super().step(theta, gradient, hessian, scale, hessian_scale, longest, own)
        z = float(theta[-1])
        change = float(step.direction[-1]) / z
        if not self.leaves(theta, change):
            held = min(max(change, -MOST_RAISED), MOST_LOWERED)
            step.direction[-1] = z * held
            # curvature, and with it length, fade where the scale is far too large
            return step if held == change else step._replace(length=math.inf)
        within, length, _, block = measured_step(
            np.ascontiguousarray(hessian[:-1, :-1]),
            np.ascontiguousarray(gradient[:-1]),
            self.floor(hessian_scale),
            np.ascontiguousarray(self.measure[:-1, :-1]),
            self.mean_weight,
            scale,
            longest,
        )
        inverse = step.inverse.copy()
        inverse[:-1, :-1] = block
        inverse[-1, :-1] = inverse[:-1, -1] = 0.0
        return Step(np.append(within, 0.0), length, step.hides, inverse)

    def leaves(self, theta: Array, change: float) -> bool:
        """Whether the scale, lowered where ``change`` is positive, would leave its interval."""
        scale, free = self.objective.scale_at(theta), self.free
        low, high = free.low * (1.0 + AT_END), free.high * (1.0 - AT_END)
        return scale <= low if change > 0.0 else scale >= high

    def counted(self, end: Array) -> list[bool]:
        """Not those from another scale: Newton's step of its logarithm ends short of the solution.

        From twice the scale by 18%, from four times it by 160% of the solution.
        """
        logs = [math.log(float(answer.theta[-1] / end[-1])) for answer in self.answers]
        return [abs(log) <= COUNTS for log in logs]

    def bounded(self, theta: Array) -> Array:
        return self.objective.project(theta)

    def outside(self) -> bool:
        """Whether the last scores say that the scale is beyond the end it has stopped at."""
        slopes = [float(answer.gradient[-1]) for answer in self.answers]
        precisions = [answer.gradient_scale**-2.0 for answer in self.answers]
        total = math.fsum(precisions)
        slope = math.fsum(p * s for p, s in zip(precisions, slopes, strict=True)) / total
        if not all(self.leaves(answer.theta, slope) for answer in self.answers[-2:]):
            return False
        sampling = max(0.0, float(self.meat.value[-1, -1])) / self.source.n
        return abs(slope) > OUTSIDE * math.sqrt(1.0 / total + sampling)
