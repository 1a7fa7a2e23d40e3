"""Location and scale of a column from a released histogram of distances from a centre."""

from __future__ import annotations

from typing import NamedTuple

from dpfast.curator.scaling.columns import connect_scales
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


connect_scales(ColumnScale, SINGLE_BIN_SDS, NEIGHBOUR_SDS, CELL_MEAN, SMALLEST, LARGEST)
