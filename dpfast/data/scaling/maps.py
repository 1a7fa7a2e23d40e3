"""Transformations of records for queries: a row under a released map, and one number (claim C9)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array

#: Rows that are mapped, or whose norms are computed, at a time: they stay in the processor's cache.
CHUNK = 4096


class Linearization(NamedTuple):
    """Loss at a released parameter of the mapped rows, or with ``raw`` of the design rows.

    With ``raw`` the predictor is ``z'theta`` of the design row z, for any map W.  The mapped rows
    ``z'W`` may be instruments, while the predictor uses all regressors.
    """

    theta: Array
    loss: Any
    scale: float = 1.0
    raw: bool = False

    def mapped(self, matrix: Array) -> Linearization:
        """Return the same predictor for rows under another map, which multiplies parameters."""
        return self if self.raw else self._replace(theta=matrix @ self.theta)


class LeverageWeights(NamedTuple):
    """Down-weighting of rows by ``min(1, radius / (sqrt(c) |a B|))^(2 power)``.

    ``sqrt(c) |a B|`` is the square root of a row's leverage; c is the curvature of its loss.
    """

    at: Linearization
    radius: float
    power: float
    back: Array


class RowClipping(NamedTuple):
    """Factor of each row before its score counts: leverage weights, or a bound on its score."""

    leverage_weights: LeverageWeights | None = None
    #: Largest bound of a row's score, for any response.
    max_score_bound: float = np.inf

    def mapped(self, matrix: Array) -> RowClipping:
        """Return the same factors for rows under another map, which multiplies parameters."""
        if self.leverage_weights is None:
            return self
        weights = self.leverage_weights
        weights = weights._replace(at=weights.at.mapped(matrix), back=matrix @ weights.back)
        return self._replace(leverage_weights=weights)


NO_CLIPPING = RowClipping()


class TransformedView(NamedTuple):
    """View of records: rows ``a = z'W`` (``a = z`` if ``matrix`` is None), and ``what``."""

    matrix: Array | None
    intercept: bool
    what: str = "response"
    at: Linearization | None = None
    shift: float = 0.0
    row_clipping: RowClipping = NO_CLIPPING
    weigh: float = 0.0

    @property
    def columns(self) -> int:
        """Number of columns of the mapped rows."""
        assert self.matrix is not None
        return int(self.matrix.shape[1])


@lru_cache(maxsize=64)
def zero_and_identity(p: int) -> tuple[Array, Array]:
    """Make the parameter of kernel queries, zero, and the identity map; both are cached.

    Zero, because transformed responses already contain the parameter.
    """
    zero, identity = np.zeros(p), np.eye(p)
    zero.flags.writeable = identity.flags.writeable = False
    return zero, identity
