"""Sums of scores of waves of records, released as a growing table asks for them (claim C108)."""

from __future__ import annotations

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer, gaussian_receipt
from dpfast.curator.noisy_release import charge
from dpfast.curator.preconditioned import (
    Linearization,
    PreconditionedQueries,
    RowClipping,
    exact_scores,
)
from dpfast.privacy.budget import GDP
from dpfast.privacy.tables.prefix_sums import UNIT, lag_mu, root_coefficients, sum_of_scores


class ScoreWaves:
    """Sums of clipped scores of at most so many waves, each a set of records of its own.

    ``mu`` is what a record costs in all releases together; its wave's ledger pays all of it.
    """

    def __init__(self, waves: int, mu: float, bound: float) -> None:
        self._waves, self._mu, self._bound = waves, mu, bound
        self._sums: list[Array] = []
        self._n = self._depth = 0

    def release(
        self, rows: PreconditionedQueries, at: Linearization, row_clipping: RowClipping
    ) -> Answer:
        """Add a wave's scores at its arrival; release sums weighted by the root of prefix sums."""
        wave, p = len(self._sums), rows.dimension
        curator = rows._curator
        charge(curator.ledger, GDP(self._mu), "scores of waves")
        total, depth, seen = exact_scores(rows, at, self._bound, row_clipping)
        self._sums.append(total)
        self._n += rows.n
        self._depth = max(self._depth, depth)
        weights = root_coefficients(self._waves)[: wave + 1][::-1] / UNIT
        value = np.asarray(weights @ np.array(self._sums))
        sensitivity = sum_of_scores(self._bound, self._n, self._waves, self._depth)
        receipt = gaussian_receipt(
            "scores of waves", "C108", lag_mu(self._mu, self._waves), sensitivity,
            self._n * self._bound, p,
        )  # fmt: skip
        question = ("scores of waves", self._mu, at.theta, wave, *seen)
        return curator._release(question, receipt, value)
