"""Averaged Newton steps of clipped scores in whitened coordinates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.kernels.linalg import weighted_mean
from dpfast.solvers.pcn.curvature import CurvatureModel, GaussianCurvature, bfgs_update
from dpfast.solvers.pcn.information import (
    InformationBound,
    apply_information_bound,
    information_bound,
    overstated_curvature,
)
from dpfast.solvers.pcn.many_columns import MANY
from dpfast.solvers.pcn.plan import MAX_STEPS
from dpfast.solvers.pcn.scores import NoisyMeat, NoisyScore, Problem, pooled_mean
from dpfast.solvers.pcn.search import cutting_plane, trust_region
from dpfast.solvers.pcn.stopping import StoppingRule, nonconvergence_direction

#: Last steps that release the covariance of many columns' scores.  Each takes as long as a Gram; by
#: four of them in place of two its noise is less by the root of two, and so are no other errors.
MEATS = 2


class NewtonSolution(NamedTuple):
    """Result of :class:`AveragedNewton`, in whitened coordinates."""

    theta: Array
    curvature: Array | None
    min_meat: Array | None
    n_hidden: int
    noise: float
    meat: NoisyMeat | None
    noises: list[float]
    steps: int
    nonconvergence: Array | None
    overstated: Array | None
    scores: list[NoisyScore]
    #: Weighted mean of the points whose scores count, and of these scores; its noise is ``noise``.
    average: NoisyScore


class AveragedNewton:
    """Newton steps of clipped scores, averaged by inverse variance, until the budget is spent.

    A step has the parts of scikit-learn's ``NewtonSolver``.  The Hessian starts as the identity,
    and follows the scores by BFGS updates where their change is above its noise, unless
    ``updates`` is False: the Jacobian of moments is not symmetric.
    """

    def __init__(
        self,
        problem: Problem,
        start: Array,
        bound: float,
        stopping_rule: StoppingRule,
        model: CurvatureModel | None,
        inference: bool,
        updates: bool = True,
    ) -> None:
        self.updates = updates
        self.problem, self.model, self.inference = problem, model, inference
        self.stopping_rule, self.bound, self.theta = stopping_rule, bound, start
        self.expected = self.start = model.expected(self.theta, model.start) if model else None
        self.curvature: Array | None = None  # the identity
        self.scores: list[NoisyScore] = []
        self.curvatures: list[GaussianCurvature] = []
        self.meat: NoisyMeat | None = None
        self.weights: Array | None = None
        self.n_averaged, self.converged = 0, False
        self.remaining: tuple[float, ...] = ()
        self.n_before = self.done = 0

    def solve(
        self,
        mus: tuple[float, ...],
        report: Callable[[Array, int], None],
        last_score: NoisyScore | None = None,
        first_score: NoisyScore | None = None,
    ) -> NewtonSolution:
        """Spend all of ``mus``.

        The first step has been taken already where there is a ``last_score``.  Its score has been
        released already where there is a ``first_score``.
        """
        self.setup(mus, last_score)
        while self.remaining:
            mu, self.remaining = self.remaining[0], self.remaining[1:]
            self.update_gradient_hessian(mu, first_score)
            factor = self.line_search(self.inner_solve())
            self.check_convergence(mu, factor)
            self.done += 1
            report(self.theta, self.done if self.remaining else MAX_STEPS)
        return self.finalize()

    def setup(self, mus: tuple[float, ...], last_score: NoisyScore | None) -> None:
        """Divide the budget among the steps that are left: one, if the last step converged."""
        n, rule = self.problem.n, self.stopping_rule
        self.n_before = self.done = int(last_score is not None)
        if last_score is not None:
            self.converged = rule.converged(last_score, None, mus, False, n)
        self.remaining = (math.hypot(*mus[1:]),) if self.converged else mus[self.n_before :]

    def update_gradient_hessian(self, mu: float, first_score: NoisyScore | None) -> None:
        """Release the score here, and update the Hessian by its change."""
        counts = self.done > 0
        if first_score and not self.scores:
            self.scores.append(first_score)
        else:
            # the meat is free up to half of the gradient's mu (claim C17)
            shows = self.theta.size < MANY or len(self.remaining) < MEATS
            mu_meat = 0.5 * mu if self.inference and counts and shows else 0.0
            answer = self.problem.score(self.theta, self.bound, mu, mu_meat)
            self.scores.append(NoisyScore(self.theta, *answer.gradient[:2]))
            if mu_meat:
                self.meat = pooled_mean(self.meat, answer.meat)
        if self.expected:
            self.curvatures.append(self.expected)
        self.n_averaged += counts
        if self.updates and self.done > self.n_before:
            updated = self._bfgs_update(*self.scores[-2:])
            if updated is not self.curvature:  # earlier scores are from too far away
                self.curvature = updated
                self.n_averaged = self.n_averaged if self.converged else 1

    def _bfgs_update(self, before: NoisyScore, here: NoisyScore) -> Array | None:
        updated = bfgs_update(self.curvature, before, here)
        if self.model and self.expected and updated is not self.curvature:
            return self.model.bfgs_update(self.curvature, self.expected, before, here)
        return updated

    def inner_solve(self) -> Array:
        """Return the step to the average of the last Newton points."""
        scores, self.weights = self.scores[-self.n_averaged :], None
        if self.n_averaged > 1:
            curvatures = self.curvatures[-self.n_averaged :]
            self.weights = inverse_variance_weights(scores, self.curvature, curvatures)
        bound = self._information_bound(of_step=True)
        step = averaged_newton_point(scores, self.weights, self.curvature, bound) - self.theta
        if self.model and self.expected:
            step = self.model.halfway(step, self.theta, self.curvature, self.expected)
        return step

    def line_search(self, step: Array) -> float:
        """Take the step as far as cutting planes and the trust region allow; return that part."""
        model = self.model
        factor = min(cutting_plane(step, self.scores), self.problem.trusted_part(step))
        if model:
            variance = self.expected[1] if self.expected else 0.0
            factor = min(factor, trust_region(model.whiten @ step, variance))
        self.theta = self.theta + factor * step
        if model and self.expected and (here := model.expected(self.theta)):
            self.curvature = model.transported(self.curvature, self.expected, here)
            self.expected = here
        return factor

    def check_convergence(self, mu: float, factor: float) -> None:
        """Spend the rest of the budget on one step if that is as good as several."""
        if factor < 1.0:  # the curvature is a different one there
            self.n_averaged, self.converged = 0, False
        elif self.remaining:
            first = self.done <= self.n_before
            earlier = None if first else self.scores[-2].debiased_squared_norm
            self.converged = self.stopping_rule.converged(
                self.scores[-1],
                earlier,
                (mu, *self.remaining),
                self.done > 0,
                self.problem.n,
            )
            if self.converged:
                self.remaining = (math.hypot(*self.remaining),)

    def finalize(self) -> NewtonSolution:
        """Return the average with its noise, and the curvature that released numbers show."""
        model, average = self.model, self._average()
        if model and self.expected and self.start:  # no released number shows a larger one
            level, along_slopes = map(min, self.start[2:], self.expected[2:])
            if (level, along_slopes) != self.expected[2:]:
                smaller = (*self.expected[:2], level, along_slopes)
                self.curvature = model.transported(self.curvature, self.expected, smaller)
        min_meat, n_hidden, overstated = None, 0, None
        if bound := self._information_bound():
            if model and model.min_score_variation > 0.0:
                overstated = overstated_curvature(*bound[:2])
            self.curvature, min_meat, n_hidden = apply_information_bound(self._hessian, *bound)
        counted = self.scores[-max(self.n_averaged, 1) :]
        return NewtonSolution(
            self.theta,
            self.curvature,
            min_meat,
            n_hidden,
            average.noise,
            self.meat,
            [score.noise for score in self.scores[1 - self.n_before :]],
            self.done,
            None if model else nonconvergence_direction(counted),
            overstated,
            self.scores,
            average,
        )

    def _average(self) -> NoisyScore:
        """Average the scores that count, and the points where they were released."""
        if not (self.n_averaged > 1 and self.weights is not None):
            return self.scores[-1]
        counted, weights = self.scores[-self.n_averaged :], self.weights
        points, scores = [answer.theta for answer in counted], [answer.score for answer in counted]
        point, score = (weighted_mean(each, weights.tolist()) for each in (points, scores))
        return NoisyScore(point, score, averaged_noise(counted, weights))

    @property
    def _hessian(self) -> Array:
        return np.eye(self.theta.size) if self.curvature is None else self.curvature

    def _information_bound(self, of_step: bool = False) -> InformationBound | None:
        """Bound the Hessian by the variance of the scores, where the two should be equal."""
        model = self.model
        if self.meat and model and model.min_score_variation < math.inf:
            return information_bound(
                self._hessian,
                *self.meat,
                model.min_score_variation,
                model.undetermined,
                of_step,
            )
        return None


def inverse_variance_weights(
    answers: list[NoisyScore], curvature: Array | None, curvatures: list[GaussianCurvature]
) -> Array:
    """Weight scores by the inverse variance of their noise and of their curvature's change."""
    return np.asarray(decisions.inverse_variance_weights(answers, curvature, curvatures))


def averaged_noise(answers: list[NoisyScore], weights: Array) -> float:
    """Return the noise of the weighted average of scores, in any direction."""
    pairs = zip(weights.tolist(), answers, strict=True)
    return math.hypot(*[weight * score.noise for weight, score in pairs])


def averaged_newton_point(
    answers: list[NoisyScore],
    weights: Array | None,
    curvature: Array | None,
    bound: InformationBound | None = None,
) -> Array:
    """Average the Newton steps from the points where scores were released."""
    return np.asarray(decisions.averaged_newton_point(answers, weights, curvature, bound))
