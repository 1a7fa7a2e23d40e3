"""Preconditioning by noisy second moments: inverse roots, floors, repetition, shrinkage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.kernels import decisions
from dpfast.solvers.pcn.curvature import GaussianCurvature
from dpfast.solvers.pcn.many_columns import MANY, shows_null_direction, shrink_within_noise
from dpfast.solvers.pcn.plan import CHECK, MAX_WHITENINGS, TINY, WHITENING, Budgets

Array = NDArray[np.float64]

#: Standard deviations of noise above which a count, or the size of a matrix, shows records.
DETECTED_SDS = 3.0

#: Largest floor of a first Gram at which another one pays: it lengthens an unclear direction by at
#: least the root of its inverse.
MAX_FIRST_FLOOR = 0.2

#: Largest mean square of the rows' coordinates after whitening, in those of standardised columns:
#: roundings of columns that are equal are far below its inverse.
MAX_GAIN = 1e12

#: Part of the median eigenvalue of many columns above which one is clear, whatever the noise: that
#: of the others is not floored.
CLEAR_PART = 0.5

#: Smallest eigenvalue of whitened rows, shortened to the root of p, in the median one.  It is near
#: 1 for normal rows, .5 beside lognormal ones, and .1 where a hundredth of the records determines a
#: direction.
MIN_TYPICAL_PART = 0.3


class Preconditioner(NamedTuple):
    """Inverse root of a released matrix: rows times ``whiten`` have the identity as second moments.

    ``values`` are the matrix's eigenvalues, increasing; noise explains those below ``floor``.
    """

    whiten: Array
    unwhiten: Array
    values: Array
    floor: float
    #: Noise of an entry of the matrix, and its trace.
    noise: float = 0.0
    trace: float = math.inf
    #: Largest eigenvalue of the noise that is left, if that is below the floor.
    left: float = math.inf
    #: Whether columns are nearly collinear: a direction of many has far less than each, and others.
    collinear: bool = False

    @property
    def edge(self) -> float:
        """Largest eigenvalue of the noise."""
        return math.sqrt(2.0 * self.values.size) * self.noise

    @property
    def relative_error(self) -> float:
        """Noise that is left, in the least eigenvalue."""
        return min(self.floor, self.left) / max(float(self.values[0]), TINY)

    @property
    def unclear(self) -> NDArray[np.bool_]:
        """Directions whose eigenvalue is within noise."""
        return self.values < self.floor

    @property
    def is_clear(self) -> bool:
        """Flag: every eigenvalue is above its noise."""
        return not self.values[0] < self.floor

    @property
    def shows_records(self) -> bool:
        """Flag: the mean squared norm of rows is above its noise."""
        return self.trace >= DETECTED_SDS * self.edge

    def after(self, earlier: Preconditioner) -> Preconditioner:
        """Compose with the whitening of the rows that this one whitens."""
        whiten, unwhiten = earlier.whiten @ self.whiten, self.unwhiten @ earlier.unwhiten
        return self._replace(whiten=whiten, unwhiten=unwhiten)

    def shortened(self, columns: NDArray[np.bool_], max_gain: float) -> Preconditioner:
        """Bound the squared norms of these columns of the map."""
        norms = np.sqrt(np.add.reduce(self.whiten * self.whiten))
        factors = np.where(columns, np.minimum(1.0, max_gain**0.5 / norms), 1.0)
        return self._replace(
            whiten=self.whiten * factors, unwhiten=self.unwhiten / factors[:, None]
        )


class RepeatedWhitening(NamedTuple):
    """A preconditioner, what Grams after the first cost, and whether they are in it.

    The cost is in shares of a matrix.
    """

    preconditioner: Preconditioner
    later: float = 0.0
    is_repeated: bool = False


def repeated_whitening(
    rows: PreconditionedQueries, gram: Answer, radius: float, typical_radius: float, budget: Budgets
) -> RepeatedWhitening:
    """Whiten rows by their Gram within a radius, and again while it leaves a direction unclear.

    A floor lengthens an unclear direction less than its own eigenvalue would, so that the next Gram
    sees it with less noise.  A direction that stays unclear is as long as after the first Gram.
    Where few rows alone determine a direction, the first Gram is kept.  Whitening would make them
    so long that their scores determine the clipping norm of every record.
    """
    first = precondition(gram)
    if first.edge >= MAX_FIRST_FLOOR or first.is_clear:
        return RepeatedWhitening(first)
    later_radius = max(typical_radius, radius * WHITENING**0.25)  # with the same noise
    whitening, n_more = first, 0
    while not whitening.is_clear and n_more < MAX_WHITENINGS:
        gram = rows.mapped(whitening.whiten).gram(later_radius, budget.whitening)
        whitening = precondition(gram).after(whitening)
        whitening = whitening.shortened(np.ones(len(gram.value), bool), MAX_GAIN)
        n_more += 1
    if not whitening.is_clear:
        whitening = whitening.shortened(whitening.unclear, 1.0 / first.floor)
        return RepeatedWhitening(whitening, n_more * WHITENING, True)
    gram = rows.mapped(whitening.whiten).gram(rows.dimension**0.5, budget.check)
    values = precondition(gram).values
    if values[0] < MIN_TYPICAL_PART * np.median(values):
        return RepeatedWhitening(first, n_more * WHITENING + CHECK)
    return RepeatedWhitening(whitening, n_more * WHITENING + CHECK, True)


def precondition(
    gram: Answer,
    expected: GaussianCurvature | None = None,
    times: float = 1.0,
    shrinks: bool = False,
    collinear: bool = False,
) -> Preconditioner:
    """Compute ``U (max(L, floor))^-1/2`` of a released matrix over ``times``, and its inverse.

    The matrix is shrunk to the Hessian that is expected, by the noise's part in their squared
    distance (James and Stein 1961).  Otherwise an eigenvalue within noise is as expected, if that
    is smaller.  That of many columns is shrunk to its diagonal, whose noise is small beside that of
    eigenvalues.  It is not where noise could hide a direction of nearly collinear columns: where
    an earlier matrix showed one, its moments with all others are each within noise.
    """
    value, noise, _ = gram
    if len(value) >= MANY and not collinear and shows_null_direction(value, noise):
        return _of_many(value / times, noise / times, expected)
    return Preconditioner(*decisions.precondition(value, noise, expected, times, shrinks))


def _of_many(gram: Array, noise: float, expected: GaussianCurvature | None) -> Preconditioner:
    """Compute a preconditioner of a Gram of many columns, shrunk within its noise."""
    target = np.maximum(gram.diagonal(), noise)
    shrunken, noise_left = shrink_within_noise(gram, noise, np.diag(target))
    unit = math.sqrt(2.0 * len(gram))
    clear = CLEAR_PART * float(np.median(target)) / unit
    floor = max(noise_left, min(noise, clear))
    found = decisions.precondition(shrunken, floor, expected)
    least, usual = float(found[2][0]), min(float(target.min()), float(np.median(found[2])))
    return Preconditioner(
        *found[:4], noise, float(gram.trace()), unit * noise_left, least < CLEAR_PART * usual
    )
