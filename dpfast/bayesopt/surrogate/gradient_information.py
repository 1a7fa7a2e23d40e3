"""What a set of evaluations tells about the gradient: the acquisition of DP-GIBO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, number_in, one_of, real_number, whole_number
from dpfast.bayesopt.surrogate.covariance import (
    Covariance,
    as_points,
    checked_covariance,
    one_point,
)
from dpfast.bayesopt.surrogate.designs import around, starting_design
from dpfast.errors import InvalidInput, described
from dpfast.kernels.acquisition import AcquisitionKernel

#: Prior mean of a record's loss: zero, as in the paper, or an unknown constant.
MEANS = ("constant", "zero")

#: Of the prior trace: a step that gains less ends a search.
RELATIVE_TOLERANCE = 1e-6

#: Of the trace and its gradient, from each start.
MOST_EVALUATIONS = 200


class GradientInformation:
    """Posterior covariance of the gradient of a Gaussian process, and how points reduce it.

    Section 2 of paper 4 (Sopa, Marusic, Avella-Medina and Cunningham 2025).

    Parameters
    ----------
    covariance : Covariance
        Prior covariance of the loss.
    noise_variance : float
        Variance of the evaluation noise, in squared units of the loss; zero is allowed.
    bounds : array_like of shape (d, 2)
        Lower and upper end of the search domain per dimension, finite.

    Other Parameters
    ----------------
    theta : array_like of shape (d,)
        Of methods: where the gradient is wanted.
    D, Z : array_like of shapes (m, d) and (b, d)
        Points evaluated so far, m may be zero; points that are to join them.
    threshold : float
        Largest acceptable trace.

    Notes
    -----
    The noise variance of a point is ``noise_variance + 1e-10 k(point, point)``, always: duplicated
    points are harmless, and nothing raises because a matrix is singular.  The trace is right to
    about ``1e-15 + 1e-18 c`` of the prior trace, with c the condition number of the noisy
    covariance matrix, at most ``1 + 1e10``; it may come out negative by that much.  The weights are
    determined by the problem to ``1e-16 c`` of the largest.  Thread-safe; calls on one object wait
    for each other.

    Privacy
    -------
    Nothing is spent: no argument may depend on private values other than through released answers.

    Examples
    --------
    >>> information = dpfast.bayesopt.GradientInformation(dpfast.bayesopt.RBF(), 0.1, [(0.0, 1.0)])
    >>> batch = information.choose_batch([0.5], 0.5, 4)
    >>> information.trace(batch, [0.5]) < information.prior_trace([0.5])
    True
    """

    def __init__(self, covariance: Covariance, noise_variance: float, bounds: ArrayLike) -> None:
        box = as_points(bounds, "bounds", 2)
        if len(box) == 0 or not (box[:, 0] <= box[:, 1]).all():
            raise InvalidInput(
                f"bounds must hold a lower and an upper end for each dimension, in this order; "
                f"received {described(bounds)}."
            )
        self._covariance = covariance = checked_covariance(covariance, len(box))
        self._noise_variance = number_in(noise_variance, "noise_variance", "[0, 1e60]")
        self._lower, self._upper = box.T.copy()
        self._length_scales = covariance.length_scales(len(box))
        self._kernel = AcquisitionKernel(
            covariance.family,
            self._length_scales,
            covariance.output_scale,
            covariance.offset,
            self._noise_variance,
            self._lower,
            self._upper,
        )
        self._points = np.empty((0, len(box)))

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self._lower)

    @property
    def points(self) -> Array:
        """The evaluated points D, shape (m, d); a copy."""
        return self._points.copy()

    def condition(self, D: ArrayLike) -> GradientInformation:
        """Take D as the points evaluated so far; work done for a common beginning is kept."""
        points = as_points(D, "D", self.dimension).copy()
        self._kernel.condition(points)
        self._points = points
        return self

    def prior_trace(self, theta: ArrayLike) -> float:
        """Trace of the prior covariance of the gradient at theta."""
        return self._covariance.prior_trace(theta)

    def gradient_covariance(self, theta: ArrayLike) -> Array:
        """Posterior covariance of the gradient at theta given D, shape (d, d)."""
        at = self._at(theta)
        B = self._kernel.whitened(at)
        return self._covariance.prior_gradient_covariance(at) - B.T @ B

    def gradient_weights(self, theta: ArrayLike, mean: str = "zero") -> Array:
        """Weights W, shape (m, d), with which values at D become surrogate gradients at theta.

        Values Y of shape (n, m), one row per user, have the surrogate gradients ``Y @ W``
        (Algorithm 1, line 7, with ``W = (K + noise)^-1 dk(D, theta)``).

        Parameters
        ----------
        mean : {"zero", "constant"}
            Prior mean of the loss: zero, as in the paper, or an unknown constant (universal
            kriging).  With the latter every column of W adds up to zero: a large loss that does not
            depend on theta neither biases the gradient nor makes it be clipped.
        """
        unknown = one_of(mean, MEANS, "mean") == "constant"
        weights = self._kernel.weights(self._at(theta))
        if unknown and len(weights):
            ones = self._kernel.mean_weights()
            weights -= np.outer(ones, weights.sum(axis=0) / ones.sum())
        return weights

    def trace(self, Z: ArrayLike, theta: ArrayLike) -> float:
        """Trace of the posterior gradient covariance at theta once Z has joined D: T0 + alpha."""
        new = as_points(Z, "Z", self.dimension)
        return self._kernel.value(new, self._at(theta))

    def acquire(
        self,
        theta: ArrayLike,
        b: int,
        *,
        starts: int = 2,
        initial: Sequence[ArrayLike] = (),
        tolerance: float = RELATIVE_TOLERANCE,
        target: float = -np.inf,
    ) -> tuple[Array, float]:
        """The b points inside the bounds that reduce the trace most (line 5).

        Deterministic: a projected quasi-Newton method from public starting designs.  The minimum
        found is local; privacy does not depend on how good it is.

        Parameters
        ----------
        b, starts : int
            Number of points, and of starting designs.
        initial : sequence of array_like of shape (b, d)
            Further starts, tried first.
        tolerance : float
            Of the prior trace: a step that gains less ends the search from a start.
        target : float
            A trace that is low enough: the search ends there.

        Returns
        -------
        points : ndarray of shape (b, d)
        trace : float
        """
        at = self._at(theta)
        target = real_number(target, "target")
        if b < 0 or starts + len(initial) < 1:
            raise InvalidInput(
                f"b must not be negative and there must be a start; received b={described(b)}, "
                f"starts={described(starts)} and {len(initial)} initial designs."
            )
        designs = [as_points(start, "initial", self.dimension) for start in initial]
        if any(len(design) != b for design in designs):
            raise InvalidInput(f"every initial design must have b={b} points.")
        tolerance = number_in(tolerance, "tolerance", "(0, 1]") * self.prior_trace(at)
        best, least = np.empty((0, self.dimension)), np.inf
        for index in range(len(designs) + starts):
            fresh = index - len(designs)
            start = designs[index] if fresh < 0 else self._start(at, b, fresh)
            points, value, _ = self._kernel.minimise(
                start, at, MOST_EVALUATIONS, tolerance, tolerance, target
            )
            if value < least or index == 0:
                best, least = points, value
            if least <= target:
                break
        return best, least

    def most_uncertain(self, theta: ArrayLike, b: int) -> Array:
        """Points around theta along which least is known of the gradient, inside the bounds.

        Parameters
        ----------
        b : int

        Returns
        -------
        ndarray of shape (b, d)
        """
        at = self._at(theta)
        vectors = np.linalg.eigh(self.gradient_covariance(at))[1][:, ::-1].T
        pairs = -(-b // (2 * len(at)))
        directions = np.concatenate([vectors, -vectors] * pairs)[:b]
        return around(at, directions, self._length_scales, self._lower, self._upper)

    def choose_batch(self, theta: ArrayLike, threshold: float, b_max: int) -> Array:
        """The smallest batch found, shape (b, d), that brings the trace to the threshold (line 4).

        The paper's condition ``alpha <= threshold`` lacks the prior trace and always holds; the
        condition here is ``T0 + alpha <= threshold``.  The size grows from a lower bound, each size
        starting from the points of the last, and is then narrowed by bisection.

        Parameters
        ----------
        b_max : int
            Most points; returned when no batch reaches the threshold.
        """
        at = self._at(theta)
        if not threshold >= 0.0:
            raise InvalidInput(f"threshold must not be negative; received {described(threshold)}.")
        b_max = whole_number(b_max, "b_max", 1)
        fewest = max(1, self.fewest_points(at, threshold))
        if fewest >= b_max:
            return self.acquire(at, b_max)[0]

        def search(b: int, known: list[Array]) -> tuple[Array, float]:
            # the first points of a design, continued by those of the plain start
            initial = [np.vstack((old[:b], self._start(at, b, 0)[len(old) :])) for old in known]
            return self.acquire(at, b, initial=initial, target=threshold)

        too_few, b, growth = fewest - 1, fewest, 1
        points, value = search(b, [])
        while value > threshold and b < b_max:
            too_few, b, growth = b, min(b + growth, b_max), 2 * growth
            points, value = search(b, [points])
        while value <= threshold and b - too_few > 1:
            middle = (too_few + b) // 2
            fewer, fewer_value = search(middle, [points])
            if fewer_value <= threshold:
                b, points, value = middle, fewer, fewer_value
            else:
                too_few = middle
        # The searches above ended at the threshold; the batch itself is as good as it gets.
        return self.acquire(at, b, starts=0, initial=[points])[0]

    def fewest_points(self, theta: ArrayLike, threshold: float) -> int:
        """A number of new points, from 0 to d, without which the trace cannot reach the threshold.

        Each evaluation lowers the rank of the posterior gradient covariance by at most one, so
        that b of them leave at least the sum of its d - b smallest eigenvalues.
        """
        at = self._at(theta)
        eigenvalues = np.linalg.eigvalsh(self.gradient_covariance(at))
        left = np.concatenate([[0.0], np.cumsum(np.maximum(eigenvalues, 0.0))])
        slack = 1e-9 * self.prior_trace(at)
        return self.dimension - int(np.searchsorted(left, threshold + slack, "right") - 1)

    def _at(self, theta: ArrayLike) -> Array:
        array = one_point(theta)
        if len(array) != self.dimension:
            raise InvalidInput(
                f"theta must have shape ({self.dimension},); received {array.shape}."
            )
        return array

    def _start(self, at: Array, b: int, index: int) -> Array:
        return starting_design(at, b, self._length_scales, self._lower, self._upper, index)

    def __repr__(self) -> str:
        return (
            f"GradientInformation({self._covariance!r}, "
            f"noise_variance={self._noise_variance!r}, d={self.dimension})"
        )
