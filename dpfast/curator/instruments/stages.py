"""Grams of all columns, and scores of instruments at released residuals (claim T7)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, JointAnswer
from dpfast.curator.curator import Curator
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries
from dpfast.data import Records
from dpfast.models import LeastSquares, Mallows, Objective
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.noise import NoiseSource

Array = NDArray[np.float64]


class Stages:
    """Records whose rows are instruments and regressors together, copied."""

    def __init__(self, records: Records, ledger: Ledger, noise: NoiseSource, threads: int) -> None:
        blocks = [(np.asarray(X, dtype=np.float64), np.array(y)) for X, y in records.blocks()]
        self._X = np.concatenate([block for block, _ in blocks])
        self._y = np.concatenate([block for _, block in blocks])
        self._ledger, self._noise, self._threads = ledger, noise, threads
        self.n, self.dimension = len(self._y), self._X.shape[1] + 1

    def gram(self, matrix: Array, radius: float, mu: float) -> Answer:
        """Release the weighted Gram matrix of rows under a map (claim C14); costs ``mu``."""
        return self._rows(matrix).gram(radius, mu)

    def moment(self, matrix: Array, radius: float, cap: float, mu: float) -> Answer:
        """Release the mean of mapped rows times the clipped response (claim C13); costs ``mu``."""
        return self._rows(matrix).moment(radius, cap, mu)

    def norm_histogram(self, matrix: Array, edges: Array, mu: float) -> Answer:
        """Release shares of the records with rows of these norms (claim C60); costs ``mu``."""
        return self._rows(matrix).norm_histogram(edges, mu)

    def score_norm_histogram(self, matrix: Array, params: Array, edges: Array, mu: float) -> Answer:
        """Release shares of the records with scores of these norms (C60); costs ``mu``."""
        return self._rows(matrix, params).norm_histogram(edges, mu, self._at(matrix), "score")

    def scores(
        self, matrix: Array, params: Array, bound: float, mu: float, mu_meat: float = 0.0
    ) -> JointAnswer:
        """Release means of clipped scores and of their outer products: ``mu`` (C60 and T7)."""
        return self._rows(matrix, params).clipped(self._at(matrix), bound, mu, mu_meat)

    def _at(self, matrix: Array) -> Linearization:
        """Linearise the squared loss at zero, where the score is the response times the row."""
        return Linearization(np.zeros(matrix.shape[1]), LeastSquares())

    def _rows(self, matrix: Array, params: Array | None = None) -> PreconditionedQueries:
        y = self._y if params is None else residuals(self._X, self._y, params)
        objective = Objective(LeastSquares(), Mallows(1.0), self._X.shape[1])
        records: Any = Records(self._X, y, None)
        curator = Curator(records, objective, self._ledger, self._noise, self._threads)
        curator._made_with = (params,)
        return PreconditionedQueries(curator, matrix)


def residuals(X: Array, y: Array, params: Array) -> Array:
    """Compute residuals at these coefficients, row by row; missing if not finite."""
    with np.errstate(all="ignore"):
        residual = y - params[0]
        for j, column in enumerate(X.T):  # by column: no row depends on another
            residual = residual - params[j + 1] * column
        return np.where(np.isfinite(residual), residual, np.nan)
