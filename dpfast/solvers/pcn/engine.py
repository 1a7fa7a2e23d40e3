"""Private clipped Newton: the solver of every default fit.

Rows are whitened by a released Gram matrix, and a clipped moment gives a pilot estimate.  Where the
curvature varies, a few rounds of clipped scores improve it.  A curvature released there whitens the
rows again.  Full steps then converge, and a step's noise is the same multiple of the standard error
in every direction.  A histogram of the scores' norms chooses their clipping norm.  A loss is given
by its score and curvature in the predictor (:meth:`dpfast.models.Loss._score_at`); the solver has
no branch for a named loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.solvers.pcn.covariance import (
    bias_variance,
    one_sided_bias,
    score_covariance,
)
from dpfast.solvers.pcn.curvature import CurvatureModel
from dpfast.solvers.pcn.information import excess_variation
from dpfast.solvers.pcn.initial import InitialEstimate, initial_estimate
from dpfast.solvers.pcn.local import (
    LocalCurvature,
    LocalWhitening,
    first_preconditioner,
    local_curvature,
    local_preconditioner,
)
from dpfast.solvers.pcn.plan import MAX_STEPS, TINY, BudgetAllocation, Setting
from dpfast.solvers.pcn.result import Scores, SolverResult
from dpfast.solvers.pcn.rounds import Pilot, Run, preliminary_rounds
from dpfast.solvers.pcn.score_norms import ScoreClipping, clipping_norm
from dpfast.solvers.pcn.scores import RegressionScores
from dpfast.solvers.pcn.steps import AveragedNewton, NewtonSolution
from dpfast.solvers.pcn.stopping import StoppingRule
from dpfast.solvers.pcn.weights import RowLimits, leverage_weights

Progress = Callable[[int, int], None]


class Preparation(NamedTuple):
    """What the Newton steps start from: whitened rows, the curvature and limits of rows."""

    run: Run
    initial: InitialEstimate
    local: LocalCurvature
    whitening: LocalWhitening
    limits: RowLimits
    #: Rows whitened by the curvature; they keep what is computed once for all queries.
    steep_rows: PreconditionedQueries
    #: Where the steps start.
    at: Linearization


def fit_pcn(
    rows: PreconditionedQueries,
    setting: Setting,
    allocation: BudgetAllocation,
    inference: bool,
    iterates: list[Array],
    progress: Progress | None = None,
    initial: InitialEstimate | None = None,
) -> SolverResult:
    """Estimate the coefficients within a budget.

    Points on the way are added to ``iterates``, in the design's columns.  Several fits may share
    an ``initial`` estimate.
    """
    has_start, loss = initial is not None, setting.loss
    if initial is None:
        max_rounds = allocation.max_rounds(loss.curvature_varies)
        initial = initial_estimate(
            rows, setting, allocation.budgets(setting.query_counts, max_rounds)
        )
    run = begin(initial, setting, allocation, has_start)
    report = reporter(iterates, initial.mapping, progress)
    start = initial.theta
    if run.intercept is not None and loss.link == "identity":
        start = start + loss.level_shift * initial.scale * run.intercept
    report(start, 0)
    pilot = preliminary_rounds(run, start, initial.scale, lambda theta: report(theta, 0))
    return newton_steps(prepare(run, initial, pilot, report), inference, iterates, progress)


def reporter(
    iterates: list[Array], mapping: Array, progress: Progress | None
) -> Callable[[Array, int], None]:
    """Return what notes each point, in the design's columns, and each step that is done."""

    def report(theta: Array, done: int) -> None:
        iterates.append(decisions.matrix_vector(mapping, theta))
        if progress is not None and done:
            progress(done, MAX_STEPS)

    return report


def prepare(
    run: Run, initial: InitialEstimate, pilot: Pilot, report: Callable[[Array, int], None]
) -> Preparation:
    """Whiten rows by the curvature at the pilot estimate, and limit rows far from the others."""
    local = local_curvature(run, pilot, report)
    whitening = first_preconditioner(run, local, initial)
    if whitening:
        local = local._replace(budget=run.budgets(pilot.rounds, local.sampled, again=False))
        steep_rows, at = run.rows, local.at
    else:
        whitening = local_preconditioner(run, local, initial)
        steep_rows = run.rows.mapped(whitening.whiten)
        at = local.at._replace(theta=decisions.matrix_vector(whitening.unwhiten, local.at.theta))
    limits = leverage_weights(run, local, whitening, steep_rows, at)
    return Preparation(run, initial, local, whitening, limits, steep_rows, at)


def newton_steps(
    prepared: Preparation,
    inference: bool,
    iterates: list[Array],
    progress: Progress | None,
    clipping: ScoreClipping | None = None,
) -> SolverResult:
    """Take the steps with scores of the chosen clipping norm, and return the estimate."""
    run, initial, local, whitening, limits, steep_rows, at = prepared
    mapping = initial.mapping @ whitening.whiten
    clipping = clipping or clipping_norm(run, local, limits, steep_rows, at)
    # curvature of long rows beyond the detected ones, relative to the typical curvature
    excess = local.norms.mean_excess(whitening.radius, limits.exponent) / local.unit**2
    solution = AveragedNewton(
        RegressionScores(steep_rows, at, limits.row_clipping),
        at.theta,
        clipping.bound,
        stopping_rule(run, local, whitening, excess, clipping),
        curvature_model(run, local, whitening),
        inference,
    ).solve(
        local.budget.steps,
        reporter(iterates, mapping, progress),
        local.last_score,
        clipping.first_score,
    )
    return finalize(run, initial, mapping, local, whitening, limits, clipping, excess, solution)


