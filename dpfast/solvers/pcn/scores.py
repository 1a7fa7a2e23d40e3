"""Released scores, their averages and the points that they lead to."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from dpfast.arguments import Array
from dpfast.curator import JointAnswer
from dpfast.curator.preconditioned import Linearization, PreconditionedQueries, RowClipping
from dpfast.kernels import decisions

#: Standard deviations of noise above which a score, or its change, is information.
SIGNAL_SDS = 2.0

#: Covariance of the scores, and its noise.
NoisyMeat = tuple[Array, float]


class NoisyScore(NamedTuple):
    """A point, the score released there, and its noise in any direction."""

    theta: Array
    score: Array
    noise: float

    @property
    def debiased_squared_norm(self) -> tuple[float, float]:
        """Squared norm of the score without its noise's part, and the noise's part."""
        square, error = decisions.squared_norm(self.score, self.noise)
        return square, error


class Problem(Protocol):
    """Mean scores over ``n`` records or persons, the units of privacy."""

    @property
    def n(self) -> int:
        """Number of units of privacy; public."""

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Release the mean whitened score, clipped at ``bound`` for each unit: costs ``mu``.

        Its second moments are free if ``mu_meat`` is at most half of ``mu`` (claim C17).
        """

    def trusted_part(self, step: Array) -> float:
        """Return the part of a step beyond which the released Hessian may not hold."""


class RegressionScores(NamedTuple):
    """Scores of whitened rows, for a loss of the linear predictor."""

    rows: PreconditionedQueries
    at: Linearization
    row_clipping: RowClipping

    @property
    def n(self) -> int:
        """Number of records, or of persons if they count."""
        return self.rows.n

    def score(self, theta: Array, bound: float, mu: float, mu_meat: float = 0.0) -> JointAnswer:
        """Release the mean score of the rows, and its second moments if they have a budget."""
        at = Linearization(theta, self.at.loss, self.at.scale, self.at.raw)
        return self.rows.clipped(at, bound, mu, mu_meat, self.row_clipping)

    def trusted_part(self, step: Array) -> float:
        """Return 1: a model of the curvature limits steps where one is needed."""
        return 1.0
