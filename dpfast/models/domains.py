"""Covariate domains: declared public sets that every row is projected onto, never rejected."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, check_constant, flag, real_array
from dpfast.errors import InvalidInput, described

_UP = 1.0 + 2.0**-44  # more than the rounding of a sum of up to 4096 terms relative to its size


class Domain:
    """Base of the domains: declared public sets of rows, and functions of them.

    Attributes
    ----------
    intercept : bool
        Whether a row has a fixed first coordinate 1, which X does not contain.
    n_covariates : int or None
        Columns of X; None until :meth:`bind` for a domain of any dimension.
    needs_projection : bool
        Whether rows have to be projected before the kernels see them, which project onto balls.

    Examples
    --------
    >>> ball = dpfast.models.Ball(2.0).bind(2)
    >>> ball.project([[3.0, 4.0]]).round(6).tolist(), round(ball.support([0.0, 3.0]), 6)
    ([[1.2, 1.6]], 6.0)
    """

    intercept: bool
    n_covariates: int | None
    needs_projection: bool = True

    def bind(self, n_covariates: int) -> Domain:
        """Fix the number of columns of X; refuse one that the domain was not declared for.

        Parameters
        ----------
        n_covariates : int
            Columns of X, the intercept not counted.
        """
        if self.n_covariates is not None and self.n_covariates != n_covariates:
            raise InvalidInput(
                f"{described(self)} describes {self.n_covariates} columns; X has "
                f"{described(n_covariates)}. Declare every column of X, without the intercept."
            )
        return self

    @property
    def dimension(self) -> int | None:
        """Number of coordinates of a row, intercept included."""
        return None if self.n_covariates is None else self.n_covariates + int(self.intercept)

    @property
    def radius(self) -> float:
        """Bound ``sup ||x||_2`` over rows, intercept included, rounded up."""
        raise NotImplementedError

    def project(self, X: ArrayLike) -> Array:
        """Move each row of X onto the domain; rows of the domain do not change, shape (n, q).

        Parameters
        ----------
        X : ndarray of shape (n, q)
            Rows with a non-finite entry become NaN throughout: the kernels count them as zero.

        Privacy
        -------
        Row by row: what comes back is as private as X.
        """
        rows = real_array(X, "X")
        if self.n_covariates is not None and rows.shape[1] != self.n_covariates:
            self.bind(rows.shape[1])
        with np.errstate(all="ignore"):
            projected = self._project(rows)
            finite = np.isfinite(rows.sum(axis=1))
        if not finite.all():  # a sum may also overflow: look closer only where it did
            suspects = np.flatnonzero(~finite)
            bad = suspects[~np.isfinite(rows[suspects]).all(axis=1)]
            projected = projected.copy() if projected is rows else projected
            projected[bad] = np.nan
        return projected

    def support(self, direction: ArrayLike) -> float:
        """Return ``sup |p'x|`` over rows x, rounded up by a relative 1e-13.

        Parameters
        ----------
        direction : ndarray of shape (dimension,)
            p, the intercept's coordinate first if there is one.
        """
        p = real_array(direction, "direction")
        if self.dimension is not None and p.shape != (self.dimension,):
            raise InvalidInput(
                f"a direction needs {self.dimension} coordinates, intercept included; received "
                f"shape {p.shape}."
            )
        fixed, rest = (float(p[0]), p[1:]) if self.intercept else (0.0, p)
        high, low = self._reach(rest)
        size = abs(fixed) + max(abs(high), abs(low))
        return max(abs(fixed + high), abs(fixed + low)) + size * (_UP - 1.0)

    @property
    def inner_radius(self) -> float:
        """Bound g with ``support(p) >= g ||p||`` for every p, rounded down (claim R29)."""
        width, offset, anchors = self._spread()
        if len(anchors) > 1:
            return 0.0
        if not anchors:
            return width * (1.0 - 1e-12)
        return min(1.0 / anchors[0], width / (1.0 + anchors[0] * offset)) * (1.0 - 1e-12)

    def _project(self, rows: Array) -> Array:
        raise NotImplementedError

    def _reach(self, p: Array) -> tuple[float, float]:
        """Return the largest and smallest ``p'x`` over the free coordinates."""
        raise NotImplementedError

    def _spread(self) -> tuple[float, float, list[float]]:
        """Return least half-range, largest middle and vanishing ranges of ``p'x`` per ``||p||``."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def shrunk(rows: Array, radius: float, order: float) -> Array:
    """Scale rows towards zero to an l_p norm of at most the radius, without overflow."""
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    entry_scale = np.where(largest > 0.0, largest, 1.0)
    relative = rows / entry_scale
    norms = (np.abs(relative) ** order).sum(axis=1, keepdims=True) ** (1.0 / order)
    is_outside = norms > radius / entry_scale
    if not is_outside.any():
        return rows
    return np.where(is_outside, relative * (radius / norms), rows)


class Ball(Domain):
    """Rows of Euclidean norm at most ``radius``, intercept included (as :class:`Bounded`).

    Parameters
    ----------
    radius : float
        Above 1 with an intercept; only the covariates are scaled.
    intercept : bool

    Examples
    --------
    >>> dpfast.models.Ball(2.0).bind(2).radius
    2.0
    """

    needs_projection = False

    def __init__(self, radius: float, *, intercept: bool = False) -> None:
        self._radius = check_constant(radius, "radius", "the bound on the norm of a row")
        self.intercept = intercept = flag(intercept, "intercept")
        self.n_covariates = None
        if intercept and self._radius <= 1.0:
            raise InvalidInput(
                f"Ball({described(radius)}, intercept=True) leaves no room for covariates beside "
                "the intercept, whose value 1 counts in the norm of a row. Pass a radius above 1."
            )

    @property
    def radius(self) -> float:
        return self._radius

    @property
    def covariate_radius(self) -> float:
        """Radius left for the covariates."""
        r = self._radius
        return math.sqrt((r - 1.0) * (r + 1.0)) if self.intercept else r

    def _project(self, rows: Array) -> Array:
        return shrunk(rows, self.covariate_radius, 2.0)

    def _reach(self, p: Array) -> tuple[float, float]:
        high = self.covariate_radius * float(np.linalg.norm(p))
        return high, -high

    def _spread(self) -> tuple[float, float, list[float]]:
        return self.covariate_radius, 0.0, [1.0] * self.intercept

    def __repr__(self) -> str:
        return f"Ball({self._radius:.17g}{', intercept=True' if self.intercept else ''})"
