"""Averaged Newton steps from the points where scores were released."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels import decisions
from dpfast.solvers.pcn.curvature import GaussianCurvature
from dpfast.solvers.pcn.information import InformationBound
from dpfast.solvers.pcn.scores import NoisyScore

Array = NDArray[np.float64]


def inverse_variance_weights(
    answers: list[NoisyScore], curvature: Array | None, curvatures: list[GaussianCurvature]
) -> Array:
    """Weight scores by the inverse variance of their noise and of their curvature's change."""
    return np.asarray(decisions.inverse_variance_weights(answers, curvature, curvatures))


def averaged_noise(answers: list[NoisyScore], weights: Array) -> float:
    """Return the noise of the weighted average of scores, in any direction."""
    return math.hypot(*(weights * [score.noise for score in answers]).tolist())


def averaged_newton_point(
    answers: list[NoisyScore],
    weights: Array | None,
    curvature: Array | None,
    bound: InformationBound | None = None,
) -> Array:
    """Average the Newton steps from the points where scores were released."""
    return np.asarray(decisions.averaged_newton_point(answers, weights, curvature, bound))
