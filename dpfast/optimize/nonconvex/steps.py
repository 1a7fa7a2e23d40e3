"""Steps whose length is found on the way, parameter by parameter: free, for gradients are released.

Adam's: the mean of the last gradients over the root of the mean of their squares, so that no
parameter moves by more than a length, and columns of unequal units move alike.  The length falls
in proportion to the budget that is left, and is longer while gradients agree with the step before,
by what of them is certain: noise turns no screw.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import public_length

Array = NDArray[np.float64]

#: Weight of the past in the mean of gradients, and of their squares: with the same weights no
#: parameter moves by more than the length.
MEMORY = 0.7

#: A length may wander this far from the first one.
RANGE = 1e4

#: First length, in plain steps of a gradient as long as the bound.
FIRST = 0.15

#: Longer than this many clips no gradient is taken to be, whatever was declared.
CLIPS = 16.0


class Steps:
    """From a gradient to a step: the paper's plain ones, or scaled."""

    def __init__(self, plain: float, rate: float, dimension: int) -> None:
        self._plain, self._rate = plain, rate
        self._mean, self._square, self._weight = np.zeros(dimension), np.zeros(dimension), 0.0
        self._before = np.zeros(dimension)
        self._first, self._factor = 0.0, 1.0

    @property
    def length(self) -> float:
        """What a parameter moved by at most, while all of the budget was left; or the plain one."""
        return self._factor * self._first if self._rate else self._plain

    def __call__(self, gradient: Array, noise: float, bound: float, left: float) -> Array:
        """The step against a gradient, with that part of the budget left."""
        if not self._rate:
            return -self._plain * gradient
        self._first = self._first or FIRST * self._plain * bound
        self._agree(gradient, noise)
        with np.errstate(all="ignore"):
            self._mean = MEMORY * self._mean + (1.0 - MEMORY) * gradient
            self._square = MEMORY * self._square + (1.0 - MEMORY) * gradient * gradient
            self._weight = MEMORY * self._weight + 1.0 - MEMORY
            root = np.sqrt(self._square * self._weight)
            self._before = -np.divide(self._mean, root, out=np.zeros(len(root)), where=root > 0.0)
        return self.length * left * self._before

    def _agree(self, gradient: Array, noise: float) -> None:
        """A longer length where the gradient says to go on, a shorter one where it turns."""
        size, before = public_length(gradient), public_length(self._before)
        if not (0.0 < size < math.inf and before > 0.0):
            return
        sure = max(0.0, 1.0 - len(gradient) * (noise / size) ** 2)
        cosine = -float(np.clip((gradient / size) @ (self._before / before), -1.0, 1.0))
        factor = self._factor * math.exp(self._rate * sure * cosine)
        self._factor = min(max(factor, 1.0 / RANGE), RANGE)
