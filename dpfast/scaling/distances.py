"""Location and scale of a column from a released histogram of distances from a centre."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dpfast.arguments import Array
from dpfast.kernels import decisions
from dpfast.scaling.thresholds import LARGEST, SMALLEST
from dpfast.solvers.pcn.histogram import NEIGHBOUR_SDS, SINGLE_BIN_SDS

#: Mean distance in a cell over the power of two that stands for it, about.
CELL_MEAN = 1.06


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
        last, threshold = self.octaves - 1, SINGLE_BIN_SDS * self.noise
        above, below = self.cells
        return last + 1 < len(above) and bool(above[last] > threshold or below[last] > threshold)

    def joined(self, earlier: DistanceHistogram | None) -> DistanceHistogram:
        """Pool with an earlier histogram of the same distances, by inverse variances."""
        if earlier is None or earlier[:3] != self[:3]:
            return self
        weight, earlier_weight = self.noise**-2, earlier.noise**-2
        cells = (weight * self.cells + earlier_weight * earlier.cells) / (weight + earlier_weight)
        return self._replace(cells=cells, noise=float(weight + earlier_weight) ** -0.5)


def column_scales(histograms: Sequence[DistanceHistogram], complete: float) -> list[ColumnScale]:
    """Return mean and spread of each column, up to the farthest cells above their noise."""
    return [_column_scale(histogram, complete) for histogram in histograms]


def _column_scale(histogram: DistanceHistogram, complete: float) -> ColumnScale:
    centre, nearest, _, cells, noise = histogram
    detected = decisions.scale_of_cells(
        cells, noise, centre, nearest, complete,
        SINGLE_BIN_SDS, NEIGHBOUR_SDS, CELL_MEAN, SMALLEST, LARGEST,
    )  # fmt: skip
    if detected is None:
        return ColumnScale(centre, 1.0, centre, centre, False)
    return ColumnScale(*detected)
