"""Information of evaluations about a gradient: the acquisition of DP-GIBO."""

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

#: Relative to the prior trace: a step with a smaller gain ends a search.
RELATIVE_TOLERANCE = 1e-6

#: Most evaluations of the trace and its gradient from each start.
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
        Argument of methods: point of the gradient.
    D, Z : array_like of shapes (m, d) and (b, d)
        Points evaluated so far (m may be zero), and further points.
    threshold : float
        Largest acceptable trace.

    Notes
    -----
    The noise variance of a point is always ``noise_variance + 1e-10 k(point, point)``: duplicated
    points are allowed, and no matrix is singular.  With c the condition number of the noisy
    covariance matrix, at most ``1 + 1e10``, the error of the trace is about ``1e-15 + 1e-18 c`` of
    the prior trace.  The trace may be negative by that much.  The error of the weights is ``1e-16
    c`` of the largest.  Thread-safe; calls on one object wait for each other.

    Privacy
    -------
    Spends nothing: arguments may depend on private values through released answers only.

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
        """Evaluated points D, shape (m, d); a copy."""
        return self._points.copy()

    def condition(self, D: ArrayLike) -> GradientInformation:
        """Set the evaluated points to D; work for a common beginning is reused."""
        points = as_points(D, "D", self.dimension).copy()
        self._kernel.condition(points)
        self._points = points
        return self

    def prior_trace(self, theta: ArrayLike) -> float:
        """Return the trace of the prior covariance of the gradient at theta."""
        return self._covariance.prior_trace(theta)

    def gradient_covariance(self, theta: ArrayLike) -> Array:
        """Return the posterior covariance of the gradient at theta given D, shape (d, d)."""
        at = self._at(theta)
        B = self._kernel.whitened(at)
        return self._covariance.prior_gradient_covariance(at) - B.T @ B

    def gradient_weights(self, theta: ArrayLike, mean: str = "zero") -> Array:
        """Return weights W, shape (m, d), that turn values at D into surrogate gradients at theta.

        Values Y of shape (n, m), one row per user, have the surrogate gradients ``Y @ W``
        (Algorithm 1, line 7, with ``W = (K + noise)^-1 dk(D, theta)``).

        Parameters
        ----------
        mean : {"zero", "constant"}
            Prior mean of the loss: zero, as in the paper, or an unknown constant (universal
            kriging).  With the latter every column of W adds up to zero.  A large loss that does
            not depend on theta then has no effect on the gradient or its clipping.
        """
        unknown_mean = one_of(mean, MEANS, "mean") == "constant"
        weights = self._kernel.weights(self._at(theta))
        if unknown_mean and len(weights):
            mean_weights = self._kernel.mean_weights()
            weights -= np.outer(mean_weights, weights.sum(axis=0) / mean_weights.sum())
        return weights

    def trace(self, Z: ArrayLike, theta: ArrayLike) -> float:
        """Return the trace of the posterior gradient covariance after Z joins D: T0 + alpha."""
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
        """Find the b points inside the bounds that reduce the trace most (line 5).

        Deterministic: a projected quasi-Newton method from public starting designs.  The minimum
        is local; privacy does not depend on its quality.

        Parameters
        ----------
        b, starts : int
            Number of points, and of starting designs.
        initial : sequence of array_like of shape (b, d)
            Further starts, tried first.
        tolerance : float
            Relative to the prior trace: a step with a smaller gain ends the search from a start.
        target : float
            The search ends at a trace this low.

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
        best, lowest = np.empty((0, self.dimension)), np.inf
        for index in range(len(designs) + starts):
            own_start = index - len(designs)
            start = designs[index] if own_start < 0 else self._start(at, b, own_start)
            points, value, _ = self._kernel.minimise(
                start, at, MOST_EVALUATIONS, tolerance, tolerance, target
            )
            if value < lowest or index == 0:
                best, lowest = points, value
            if lowest <= target:
                break
        return best, lowest

    def most_uncertain(self, theta: ArrayLike, b: int) -> Array:
        """Return points around theta along the most uncertain directions of the gradient.

        The points are inside the bounds.

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
        """Find the smallest batch, shape (b, d), that brings the trace to the threshold (line 4).

        The paper's condition ``alpha <= threshold`` lacks the prior trace and always holds; the
        condition here is ``T0 + alpha <= threshold``.  The size grows from a lower bound, each size
        starting from the points of the last.  Bisection then finds the smallest size.

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
            # first points of the earlier design, then those of the default start
            initial = [
                np.vstack((points_before[:b], self._start(at, b, 0)[len(points_before) :]))
                for points_before in known
            ]
            return self.acquire(at, b, initial=initial, target=threshold)

        too_few, b, growth = fewest - 1, fewest, 1
        points, value = search(b, [])
        while value > threshold and b < b_max:
            too_few, b, growth = b, min(b + growth, b_max), 2 * growth
            points, value = search(b, [points])
        while value <= threshold and b - too_few > 1:
            middle = (too_few + b) // 2
            smaller, smaller_value = search(middle, [points])
            if smaller_value <= threshold:
                b, points, value = middle, smaller, smaller_value
            else:
                too_few = middle
        # the searches above stopped at the threshold; this one minimises the trace fully
        return self.acquire(at, b, starts=0, initial=[points])[0]

    def fewest_points(self, theta: ArrayLike, threshold: float) -> int:
        """Return a lower bound, from 0 to d, of the new points that the threshold needs.

        Each evaluation lowers the rank of the posterior gradient covariance by at most one.  The
        trace after b evaluations is thus at least the sum of the d - b smallest eigenvalues.
        """
        at = self._at(theta)
        eigenvalues = np.linalg.eigvalsh(self.gradient_covariance(at))
        remaining = np.concatenate([[0.0], np.cumsum(np.maximum(eigenvalues, 0.0))])
        slack = 1e-9 * self.prior_trace(at)
        return self.dimension - int(np.searchsorted(remaining, threshold + slack, "right") - 1)

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
