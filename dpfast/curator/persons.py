"""Sums over persons, each of whom contributes the mean of what their rows contribute.

Mean scores and curvatures are those of rows that are weighted by one over the number of a person's
rows; the product of a person's mean score with itself is not a sum over rows, and is made here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.data.groups import PersonMeans
from dpfast.data.reduction import tree_sum
from dpfast.kernels.records import MEAT, RecordKernel

__all__ = ["PERSONS_AT_A_TIME", "person_sums"]

Array = NDArray[np.float64]

#: Persons whose products are added one after the other at most, less than rows in a kernel's block
#: pass through (claims C11 and C72).
PERSONS_AT_A_TIME = 128


def person_sums(
    records: PersonMeans,
    kernel: RecordKernel,
    theta: Array,
    want: int,
    threads: int,
    meat_bound: float,
) -> tuple[Any, Any, Array]:
    """Exact means over persons of score, curvature and product of the score (claim C72).

    ``meat_bound`` is held by each person's product as it is computed.
    """
    n, rest = float(records.n), want & ~MEAT
    gradient, curvature = None, None
    if rest:
        gradient, curvature, _ = records.total(kernel.sums, theta, rest, n, threads)
    means = kernel.scores_of_runs(records.X, records.y, theta, records.ends)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", means, means)
        held = np.minimum(1.0, np.sqrt(meat_bound / squares))
        means *= np.where(squares > 0.0, held, 1.0)[:, None]
    groups = range(0, len(means), PERSONS_AT_A_TIME)
    meat = tree_sum(_products(means[first : first + PERSONS_AT_A_TIME]) for first in groups) / n
    return gradient, curvature, meat


def _products(means: Array) -> Array:
    return np.asarray(means.T @ means)
