"""Steps whose lengths adapt to each parameter: free, because gradients are released.

They are Adam's (Kingma and Ba 2015): the mean of the last gradients over the root of the mean of
their squares.  No parameter moves by more than a length, and columns of unequal units move alike.
The length falls in proportion to the budget that is left.  It grows while gradients agree with the
step before, by the part of them that is not noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import public_length

Array = NDArray[np.float64]

#: Weight of the past in the mean of gradients and of their squares.  Because both have it, no
#: parameter moves by more than the length.  Smaller, steps follow noise; larger, they turn late.
MEMORY = 0.7

#: Largest ratio of a length to the first one, and of the first to it; keeps numbers finite.
LENGTH_RANGE = 1e4

#: First length, in plain steps of a gradient as long as the bound.  Longer, a run may overshoot;
#: shorter, it spends budget until lengths have grown.
FIRST_LENGTH = 0.2

#: Largest gradient that the first length is made for, in clips, whatever bound was declared.  With
#: 16, first steps of models with exponentials (counts) went where all gradients are huge.
MAX_CLIPS = 2.0


class Steps:
    """Rule that turns gradients into steps: the paper's plain ones, or scaled."""

    def __init__(self, plain: float, rate: float, dimension: int) -> None:
        self._plain = plain
        self._rate = rate
        self._mean = np.zeros(dimension)
        self._square = np.zeros(dimension)
        self._weight = 0.0
        self._last_step = np.zeros(dimension)
        self._first_length = 0.0
        self._factor = 1.0

    @property
    def length(self) -> float:
        """Largest move of a parameter at the full budget, or the plain step size."""
        return self._factor * self._first_length if self._rate else self._plain

    def __call__(self, gradient: Array, noise: float, bound: float, budget_left: float) -> Array:
        """Return the step against a gradient, with that part of the budget left."""
        if not self._rate:
            return -self._plain * gradient
        self._first_length = self._first_length or FIRST_LENGTH * self._plain * bound
        self._agree(gradient, noise)
        with np.errstate(all="ignore"):
            self._mean = MEMORY * self._mean + (1.0 - MEMORY) * gradient
            self._square = MEMORY * self._square + (1.0 - MEMORY) * gradient * gradient
            self._weight = MEMORY * self._weight + 1.0 - MEMORY
            root = np.sqrt(self._square * self._weight)
            scaled = np.divide(self._mean, root, out=np.zeros(len(root)), where=root > 0.0)
        self._last_step = -scaled
        return self.length * budget_left * self._last_step

    def _agree(self, gradient: Array, noise: float) -> None:
        """Lengthen steps if the gradient agrees with the last step; shorten them if it turns."""
        size = public_length(gradient)
        step_size = public_length(self._last_step)
        if not (0.0 < size < math.inf and step_size > 0.0):
            return
        signal_part = max(0.0, 1.0 - len(gradient) * (noise / size) ** 2)
        product = (gradient / size) @ (self._last_step / step_size)
        cosine = -float(np.clip(product, -1.0, 1.0))
        factor = self._factor * math.exp(self._rate * signal_part * cosine)
        self._factor = min(max(factor, 1.0 / LENGTH_RANGE), LENGTH_RANGE)
