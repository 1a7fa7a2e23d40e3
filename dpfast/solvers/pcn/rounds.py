"""Preliminary rounds of clipped scores, for losses whose curvature varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.solvers.pcn.clipping import choose_clipping_norm, noise_per_bound
from dpfast.solvers.pcn.curvature import (
    MAX_CURVATURE,
    gaussian_design_curvature,
    gaussian_design_hessian,
    typical_curvature,
)
from dpfast.solvers.pcn.histogram import released_norms
from dpfast.solvers.pcn.plan import EVEN_PEAK, BudgetAllocation, Budgets, Setting
from dpfast.solvers.pcn.precondition import divide, precondition, shrink
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore
from dpfast.solvers.pcn.search import cutting_plane, trust_region


class Run(NamedTuple):
    """Queries about whitened rows, and the public settings of a run."""

    #: All records, and those that rounds and curvatures query.
    rows: PreconditionedQueries
    few_rows: PreconditionedQueries
    setting: Setting
    allocation: BudgetAllocation
    #: Whitened coefficients of a predictor of 1.
    intercept: Array | None
    has_start: bool
    later: float = 0.0

    @property
    def constant_and_offsets(self) -> tuple[Array | None, float, float]:
        """Arguments of :func:`gaussian_design_curvature`."""
        return (self.intercept, *self.setting.offset)

    @property
    def max_rounds(self) -> int:
        """Largest number of rounds."""
        return self.allocation.max_rounds(self.setting.loss.curvature_varies)

    def budgets(self, rounds: int, sampled: bool | None = None, again: bool = True) -> Budgets:
        """Divide the total for this number of rounds."""
        counts = self.setting.query_counts
        return self.allocation.budgets(counts, rounds, self.has_start, sampled, self.later, again)


class Pilot(NamedTuple):
    """An estimate, the scale of its residuals, and the rounds that led to it."""

    theta: Array
    scale: float
    rounds: int = 0
    #: Scores of the rounds at this scale.
    scores: tuple[NoisyScore, ...] = ()


def preliminary_rounds(
    run: Run, start: Array, scale: float, report: Callable[[Array], None]
) -> Pilot:
    """Take rounds of clipped scores until they settle at the given scale."""
    max_rounds, budget = run.max_rounds, run.budgets(run.max_rounds).round
    given_scale = run.setting.scale or scale
    # with a smaller one most records would have no curvature
    pilot, converged = Pilot(start, max(given_scale, scale)), False
    while pilot.rounds < max_rounds and not converged:
        pilot, last_score = clipped_round(run, pilot, run.few_rows, budget)
        report(pilot.theta)
        squared_norm, error = last_score.debiased_squared_norm
        settled = squared_norm <= (SIGNAL_SDS**2 - 1.0) * error
        converged = settled and pilot.scale <= given_scale
        if settled:  # go on with a smaller scale, whose scores point elsewhere
            pilot = pilot._replace(scale=max(given_scale, 0.5 * pilot.scale), scores=())
    return pilot._replace(scale=given_scale)


def clipped_round(
    run: Run, pilot: Pilot, rows: PreconditionedQueries, budget: Budgets
) -> tuple[Pilot, NoisyScore]:
    """Take a step of the clipped scores of ``rows``, with the curvature of a subsample.

    Returns
    -------
    pilot : Pilot
        After the step.
    score : NoisyScore
        In the round's whitened coordinates.
    """
    setting, theta = run.setting, pilot.theta
    at = Linearization(theta, setting.loss, pilot.scale)
    expected = gaussian_design_curvature(at, *run.constant_and_offsets)
    broad, times = broadened(at)
    typical = typical_curvature(*expected)
    radius = budget.longest_radius(run.few_rows.n, theta.size) * (times * typical) ** 0.5
    gram = divide(run.few_rows.gram(radius, budget.matrix, broad), times)
    # where the shrunken curvature makes a step too short, the next one corrects it
    whitening = precondition(shrink(gram, gaussian_design_hessian(*expected)))
    whiten, at = whitening.whiten, at._replace(theta=whitening.unwhiten @ theta)
    bound = _clipping_norm(run, at, whiten, rows.n, budget)
    row_clipping = setting.short_enough(bound, at.scale)
    answer = (
        rows.mapped(whiten).clipped(at, bound, budget.vector, row_clipping=row_clipping).gradient
    )
    scored = NoisyScore(at.theta, *answer[:2])
    square, error = scored.debiased_squared_norm
    noise = answer.noise_scale * max(float(whitening.values[-1]), whitening.floor) ** 0.5
    scores = (*pilot.scores, NoisyScore(theta, whitening.unwhiten.T @ answer.value, noise))
    step = square / (square + error) * (whiten @ answer.value)
    step *= trust_region(step, expected[1])
    theta = theta + cutting_plane(step, scores) * step
    return pilot._replace(theta=theta, rounds=pilot.rounds + 1, scores=scores), scored


def _clipping_norm(run: Run, at: Linearization, whiten: Array, n: int, budget: Budgets) -> float:
    """Choose the clipping norm of a round by the norms of a subsample's scores."""
    unit, rows = run.setting.score_unit, run.few_rows.mapped(whiten)
    norms = released_norms(rows, budget.histogram, at, "score", unit=unit)
    return choose_clipping_norm(norms, noise_per_bound(n, [budget.vector]), at.theta.size)[0]


def broadened(at: Linearization) -> tuple[Linearization, float]:
    """Widen the scale until a sharp curvature is an average over enough records.

    Returns
    -------
    at : Linearization
    broadening : float
        Factor on the scale.
    """
    times = min(max(1.0, at.loss.peakedness / EVEN_PEAK), MAX_CURVATURE)
    return at if times == 1.0 else at._replace(scale=times * at.scale), times
