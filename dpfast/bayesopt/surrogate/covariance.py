"""Covariance functions of the surrogate Gaussian process, with the derivatives DP-GIBO needs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, real_array, whole_number
from dpfast.errors import InvalidInput, described

#: Range of the public hyperparameters; inside it no product of them overflows.
SCALE_RANGE = (1e-30, 1e30)

#: Cap of the scaled distance: exp(-r) is zero there, and r^3 still finite.
FAR = 1000.0


def _hyperparameter(value: ArrayLike, name: str, single: bool = False) -> Array:
    array = real_array(value, name)
    if single and array.ndim:
        raise InvalidInput(f"{name} must be one number; received {described(value)}.")
    low, high = SCALE_RANGE
    if array.ndim > 1 or array.size == 0 or not ((array >= low) & (array <= high)).all():
        raise InvalidInput(
            f"{name} must lie in [{low:g}, {high:g}]; received {described(value)}. "
            "Pass a positive public number, or one per dimension where that is allowed."
        )
    return array


def as_points(points: ArrayLike, name: str = "points", dimension: int | None = None) -> Array:
    """Return public points as a C-contiguous float64 array of shape (m, d)."""
    array = np.ascontiguousarray(real_array(points, name))
    if array.ndim != 2 or (dimension is not None and array.shape[1] != dimension):
        width = "d" if dimension is None else str(dimension)
        raise InvalidInput(
            f"{name} must have shape (number of points, {width}); received {array.shape}."
        )
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite; received a coordinate that is not.")
    return array


class Covariance:
    """Base of the covariance functions.

    Parameters
    ----------
    length_scales : float or array_like of shape (d,)
        Distance, in units of each coordinate, over which the loss changes; a scalar serves every
        dimension.  Public: chosen, or fitted on public data.
    output_scale : float
        Prior standard deviation s of a loss, in units of the loss; the covariance is
        proportional to its square.

    Other Parameters
    ----------------
    theta : array_like of shape (d,)
        Argument of methods: point of the gradient.
    points, others : array_like of shapes (m, d) and (k, d)
        Public points.
    dimension : int
        Number of coordinates d.

    Privacy
    -------
    Points are public: reads no record.

    Examples
    --------
    >>> dpfast.bayesopt.RBF(0.5).values([[0.0]], [[0.0], [0.5]]).round(3)
    array([[1.   , 0.607]])
    """

    #: Number of the formulas in the compiled kernel.
    family: ClassVar[int] = -1

    #: Constant added to the inner product; zero for stationary covariances.
    offset = 0.0

    def __init__(self, length_scales: ArrayLike = 1.0, output_scale: float = 1.0) -> None:
        self._length_scales = _hyperparameter(length_scales, "length_scales")
        self.output_scale = float(_hyperparameter(output_scale, "output_scale", True))

    def length_scales(self, dimension: int) -> Array:
        """Return length-scales as an array of shape (dimension,)."""
        dimension = whole_number(dimension, "dimension", least=1)
        if self._length_scales.ndim and len(self._length_scales) != dimension:
            raise InvalidInput(
                f"length_scales has {len(self._length_scales)} entries but the points have "
                f"{dimension} coordinates. Pass one per coordinate, or a single number."
            )
        return np.full(dimension, self._length_scales, dtype=np.float64)

    def values(self, points: ArrayLike, others: ArrayLike) -> Array:
        """Return covariances of the losses at two sets of points, shape (m, k)."""
        raise NotImplementedError

    def gradient(self, theta: ArrayLike, points: ArrayLike) -> Array:
        """Return covariances of the gradient at `theta` with the losses at `points`, shape (d, m).

        They are the derivative of ``k(theta, points)`` by theta: A of Algorithm 1, line 7.
        """
        raise NotImplementedError

    def prior_gradient_covariance(self, theta: ArrayLike) -> Array:
        """Return the prior covariance of the gradient at `theta`, shape (d, d).

        It is a mixed second derivative of the covariance function.
        """
        raise NotImplementedError

    def prior_trace(self, theta: ArrayLike) -> float:
        """Return the trace of :meth:`prior_gradient_covariance`."""
        return float(np.trace(self.prior_gradient_covariance(theta)))

    def __repr__(self) -> str:
        scales = self._length_scales.tolist()
        return f"{type(self).__name__}(length_scales={scales}, output_scale={self.output_scale})"


def checked_covariance(covariance: Any, dimension: int) -> Covariance:
    """Check the type of a covariance, and its number of coordinates."""
    if not isinstance(covariance, Covariance):
        raise InvalidInput(
            "covariance must be one of dpfast.bayesopt's, such as RBF(length_scales); received "
            f"{described(covariance)}."
        )
    covariance.length_scales(dimension)  # refuses those of another dimension
    return covariance


def one_point(theta: ArrayLike) -> Array:
    array = real_array(theta, "theta")
    if array.ndim != 1:
        raise InvalidInput(f"theta must have shape (d,); received {array.shape}.")
    return as_points(array[None, :], "theta")[0]


class Stationary(Covariance):
    """A covariance ``s^2 phi(q)`` of the scaled squared distance q."""

    #: -2 phi'(0): the prior variance of a derivative in scaled coordinates, over s^2.
    slope_variance: ClassVar[float]

    def _phi(self, q: Array) -> Array:
        raise NotImplementedError

    def _phi_prime(self, q: Array) -> Array:
        raise NotImplementedError

    def values(self, points: ArrayLike, others: ArrayLike) -> Array:
        first = as_points(points)
        second = as_points(others, "others", first.shape[1])
        scales = self.length_scales(first.shape[1])
        squared = np.zeros((len(first), len(second)))
        # Differences before squares: duplicates are at distance exactly zero.
        with np.errstate(over="ignore"):
            for a, b, scale in zip(first.T, second.T, scales, strict=True):
                squared += ((a[:, None] - b[None, :]) / scale).clip(-1e150, 1e150) ** 2
        return self.output_scale**2 * self._phi(squared)

    def gradient(self, theta: ArrayLike, points: ArrayLike) -> Array:
        at = one_point(theta)
        scales = self.length_scales(len(at))
        with np.errstate(over="ignore"):
            steps = ((as_points(points, "points", len(at)) - at) / scales).clip(-1e150, 1e150)
        slopes = -2.0 * self.output_scale**2 * self._phi_prime(np.sum(steps * steps, axis=1))
        return np.ascontiguousarray((slopes[:, None] * steps / scales).T)

    def prior_gradient_covariance(self, theta: ArrayLike) -> Array:
        scales = self.length_scales(len(one_point(theta)))
        return np.diag(self.slope_variance * (self.output_scale / scales) ** 2)


class RBF(Stationary):
    """Squared exponential, ``s^2 exp(-q/2)``: infinitely smooth losses.

    Parameters
    ----------
    length_scales, output_scale
        As for :class:`Covariance`.

    Examples
    --------
    >>> dpfast.bayesopt.RBF(0.5).values([[0.0]], [[0.5]]).round(3)
    array([[0.607]])
    """

    family = 0
    slope_variance = 1.0

    def _phi(self, q: Array) -> Array:
        return np.exp(-0.5 * q)

    def _phi_prime(self, q: Array) -> Array:
        return -0.5 * np.exp(-0.5 * q)


class Matern52(Stationary):
    """Matern with smoothness 5/2, ``s^2 (1 + r + r^2/3) exp(-r)`` with ``r = sqrt(5 q)``.

    Parameters
    ----------
    length_scales, output_scale
        As for :class:`Covariance`.

    Examples
    --------
    >>> dpfast.bayesopt.Matern52(0.5).values([[0.0]], [[0.5]]).round(3)
    array([[0.524]])
    """

    family = 1
    slope_variance = 5.0 / 3.0

    def _phi(self, q: Array) -> Array:
        r = np.minimum(np.sqrt(5.0 * q), FAR)
        return (1.0 + r + r * r / 3.0) * np.exp(-r)

    def _phi_prime(self, q: Array) -> Array:
        r = np.minimum(np.sqrt(5.0 * q), FAR)
        return -(5.0 / 6.0) * (1.0 + r) * np.exp(-r)


class Matern72(Stationary):
    """Matern with smoothness 7/2, of ``r = sqrt(7 q)``.

    ``s^2 (1 + r + 2 r^2/5 + r^3/15) exp(-r)``.

    Parameters
    ----------
    length_scales, output_scale
        As for :class:`Covariance`.

    Examples
    --------
    >>> dpfast.bayesopt.Matern72(0.5).values([[0.0]], [[0.5]]).round(3)
    array([[0.545]])
    """

    family = 2
    slope_variance = 7.0 / 5.0

    def _phi(self, q: Array) -> Array:
        r = np.minimum(np.sqrt(7.0 * q), FAR)
        return (1.0 + r * (1.0 + r * (0.4 + r / 15.0))) * np.exp(-r)

    def _phi_prime(self, q: Array) -> Array:
        r = np.minimum(np.sqrt(7.0 * q), FAR)
        return -(7.0 / 30.0) * (3.0 + r * (3.0 + r)) * np.exp(-r)


class Polynomial2(Covariance):
    """Polynomial of degree two, ``s^2 (p + c)^2`` with p the scaled inner product.

    The surrogate is then a quadratic function: exact for quadratic losses (paper 4, E.3, with
    ``c = 1``).  Not stationary, so the theory's assumption 3.5 does not hold.

    Parameters
    ----------
    length_scales, output_scale
        As for :class:`Covariance`.
    offset : float
        The constant c.

    Examples
    --------
    >>> dpfast.bayesopt.Polynomial2(1.0).values([[0.0]], [[0.5]]).shape
    (1, 1)
    """

    family = 3

    def __init__(
        self, length_scales: ArrayLike = 1.0, output_scale: float = 1.0, offset: float = 1.0
    ) -> None:
        super().__init__(length_scales, output_scale)
        self.offset = float(_hyperparameter(offset, "offset", True))

    def _scaled(self, points: Array) -> Array:
        # Beyond 1e30 length-scales a square of a covariance would leave the range of doubles.
        with np.errstate(over="ignore"):
            return (points / self.length_scales(points.shape[-1])).clip(-1e30, 1e30)

    def values(self, points: ArrayLike, others: ArrayLike) -> Array:
        first = as_points(points)
        second = as_points(others, "others", first.shape[1])
        inner = self._scaled(first) @ self._scaled(second).T + self.offset
        return self.output_scale**2 * inner * inner

    def gradient(self, theta: ArrayLike, points: ArrayLike) -> Array:
        at = one_point(theta)
        u, v = self._scaled(at), self._scaled(as_points(points, "points", len(at)))
        slopes = 2.0 * self.output_scale**2 * (v @ u + self.offset)
        scales = self.length_scales(len(at))
        return np.ascontiguousarray((slopes[:, None] * v / scales).T)

    def prior_gradient_covariance(self, theta: ArrayLike) -> Array:
        at = one_point(theta)
        u, scales = self._scaled(at), self.length_scales(len(at))
        mixed = 2.0 * self.output_scale**2 * (np.eye(len(u)) * (u @ u + self.offset))
        mixed += 2.0 * self.output_scale**2 * np.outer(u, u)
        return np.asarray(mixed / np.outer(scales, scales))

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, offset={self.offset})"
