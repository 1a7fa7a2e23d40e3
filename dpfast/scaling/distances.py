"""Location and scale of a column from a released histogram of distances from a centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.scaling.thresholds import LARGEST, SMALLEST
from dpfast.solvers.pcn.histogram import NEIGHBOUR_SDS, SINGLE_BIN_SDS

Array = NDArray[np.float64]

#: Mean distance in a cell over the power of two that stands for it, about.
_CELL_MEAN = 1.06
#: Signs of distances above and below a centre.
_SIDES = np.array([[1.0], [-1.0]]) / _CELL_MEAN


class ColumnScale(NamedTuple):
    """Released location and scale of one column."""

    centre: float
    spread: float
    low: float
    high: float
    detected: bool = True


class DistanceHistogram(NamedTuple):
    """Released histogram of the distances of one column, above and below a centre."""

    centre: float
    nearest: float
    #: Number of cells on a side; the last has all that is farther away.
    octaves: int
    cells: Array
    noise: float

    @property
    def ends_too_early(self) -> bool:
        """Whether records are in the last cell, though more cells are possible."""
        last = float(self.cells[:, self.octaves - 1].max())
        return self.octaves < self.cells.shape[1] and last > SINGLE_BIN_SDS * self.noise

    def joined(self, earlier: DistanceHistogram | None) -> DistanceHistogram:
        """Pool with an earlier histogram of the same distances, by inverse variances."""
        if earlier is None or earlier[:3] != self[:3]:
            return self
        weight, earlier_weight = self.noise**-2, earlier.noise**-2
        cells = (weight * self.cells + earlier_weight * earlier.cells) / (weight + earlier_weight)
        return self._replace(cells=cells, noise=float(weight + earlier_weight) ** -0.5)


def column_scales(histograms: Sequence[DistanceHistogram], complete: float) -> list[ColumnScale]:
    """Return mean and spread of each column, up to the farthest cells above their noise."""
    cells = np.array([histogram.cells for histogram in histograms])
    noise = np.array([histogram.noise for histogram in histograms])
    ends = _farthest(cells / noise[:, None, None]) + 1  # the cells below are summed
    last_cells, octaves = ends.max(axis=1), np.arange(cells.shape[2])
    steps = np.exp2(octaves - np.maximum(last_cells, 1.0)[:, None])[:, None]
    steps = np.where(octaves < ends[:, :, None], steps, 0.0)
    first, second = steps * _SIDES, steps * steps
    means, squares = (np.add.reduce(part * cells, (1, 2)) / complete for part in (first, second))
    second -= 2.0 * means[:, None, None] * first
    errors = noise * np.sqrt(np.add.reduce(second * second, (1, 2))) / complete
    spreads = np.sqrt(np.maximum(squares - means * means, 2.0 * errors))
    # so far in units of each column's farthest cell; the first one ends at a power of two
    powers = np.frexp([histogram.nearest for histogram in histograms])[1] - 1
    scales = np.ldexp(1.0, np.minimum(powers + np.array([*ends.T, last_cells]), 1000))
    numbers = np.array([*scales, means * scales[2], spreads * scales[2], last_cells]).T.tolist()
    locations = []
    for (centre, *_), (above, below, _, mean, spread, top) in zip(histograms, numbers, strict=True):
        if not top:
            locations.append(ColumnScale(centre, 1.0, centre, centre, False))
            continue
        low, high = max(centre - below, -LARGEST), min(centre + above, LARGEST)
        middle = min(max(centre + mean, low), high)
        spread = min(max(spread, SMALLEST), LARGEST)
        locations.append(ColumnScale(middle, spread, low, high))
    return locations


def _farthest(cells: Array) -> NDArray[np.intp]:
    """Return the farthest cell on each side that exceeds its noise, or -1.

    ``cells`` are in units of their noise.
    """
    above_single, above_neighbour, octaves = (
        cells > SINGLE_BIN_SDS,
        cells > NEIGHBOUR_SDS,
        np.arange(cells.shape[2]),
    )
    connected = np.logical_or.reduce(
        above_single, axis=1
    )  # and what is beside it: on the other side, or
    last = np.maximum.accumulate(np.where(connected, octaves, -1), axis=1)  # farther out, and so on
    gap = np.maximum.accumulate(np.where(above_neighbour.any(axis=1), -1, octaves), axis=1)
    connected[:, 1:] |= (last > gap)[:, :-1]
    return np.where(above_single | (above_neighbour & connected[:, None]), octaves, -1).max(axis=2)
