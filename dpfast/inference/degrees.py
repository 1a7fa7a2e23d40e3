"""A covariance, and how well a variance is known that was itself released with noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import real_number
from dpfast.errors import InvalidInput, described

if TYPE_CHECKING:
    from dpfast.optimize.propagation import Curvature

Matrix = NDArray[np.float64]

#: From so many degrees of freedom on a t distribution is the normal to all digits shown.
NORMAL = 1e7

#: Fewer are not told apart: a variance that is mostly noise.
LEAST = 2.0


#: Variances that float64 holds with all their digits.
SMALLEST, LARGEST = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).max)

BEYOND = (
    "variances of {} are beyond what float64 holds (2.2e-308 to 1.8e308), so these have no "
    "intervals (NaN). Measure columns and response in units in which they are nearer to 1."
)

UNCOUNTED = (
    "no more records count than noise explains: nothing was estimated, and there are no intervals "
    "(NaN). See that the columns hold numbers, or use a larger budget."
)

UNSEEN = "coefficients of columns that look constant at this budget have no intervals (NaN)."

#: Nominal coverage of intervals.
DEFAULT_LEVEL = 0.95


class VarianceNoise(NamedTuple):
    """The noise in a sandwich covariance, from the public noise scales of its parts."""

    curvature: Curvature | None
    curvature_scale: float
    covariance: Matrix
    meat_scale: float
    n: int
    units: NDArray[np.float64] | None = None

    def degrees_of_freedom(
        self, contrasts: Matrix, variances: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Satterthwaite's ``2 / r^2`` of variances with relative sd r, of meat and curvature."""
        with np.errstate(all="ignore"):
            if self.units is not None:
                diagonal = self.units.ndim == 1
                contrasts = contrasts * self.units if diagonal else contrasts @ self.units
            straight = contrasts
            if self.curvature is not None:
                values, vectors = self.curvature.eigen()
                straight = (contrasts @ vectors) / values
            lengths = np.linalg.norm(straight, axis=1)
            bent = np.linalg.norm(contrasts @ self.covariance, axis=1)
            relative = np.hypot(
                self.meat_scale * lengths**2, 2.0 * self.curvature_scale * lengths * bent
            ) / (self.n * variances)
            degrees = np.maximum(LEAST, 2.0 / relative**2)
        return np.where(np.isnan(degrees), LEAST, degrees)


def estimable(contrasts: Matrix, covariance: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """A covariance with zeros for coefficients that were left out, which are NaN in it."""
    out = np.isnan(covariance.diagonal())
    if not out.any():
        return covariance, np.zeros(len(contrasts), dtype=bool)
    return np.where(out | out[:, None], 0.0, covariance), (contrasts[:, out] != 0.0).any(axis=1)


def variances(contrasts: Matrix, covariance: Matrix) -> NDArray[np.float64]:
    """Of linear combinations, shape (k,); NaN of those that are not estimable."""
    known, lost = estimable(contrasts, covariance)
    found = np.einsum("ij,jk,ik->i", contrasts, known, contrasts)
    return np.where(lost, np.nan, found)


class Covariance(NamedTuple):
    """Covariance of an estimate and what to know before trusting it."""

    matrix: Matrix
    n_floored: int
    unfinished: NDArray[np.float64]
    remarks: tuple[str, ...] = ()
    spread: VarianceNoise | None = None

    def degrees_of_freedom(self, contrasts: Matrix) -> NDArray[np.float64]:
        """Of the variances of linear combinations, shape (k,); infinite where nothing is known."""
        if self.spread is None:
            return np.full(len(contrasts), np.inf)
        known, lost = estimable(contrasts, self.matrix)
        found = self.spread.degrees_of_freedom(contrasts, variances(contrasts, known))
        return np.where(lost, np.inf, found)

    def without(self, lost: NDArray[np.bool_], why: str) -> Covariance:
        """The same where these coefficients have no variance, and why: NaN."""
        matrix = np.where(lost | lost[:, None], np.nan, self.matrix)
        unfinished = np.where(lost, 0.0, self.unfinished)
        return self._replace(matrix=matrix, unfinished=unfinished, remarks=(*self.remarks, why))

    def uncounted(self) -> Covariance:
        """The same where no records count: of no coefficient there is an interval."""
        return self.without(np.ones(len(self.matrix), dtype=bool), UNCOUNTED)

    def representable(
        self, params: Matrix, names: Sequence[str], before: Matrix | None = None
    ) -> Covariance:
        """The same without the variances that float64 does not hold, in whatever units.

        ``before``: the variances in other units, NaN of what was left out there.
        """
        diagonal = self.matrix.diagonal()
        if diagonal.min() >= SMALLEST and diagonal.max() <= LARGEST and np.isfinite(params).all():
            return self
        out = np.isnan(diagonal if before is None else before)
        with np.errstate(all="ignore"):
            lost = ~((diagonal >= SMALLEST) & (diagonal <= LARGEST) & np.isfinite(params)) & ~out
        if not lost.any():
            return self
        return self.without(lost, BEYOND.format([*np.array(names, object)[lost]]))


def t_half_widths(level: float, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the widths of two-sided intervals, in standard errors."""
    from scipy.special import ndtri, stdtrit

    tail = 0.5 + level / 2.0
    normal = degrees > NORMAL
    return np.where(normal, ndtri(tail), stdtrit(np.where(normal, NORMAL, degrees), tail))


def t_intervals(
    level: float, estimate: Matrix, error: Matrix, degrees: Matrix, positive_last: bool = False
) -> Matrix:
    """Two-sided intervals, of shape (..., 2); of a last one that is positive by its logarithm."""
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        half = t_half_widths(level, degrees) * error
        ends = np.stack([estimate - half, estimate + half], axis=-1)
        if positive_last:
            factor = np.exp(half[-1] / estimate[-1])
            ends[-1] = estimate[-1] / factor, estimate[-1] * factor
    return ends


def t_pvalues(z: NDArray[np.float64], degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Two-sided p values."""
    from scipy.special import ndtr, stdtr

    normal, low = degrees > NORMAL, -np.abs(z)
    return np.where(normal, 2.0 * ndtr(low), 2.0 * stdtr(np.where(normal, NORMAL, degrees), low))


def coverage(level: float, alpha: float | None = None) -> float:
    """The nominal coverage of an interval: ``level``, or ``1 - alpha`` where that is given."""
    if alpha is None:
        if not 0.5 <= real_number(level, "level") < 1.0:
            raise InvalidInput(
                "level is the coverage of an interval, from 0.5 to below 1, such as level=0.95; "
                f"received {described(level)}. The probability of error is alpha, such as "
                "alpha=0.05."
            )
        return float(level)
    if level != DEFAULT_LEVEL:
        raise InvalidInput(
            f"level is the coverage and alpha is 1 - level; received level={described(level)} "
            f"and alpha={described(alpha)}. Pass one of them."
        )
    error = real_number(alpha, "alpha")
    if not (0.0 < error <= 0.5 and 1.0 - error < 1.0):
        raise InvalidInput(
            "alpha is the probability of error, above 0 and at most 0.5, such as alpha=0.05; "
            f"received {described(alpha)}. The coverage is level, such as level=0.95."
        )
    return 1.0 - error
