"""A bound on weights that nobody declared, from the released distribution of the weights."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.tables.weighted import WeightedCells
from dpfast.data.cell_records import LARGEST_LOGARITHM
from dpfast.tables.inequality import monotone
from dpfast.tables.prefix_noise import PrefixNoise

Array = NDArray[np.float64]

#: Share of the squared budget for the bound.
SHARE = 0.04

#: Quarters of octaves, from 2^-40 to 2^40.
BINS = int(8 * LARGEST_LOGARITHM)

#: Weights are clipped where the number of larger ones is below so many deviations of its noise.
MAX_CLIPPED_SDS = 3.0

#: Noise of a count that is not asked for, in multiples of that of the histogram.
NO_COUNT = 1e6

CLIPPED = (
    "weights above {bound:.4g} were clipped to it: this bound was estimated with part of the "
    "budget, and up to some {number:,.0f} of {n:,} may be larger. Counts and totals are too small "
    "by what was clipped. Declare largest_weight in dpfast.records, from the sampling design."
)


class WeightBound:
    """Estimate of the largest weight: planned before the charge, released after it."""

    def __init__(self, cells: WeightedCells, mu: float) -> None:
        self._cells = cells
        self._mu, self.rest = mu * math.sqrt(SHARE), mu * math.sqrt(1.0 - SHARE)
        cells.distribution_receipt(BINS, self._mu)
        self.remarks: tuple[str, ...] = ()

    def estimate(self) -> None:
        """Set the bound above all but as many weights as the noise would hide."""
        edges = np.linspace(-1.0, 1.0, BINS + 1)
        answer = self._cells.weights_below(edges[1:-1], self._mu)
        # there is no other count: its noise is so large that it does not matter
        noise = PrefixNoise(BINS, answer.noise_scale, NO_COUNT * answer.noise_scale)
        below = noise.below(answer.value[0], np.zeros(1))[0]
        total = float(below[-1])
        above = total - monotone(below, total)
        hidden = MAX_CLIPPED_SDS * float(np.sqrt(noise.variances_of_excess(1.0).max()))
        small = above <= hidden
        place = int(np.argmax(small))
        self._cells.bound = float(2.0 ** (LARGEST_LOGARITHM * edges[place + 1]))
        self.remarks = (CLIPPED.format(bound=self._cells.bound, number=hidden, n=self._cells.n),)
