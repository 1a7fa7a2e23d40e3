"""Newton steps on rows that a public table has whitened: nothing is spent on whitening.

The units, the Gram matrix, the curvature and the starting point are those of the public rows.  The
private rows are asked for the norms of their scores there, which choose the clipping norm, and for
the scores of the steps.  These norms, and the second moments that come with the scores, show
whether the two tables are alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.solvers.pcn.engine import (
    Preparation,
    Progress,
    begin,
    fit_pcn,
    newton_steps,
    prepare,
    reporter,
)
from dpfast.solvers.pcn.histogram import NormHistogram
from dpfast.solvers.pcn.information import relative_variances
from dpfast.solvers.pcn.initial import initial_estimate
from dpfast.solvers.pcn.plan import TINY, BudgetAllocation, Budgets, Setting
from dpfast.solvers.pcn.result import SolverResult
from dpfast.solvers.pcn.rounds import Pilot
from dpfast.solvers.pcn.score_norms import ScoreClipping, clipping_norm
from dpfast.solvers.pcn.scores import SIGNAL_SDS
from dpfast.solvers.pcn.weights import leverage_weights

#: Budget of one query of public rows: the simulated noise is far below their sampling error.
PUBLIC_MU = 1e3

#: Ratio of the median norm of scores to that of the public rows, or its inverse, from which on
#: nothing of the public table is used: the call ends with most of its budget left.
OTHER_SIZE = 4.0

#: Part of the records in one bin that noise may hide, up to which that median is known.
MAX_HIDDEN = 0.25

#: Part of the share of complete public rows that is complete, below which the call ends, too.
LEAST_COMPLETE = 0.9

#: Variance of scores in a direction, in that of the public rows, or its inverse, from which on a
#: fit warns: standard errors are wrong by about this factor where the curvature is.
OTHER_VARIANCE = 1.5

#: The same from which on the coefficients are in doubt, too.  Where scores vary as curvature does,
#: a Newton step with the public curvature goes this part of the way, or beyond twice of it.
OTHER_CURVATURE = 2.0


class Steps(NamedTuple):
    """Result of steps on private rows, or none, and how their scores differ from public ones."""

    result: SolverResult | None
    #: Median norm of scores, in that of the public rows.
    ratio: float
    #: Share of complete rows, in that of the public rows.
    complete: float
    #: Direction in the design's columns in which scores vary otherwise, and their variance there,
    #: in that of the public rows.
    other: tuple[Array, float] | None = None


class PublicStart(NamedTuple):
    """What public rows tell of the steps, and what scores are like if the tables are alike."""

    prepared: Preparation
    clipping: ScoreClipping
    #: Second moments of scores, clipped as the private ones.
    meat: Array

    def steps(
        self,
        rows: PreconditionedQueries,
        allocation: BudgetAllocation,
        inference: bool,
        iterates: list[Array],
        progress: Progress | None,
    ) -> Steps:
        """Take the steps on private rows; none if their scores have another size."""
        run, initial, local, whitening, limits, _, at = self.prepared
        rows = rows.mapped(initial.mapping)
        run = run._replace(rows=rows, few_rows=rows, allocation=allocation)
        local = local._replace(budget=step_budgets(allocation))
        steep_rows = rows.mapped(whitening.whiten)
        private = Preparation(run, initial, local, whitening, limits, steep_rows, at)
        reporter(iterates, initial.mapping, progress)(local.at.theta, 0)
        norms = clipping_norm(run, local, limits, steep_rows, at).norms
        found = compared(norms, self.clipping.norms)
        size_is_known = norms.max_undetected <= MAX_HIDDEN
        if size_is_known and not 1.0 / OTHER_SIZE < found.ratio < OTHER_SIZE:
            return found
        if found.complete < LEAST_COMPLETE:
            return found
        result = newton_steps(private, inference, iterates, progress, self.clipping)
        other = other_variance(self.meat, result) if inference else None
        return found._replace(result=result, other=other)


def compared(norms: NormHistogram, public: NormHistogram) -> Steps:
    """Compare the norms of scores, before any step."""
    share, noise = norms.counted
    complete = min(1.0, (share + SIGNAL_SDS * noise) / public.counted[0])
    return Steps(None, norms.median() / public.median(), complete)


def other_variance(expected: Array, result: SolverResult) -> tuple[Array, float] | None:
    """Return the direction in which scores vary most unlike those of public rows, if any does.

    It comes with the variance of the scores in this direction, relative to ``expected``, the second
    moments of public scores.
    """
    values, columns, noise = relative_variances(expected, result.meat, result.meat_scale)
    p = len(values)
    doubt = (math.sqrt(2.0 * p) + SIGNAL_SDS) * noise / p
    more = (float(values[-1]) - doubt) / OTHER_VARIANCE
    less = 1.0 / (OTHER_VARIANCE * max(float(values[0]) + doubt, TINY))
    if max(more, less) <= 1.0:
        return None
    last = -1 if more > less else 0
    return np.asarray(result.mapping @ columns[:, last]), max(float(values[last]), 0.0)


def step_budgets(allocation: BudgetAllocation) -> Budgets:
    """Divide a total over a histogram of scores and the steps."""
    return allocation.divided(0.0, 0.0, 1.0)


def public_start(
    rows: PreconditionedQueries, setting: Setting, allocation: BudgetAllocation
) -> PublicStart:
    """Fit public rows, whiten them by the curvature at the fit, and limit them for a private fit.

    ``allocation`` is that of the private fit.
    """
    own = BudgetAllocation(rows.n, rows.dimension, PUBLIC_MU)
    rounds = own.max_rounds(setting.loss.curvature_varies)
    initial = initial_estimate(rows, setting, own.budgets(setting.query_counts, rounds))
    fit = fit_pcn(rows, setting, own, False, [], initial=initial)
    run = begin(initial, setting, own, True)
    pilot = Pilot(initial.unmapping @ fit.theta, fit.scale)
    prepared = prepare(run, initial, pilot, lambda theta, done: None)
    # limits of rows weigh bias against the noise of the private steps
    local, n = prepared.local, allocation.n
    steps = tuple([mu * n / rows.n for mu in step_budgets(allocation).steps])
    local = local._replace(budget=local.budget._replace(steps=steps), sampled=None, last_score=None)
    rows, at = prepared.steep_rows, prepared.at
    limits = leverage_weights(run, local, prepared.whitening, rows, at)
    prepared = prepared._replace(local=local, limits=limits)
    clipping = clipping_norm(run, local, limits, rows, at)
    scores = rows.clipped(at, clipping.bound, PUBLIC_MU, 0.5 * PUBLIC_MU, limits.row_clipping)
    return PublicStart(prepared, clipping, scores.meat.value)
