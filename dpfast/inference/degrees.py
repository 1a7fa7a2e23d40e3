"""A covariance, and the degrees of freedom of variances that were released with noise."""

from __future__ import annotations

import math
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

#: Fewest degrees of freedom: such a variance is mostly noise.
MIN_DEGREES = 2.0


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
    """Noise of a sandwich covariance, from the public noise scales of its parts."""

    curvature: Curvature | None
    curvature_scale: float
    covariance: Matrix
    meat_scale: float
    n: int
    units: NDArray[np.float64] | None = None

    def degrees_of_freedom(
        self, contrasts: Matrix, variances: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Compute Satterthwaite's (1946) ``2 / r^2`` of variances with relative deviation r."""
        with np.errstate(all="ignore"):
            if self.units is not None:
                diagonal = self.units.ndim == 1
                contrasts = contrasts * self.units if diagonal else contrasts @ self.units
            solved = contrasts
            if self.curvature is not None:
                values, vectors = self.curvature.eigen()
                solved = (contrasts @ vectors) / values
            lengths = np.linalg.norm(solved, axis=1)
            products = np.linalg.norm(contrasts @ self.covariance, axis=1)
            relative = np.hypot(
                self.meat_scale * lengths**2, 2.0 * self.curvature_scale * lengths * products
            ) / (self.n * variances)
            degrees = np.maximum(MIN_DEGREES, 2.0 / relative**2)
        return np.where(np.isnan(degrees), MIN_DEGREES, degrees)


def estimable(contrasts: Matrix, covariance: Matrix) -> tuple[Matrix, NDArray[np.bool_]]:
    """Replace NaN, of coefficients that were left out, by zeros; mark contrasts that need them."""
    out = np.isnan(covariance.diagonal())
    if not out.any():
        return covariance, np.zeros(len(contrasts), dtype=bool)
    return np.where(out | out[:, None], 0.0, covariance), (contrasts[:, out] != 0.0).any(axis=1)


def variances(contrasts: Matrix, covariance: Matrix) -> NDArray[np.float64]:
    """Compute variances of linear combinations, shape (k,); NaN where they are not estimable."""
    known, lost = estimable(contrasts, covariance)
    values = np.einsum("ij,jk,ik->i", contrasts, known, contrasts)
    return np.where(lost, np.nan, values)


class Covariance(NamedTuple):
    """Covariance of an estimate, with warnings about it."""

    matrix: Matrix
    n_floored: int
    unfinished: NDArray[np.float64]
    remarks: tuple[str, ...] = ()
    spread: VarianceNoise | None = None

    def degrees_of_freedom(self, contrasts: Matrix) -> NDArray[np.float64]:
        """Compute degrees of freedom of variances of combinations, shape (k,)."""
        if self.spread is None:
            return np.full(len(contrasts), np.inf)
        known, lost = estimable(contrasts, self.matrix)
        found = self.spread.degrees_of_freedom(contrasts, variances(contrasts, known))
        return np.where(lost, np.inf, found)

    def without(self, lost: NDArray[np.bool_], why: str) -> Covariance:
        """Set variances of these coefficients to NaN, and add the reason to the warnings."""
        matrix = np.where(lost | lost[:, None], np.nan, self.matrix)
        unfinished = np.where(lost, 0.0, self.unfinished)
        return self._replace(matrix=matrix, unfinished=unfinished, remarks=(*self.remarks, why))

    def uncounted(self) -> Covariance:
        """Set all variances to NaN, because no records count."""
        return self.without(np.ones(len(self.matrix), dtype=bool), UNCOUNTED)

    def representable(
        self, params: Matrix, names: Sequence[str], before: Matrix | None = None
    ) -> Covariance:
        """Set variances to NaN that float64 cannot represent.

        ``before``: the variances in other units, with NaN for what was left out there.
        """
        diagonal = self.matrix.diagonal()
        in_range = all(SMALLEST <= variance <= LARGEST for variance in diagonal.tolist())
        if in_range and all(map(math.isfinite, params.tolist())):
            return self
        out = np.isnan(diagonal if before is None else before)
        return self.without_unrepresentable(~are_representable(diagonal, params) & ~out, names)

    def without_unrepresentable(self, lost: NDArray[np.bool_], names: Sequence[str]) -> Covariance:
        """Set variances of these coefficients to NaN, if there are any, and name them."""
        if not lost.any():
            return self
        return self.without(lost, BEYOND.format([*np.array(names, object)[lost]]))


def are_representable(variances: Matrix, params: Matrix) -> NDArray[np.bool_]:
    """Say which variances and estimates float64 can represent."""
    with np.errstate(all="ignore"):
        return np.asarray(
            (variances >= SMALLEST) & (variances <= LARGEST) & np.isfinite(params), dtype=bool
        )


def nothing_known(p: int, why: str) -> Covariance:
    """Make the covariance of p coefficients of which none was estimated, with the reason."""
    return Covariance(np.full((p, p), np.nan), 0, np.zeros(p), (why,))


def t_half_widths(level: float, degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute half the widths of two-sided intervals, in standard errors."""
    from dpfast.kernels.special import ndtri, stdtrit

    tail = 0.5 + level / 2.0
    normal = degrees > NORMAL
    return np.where(normal, ndtri(tail), stdtrit(np.where(normal, NORMAL, degrees), tail))


def t_intervals(
    level: float,
    estimate: Matrix,
    error: Matrix | float,
    degrees: Matrix,
    positive_last: bool = False,
) -> Matrix:
    """Compute two-sided t intervals, shape (..., 2).

    ``positive_last``: that of the last parameter is symmetric on the logarithm.
    """
    with np.errstate(all="ignore"):  # of released numbers, in whatever units
        half = t_half_widths(level, degrees) * error
        ends = np.stack([estimate - half, estimate + half], axis=-1)
        if positive_last:
            factor = np.exp(half[-1] / estimate[-1])
            ends[-1] = estimate[-1] / factor, estimate[-1] * factor
    return ends


def t_pvalues(z: NDArray[np.float64], degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute two-sided p values."""
    from dpfast.kernels.special import ndtr, stdtr

    normal, low = degrees > NORMAL, -np.abs(z)
    return np.where(normal, 2.0 * ndtr(low), 2.0 * stdtr(np.where(normal, NORMAL, degrees), low))


def coverage(level: float, alpha: float | None = None) -> float:
    """Check the nominal coverage of an interval: ``level``, or ``1 - alpha`` if given."""
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
