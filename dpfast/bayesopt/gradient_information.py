"""What a set of evaluations tells about the gradient: the acquisition of DP-GIBO.

Paper 4, Algorithm 1, lines 4 to 7.  Everything here is a function of public points and public
hyperparameters; no record and no loss value enters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from dpfast.bayesopt.covariance import Covariance, as_points
from dpfast.bayesopt.designs import starting_design
from dpfast.errors import InvalidInput
from dpfast.kernels import reference_acquisition as backend

__all__ = ["GradientInformation"]

Array = NDArray[np.float64]


class GradientInformation:
    """Posterior covariance of the gradient of a Gaussian process, and how points reduce it.

    Parameters
    ----------
    covariance : Covariance
        Prior covariance of the loss.
    noise_variance : float
        Variance of the evaluation noise, in squared units of the loss; zero is allowed.
    bounds : array_like of shape (d, 2)
        Lower and upper end of the search domain per dimension, finite.

    Notes
    -----
    Jitter: the noise variance of a point is ``noise_variance + 1e-10 k(point, point)``, always.
    Duplicated or nearly duplicated points are therefore harmless, and nothing here raises because
    a matrix is singular.

    Privacy
    -------
    Nothing is spent: no argument may depend on private values other than through released answers.
    """

    def __init__(self, covariance: Covariance, noise_variance: float, bounds: ArrayLike) -> None:
        box = as_points(bounds, "bounds", 2)
        if len(box) == 0 or not (box[:, 0] <= box[:, 1]).all():
            raise InvalidInput(
                f"bounds must hold a lower and an upper end for each dimension, in this order; "
                f"received {box.tolist()}."
            )
        if not 0.0 <= noise_variance <= 1e60:
            raise InvalidInput(
                f"noise_variance must lie in [0, 1e60]; received {noise_variance!r}."
            )
        self._covariance = covariance
        self._lower, self._upper = box.T.copy()
        self._length_scales = covariance.length_scales(len(box))
        self._prior = backend.Prior(
            covariance.family,
            self._length_scales,
            covariance.output_scale,
            covariance.offset,
            float(noise_variance),
        )
        self._points = np.empty((0, len(box)))

    @property
    def dimension(self) -> int:
        """Number of coordinates d."""
        return len(self._lower)

    @property
    def points(self) -> Array:
        """The evaluated points D, (m, d); a copy."""
        return self._points.copy()

    def condition(self, D: ArrayLike) -> GradientInformation:
        """Take D as the points evaluated so far.

        Work done for a common beginning of the old and the new D is kept.

        Parameters
        ----------
        D : array_like of shape (m, d)
            m may be zero.

        Returns
        -------
        GradientInformation
            This object.
        """
        self._points = as_points(D, "D", self.dimension).copy()
        return self

    def prior_trace(self, theta: ArrayLike) -> float:
        """Trace of the prior covariance of the gradient at theta."""
        return self._covariance.prior_trace(theta)

    def gradient_covariance(self, theta: ArrayLike) -> Array:
        """Posterior covariance of the gradient at theta given D, (d, d)."""
        return backend.gradient_covariance(self._prior, self._points, self._at(theta))

    def gradient_weights(self, theta: ArrayLike) -> Array:
        """Weights W, (m, d), with which values at D become surrogate gradients at theta.

        Values Y of shape (n, m), one row per user, have the surrogate gradients ``Y @ W``
        (Algorithm 1, line 7, with ``W = (K + noise)^-1 dk(D, theta)``).
        """
        return backend.gradient_weights(self._prior, self._points, self._at(theta))

    def trace(self, Z: ArrayLike, theta: ArrayLike) -> float:
        """Trace of the posterior gradient covariance at theta once Z has joined D.

        Parameters
        ----------
        Z : array_like of shape (b, d)
        theta : array_like of shape (d,)

        Returns
        -------
        float
            ``T0 + alpha`` in the notation of the paper, with the prior trace T0 included.
        """
        new = as_points(Z, "Z", self.dimension)
        return backend.trace(self._prior, self._points, new, self._at(theta))

    def trace_and_gradient(self, Z: ArrayLike, theta: ArrayLike) -> tuple[float, Array]:
        """:meth:`trace`, and its derivative with respect to every coordinate of Z, (b, d)."""
        new = as_points(Z, "Z", self.dimension)
        return backend.trace_and_gradient(self._prior, self._points, new, self._at(theta))

    def acquire(
        self,
        theta: ArrayLike,
        b: int,
        *,
        starts: int = 2,
        initial: Sequence[ArrayLike] = (),
        max_evaluations: int = 200,
    ) -> tuple[Array, float]:
        """The b points inside the bounds that reduce the trace most (line 5).

        Deterministic: projected quasi-Newton from public starting designs.  The minimum found is
        local; privacy does not depend on how good it is.

        Parameters
        ----------
        theta : array_like of shape (d,)
        b : int
        starts : int
            Number of starting designs of this class.
        initial : sequence of array_like of shape (b, d)
            Further starts.
        max_evaluations : int
            Most evaluations of the trace and its gradient per start.

        Returns
        -------
        points : ndarray of shape (b, d)
        trace : float
        """
        at = self._at(theta)
        designs = [
            starting_design(at, b, self._length_scales, self._lower, self._upper, index)
            for index in range(starts)
        ]
        designs += [as_points(start, "initial", self.dimension) for start in initial]
        best, least = np.empty((0, self.dimension)), np.inf
        for start in designs:
            points, value = self._minimise(start, at, max_evaluations)
            if value < least:
                best, least = points, value
        return best, least

    def choose_batch(
        self, theta: ArrayLike, threshold: float, b_max: int, *, b_min: int = 1, starts: int = 2
    ) -> Array:
        """The smallest batch found that brings the trace to the threshold (line 4), capped.

        The paper's condition ``alpha <= threshold`` lacks the prior trace and always holds; the
        condition here is ``T0 + alpha <= threshold``.

        Parameters
        ----------
        theta : array_like of shape (d,)
        threshold : float
            Largest acceptable trace.
        b_max : int
            Most points; returned when no batch reaches the threshold.
        b_min : int
            Least points.
        starts : int
            Starting designs for each size tried.

        Returns
        -------
        ndarray of shape (b, d)
        """
        at = self._at(theta)
        previous = np.empty((0, self.dimension))
        if b_min == 0 and self.trace(previous, at) <= threshold:
            return previous
        for b in range(max(b_min, 1), b_max + 1):
            initial = []
            if len(previous):
                extra = starting_design(at, b, self._length_scales, self._lower, self._upper, 0)[
                    len(previous) :
                ]
                initial = [np.concatenate([previous, extra])]
            previous, value = self.acquire(at, b, starts=starts, initial=initial)
            if value <= threshold:
                break
        return previous

    def _at(self, theta: ArrayLike) -> Array:
        array = np.asarray(theta, dtype=np.float64)
        if array.shape != (self.dimension,):
            raise InvalidInput(
                f"theta must have shape ({self.dimension},); received {array.shape}."
            )
        return as_points(array[None, :], "theta")[0]

    def _minimise(self, start: Array, at: Array, max_evaluations: int) -> tuple[Array, float]:
        box = [*zip(self._lower, self._upper, strict=True)] * len(start)

        def objective(flat: Array) -> tuple[float, Array]:
            value, gradient = self.trace_and_gradient(flat.reshape(start.shape), at)
            return value, gradient.ravel()

        found = minimize(
            objective,
            start.ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=box,
            options={"maxfun": max_evaluations},
        )
        return found.x.reshape(start.shape), float(found.fun)

    def __repr__(self) -> str:
        return (
            f"GradientInformation({self._covariance!r}, "
            f"noise_variance={self._prior.noise_variance!r}, d={self.dimension})"
        )
