"""Newton steps of scores that are no function of a linear predictor, with a released Hessian."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.solvers.pcn.clipping import (
    ASYMMETRY,
    choose_clipping_norm,
    mean_asymmetry,
    noise_per_bound,
)
from dpfast.solvers.pcn.covariance import bias_variance, one_sided_bias, with_removed_variance
from dpfast.solvers.pcn.histogram import N_FINE_BINS, NormHistogram
from dpfast.solvers.pcn.plan import ROUND, BudgetAllocation, Budgets
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyMeat, NoisyScore, Problem
from dpfast.solvers.pcn.search import cutting_plane
from dpfast.solvers.pcn.steps import AveragedNewton, NewtonSolution
from dpfast.solvers.pcn.stopping import StoppingRule

Array = NDArray[np.float64]


class ScoreProblem(Problem, Protocol):
    """Scores that also release the histogram of their norms."""

    def sample(self) -> ScoreProblem:
        """Return the problem of a secret sample if there are many records."""

    def norms(self, theta: Array, mu: float) -> NormHistogram:
        """Release a histogram of the norms of whitened scores; costs ``mu`` (claim C60)."""


class ReleasedHessian(Protocol):
    """Facts about the released Hessian by which scores are whitened."""

    @property
    def known(self) -> Array:
        """Part of each direction's curvature that is not noise."""

    @property
    def relative_error(self) -> float:
        """Largest relative error of a Newton step that noise in the Hessian causes."""

    @property
    def change(self) -> float:
        """Relative change of the Hessian over a step of length 1; 0 of linear equations."""


class ScoreSolution(NamedTuple):
    """Solution in whitened coordinates, and the covariance of its error.

    ``back`` maps coordinates in which a Newton step is the score to whitened ones; ``variance`` and
    ``meat`` are of the former.  Of ``hidden`` whitened directions the Hessian shows noise alone.
    ``average`` is the mean of the points whose scores count, and of these scores.
    """

    theta: Array
    back: Array
    variance: Array
    meat: NoisyMeat
    bound: float
    clipping_bias: float
    standard_error: float
    hidden: NDArray[np.bool_]
    nonconvergence: Array | None
    steps: int
    average: NoisyScore


class ScoreQueries(NamedTuple):
    """Division of a budget over the queries of a problem: Grams, vectors and histograms."""

    allocation: BudgetAllocation
    n_histograms: int = 2
    n_matrices: float = 2.0
    n_vectors: float = 1.0
    is_linear: bool = False

    def budgets(self, rounds: int) -> Budgets:
        """Divide the total for this number of rounds."""
        in_rounds = ROUND * rounds
        return self.allocation.divided(
            self.n_matrices, self.n_vectors + in_rounds, self.n_histograms + in_rounds
        )

    @property
    def max_rounds(self) -> int:
        """Largest number of rounds."""
        return self.allocation.max_rounds(not self.is_linear)

    def refuse(self, rows: PreconditionedQueries) -> None:
        """Refuse budgets that a query would refuse; costs nothing."""
        for rounds in {min(1, self.max_rounds), self.max_rounds}:
            budget = self.budgets(rounds)
            vectors = budget.vector, budget.histogram, budget.round.vector
            steps = *vectors, *budget.steps, math.hypot(*budget.steps[1:])
            histograms = budget.histogram, budget.round.histogram
            rows.refuse((budget.matrix,), (), histograms, steps, cells=N_FINE_BINS)


def preliminary_rounds(
    problem: ScoreProblem, theta: Array, budget: Budgets, max_rounds: int
) -> tuple[Array, int]:
    """Take rounds of clipped scores until they settle; return the point and their number."""
    scores: list[NoisyScore] = []
    while len(scores) < max_rounds:
        norms = problem.norms(theta, budget.histogram)
        noise = noise_per_bound(problem.n, [budget.vector])
        bound, _ = choose_clipping_norm(norms, noise, theta.size)
        scores.append(NoisyScore(theta, *problem.score(theta, bound, budget.vector).gradient[:2]))
        square, error = scores[-1].debiased_squared_norm
        step = square / (square + error) * scores[-1].score
        theta = theta + min(cutting_plane(step, scores), problem.trusted_part(step)) * step
        if square <= (SIGNAL_SDS**2 - 1.0) * error:
            break
    return theta, len(scores)


def solve_scores(
    problem: ScoreProblem,
    start: Array,
    constant: Array | None,
    information: ReleasedHessian,
    queries: ScoreQueries,
) -> ScoreSolution:
    """Choose the clipping norm of scores and take averaged Newton steps from a start.

    ``information`` is the Hessian by which scores are whitened.  Long scores have one sign along
    ``constant``, the direction of a predictor of 1, as for other losses with a log link.  It is
    None where long scores may have either sign.
    """
    n, p = problem.n, start.size
    start, rounds = preliminary_rounds(
        problem.sample(), start, queries.budgets(0).round, queries.max_rounds
    )
    budget = queries.budgets(rounds)
    norms = problem.norms(start, budget.histogram)
    noise = noise_per_bound(n, budget.steps[1:])
    asymmetry = ASYMMETRY if constant is None else mean_asymmetry(p)
    bound, bias = choose_clipping_norm(norms, noise, p, asymmetry=asymmetry, n=n)
    rule = StoppingRule(
        math.sqrt(p / n) + information.relative_error + queries.allocation.small_sample_factor(),
        information.change,
        norms.mean_square(bound),
    )
    updates = not queries.is_linear
    newton = AveragedNewton(problem, start, bound, rule, None, True, updates)
    solution = newton.solve(budget.steps, lambda theta, done: None)
    assert solution.meat is not None
    variances, vectors, _, _ = decisions.score_variances(solution.meat[0])
    # where scores have either sign the allowance for bias covers what clipping removed
    removed = 0.0 if constant is None else norms.clipped_square(bound, n)
    meat = with_removed_variance(variances, vectors, removed, True)
    root = np.eye(p) if solution.curvature is None else solution.curvature
    back = np.asarray(np.linalg.inv(root), np.float64)
    return ScoreSolution(
        theta=solution.theta,
        back=back,
        variance=_variance(solution, meat, root, start, constant, information.known, bias, n),
        meat=(meat, solution.meat[1]),
        bound=bound,
        clipping_bias=bias,
        standard_error=math.sqrt(float(meat.trace()) / (p * max(1, n - p)) + solution.noise**2),
        hidden=information.known <= 0.0,
        nonconvergence=solution.nonconvergence,
        steps=solution.steps,
        average=solution.average,
    )


def _variance(
    solution: NewtonSolution,
    meat: Array,
    root: Array,
    start: Array,
    constant: Array | None,
    known: Array,
    clipping_bias: float,
    n: int,
) -> Array:
    """Sum the variances of sampling, noise, what steps left, and the bias of clipping."""
    p = start.size
    moved = root @ (solution.theta - start)
    left = bias_variance(
        known, solution.noises, float(moved @ moved), np.full(p, np.inf), clipping_bias
    )
    variance = meat / max(1, n - p)
    if constant is not None:
        bias = one_sided_bias(clipping_bias, root @ constant, root @ solution.theta)
        variance = variance + bias @ bias.T
    variance.flat[:: p + 1] += solution.noise**2 + left
    return variance
