"""Grams of all columns, and scores of instruments at residuals of released ones (claim T7)."""

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
        self._X = np.concatenate([some for some, _ in blocks])
        self._y = np.concatenate([some for _, some in blocks])
        self._ledger, self._noise, self._threads = ledger, noise, threads
        self.n, self.dimension = len(self._y), self._X.shape[1] + 1

    def gram(self, matrix: Array, radius: float, mu: float) -> Answer:
        """Mean of outer products of rows under a map, weighted (claim C14); costs ``mu``."""
        return self._rows(matrix).gram(radius, mu)

    def moment(self, matrix: Array, radius: float, cap: float, mu: float) -> Answer:
        """Mean of such rows times the response, held to ``+-cap`` (claim C13); costs ``mu``."""
        return self._rows(matrix).moment(radius, cap, mu)

    def norm_histogram(self, matrix: Array, edges: Array, mu: float) -> Answer:
        """Shares of the records with rows of these lengths (claim C60); costs ``mu``."""
        return self._rows(matrix).norm_histogram(edges, mu)

    def score_norm_histogram(self, matrix: Array, params: Array, edges: Array, mu: float) -> Answer:
        """Shares of the records with scores of these lengths (claim C60); costs ``mu``."""
        return self._rows(matrix, params).norm_histogram(edges, mu, self._at(matrix), "score")

    def scores(
        self, matrix: Array, params: Array, bound: float, mu: float, mu_meat: float = 0.0
    ) -> JointAnswer:
        """Means of held scores and of their outer products: ``mu`` (claims C60 and T7)."""
        return self._rows(matrix, params).clipped(self._at(matrix), bound, mu, mu_meat)

    def _at(self, matrix: Array) -> Linearization:
        """Where scores are those of the response as it is."""
        return Linearization(np.zeros(matrix.shape[1]), LeastSquares())

    def _rows(self, matrix: Array, params: Array | None = None) -> PreconditionedQueries:
        y = self._y if params is None else residuals(self._X, self._y, params)
        objective = Objective(LeastSquares(), Mallows(1.0), self._X.shape[1])
        records: Any = Records(self._X, y, None)
        curator = Curator(records, objective, self._ledger, self._noise, self._threads)
        curator._made_with = (params,)
        return PreconditionedQueries(curator, matrix)


def residuals(X: Array, y: Array, params: Array) -> Array:
    """What these coefficients leave of the response: of each record, a function of itself."""
    with np.errstate(all="ignore"):
        left = y - params[0]
        for j, column in enumerate(X.T):  # one after the other: of no other record
            left = left - params[j + 1] * column
        return np.where(np.isfinite(left), left, np.nan)
