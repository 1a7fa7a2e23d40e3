"""Preconditioning by noisy second moments: inverse roots, floors, shrinkage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator import Answer
from dpfast.kernels.linalg import eigh
from dpfast.solvers.pcn.plan import TINY

Array = NDArray[np.float64]

#: Standard deviations of noise above which a count, or the size of a matrix, shows records.
DETECTED_SDS = 3.0


class Preconditioner(NamedTuple):
    """Inverse root of a released matrix: rows times ``whiten`` have the identity as second moments.

    ``values`` are the matrix's eigenvalues, increasing; noise explains those below ``floor``.
    """

    whiten: Array
    unwhiten: Array
    values: Array
    floor: float


def precondition(gram: Answer, expected: Array | None = None) -> Preconditioner:
    """Compute ``U (max(L, floor))^-1/2`` of a released matrix, and its inverse.

    An eigenvalue within noise is as expected, if that is smaller.
    """
    (values, vectors), floor = eigh(gram.value), noise_floor(gram)
    floors = floor if expected is None else np.minimum(floor, (expected @ vectors * vectors).sum(0))
    roots = np.sqrt(np.maximum(values, floors))
    return Preconditioner(vectors / roots, (vectors * roots).T, values, floor)


def noise_floor(gram: Answer) -> float:
    """Return the eigenvalue below which noise explains it."""
    return math.sqrt(2.0 * len(gram.value)) * gram.noise_scale


def shrink(gram: Answer, target: Array) -> Answer:
    """Shrink a released matrix to a target, by the noise's part in their squared distance.

    James and Stein (1961); for covariance matrices Ledoit and Wolf (2004).
    """
    difference, p = gram.value - target, len(target)
    noise = gram.noise_scale**2 * p * (p + 1) / 2.0
    weight = max(0.0, 1.0 - noise / max(float(np.vdot(difference, difference)), TINY))
    return gram._replace(value=target + weight * difference)


def divide(answer: Answer, factor: float) -> Answer:
    """Divide an answer and its noise by a number."""
    return answer._replace(value=answer.value / factor, noise_scale=answer.noise_scale / factor)


def no_records(gram: Answer) -> bool:
    """Return True if the mean squared norm of rows is within its noise of zero."""
    return bool(
        gram.value.trace() < DETECTED_SDS * gram.noise_scale * math.sqrt(2.0 * len(gram.value))
    )
