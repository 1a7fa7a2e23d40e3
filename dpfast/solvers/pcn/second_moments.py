"""Second moments of many columns, from two noisy Gram matrices: rough, then of whitened rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.solvers.pcn.histogram import FINE, NormHistogram, released_norms
from dpfast.solvers.pcn.initial import FIRST_RADIUS
from dpfast.solvers.pcn.plan import TINY, Budgets
from dpfast.solvers.pcn.precondition import precondition


class SecondMoments(NamedTuple):
    """Second moments ``factor'factor`` of rows, and how they were released.

    ``noise`` is that of an entry for the rows under ``first``, which were clipped at ``radius``,
    and ``norms`` are their norms.  ``values`` are the eigenvalues of their matrix; noise explains
    those below ``floor``.
    """

    first: Array
    unfirst: Array
    radius: float
    norms: NormHistogram
    factor: Array
    whiten: Array
    noise: float
    values: Array
    floor: float

    @property
    def known(self) -> Array:
        """Part of each direction's second moment that is not noise."""
        return np.maximum(self.values - self.noise, 0.0) / np.maximum(self.values, self.floor)

    @property
    def relative_error(self) -> float:
        """Relative error of a Newton step that noise causes, in the least clear direction."""
        return 0.5 * self.floor / max(float(self.values[0]), TINY)

    @property
    def change(self) -> float:
        """Relative change of the Hessian over a step of length 1, for scores of a log link."""
        return 0.5 * self.norms.mean_of_squares() / len(self.values) ** 0.5


def second_moments(
    rows: PreconditionedQueries, budget: Budgets, second: float = 1.0, balanced: bool = False
) -> SecondMoments:
    """Release a rough Gram matrix to whiten rows, then a precise one of whitened rows.

    The latter costs so many times as much as the first.  Its radius is the longest that noise
    allows, or balances noise and what clipping removes.
    """
    mu = budget.matrix * second**0.5
    p, sample = rows.dimension, rows.subsample()
    radius = FIRST_RADIUS * math.sqrt(p)
    whiten, unwhiten = precondition(sample.gram(radius, budget.matrix))[:2]
    norms = released_norms(sample.mapped(whiten), budget.histogram, None, "response", FINE)
    radius = min(norms.longest, max(budget._replace(matrix=mu).longest_radius(rows.n, p), radius))
    if balanced:
        noise = 2.0 * math.sqrt(p) / (rows.n * mu)  # of an eigenvalue, for a radius of 1
        radius = min(radius, norms.choose_weight_radius(p, 1.0, noise))
    gram = rows.mapped(whiten).gram(radius, mu)
    inner, outer, values, floor = precondition(gram)[:4]
    return SecondMoments(
        whiten, unwhiten, radius, norms, outer @ unwhiten, whiten @ inner, gram.noise_scale, values,
        floor,
    )  # fmt: skip
