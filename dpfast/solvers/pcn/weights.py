"""Limits on the rows of the Newton steps: leverage weights, or a bound of the score."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    LeverageWeights,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)
from dpfast.solvers.pcn.clipping import choose_clipping_norm, noise_per_bound
from dpfast.solvers.pcn.histogram import FINE, NormHistogram, released_norms
from dpfast.solvers.pcn.local import LocalCurvature, LocalWhitening
from dpfast.solvers.pcn.rounds import Run

#: Smallest eigenvalue of the second Gram without weights; of many columns, without its noise.
#: Eigenvalues are about 1 where rows longer than the radius do not matter.  Below, almost only long
#: rows determine a direction, and unweighted steps would diverge for all coefficients because of
#: one column of mostly zeros.
MIN_EIGENVALUE = 0.35


#: Ratio of squared lengths, between 1 and 2, up to which a row counts as one of usual length.
LONGER = 1.5


class RowLimits(NamedTuple):
    """Limits on rows: a largest bound of the score, or leverage weights with an exponent."""

    row_clipping: RowClipping
    exponent: float = 0.0
    #: Norms that scores can have for any response.
    score_bounds: NormHistogram | None = None


def leverage_weights(
    run: Run,
    local: LocalCurvature,
    whitening: LocalWhitening,
    rows: PreconditionedQueries,
    at: Linearization,
) -> RowLimits:
    """Choose how rows far from the others are limited, so that full steps converge."""
    if run.setting.downweights_by_score_bound:
        return _limits_by_score_bound(run, local, rows, at)
    # The curvature beyond the Gram's is at most as large again: full steps converge below
    # twice.  A direction with a small eigenvalue may have undetected long rows, which whitening
    # would make longer.
    exponent = 1.0
    if whitening.values[0] >= MIN_EIGENVALUE:
        exponent = choose_weight_exponent(local.norms, whitening.radius, local.typical)
    if not exponent:
        return RowLimits(NO_CLIPPING)
    weights = LeverageWeights(at, whitening.radius, exponent, whitening.unwhiten)
    return RowLimits(RowClipping(weights), exponent)


def _limits_by_score_bound(
    run: Run, local: LocalCurvature, rows: PreconditionedQueries, at: Linearization
) -> RowLimits:
    """Limit the bound of a row's score, and not its score, so that the estimand is the same."""
    setting = run.setting
    shown_rows = rows.subsample() if local.light_tail else rows
    foreseen = released_norms(shown_rows, local.budget.histogram, at, "score size", FINE)
    noise = noise_per_bound(run.rows.n, local.budget.steps[1:])
    longest, _ = choose_clipping_norm(foreseen, noise, at.theta.size, n=run.rows.n)
    score_bounds = None
    if setting.score_bound_ratio < math.inf:
        score_bounds = foreseen.rescaled(1.0 / (at.scale * setting.score_bound_ratio))
    return RowLimits(RowClipping(max_score_bound=longest), score_bounds=score_bounds)


def choose_weight_exponent(norms: NormHistogram, radius: float, max_excess: float) -> float:
    """Choose the smallest power of ``w = min(1, radius^2/a^2)`` with a bounded excess curvature.

    Rows up to ``LONGER`` times the radius, squared, have at most so many times the curvature that
    the Gram shows.  Without weights the curvature is below twice the Gram's, where full steps
    converge, if that and the excess of longer rows add up to two.  Normal rows of a hundred
    columns are all about as long as the radius, and need no weights.
    """
    if norms.mean_excess(LONGER**0.5 * radius, 0.0) <= (2.0 - LONGER) * max_excess:
        return 0.0
    for exponent in (0.0, 0.25, 0.5, 0.75):
        if norms.mean_excess(radius, exponent) <= max_excess:
            return exponent
    return 1.0
