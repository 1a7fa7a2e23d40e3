"""Limits on the length of a step: cutting planes and a trust region."""

from __future__ import annotations

from collections.abc import Sequence

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.solvers.pcn.scores import SIGNAL_SDS, NoisyScore

#: Part of the way to a cutting plane above which a step is shortened, to half of the way: no
#: minimum lies beyond the plane.
CUTTING_PLANE_PART = 0.75

#: Largest move of predictors by the slopes of a start, or by a round, in log odds or logs.
TRUST_REGION = 1.5

decisions.connect_limits(SIGNAL_SDS, CUTTING_PLANE_PART, TRUST_REGION)


def cutting_plane(step: Array, scores: Sequence[NoisyScore]) -> float:
    """Shorten a step that crosses a cutting plane: an earlier score's (Kelley 1960).

    A step that would go too far beyond a plane ends halfway to it.  Planes within noise are
    ignored.
    """
    return float(decisions.cutting_plane(step, scores))


def trust_region(step: Array, variance: float) -> float:
    """Return the factor that keeps a step in its trust region (Nocedal and Wright 2006, ch. 4).

    Predictors move by at most a constant, or by half of the slopes' spread.
    """
    return float(decisions.trust_region(step, variance))