def begin(
    initial: InitialEstimate, setting: Setting, allocation: BudgetAllocation, has_start: bool
) -> Run:
    """Choose the records of rounds and curvatures."""
    rows = initial.rows
    # in a direction of very few records, a subsample has too few of them
    few_rows = rows.subsample() if initial.well_determined else rows
    intercept = initial.unmapping[:, 0].copy() if setting.intercept else None  # contiguous
    return Run(rows, few_rows, setting, allocation, intercept, has_start, initial.later)


def stopping_rule(
    run: Run,
    local: LocalCurvature,
    whitening: LocalWhitening,
    excess: float,
    clipping: ScoreClipping,
) -> StoppingRule:
    """Bound the relative errors of whitening and of the curvature over a step."""
    p, norms = local.at.theta.size, local.norms
    return StoppingRule(
        math.sqrt(p / local.rows.n)
        + 0.5 * whitening.relative_error
        + excess
        + run.allocation.small_sample_factor(),  # in small samples long rows are not detected
        0.5 * norms.mean_of_squares() / (local.unit * (p * local.typical) ** 0.5 * local.at.scale)
        if run.setting.loss.curvature_varies
        else 0.0,
        clipping.norms.mean_square(clipping.bound),
    )


def curvature_model(
    run: Run, local: LocalCurvature, whitening: LocalWhitening
) -> CurvatureModel | None:
    """Model how the curvature changes with the parameter; None if it does not."""
    if not run.max_rounds:
        return None
    values, floor, undetermined = whitening.values, whitening.floor, None
    if values[0] <= floor:
        undetermined = np.where(values <= floor, 1.0 - run.allocation.small_sample_factor(), 0.0)
    return CurvatureModel(
        whitening.whiten,
        whitening.unwhiten,
        local.broad_at,
        run.constant_and_offsets,
        run.setting.min_score_variation,
        local.expected,
        undetermined,
    )


def finalize(
    run: Run,
    initial: InitialEstimate,
    mapping: Array,
    local: LocalCurvature,
    whitening: LocalWhitening,
    limits: RowLimits,
    clipping: ScoreClipping,
    excess: float,
    solution: NewtonSolution,
) -> SolverResult:
    """Return the estimate, in coordinates in which a Newton step is the score."""
    root, n = solution.curvature, run.rows.n

    def in_columns(direction: Array | None) -> Array | None:
        return None if direction is None else mapping @ direction

    nonconvergence, overstated = map(in_columns, (solution.nonconvergence, solution.overstated))
    varying = None
    if run.setting.compares_variances and solution.meat:
        varying = excess_variation(root, *solution.meat)
    variance_ratio, direction = varying or (1.0, None)
    varies_most = in_columns(direction)
    meat, meat_scale = score_covariance(run, local, whitening, limits.exponent, clipping, solution)
    whitened_mapping, row_clipping = mapping, limits.row_clipping
    theta, coefficients, mapping, unmapping, intercept, rows = decisions.step_coordinates(
        solution.theta, root, mapping, initial.unmapping, whitening.unwhiten, run.intercept
    )
    scores, bias_directions = None, None
    if run.setting.loss.may_separate:
        moments = initial.unmapping.T @ initial.unmapping
        scores = Scores(moments, rows, whitened_mapping, solution.scores)
    if root is not None:
        row_clipping = row_clipping.mapped(root)
    signal = decisions.slope_signal(theta, intercept)
    if intercept is not None and run.setting.clips_one_side:
        bias_directions = one_sided_bias(clipping.bias, intercept, theta)
    known, norms, radius = whitening.known, local.norms, whitening.radius
    # after a repeated whitening a direction that was clear then is clearly above noise here
    hidden_below = whitening.floor if initial.is_repeated else -math.inf
    n_hidden = decisions.count_hidden(known, whitening.values, hidden_below)
    mean, spread = decisions.predictor_moments(coefficients, run.intercept, initial.unmapping)
    return SolverResult(
        theta=coefficients,
        mapping=mapping,
        unmapping=unmapping,
        meat=meat,
        meat_scale=meat_scale,
        noise=solution.noise,
        residual_bias_var=bias_variance(
            known, solution.noises, signal, initial.variance, clipping.bias
        ),
        bias_directions=bias_directions,
        n_hidden=max(solution.n_hidden, n_hidden),
        bound=clipping.bound,
        clipped_share=clipping.clipped_share,
        clipping_bias=clipping.bias,
        weight_exponent=limits.exponent,
        downweighted_share=norms.downweighted_share(radius, limits.exponent),
        max_undetected=n * clipping.norms.max_undetected,
        mean_predictor=mean,
        predictor_spread=spread,
        nonconvergence=nonconvergence,
        overstated=overstated,
        excess_variation=varies_most,
        variance_ratio=variance_ratio,
        scale=local.at.scale,
        steps=solution.steps,
        row_clipping=row_clipping,
        excess_curvature=excess,
        records_detected=whitening.records_detected,
        scores=scores,
        denser=local.broadening / whitening.density_factor,
        curvature_noise=whitening.floor / max(float(whitening.values[0]), TINY),
    )
