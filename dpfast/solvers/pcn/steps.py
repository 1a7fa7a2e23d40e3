"""Averaged Newton steps of clipped scores in whitened coordinates."""

from __future__ import annotations

from typing import NamedTuple

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.kernels.decisions import AveragedNewton
from dpfast.solvers.pcn.information import MIN_VARIATION
from dpfast.solvers.pcn.many_columns import MANY
from dpfast.solvers.pcn.plan import MAX_STEPS
from dpfast.solvers.pcn.scores import NoisyMeat, NoisyScore
from dpfast.solvers.pcn.stopping import FALSE_ALARM, OF_SAMPLING, SLIGHT

__all__ = ["AveragedNewton", "NewtonSolution"]

#: Last steps that release the covariance of many columns' scores.  Each takes as long as a Gram; by
#: four of them in place of two its noise is less by the root of two, and so are no other errors.
MEATS = 2


class NewtonSolution(NamedTuple):
    """Result of :class:`AveragedNewton`, in whitened coordinates."""

    theta: Array
    #: None for the identity.
    curvature: Array | None
    min_meat: Array | None
    n_hidden: int
    noise: float
    meat: NoisyMeat | None
    noises: list[float]
    steps: int
    nonconvergence: Array | None
    #: Direction where the bound of the Hessian applies most.
    overstated: Array | None
    scores: list[NoisyScore]
    #: Weighted mean of the points whose scores count, and of these scores; its noise is ``noise``.
    average: NoisyScore


decisions.connect_steps(
    NewtonSolution,
    NoisyScore,
    MAX_STEPS,
    MANY,
    MEATS,
    MIN_VARIATION,
    FALSE_ALARM,
    SLIGHT,
    OF_SAMPLING,
)
