"""Averaged Newton steps from the points where scores were released."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.solvers.pcn.curvature import GaussianCurvature
from dpfast.solvers.pcn.information import InformationBound
from dpfast.solvers.pcn.scores import NoisyScore

Array = NDArray[np.float64]


def inverse_variance_weights(
    answers: list[NoisyScore], curvature: Array | None, curvatures: list[GaussianCurvature]
) -> Array:
    """Weight scores by the inverse variance of their noise and of their curvature's change."""
    squares, here = [score.noise**2 for score in answers], answers[-1].theta
    for k, (_, _, level, along) in enumerate(curvatures[:-1]):
        difference = here - answers[k].theta
        change = max(abs(level / curvatures[-1][2] - 1.0), abs(along / curvatures[-1][3] - 1.0))
        size = math.hypot(*(difference if curvature is None else curvature @ difference).tolist())
        squares[k] += (0.5 * change * size) ** 2
    weights: Array = 1.0 / np.array(squares)
    return weights / np.add.reduce(weights)


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
    point, scores = answers[-1][:2]
    if weights is not None:
        points = [answer.theta for answer in answers]
        steps = [answer.score for answer in answers]
        point, scores = np.dot(weights, np.array([points, steps]))
    if bound:
        return point + bound[0] @ (bound[0].T @ scores / bound[1])
    return point + (scores if curvature is None else np.linalg.solve(curvature, scores))
