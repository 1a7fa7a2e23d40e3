"""Queries that control a step: a difference of losses, and an extreme eigenvalue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.bounds import refuse_free_scale
from dpfast.errors import InvalidInput, described
from dpfast.kernels.records import HESSIAN, RecordKernel
from dpfast.models import Objective
from dpfast.privacy.budget import GDP
from dpfast.privacy.sensitivity import (
    extreme_eigenvalue as eigenvalue_sensitivity,
    loss_difference as loss_difference_sensitivity,
)

if TYPE_CHECKING:
    from dpfast.curator.curator import Curator

#: The kernels' code of a difference of losses, for the depth of its summation.
LOSS_DIFFERENCE = 16


class Counted(Protocol):
    """Public attributes of a curator that receipts need."""

    @property
    def objective(self) -> Objective: ...

    @property
    def n(self) -> int: ...

    def depth(self, want: int) -> int: ...


def loss_difference(curator: Curator, new: Array, old: Array, mu: float) -> Answer:
    """Release the mean loss at ``new`` minus that at ``old`` (claim C21)."""
    distance = _length(new - old)
    if not distance > 0.0:
        distance = np.finfo(float).tiny ** 0.5  # a public zero: any positive scale will do
    receipt = difference_receipt(curator, distance, mu)
    curator.ledger.charge(GDP(mu), receipt.query)
    value = np.array([curator._loss_difference(new, old)])
    return curator._release((receipt.query, mu, new, old), receipt, value)


#: Shorter vectors count as so long: of their entries the squares are lost.
MIN_LENGTH = 1e-140


def _length(vector: Array) -> float:
    """Compute the norm of a public vector, never too small: noise is in proportion to it."""
    length = float(np.linalg.norm(vector))
    return MIN_LENGTH if length < MIN_LENGTH and np.any(vector) else length


def difference_receipt(curator: Counted, distance: float, mu: float) -> Receipt:
    """Make the receipt of a loss difference over this distance; costs nothing."""
    objective, n = curator.objective, curator.n
    if not objective.weighting.has_loss:
        raise InvalidInput(
            f"{described(objective.weighting)} has no loss whose difference is bounded."
        )
    refuse_free_scale(objective, "a difference of losses")
    depth = curator.depth(LOSS_DIFFERENCE)
    sensitivity = loss_difference_sensitivity(objective.score_bound, distance, n, depth=depth)
    bound = objective.score_bound * distance
    return gaussian_receipt("loss difference", "C21", mu, sensitivity, bound, 1)


def extreme_eigenvalue(curator: Curator, theta: Array, mu: float, *, largest: bool) -> Answer:
    """Release an extreme eigenvalue of the mean Hessian: less than the matrix (claim C20)."""
    name = "largest eigenvalue" if largest else "smallest eigenvalue"
    receipt = _eigenvalue_receipt(curator, name, mu)
    curator.ledger.charge(GDP(mu), name)
    _, hessian, _ = curator._sums(theta, HESSIAN)
    value = np.array([float(np.linalg.eigvalsh(hessian)[-1 if largest else 0])])
    return curator._release((name, mu, theta), receipt, value)


def largest_curvature(curator: Curator, mu: float) -> Answer:
    """Release the largest eigenvalue the mean Hessian has at any parameter (claim C20)."""
    receipt = curvature_receipt(curator, mu)
    curator.ledger.charge(GDP(mu), receipt.query)
    value = np.array([float(np.linalg.eigvalsh(_peak_hessian(curator))[-1])])
    return curator._release((receipt.query, mu), receipt, value)


def curvature_receipt(curator: Counted, mu: float) -> Receipt:
    """Make the receipt of :func:`largest_curvature`; reads no record, costs nothing."""
    objective = curator.objective
    refuse_free_scale(objective, "the largest curvature")
    if not objective.has_curvature:
        raise InvalidInput(f"{objective.curvature_refusal()}, hence no largest curvature.")
    if not objective.curvature_peaks_at_zero:
        raise InvalidInput(
            f"{described(objective)} does not have its largest curvature at zero residuals, so "
            "there is no single parameter to estimate it at. Pass a public step_size instead."
        )
    return _eigenvalue_receipt(curator, "largest curvature", mu)


def _eigenvalue_receipt(curator: Counted, name: str, mu: float) -> Receipt:
    objective, n, p = curator.objective, curator.n, curator.objective.dimension
    refuse_free_scale(objective, "an extreme eigenvalue")
    depth = curator.depth(HESSIAN)
    sensitivity = eigenvalue_sensitivity(objective.curvature_bound, n, p, depth=depth)
    return gaussian_receipt(name, "C20", mu, sensitivity, 2.0 * objective.curvature_bound, 1)


def _peak_hessian(curator: Curator) -> Array:
    theta, n = np.zeros(curator.objective.dimension), float(curator.n)
    kernel, threads = curator._kernel, curator._threads
    hessian: Array = curator._records.total(_block_peak_hessian, kernel, theta, n, threads)
    return hessian


def _block_peak_hessian(
    X: Array, y: Array, kernel: RecordKernel, theta: Array, n: float, threads: int
) -> Array:
    zero = np.zeros(y.shape)
    if y.ndim == 2:
        zero[:, 1] = y[:, 1]  # the weights; no offset leaves a residual
    _, hessian, _ = kernel.sums(X, zero, theta, HESSIAN, n, threads)
    assert hessian is not None
    return hessian
