"""The clipping norm of the Newton steps, by the norms of the scores at their start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.solvers.pcn.clipping import choose_clipping_norm
from dpfast.solvers.pcn.histogram import COARSE, NormHistogram, bin_edges
from dpfast.solvers.pcn.local import LocalCurvature
from dpfast.solvers.pcn.rounds import Run
from dpfast.solvers.pcn.scores import NoisyScore
from dpfast.solvers.pcn.weights import RowLimits, steps_noise

Array = NDArray[np.float64]


class ScoreClipping(NamedTuple):
    """Clipping norm of the scores, its bias, and the histogram that it was chosen by."""

    bound: float
    bias: float
    norms: NormHistogram
    #: First score, if it was released with the histogram.
    first_score: NoisyScore | None

    @property
    def clipped_share(self) -> float:
        """Part of the records with longer scores."""
        return float(self.norms.shares[self.norms.midpoints > self.bound].sum())


def clipping_norm(
    run: Run,
    local: LocalCurvature,
    limits: RowLimits,
    rows: PreconditionedQueries,
    at: Linearization,
) -> ScoreClipping:
    """Release the norms of the scores, and choose the norm that they are clipped at."""
    setting, budget, row_clipping = run.setting, local.budget, limits.row_clipping
    n, p, unit, first_score = run.rows.n, at.theta.size, setting.score_unit, None
    edges = unit * bin_edges(COARSE)[:-1]
    max_norm = row_clipping.max_leverage * at.scale * setting.score_bound_ratio

    def choose(counts: tuple[Array, float], noise: float) -> ScoreClipping:
        norms = NormHistogram.from_noisy_shares(*counts, COARSE, unit)
        bound, bias = choose_clipping_norm(
            norms, noise, p, max_norm, foreseen=limits.score_bounds, n=n
        )
        return ScoreClipping(bound, bias, norms, first_score)

    if local.sampled:  # the histogram of norms comes with the first scores
        counts = rows.subsample().norm_histogram(
            edges, budget.round.histogram, at, "score", row_clipping
        )
        first_bound = choose(counts[:2], 2.0 / (n * budget.steps[0])).bound
        answer, counts = rows.clipped_and_counted(
            at, first_bound, budget.steps[0], edges, budget.histogram, row_clipping
        )
        first_score = NoisyScore(at.theta, *answer[:2])
    else:
        counts = rows.norm_histogram(edges, budget.histogram, at, "score", row_clipping)
    return choose(counts[:2], steps_noise(n, budget.steps))
