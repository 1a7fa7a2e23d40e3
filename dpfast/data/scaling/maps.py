"""What a query sees of each record: its row under a released map, and one number (claim C9)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Rows that are mapped, or whose lengths are computed, at a time: they stay in the cache.
CHUNK = 4096


class Linearization(NamedTuple):
    """A loss at a released parameter of the mapped rows."""

    theta: Array
    loss: Any
    scale: float = 1.0


class LeverageWeights(NamedTuple):
    """What long rows are multiplied by: ``min(1, radius / (sqrt(c) |a B|))^(2 power)``."""

    at: Linearization
    radius: float
    power: float
    back: Array


class RowClipping(NamedTuple):
    """What rows are multiplied by before their scores count."""

    leverage_weights: LeverageWeights | None = None
    max_leverage: float = np.inf

    def mapped(self, matrix: Array) -> RowClipping:
        """The same of rows that are seen under another map: parameters are multiplied by it."""
        if self.leverage_weights is None:
            return self
        at, back = self.leverage_weights.at, matrix @ self.leverage_weights.back
        at = at._replace(theta=matrix @ at.theta)
        return self._replace(leverage_weights=self.leverage_weights._replace(at=at, back=back))


NO_CLIPPING = RowClipping()


class TransformedView(NamedTuple):
    """What is seen: rows ``a = z'W`` (mapped if ``matrix`` is None) beside what ``what`` says."""

    matrix: Array | None
    intercept: bool
    what: str = "response"
    at: Linearization | None = None
    shift: float = 0.0
    row_clipping: RowClipping = NO_CLIPPING
    weigh: float = 0.0

    @property
    def columns(self) -> int:
        """Of the rows that are seen through a matrix."""
        assert self.matrix is not None
        return int(self.matrix.shape[1])


#: From a tuple, without the frame of the generated constructor: a fit makes many of them.
view_of = partial(tuple.__new__, TransformedView)
