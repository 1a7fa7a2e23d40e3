"""Unit of the records' own weights: about their mean, estimated by a private histogram."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpfast.solvers.pcn.histogram import SINGLE_BIN_SDS
from dpfast.solvers.pcn.plan import SHARES

if TYPE_CHECKING:
    from dpfast.curator.preconditioned import PreconditionedQueries
    from dpfast.fit_requests.request import FitRequest

#: Largest weights of the cells, over the largest of all: weights of 1e-100 have one as well.
EDGES = np.exp2(np.arange(-664.0, 1.0))

#: Mean and mean square of weights that are uniform in an octave, over its upper edge.
MEAN_IN_OCTAVE, SQUARE_IN_OCTAVE = 3.0 / 4.0, 7.0 / 12.0


def planned_weight_unit(request: FitRequest, mu: float) -> WeightUnit | None:
    """Plan the unit of records' weights; persons' weights have a public bound."""
    weights = request.record_weights
    if request.means or weights is None or weights.weight is None:
        return None
    return WeightUnit(mu)


class WeightUnit:
    """Private unit of the weights of preconditioned rows."""

    def __init__(self, mu: float) -> None:
        self._mu = mu * SHARES["histogram"] ** 0.5
        self.unit: float | None = None
        #: Mean square of the weights over their squared mean, once the unit is known.
        self.variation = 1.0

    def refuse(self, rows: PreconditionedQueries, mu: float) -> float:
        """Check the query; return the rest of a mu after it: all of it if the unit is public."""
        if self.unit is not None:
            return mu
        rows.subsample().refuse_norm_histogram(len(EDGES) + 1, self._mu)
        return math.sqrt(mu**2 - self._mu**2)

    def estimate_unit(self, rows: PreconditionedQueries) -> None:
        """Estimate the unit, unless it is public: the mean weight of cells above their noise."""
        if self.unit is not None:
            return
        histogram = rows.subsample().norm_histogram(EDGES, self._mu, what="weight")
        shares = histogram.value[:-1]
        shares = np.where(shares > SINGLE_BIN_SDS * histogram.noise_scale, shares, 0.0)
        if not shares.any():  # nothing is seen: that of the fullest cell
            shares[int(np.argmax(histogram.value[:-1]))] = 1.0
        mean, square = shares @ EDGES / shares.sum(), shares @ EDGES**2 / shares.sum()
        self.unit = float(mean) * MEAN_IN_OCTAVE
        self.variation = float(square / mean**2) * SQUARE_IN_OCTAVE / MEAN_IN_OCTAVE**2

    def weighted(self, rows: PreconditionedQueries) -> PreconditionedQueries:
        """Return the rows with their weights, once the unit is known."""
        return rows if self.unit is None else rows.weighed(1.0 / self.unit)
