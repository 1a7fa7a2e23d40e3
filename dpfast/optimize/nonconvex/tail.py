"""The end of a noisy path: whether it still goes anywhere, and the average that is its answer.

Gradients that were read are averaged with weights in proportion to what they cost.  Where such an
average is not longer than its own noise, the path no longer moves with the gradient but with the
noise, and its points may be averaged: that is free, for all of it was released.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import public_length

Array = NDArray[np.float64]

#: An average of gradients says something when its square exceeds its noise's by this factor.
STILL = 1.5

#: The part of the budget whose gradients say whether a path still moves.
RECENT = 0.1

#: The last part of what was spent, which is averaged in any case.
SURE = 0.4

#: Farther back, a clip is within this factor of the last one: where gradients had other lengths,
#: the path was elsewhere.
ALIKE = 1.5


class Tail:
    """Points that a path reached, with the gradients that led to them."""

    def __init__(self, unit: float, dimension: int) -> None:
        self._unit, self._dimension = unit, dimension
        self._points: list[Array] = []
        self._gradients: list[Array] = []
        self._parts: list[float] = []
        self._spent: list[float] = []
        self._first = 0

    def add(self, theta: Array, gradient: Array, rho: float, part: float) -> None:
        """Note a point, the gradient of the one before, its cost, and its clip over the bound."""
        self._points.append(theta)
        self._gradients.append(gradient)
        self._parts.append(part)
        self._spent.append(rho)

    def restart(self) -> None:
        """What is averaged begins here: from now on another function is minimised."""
        self._first = len(self._points)

    @property
    def steps(self) -> int:
        return len(self._points)

    def drift(self, count: int) -> tuple[Array, float]:
        """Mean of the last gradients, weighted by their cost, and its noise per coordinate."""
        spent, parts = np.array(self._spent[-count:]), np.array(self._parts[-count:])
        weight = spent / spent.sum()
        with np.errstate(all="ignore"):  # a path that overflowed has none
            mean = weight @ np.array(self._gradients[-count:])
        noise = self._unit * math.sqrt(float(np.sum(spent * parts * parts))) / float(spent.sum())
        return np.asarray(mean), noise

    def still(self, total: float, part: float) -> bool:
        """Whether the gradients of the last tenth of the budget average to no more than noise."""
        cost = np.cumsum(self._spent[::-1])
        count = int(np.searchsorted(cost, RECENT * total)) + 1
        if count > len(cost):
            return False
        return bool(self._alike(part)[-count] and self._quiet()[-count])

    def answer(self, most: float) -> Array:
        """Average of the longest part of the end that is still, at most ``most`` of the cost."""
        spent = np.array(self._spent)
        share = np.cumsum(spent[::-1])[::-1] / spent.sum()
        sure = share <= min(SURE, most)
        sure[-1] = True
        chosen = sure | (self._quiet() & self._alike(self._parts[-1]) & (share <= most))
        chosen[: min(self._first, len(spent) - 1)] = False
        first = int(np.argmax(chosen))
        return np.asarray(spent[first:] / spent[first:].sum() @ np.array(self._points[first:]))

    def _alike(self, part: float) -> NDArray[np.bool_]:
        """Of each point: whether clips from there on are like this one."""
        ratios = np.array(self._parts)[::-1] / part
        return np.asarray(
            np.logical_and.accumulate((ratios < ALIKE) & (ratios > 1.0 / ALIKE))[::-1]
        )

    def _quiet(self) -> NDArray[np.bool_]:
        """Of each point: whether gradients from there on average to no more than noise."""
        spent, parts = np.array(self._spent)[::-1], np.array(self._parts)[::-1]
        weight = np.cumsum(spent)[:, None]
        noise = self._unit * np.sqrt(np.cumsum(spent * parts * parts)) / weight[:, 0]
        with np.errstate(all="ignore"):  # a path that overflowed is not still
            sums = np.cumsum(spent[:, None] * np.array(self._gradients)[::-1], axis=0) / weight
        lengths = np.array([public_length(row) for row in sums])
        return np.asarray((lengths <= math.sqrt(STILL * self._dimension) * noise)[::-1])
