"""Preliminary rounds of clipped scores, for losses whose curvature varies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.solvers.pcn.clipping import choose_clipping_norm, noise_per_bound
from dpfast.solvers.pcn.curvature import (
    MAX_CURVATURE,
    gaussian_design_curvature,
    typical_curvature,
)
from dpfast.solvers.pcn.histogram import released_norms
from dpfast.solvers.pcn.plan import EVEN_PEAK, BudgetAllocation, Budgets, Setting
from dpfast.solvers.pcn.precondition import precondition
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore
from dpfast.solvers.pcn.search import TRUST_REGION, cutting_plane


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
    max_rounds, given_scale = run.max_rounds, run.setting.scale or scale
    if not max_rounds:
        return Pilot(start, given_scale)
    budget = run.budgets(max_rounds).round
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
    gram = run.few_rows.gram(radius, budget.matrix, broad)
    # where the shrunken curvature makes a step too short, the next one corrects it
    whitening = precondition(gram, expected, times, shrinks=True)
    whiten, unwhiten = whitening.whiten, whitening.unwhiten
    at = Linearization(decisions.matrix_vector(unwhiten, theta), setting.loss, pilot.scale)
    # the clipping norm of a round is chosen by the norms of a subsample's scores
    few_rows, unit = run.few_rows.mapped(whiten), setting.score_unit
    norms = released_norms(few_rows, budget.histogram, at, "score", unit=unit)
    bound, _ = choose_clipping_norm(norms, noise_per_bound(rows.n, [budget.vector]), theta.size)
    row_clipping = setting.short_enough(bound, at.scale)
    rows = few_rows if rows is run.few_rows else rows.mapped(whiten)
    score, noise, _ = rows.clipped(at, bound, budget.vector, row_clipping=row_clipping).gradient
    step, back = decisions.round_step(score, noise, whiten, unwhiten, expected[1], TRUST_REGION)
    largest = max(float(whitening.values[-1]), whitening.floor) ** 0.5
    scores = (*pilot.scores, NoisyScore(theta, back, noise * largest))
    theta = theta + cutting_plane(step, scores) * step
    pilot = Pilot(theta, pilot.scale, pilot.rounds + 1, scores)
    return pilot, NoisyScore(at.theta, score, noise)


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
