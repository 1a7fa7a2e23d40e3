"""Released scores, their averages and the points that they lead to."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.kernels import decisions

Array = NDArray[np.float64]

#: Standard deviations of noise above which a score, or its change, is information.
SIGNAL_SDS = 2.0

#: Covariance of the scores, and its noise.
NoisyMeat = tuple[Array, float]


class NoisyScore(NamedTuple):
    """A point, the score released there, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float

    @property
    def debiased_squared_norm(self) -> tuple[float, float]:
        """Squared norm of the score without its noise's part, and the noise's part."""
        square, error = decisions.squared_norm(self.score, self.noise)
        return square, error


def pooled_mean(mean: NoisyMeat | None, answer: Answer) -> NoisyMeat:
    """Pool a mean with one more answer, weighted by precision; return it with its noise."""
    value, noise, _ = answer
    if mean is None:
        return value, noise
    pooled_noise = 1.0 / math.hypot(1.0 / mean[1], 1.0 / noise)
    pooled = (pooled_noise / mean[1]) ** 2 * mean[0] + (pooled_noise / noise) ** 2 * value
    return pooled, pooled_noise
