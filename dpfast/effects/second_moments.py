"""Second moments of many columns, from two noisy Gram matrices: rough, then of whitened rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.preconditioned import PreconditionedQueries
from dpfast.solvers.pcn.histogram import released_norms
from dpfast.solvers.pcn.precondition import precondition

Array = NDArray[np.float64]

#: Clipping norm of the first Gram matrix, in units of the root of the number of columns.
FIRST_RADIUS = 1.5

#: Bins for each factor of 2 in the histograms of norms.
PER_OCTAVE = 2

#: Noise of a Gram matrix, relative to eigenvalues of 1, up to which rows are not clipped further.
MAX_UNCLIPPED_NOISE = 0.3


class SecondMoments(NamedTuple):
    """Second moments ``factor'factor`` of rows, and how they were released.

    The noise is that of the rows under ``first``, which were clipped at ``radius``.
    """

    first: Array
    unfirst: Array
    radius: float
    factor: Array
    whiten: Array
    noise: float
    hidden: int


def second_moments(rows: PreconditionedQueries, mu: dict[str, float]) -> SecondMoments:
    """Release a rough Gram matrix to whiten rows, then a precise one of whitened rows."""
    p, n, sample = rows.dimension, rows.n, rows.subsample()
    whiten, unwhiten, _, _ = precondition(sample.gram(FIRST_RADIUS * math.sqrt(p), mu["gram"]))
    norms = released_norms(sample.mapped(whiten), mu["lengths"], None, "response", PER_OCTAVE)
    # the noise of an eigenvalue has sqrt(2 p) times the standard deviation of an entry's
    quiet_radius = math.sqrt(MAX_UNCLIPPED_NOISE * n * mu["second"] / (2.0 * math.sqrt(p)))
    radius = min(norms.longest, max(quiet_radius, FIRST_RADIUS * math.sqrt(p)))
    second = rows.mapped(whiten).gram(radius, mu["second"])
    inner, outer, values, floor = precondition(second)
    hidden = int(np.count_nonzero(values < floor))
    noise = second.noise_scale
    return SecondMoments(
        whiten, unwhiten, radius, outer @ unwhiten, whiten @ inner, noise, hidden
    )  # fmt: skip
