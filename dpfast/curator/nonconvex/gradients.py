"""Curator of non-convex objectives: clipped gradients, their changes, their norms."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.answers import Answer, Receipt, gaussian_receipt
from dpfast.curator.bounds import refuse_free_scale
from dpfast.curator.noisy_release import (
    release_choice_with_noise,
    release_with_noise,
    source_of_noise,
)
from dpfast.curator.nonconvex.recordwise import RecordGradients
from dpfast.data import Records
from dpfast.errors import InvalidInput, described
from dpfast.kernels.records import GRADIENT, RecordKernel, summation_depth
from dpfast.models import Objective
from dpfast.models.nonconvex import PerRecordObjective
from dpfast.privacy.budget import GDP, ZCDP
from dpfast.privacy.ledger import Ledger
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.noise import NoiseSource
from dpfast.privacy.nonconvex.sensitivity import (
    change_error,
    exponential_cost,
    gradient_change,
    gradient_norm,
    mean_gradient,
    norm_steps,
)
from dpfast.privacy.rounding import ROUNDING_PRODUCT, ROUNDING_SUM
from dpfast.privacy.sensitivity import histogram, mean_rank_one

Array = NDArray[np.float64]

#: Points of a line between 0 and 1, and the weights of gradients there in a change of the loss.
NODES = 0.5 + 0.5 * np.polynomial.legendre.leggauss(8)[0]
WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(8)[1]

#: Grid steps in the sensitivity of a norm: rounding to the grid costs one of them.
STEPS_PER_RECORD = 4096


class GradientCurator:
    """Queries about gradients of an objective that need not be convex."""

    def __init__(
        self,
        records: Records,
        objective: Objective | PerRecordObjective,
        ledger: Ledger,
        noise: NoiseSource,
        threads: int = 0,
    ) -> None:
        self.objective = objective
        self.ledger = ledger
        self.n = records.n
        self.dimension = objective.dimension
        self._records = records
        self._noise = source_of_noise(noise)
        self._threads = threads
        self._kernel: RecordKernel | None = None
        self._reserved = 0.0
        self._scales: Array | None = None
        if isinstance(objective, Objective):
            refuse_free_scale(objective, "a curator of gradients")
            self.lipschitz = objective.score_bound
            self.smoothness = objective.score_smoothness
            self._kernel = RecordKernel(*objective.kernel_arguments())
        else:
            self.lipschitz = objective.lipschitz
            self.smoothness = objective.smoothness
            self._rows = RecordGradients(objective, records)

    def with_ledger(self, ledger: Ledger) -> GradientCurator:
        """Copy the curator with another ledger, a child of its own."""
        other = copy.copy(self)  # what was compiled stays compiled
        other.ledger, other._reserved = ledger, 0.0
        return other

    def keeping(self, rho: float) -> GradientCurator:
        """Copy the curator with ``rho`` of its budget reserved; the ledger is the same."""
        copied = copy.copy(self)
        copied._reserved = rho
        return copied

    def with_scales(self, scales: Array | None) -> GradientCurator:
        """Copy the curator; gradients are multiplied by ``scales`` before they are clipped.

        Scales are public, or were released; of users' gradients only.
        """
        copied = copy.copy(self)
        copied._scales = scales
        return copied

    def check(self, rho: float) -> None:
        """Refuse a budget that is too small to release one gradient; from public numbers."""
        self._gradient_receipt(_mu(rho))

    @property
    def remaining(self) -> float:
        """Zero-concentrated budget that is left and not reserved, rounded down."""
        return max(remaining_rho(self.ledger) - self._reserved, 0.0)

    @property
    def can_clip(self) -> bool:
        """True if gradients can be clipped below ``lipschitz``: users' gradients can."""
        return self._kernel is None

    def gradient(self, theta: Array, rho: float, clip: float | None = None) -> Answer:
        """Release the mean of the gradients, each clipped to ``lipschitz``, or to ``clip`` if less.

        A clip is public, or was released; of users' gradients only.  With scales the gradient is
        that of the loss as a function of the parameters divided by them.

        ``sqrt(2 rho)``-GDP, hence rho-zCDP (claims K1 and K7 of PROOFS-nonconvex.md).
        """
        mu = _mu(rho)
        if self._scales is None and (clip is None or not clip < self.lipschitz):
            receipt, limit = self._gradient_receipt(mu), None
        else:
            limit = self._checked_clip(
                min(self.lipschitz if clip is None else clip, self.lipschitz)
            )
            sensitivity = mean_gradient(limit, self.n, depth=self._depth())
            receipt = gaussian_receipt("gradient", "K7", mu, sensitivity, limit, self.dimension)
        self.ledger.charge(GDP(mu), receipt.query)
        value = self._gradient(theta, limit)
        return release_with_noise(self._noise, (receipt.query, mu, theta), receipt, value)

    def gradient_norm_histogram(self, theta: Array, edges: Array, rho: float) -> Answer:
        """Release a histogram of the norms of the records' gradients (claim K7)."""
        self._checked_clip(float(edges[0]))
        mu = _mu(rho)
        receipt = gaussian_receipt("gradient lengths", "K7", mu, histogram(self.n), 1.0, len(edges))
        self.ledger.charge(GDP(mu), receipt.query)
        shares = self._rows.norm_histogram(theta, edges, self._scales) / self.n
        return release_with_noise(self._noise, (receipt.query, mu, theta, edges), receipt, shares)

    def gradient_directions(self, theta: Array, rho: float) -> Answer:
        """Release the mean squared entries of the gradients divided by their norms (claim K9).

        They are the diagonal of the spatial sign covariance matrix.
        """
        self._checked_clip(1.0)
        mu = _mu(rho)
        sensitivity = mean_rank_one(1.0, self.n, self.dimension, depth=self._depth(), alone=True)
        receipt = gaussian_receipt(
            "gradient directions", "K9", mu, sensitivity, 1.0, self.dimension
        )
        self.ledger.charge(GDP(mu), receipt.query)
        value = self._rows.squared_directions(theta) / self.n
        return release_with_noise(self._noise, (receipt.query, mu, theta), receipt, value)

    def _checked_clip(self, clip: float) -> float:
        if not self.can_clip:
            raise InvalidInput(
                f"gradients of {described(self.objective)} are held to their weights' bound and "
                "to no other. Leave clip out, or pass dpfast.nonconvex.PerRecordObjective."
            )
        if not 0.0 < clip < math.inf:
            raise InvalidInput(f"clip must be a positive number; received {described(clip)}.")
        return float(clip)

    def gradient_change(self, new: Array, old: Array, rho: float) -> Answer:
        """Release the mean change of the gradients from ``old`` to ``new``.

        Each record's change is clipped to ``smoothness * ||new - old||``.

        ``sqrt(2 rho)``-GDP, hence rho-zCDP (claim K2 of PROOFS-nonconvex.md).
        """
        if not self.smoothness < math.inf:
            raise InvalidInput(
                f"{described(self.objective)} has no smoothness constant, so a change of its "
                "gradient has "
                'no bound. Use method="adaptive" with a step_size, or weights=dpfast.Mallows().'
            )
        mu = _mu(rho)
        # a public zero or overflow: any positive limit will do
        limit = min(max(self.smoothness * _difference(new, old), 1e-100 * self.lipschitz), 1e150)
        sensitivity = self._change_sensitivity(new, old, limit)
        receipt = gaussian_receipt("gradient change", "K2", mu, sensitivity, limit, self.dimension)
        self.ledger.charge(GDP(mu), receipt.query)
        value = self._change(new, old, limit)
        return release_with_noise(self._noise, (receipt.query, mu, new, old), receipt, value)

    def loss_change(self, new: Array, old: Array, rho: float, clip: float | None = None) -> Answer:
        """Release the change of the mean loss from ``old`` to ``new``, shape (1,) (claim K8).

        Integrates the gradient along the line by Gauss-Legendre quadrature.
        """
        mu = _mu(rho)
        limit = None if clip is None or not clip < self.lipschitz else self._checked_clip(clip)
        line = new - old if self._scales is None else (new - old) / self._scales
        bound = (self.lipschitz if limit is None else limit) * public_length(line) * (1.0 + 1e-12)
        if not 0.0 < bound < math.inf:
            raise InvalidInput("new and old must be two different points at a finite distance.")
        # a record's share in a mean is multiplied and added up along the nodes and the line, too
        depth = self._depth() + self.dimension + len(NODES) + 8
        sensitivity = mean_gradient(bound, self.n, depth=depth)
        receipt = gaussian_receipt("loss change", "K8", mu, sensitivity, bound, 1)
        self.ledger.charge(GDP(mu), receipt.query)
        mean = np.zeros(self.dimension)
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            mean = mean + weight * self._gradient(old + node * (new - old), limit)
        value = np.array([float(mean @ line)])
        return release_with_noise(self._noise, (receipt.query, mu, new, old, limit), receipt, value)

    def gradient_norm(self, theta: Array, rho: float) -> Answer:
        """Release the norm of the mean clipped gradient, shape (1,) (claim K3)."""
        mu = _mu(rho)
        sensitivity = gradient_norm(self.lipschitz, self.n, self.dimension, depth=self._depth())
        receipt = gaussian_receipt("gradient norm", "K3", mu, sensitivity, self.lipschitz, 1)
        self.ledger.charge(GDP(mu), receipt.query)
        value = np.array([self._length(theta)])
        return release_with_noise(self._noise, (receipt.query, mu, theta), receipt, value)

    def select_stationary(self, candidates: Sequence[Array], rho: float) -> int:
        """Choose a candidate with a short gradient, by the exponential mechanism (claim K5)."""
        _mu(rho)
        sensitivity = gradient_norm(self.lipschitz, self.n, self.dimension, depth=self._depth())
        grid = sensitivity / STEPS_PER_RECORD
        steps = norm_steps(sensitivity, grid)
        rate = laplace_rate(1, math.sqrt(2.0 * rho) / steps * (1.0 - ROUNDING_SUM))
        cost = exponential_cost(rate, steps)
        mu = _mu(cost)  # of a Gaussian answer with this cost
        receipt = Receipt("selection", "K5", mu, float(steps), steps / mu)
        self.ledger.charge(ZCDP(cost), receipt.query)
        scores = [round(self._length(theta) / grid) for theta in candidates]
        question = (receipt.query, mu, tuple(candidates))
        return release_choice_with_noise(self._noise, question, receipt, scores, rate)

    def nonprivate_gradient(self, theta: Array) -> Array:
        """Exact mean of the clipped gradients: not private, for comparison only."""
        return self._gradient(theta)

    def nonprivate_loss(self, theta: Array) -> float:
        """Exact mean loss: not private, for comparison only."""
        if self._kernel is None:
            return self._rows.loss(theta, float(self.n))
        return float(self._records.total(self._kernel.loss, theta, float(self.n), self._threads))

    # ---- the records ---------------------------------------------------------------------------

    def _depth(self) -> int:
        if self._kernel is None:
            return self._rows.depth()
        deepest = max(self._records.block_sizes)
        return summation_depth(deepest, self.dimension, GRADIENT) + self._records.additions

    def _gradient(self, theta: Array, limit: float | None = None) -> Array:
        if self._kernel is None:
            return self._rows.gradient(theta, float(self.n), limit, self._scales)
        sums, n = self._kernel.sums, float(self.n)
        gradient: Array = self._records.total(sums, theta, GRADIENT, n, self._threads)[0]
        return gradient

    def _length(self, theta: Array) -> float:
        with np.errstate(all="ignore"):
            return float(np.linalg.norm(self._gradient(theta)))

    def _change(self, new: Array, old: Array, limit: float) -> Array:
        if self._kernel is None:
            return self._rows.gradient_change(new, old, limit, float(self.n))
        change: Array = self._records.total(
            self._kernel.gradient_change, new, old, limit, float(self.n), self._threads
        )
        return change

    def _change_sensitivity(self, new: Array, old: Array, limit: float) -> float:
        depth, objective = self._depth(), self.objective
        if isinstance(objective, Objective) and objective.loss.lowest_slope is not None:
            lowest = -objective.loss.lowest_slope / objective.loss.psi_prime_bound
            sizes = public_length(new) + public_length(old)
            error = change_error(self.smoothness, self.lipschitz, sizes, self.dimension)
            return gradient_change(limit, self.n, depth=depth, lowest=lowest, error=error)
        return gradient_change(limit, self.n, depth=depth)

    def _gradient_receipt(self, mu: float) -> Receipt:
        sensitivity = mean_gradient(self.lipschitz, self.n, depth=self._depth())
        return gaussian_receipt("gradient", "K1", mu, sensitivity, self.lipschitz, self.dimension)


def remaining_rho(ledger: Ledger) -> float:
    """Return the remaining budget of a ledger in zCDP or Gaussian DP, as zCDP, rounded down."""
    remaining: Any = ledger.remaining
    if isinstance(remaining, ZCDP):
        return remaining.rho
    if isinstance(remaining, GDP):
        return 0.5 * remaining.mu * remaining.mu * (1.0 - ROUNDING_PRODUCT)
    raise InvalidInput(
        "a ledger in ZCDP or GDP is needed for gradients with Gaussian noise; received "
        f"{described(ledger)}."
    )


def _difference(new: Array, old: Array) -> float:
    with np.errstate(all="ignore"):
        return public_length(new - old)


def _mu(rho: float) -> float:
    """Compute the largest mu with ``mu^2 / 2 <= rho``, decided exactly."""
    return GDP.within(ZCDP(rho)).mu


def public_length(vector: Array) -> float:
    """Compute the norm of a public vector; infinite where it would overflow."""
    with np.errstate(all="ignore"):
        size = np.abs(vector)
        largest = float(size.max(initial=0.0))
        if not 0.0 < largest < math.inf:
            return largest if largest == 0.0 else math.inf
        return largest * float(np.linalg.norm(size / largest))
