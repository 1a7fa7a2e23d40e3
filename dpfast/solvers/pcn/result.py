"""The result of a run of private clipped Newton."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import NO_CLIPPING, RowClipping
from dpfast.solvers.pcn.plan import MAX_STEPS
from dpfast.solvers.pcn.scores import NoisyScore


class Scores(NamedTuple):
    """Released mean scores of whitened rows, and second moments of rows in the design's columns.

    ``mapping`` maps whitened coefficients to those of the columns, and ``rows`` back.
    """

    moments: Array
    rows: Array
    mapping: Array
    whitened: list[NoisyScore]

    @property
    def asked(self) -> list[NoisyScore]:
        """Points and scores in the design's columns; noise has covariance ``noise^2 rows'rows``."""
        back = self.rows.T
        return [
            NoisyScore(self.mapping @ at.theta, back @ at.score, at.noise) for at in self.whitened
        ]

    def in_columns(self, basis: Array, inverse: Array) -> Scores:
        """Return the scores of all columns, of rows that were mapped by a basis."""
        moments = inverse.T @ self.moments @ inverse
        return Scores(moments, self.rows @ inverse, basis @ self.mapping, self.whitened)


class SolverResult(NamedTuple):
    """The result of a run; matrices are of whitened coefficients, which ``mapping`` maps back."""

    theta: Array
    mapping: Array
    unmapping: Array
    meat: Array
    meat_scale: float
    noise: float
    residual_bias_var: Array
    n_hidden: int
    bound: float
    clipped_share: float
    clipping_bias: float
    weight_exponent: float
    downweighted_share: float
    max_undetected: float
    scale: float
    #: Mean of the predictor over the rows, and its standard deviation; without offsets.
    mean_predictor: float = 0.0
    predictor_spread: float = 0.0
    nonconvergence: Array | None = None
    #: Direction along which scores vary by much less than the curvature.
    overstated: Array | None = None
    #: Direction along which scores vary more than along others for the curvature.
    excess_variation: Array | None = None
    #: How many times as much they do.
    variance_ratio: float = 1.0
    steps: int = MAX_STEPS
    row_clipping: RowClipping = NO_CLIPPING
    #: Curvature of long rows beyond the detected ones, relative to the typical curvature.
    excess_curvature: float = 0.0
    #: Biases along some directions, as columns, beside those of ``residual_bias_var``.
    bias_directions: Array | None = None
    #: Whether the rows' second moments are larger than their noise.
    records_detected: bool = True
    scores: Scores | None = None
    #: Records per width in a narrow window about the fitted line, over those in a wide one.
    denser: float = 1.0
    #: Bound of the relative error of the curvature by its noise, in the least clear direction.
    curvature_noise: float = 0.0

    def in_columns(self, basis: Array) -> SolverResult:
        """Return the result for all columns, of rows that were mapped by a basis.

        ``basis`` maps coefficients of these rows to those of the columns, of which some may be
        left out.
        """
        inverse = left_inverse(basis)
        return self._replace(
            theta=basis @ self.theta,
            mapping=basis @ self.mapping,
            unmapping=self.unmapping @ inverse,
            nonconvergence=None if self.nonconvergence is None else basis @ self.nonconvergence,
            overstated=None if self.overstated is None else basis @ self.overstated,
            excess_variation=(
                None if self.excess_variation is None else basis @ self.excess_variation
            ),
            scores=None if self.scores is None else self.scores.in_columns(basis, inverse),
        )


def left_inverse(basis: Array) -> Array:
    """Return the inverse of a basis, zero for columns that it leaves out."""
    inverse = np.zeros(basis.shape[::-1])
    kept = basis.any(axis=1)
    inverse[:, kept] = np.linalg.inv(basis[kept])
    return inverse
