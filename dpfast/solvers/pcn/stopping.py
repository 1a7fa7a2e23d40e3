"""When steps have converged, and the test that they have not."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore

#: Level of the test that scores still point one way.  Larger, fits that converged warn.
FALSE_ALARM = 1e-3

#: Largest error that steps may leave, as a part of their noise, and of the sampling error.  Larger,
#: fits are biased; smaller, the budget is divided among more steps.
SLIGHT, OF_SAMPLING = 0.3, 0.03


class StoppingRule(NamedTuple):
    """Stopping rule: bounds on the relative error of steps in whitened coordinates."""

    whitening_error: float
    curvature_change: float
    score_mean_square: float

    def converged(
        self,
        step: NoisyScore,
        before: tuple[float, float] | None,
        mus: tuple[float, ...],
        averages: bool,
        n: int,
    ) -> bool:
        """Return True if one further step, with all of the rest, is as good as several."""
        square, error = step.debiased_squared_norm
        length, total_mu = math.sqrt(square), math.hypot(averages * mus[0], *mus[1:])
        rate = self.whitening_error + self.curvature_change * length
        if before is not None:
            explained = before[1] * (1.0 + SIGNAL_SDS * math.sqrt(2.0 / step.score.size))
            if square > explained:
                rate = max(rate, math.sqrt((square - explained) / max(before[0], TINY)))
        share = (averages * mus[0] / total_mu) ** 2
        averaged_error = rate * math.hypot(rate * length, error**0.5)
        error_left = share * rate * length + (1.0 - share) * averaged_error
        noise = error**0.5 * mus[0] / total_mu
        return error_left <= math.hypot(
            SLIGHT * noise, OF_SAMPLING * math.sqrt(self.score_mean_square / n)
        )


def nonconvergence_direction(answers: list[NoisyScore]) -> Array | None:
    """Test whether later scores still point one way on average; return the direction if so.

    The test is of chi-squared form, with the noise's exact variance.
    """
    if len(answers) < 3:
        return None
    mean, variance = decisions.moved_mean(answers)
    statistic = decisions.length(mean) ** 2 / variance
    return mean if decisions.chi_squared_tail(len(mean), statistic) < FALSE_ALARM else None
