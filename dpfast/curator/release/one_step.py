"""Scalar Newton step: ``a'`` times the mean score, for directions that the transcript fixes.

Directions are ``H^-1 w`` of a pilot's released H.  One record moves each number by
``2 sup|a'x| l/n`` at most (claim R39 of ``PROOFS-release.md``).  Or scores along a direction
are clipped to a bound (claim R40).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import Array
from dpfast.curator.answers import Receipt
from dpfast.curator.noisy_release import release_count_with_noise
from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)
from dpfast.curator.release.terms import shared
from dpfast.data.records import Covariates
from dpfast.data.scaling.maps import TransformedView
from dpfast.data.scaling.transformed import BLOCK, projections
from dpfast.kernels.records import GRADIENT
from dpfast.models import Domain
from dpfast.privacy.budget import PureDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.release.sensitivity import HELD_CELLS, STEP_COUNT, step_grid, step_shift

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator


#: Range of grids: outside of it, squares or quotients would overflow, and nothing is released.
GRIDS = (1e-250, 1e250)


class StepTerms(NamedTuple):
    """Public constants of steps along directions."""

    #: Epsilon of each step.
    each: float
    #: Released or public.
    directions: Array
    #: Cell of each step; one record moves it by ``STEP_COUNT`` cells at most.
    grids: tuple[float, ...]
    #: Rate of the noise of each step.
    rate: tuple[int, int]

    @property
    def scales(self) -> Array:
        """Scale of the Laplace noise of each step."""
        return np.array(self.grids) * (self.rate[1] / self.rate[0])


def step_rate(epsilon: float, count: int) -> tuple[int, int]:
    """Compute the noise rate of each of ``count`` steps; refuses a budget that no grid serves."""
    return laplace_rate(STEP_COUNT, shared(epsilon, count))


def step_terms(
    curator: Curator, domain: Domain, directions: Array, epsilon: float
) -> StepTerms | None:
    """Calibrate steps along these directions; reads no record, costs nothing."""
    objective, n, depth = curator.objective, curator.n, curator.depth(GRADIENT)
    slope, grids = objective.loss.psi_bound, []
    with np.errstate(all="ignore"):
        for a in directions:
            reach = domain.support(a) * slope
            length = float(np.linalg.norm(a)) * objective.score_bound
            if not (0.0 < reach < math.inf and 0.0 < length < math.inf):
                return None
            grids.append(step_grid(step_shift(reach, length, n, depth=depth)))
    if not all(GRIDS[0] < grid < GRIDS[1] for grid in grids):
        return None
    count = len(directions)
    return StepTerms(shared(epsilon, count), directions, tuple(grids), step_rate(epsilon, count))


def newton_steps(curator: Curator, theta: Array, terms: StepTerms) -> Array:
    """Release ``a'`` times the mean score at ``theta`` for each direction, (k,) (claim R39)."""
    cost, gradient, steps = PureDP(terms.each), None, []
    noise_scale = math.sqrt(2.0) * terms.rate[1] / terms.rate[0]
    mu = STEP_COUNT / noise_scale  # for audits, as that of a certificate
    receipt = Receipt("Newton step", "R39", mu, float(STEP_COUNT), noise_scale)
    for a, grid in zip(terms.directions, terms.grids, strict=True):
        curator.ledger.charge(cost, receipt.query)
        if gradient is None:
            gradient, _, _ = curator._sums(theta, GRADIENT)
        count = math.floor(exact_product(a, gradient) / Fraction(grid))
        question = (receipt.query, mu, theta, a, grid)
        cells = release_count_with_noise(curator._noise, question, receipt, count, terms.rate)
        steps.append((cells + 0.5) * grid)
    return np.array(steps)


def exact_product(direction: Array, theta: Array) -> Fraction:
    """Compute ``direction @ theta`` without rounding."""
    pairs = zip(direction.tolist(), theta.tolist(), strict=True)
    return sum((Fraction(w) * Fraction(t) for w, t in pairs), Fraction(0))


def mean_along(
    rows: PreconditionedQueries,
    direction: Array,
    bound: float,
    epsilon: float,
    ledger: Ledger,
    at: Linearization,
    row_clipping: RowClipping = NO_CLIPPING,
) -> float:
    """Release the mean of scores along a direction, each clipped to ``+-bound`` (claim R40)."""
    assert not rows._means  # each row of a person would count as a record
    cost, curator = PureDP(epsilon), rows._curator
    ledger.charge(cost, "held Newton step")
    rate = laplace_rate(2 * HELD_CELLS, epsilon)
    noise_scale = math.sqrt(2.0) * rate[1] / rate[0]
    mu, sensitivity = 2.0 * HELD_CELLS / noise_scale, 2.0 * HELD_CELLS  # for audits
    receipt = Receipt("held Newton step", "R40", mu, sensitivity, noise_scale)
    view = rows._view("score", at, row_clipping=row_clipping, rotate=False)
    count = int(curator._records.total(_sum_clipped, direction, bound, view)[0])
    question = (receipt.query, mu, at.theta, direction, bound)
    cells = release_count_with_noise(curator._noise, question, receipt, count, rate)
    return float(cells / HELD_CELLS / rows.n * bound)


def _sum_clipped(
    X: Covariates, y: Array, direction: Array, bound: float, view: TransformedView
) -> NDArray[np.int64]:
    """Sum the records' scores along a direction, clipped to a bound, in whole cells."""
    total = np.zeros(1, dtype=np.int64)
    for first in range(0, len(X), BLOCK):
        chunk = slice(first, first + BLOCK)
        parts = projections(X[chunk], y[chunk], view, direction) / bound
        cells = np.rint(HELD_CELLS * np.clip(parts, -1.0, 1.0))
        total += np.where(np.isnan(cells), 0.0, cells).astype(np.int64).sum()
    return total
