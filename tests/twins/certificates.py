"""Plain Python and NumPy twin of the certificate kernels, written differently on purpose.

The recursion is iterated as paper 3 states it, the table is built from whole arrays, and counts,
inverses and integrals go through ``numpy.interp`` and quadrature instead of the kernels' loops.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["ReferenceTable", "recursion", "recursion_count", "recursion_inverse"]

Array = NDArray[np.float64]


def recursion(
    kind: int, a: float, k: float, g: float, ridge: float, threshold: float, x: float
) -> float:
    """``R(x)``: equation (10) cut at zero (kind 0), corollary 6.2 corrected (kind 1)."""
    if x <= threshold:
        return 0.0
    if kind == 1:
        return max(0.0, math.sqrt(x * x - a) - g) if x * x > a else 0.0
    if x + ridge <= a:
        return 0.0
    growth = math.exp(k * (1.0 - math.sqrt(1.0 - a / (x + ridge))))
    return max(0.0, x * max(0.0, 2.0 - growth) - g)


def recursion_count(
    kind: int, a: float, k: float, g: float, ridge: float, threshold: float, x: float
) -> int:
    """``min{N : R^N(x) = 0}`` by iteration."""
    count = 0
    while x > 0.0:
        x = recursion(kind, a, k, g, ridge, threshold, x)
        count += 1
    return count


def recursion_inverse(
    kind: int, a: float, k: float, g: float, ridge: float, threshold: float, count: int
) -> float:
    """``sup{x : R^count(x) = 0}``: `count` inverse steps, each by bisection."""
    low = 0.0
    for _ in range(count):
        left, right = low, 2.0 * low + g + threshold + a
        while recursion(kind, a, k, g, ridge, threshold, right) <= low:
            right *= 2.0
        for _ in range(100):
            middle = 0.5 * (left + right)
            if recursion(kind, a, k, g, ridge, threshold, middle) <= low:
                left = middle
            else:
                right = middle
        low = left
    return low


class ReferenceTable:
    """The table of :class:`dpfast.kernels.certificates.RecursionTable`, same arguments."""

    def __init__(
        self,
        kind: int,
        a: float,
        k: float,
        g: float,
        ridge: float,
        threshold: float,
        largest: float,
        eta: float = 0.0,
        growth: float = 1.001953125,
    ) -> None:
        start = max(threshold, g) * (1.0 + 2.0**-40) + eta
        size = max(2, 1 + math.ceil(math.log(max(largest / start, 1.0)) / math.log(growth) - 1e-9))
        self.nodes = start * growth ** np.arange(size)
        low = np.concatenate([[start - eta], self.nodes[:-1]])

        def bend(x: Array) -> Array:
            if kind == 1:
                return x - np.sqrt(np.maximum(x * x - a, 0.0))
            s = x + ridge
            return np.asarray(s * (np.exp(k * (1.0 - np.sqrt(1.0 - a / s))) - 1.0))

        steps = bend(low)
        reach = (steps + g) * (1.0 + 2.0**-40) + 4.0 * eta
        high = self.nodes * growth + reach
        share = high / (high + ridge) if kind == 0 else np.ones(size)
        heights = (share * steps + g) * (1.0 + 2.0**-40) + 2.0 * eta
        heights += 2.0**-46 * self.nodes * growth
        gaps = np.diff(self.nodes, append=self.nodes[-1])
        # heights plus what is left of the nodes, running maximum from the right: x - D(x) increases
        left = (1.0 - 2.0**-20) * np.cumsum(gaps[::-1])[::-1]
        self.heights = np.maximum.accumulate((heights + left)[::-1])[::-1] - left

    def step(self, x: float) -> float:
        """The minorant's next value."""
        if x <= self.nodes[0]:
            return 0.0
        return max(0.0, x - float(np.interp(x, self.nodes, self.heights)))

    def count(self, x: float) -> int:
        """``min{N : S^N(x) = 0}``."""
        x, n = min(x, float(self.nodes[-1])) if x > 0.0 else 0.0, 0
        while x > 0.0:
            x, n = self.step(x), n + 1
        return n

    def inverse(self, count: int) -> float:
        """Largest number with at most this count."""
        x, values = 0.0, self.nodes - self.heights
        for _ in range(count):
            x = float(np.interp(x, values, self.nodes))  # the first node below all values
        return x

    def integral(self, x: float) -> float:
        """Integral of one over the interpolated heights, by 20-point Gauss rules."""
        if x <= self.nodes[0]:
            return 0.0
        ends = np.append(self.nodes[self.nodes < x], min(x, self.nodes[-1]))
        points, weights = np.polynomial.legendre.leggauss(20)
        half = 0.5 * np.diff(ends)[:, None]
        at = ends[:-1, None] + half * (1.0 + points)
        return float((half * weights / np.interp(at, self.nodes, self.heights)).sum())
