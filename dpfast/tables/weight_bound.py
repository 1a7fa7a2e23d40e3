"""A bound on weights that nobody declared, from the released distribution of the weights."""

from __future__ import annotations

import math

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.tables.weighted import WeightedCells
from dpfast.data.cell_records import LARGEST_LOGARITHM
from dpfast.tables.inequality import monotone
from dpfast.tables.prefix_noise import PrefixNoise

#: Share of the squared budget for the bound.  With .04 of a small budget a tenth of 2,000
#: log-normal weights was clipped, and counts were too small by more than their errors.
SHARE = 0.1

#: Quarters of octaves, from 2^-40 to 2^40.
BINS = int(8 * LARGEST_LOGARITHM)

#: Bins of an octave.
OCTAVE = BINS // int(2 * LARGEST_LOGARITHM)

#: Weights are clipped where the number of larger ones is below so many deviations of its noise.
MAX_CLIPPED_SDS = 2.0

#: Noise at the last edge can hide the bound from the first rule in one table of 200.  So it lies
#: at most two octaves above the edge that as many weights as four deviations exceed.
CLEAR_SDS, HEADROOM = 4.0, 2

#: Smallest exponent of a Pareto tail: the mean of larger weights is at most three bounds.
MIN_TAIL = 1.5

#: Noise of a count that is not asked for, in multiples of that of the histogram.
NO_COUNT = 1e6

CLIPPED = (
    "weights above {bound:.4g} were clipped to it: this bound was estimated with part of the "
    "budget, and up to some {number:,.0f} of {n:,} may be larger. Counts and totals may be too "
    "small by some {lost:.1%}, which their errors allow for. Declare largest_weight in "
    "dpfast.records, from the sampling design."
)


class WeightBound:
    """Estimate of the largest weight: planned before the charge, released after it."""

    def __init__(self, cells: WeightedCells, mu: float) -> None:
        self._cells = cells
        self._mu, self.rest = mu * math.sqrt(SHARE), mu * math.sqrt(1.0 - SHARE)
        cells.distribution_receipt(BINS, self._mu)
        self.remarks: tuple[str, ...] = ()
        #: Part of the sum of weights that clipping may have lost.
        self.lost = 0.0

    def estimate(self) -> None:
        """Set the bound above all but as many weights as the noise would hide."""
        edges = np.linspace(-1.0, 1.0, BINS + 1)
        answer = self._cells.weights_below(edges[1:-1], self._mu)
        # there is no other count: its noise is so large that it does not matter
        noise = PrefixNoise(BINS, answer.noise_scale, NO_COUNT * answer.noise_scale)
        below = noise.below(answer.value[0], np.zeros(1))[0]
        above = float(below[-1]) - monotone(below, max(float(below[-1]), 0.0))
        deviation = float(np.sqrt(noise.variances_of_excess(1.0).max()))
        place, clearly = [
            int(np.argmax(above <= sds * deviation)) for sds in (MAX_CLIPPED_SDS, CLEAR_SDS)
        ]
        place = min(place, clearly + HEADROOM * OCTAVE)
        weights = 2.0 ** (LARGEST_LOGARITHM * edges[1:])
        self._cells.bound = float(weights[place])
        self.lost = lost_by_clipping(weights[: place + 1], above[: place + 1], deviation)
        self.remarks = (
            CLIPPED.format(
                bound=self._cells.bound,
                number=above[place] + deviation,
                lost=self.lost,
                n=self._cells.n,
            ),
        )


def lost_by_clipping(weights: Array, above: Array, deviation: float) -> float:
    """Estimate the part of the sum of weights above the last one, by a Pareto tail (Hill 1975).

    ``above`` are noisy numbers of larger weights, the last of which is taken a deviation larger.
    """
    larger = above[-1] + deviation
    octave = above[-1 - min(OCTAVE, len(above) - 1)]
    tail = max(math.log2(max(octave, larger) / larger), MIN_TAIL)
    kept = weights[0] * above[0] + float(np.diff(weights) @ above[:-1])
    lost = larger * weights[-1] / (tail - 1.0)
    return float(lost / max(kept + lost, lost))
