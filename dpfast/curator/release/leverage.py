"""The largest leverage over declared rows, as a certificate measures it (claim R31)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dpfast.models import Domain
from dpfast.privacy.release.certified_minimiser import MinimiserPlan
from dpfast.privacy.release.leverage import leverage_plan, row_length

Array = NDArray[np.float64]


class Leverage:
    """``1/L`` of a Hessian: a function of it that one record moves by a public step."""

    def __init__(
        self, plan: MinimiserPlan, domain: Domain, directions: Array | None = None
    ) -> None:
        axes = np.eye(plan.dimension)
        gauges = [domain.gauge(axis) for axis in axes]
        self.plan = leverage_plan(plan, gauges, domain.gauge_bound())
        self.directions = np.zeros((0, plan.dimension)) if directions is None else directions
        even = [domain.even_leverage(w) for w in self.directions]
        self.alignments = np.array([alignment for _, alignment in even])
        self.lengths = np.array(
            [
                row_length(self.plan, plan.radius, domain.gauge(w), length, w.tolist())
                for w, (length, _) in zip(self.directions, even, strict=True)
            ]
        )
        self._rows = self.directions / self.lengths[:, None]
        self._domain = domain

    def value(self, hessian: Array) -> float:
        """``1/L``, within the plan's eta of it for every data set (claim R32)."""
        root = cholesky(hessian, lower=True, check_finite=False)
        whitened = solve_triangular(root, np.eye(len(root)), lower=True, check_finite=False)
        inverse = whitened.T @ whitened
        largest = self._domain.monotone_bound(inverse)
        largest = max(largest, self.plan.unit**2 * float(inverse.diagonal().max()))
        if len(self._rows):
            largest = max(largest, float(((self._rows @ inverse) * self._rows).sum(axis=1).max()))
        return 1.0 / largest
