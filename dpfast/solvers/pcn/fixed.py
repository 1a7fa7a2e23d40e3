"""Newton steps with one released Hessian, for problems that need no model of its change."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.solvers.pcn.averaging import (
    averaged_newton_point,
    averaged_noise,
    inverse_variance_weights,
)
from dpfast.solvers.pcn.plan import TINY
from dpfast.solvers.pcn.problem import Problem
from dpfast.solvers.pcn.scores import NoisyScore

Array = NDArray[np.float64]

#: Number of last steps that are averaged; earlier ones reach the region of convergence.
N_AVERAGED = 2


class FixedHessianSolution(NamedTuple):
    """The averaged point, and the noise of its whitened coefficients in any direction."""

    theta: Array
    noise: float


def fixed_hessian_steps(
    problem: Problem,
    start: Array,
    whiten: Array,
    bound: float,
    mus: list[float],
    max_step: float = math.inf,
) -> FixedHessianSolution:
    """Take a step for each budget, and average the last points by inverse variance.

    ``whiten`` is the inverse root of the Hessian by which the scores are whitened.  No coefficient
    moves by more than ``max_step``.
    """
    theta, steps = start, []
    for mu in mus:
        score = problem.score(theta, bound, mu).gradient
        step = whiten @ score.value
        step = step * min(1.0, max_step / max(float(np.abs(step).max()), TINY))
        steps.append(NoisyScore(theta, step, score.noise_scale))
        theta = theta + step
    last = steps[-N_AVERAGED:]
    weights = inverse_variance_weights(last, None, [])
    point, noise = averaged_newton_point(last, weights, None), averaged_noise(last, weights)
    return FixedHessianSolution(point, noise)
