"""The clipping norm of the Newton steps, by the norms of the scores at their start."""

from __future__ import annotations

from typing import NamedTuple

from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.solvers.pcn.clipping import (
    ASYMMETRY,
    choose_clipping_norm,
    mean_asymmetry,
    noise_per_bound,
)
from dpfast.solvers.pcn.histogram import COARSE, NormHistogram, cell_edges, released_norms
from dpfast.solvers.pcn.local import LocalCurvature
from dpfast.solvers.pcn.rounds import Run
from dpfast.solvers.pcn.scores import NoisyScore
from dpfast.solvers.pcn.weights import RowLimits


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
        return self.norms.share_beyond(self.bound)


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
    max_norm = row_clipping.max_score_bound * at.scale * setting.score_bound_ratio
    asymmetry = mean_asymmetry(p) if setting.clips_one_side else ASYMMETRY

    def choose(norms: NormHistogram, noise: float) -> tuple[float, float]:
        return choose_clipping_norm(norms, noise, p, max_norm, asymmetry, limits.score_bounds, n)

    if local.sampled:  # the histogram of norms comes with the first scores
        mu, mu_round = budget.steps[0], budget.round.histogram
        norms = released_norms(
            rows.subsample(), mu_round, at, "score", unit=unit, row_clipping=row_clipping
        )
        first_bound, _ = choose(norms, noise_per_bound(n, [mu]))
        edges = cell_edges(COARSE, unit)
        answer, counts = rows.clipped_and_counted(
            at, first_bound, mu, edges, budget.histogram, row_clipping
        )
        first_score = NoisyScore(at.theta, *answer[:2])
        norms = NormHistogram.from_noisy_shares(*counts[:2], COARSE, unit)
    else:
        norms = released_norms(
            rows, budget.histogram, at, "score", unit=unit, row_clipping=row_clipping
        )
    return ScoreClipping(*choose(norms, noise_per_bound(n, budget.steps[1:])), norms, first_score)
