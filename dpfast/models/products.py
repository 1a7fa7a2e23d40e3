"""Domains of several columns: boxes, l_p balls, and intervals beside one-hot blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, check_constant, flag, real_array, real_number, whole_number
from dpfast.errors import InvalidInput, described
from dpfast.models.domains import Domain, shrunk

_UP = 1.0 + 2.0**-44


class Box(Domain):
    """Covariates between lows and highs, each on its own.

    Parameters
    ----------
    bound, highs : float or array-like of shape (q,)
        Largest absolute value; or, with ``highs``, the lows and the highs.
    n_covariates : int, optional
        Columns of X where the bounds are single numbers.
    intercept : bool

    Examples
    --------
    >>> dpfast.models.Box(1.0).bind(3).radius
    1.7320508075689756
    """

    def __init__(
        self,
        bound: ArrayLike,
        highs: ArrayLike | None = None,
        *,
        n_covariates: int | None = None,
        intercept: bool = False,
    ) -> None:
        if n_covariates is not None:
            n_covariates = whole_number(n_covariates, "n_covariates", 1, 10**6)
        first = real_array(bound, "bound")
        lows, high = (-first, first) if highs is None else (first, real_array(highs, "highs"))
        lows, high = np.broadcast_arrays(lows, high)
        if lows.ndim > 1 or not (np.isfinite(lows).all() and np.isfinite(high).all()):
            raise InvalidInput("bounds must be finite numbers or vectors of them, one per column.")
        if not (lows < high).all():
            raise InvalidInput(
                f"every low must be below its high; received {described(bound)} and "
                f"{described(highs)}. A bound on the absolute value must be positive."
            )
        if lows.ndim == 1 and n_covariates not in (None, len(lows)):
            raise InvalidInput(f"{len(lows)} bounds were given for {n_covariates} columns.")
        if lows.ndim == 0 and n_covariates is not None:
            lows, high = np.full(n_covariates, lows), np.full(n_covariates, high)
        self._lows, self._highs = lows.copy(), high.copy()
        self.n_covariates = len(lows) if lows.ndim else None
        self.intercept = intercept

    def bind(self, n_covariates: int) -> Domain:
        super().bind(n_covariates)
        if self.n_covariates is not None:
            return self
        return Box(self._lows, self._highs, n_covariates=n_covariates, intercept=self.intercept)

    def _columns(self, what: str) -> int:
        if self.n_covariates is None:
            raise InvalidInput(f"{described(self)} has no {what} before bind(n_covariates).")
        return self.n_covariates

    @property
    def radius(self) -> float:
        self._columns("radius")
        top = np.maximum(np.abs(self._lows), np.abs(self._highs))
        return math.hypot(1.0 if self.intercept else 0.0, *top.tolist()) * _UP

    def _project(self, rows: Array) -> Array:
        return np.asarray(np.clip(rows, self._lows, self._highs))

    def _reach(self, p: Array) -> tuple[float, float]:
        a, b = p * self._lows, p * self._highs
        size = float(np.maximum(np.abs(a), np.abs(b)).sum()) * (_UP - 1.0)
        return float(np.maximum(a, b).sum()) + size, float(np.minimum(a, b).sum()) - size

    def _spread(self) -> tuple[float, float, list[float]]:
        count = self._columns("inner radius")
        middle = np.broadcast_to(0.5 * (self._lows + self._highs), count)
        half = float((0.5 * (self._highs - self._lows)).min())
        return half, float(np.linalg.norm(middle)), [1.0] * self.intercept

    def __repr__(self) -> str:
        tail = f", n_covariates={self.n_covariates}" if self.n_covariates is not None else ""
        tail += ", intercept=True" if self.intercept else ""
        return f"Box({self._lows.tolist()}, {self._highs.tolist()}{tail})"


class LpBall(Domain):
    """Covariates with ``(sum |x_j|^p)^(1/p) <= radius``, p in [1, inf].

    The sets of section 3.2 of paper 3 (Asi, Duchi and Talwar 2025).  Rows outside are scaled
    towards the origin.

    Parameters
    ----------
    p, radius : float
        Of the covariates alone: the intercept is not counted.
    n_covariates : int, optional
    intercept : bool

    Examples
    --------
    >>> dpfast.models.LpBall(4.0, 2.0).bind(16).radius
    4.000000000000455
    """

    def __init__(
        self, p: float, radius: float, *, n_covariates: int | None = None, intercept: bool = False
    ) -> None:
        if n_covariates is not None:
            n_covariates = whole_number(n_covariates, "n_covariates", 1, 10**6)
        if not real_number(p, "p") >= 1.0:
            raise InvalidInput(f"p must be at least 1 (inf is allowed); received {described(p)}.")
        self.p = float(p)
        self.lp_radius = check_constant(radius, "radius", "the bound on the l_p norm of a row")
        self.n_covariates = n_covariates
        self.intercept = flag(intercept, "intercept")

    def bind(self, n_covariates: int) -> Domain:
        super().bind(n_covariates)
        return LpBall(self.p, self.lp_radius, n_covariates=n_covariates, intercept=self.intercept)

    def _columns(self, what: str) -> int:
        if self.n_covariates is None:
            raise InvalidInput(f"{described(self)} has no {what} before bind(n_covariates).")
        return self.n_covariates

    def _free_radius(self, q: int) -> float:
        """Bound the Euclidean norm of the covariates."""
        return self.lp_radius * max(1.0, math.pow(q, 0.5 - 1.0 / self.p)) * _UP

    @property
    def radius(self) -> float:
        free = self._free_radius(self._columns("radius") if self.p > 2.0 else 1)
        return math.hypot(1.0 if self.intercept else 0.0, free) * _UP

    def _project(self, rows: Array) -> Array:
        if math.isinf(self.p):
            return np.asarray(np.clip(rows, -self.lp_radius, self.lp_radius))
        return shrunk(rows, self.lp_radius, self.p)

    def _reach(self, p: Array) -> tuple[float, float]:
        # Hoelder's inequality: the dual norm
        dual = math.inf if self.p == 1.0 else 1.0 if math.isinf(self.p) else self.p / (self.p - 1.0)
        largest = float(np.abs(p).max(initial=0.0))
        if largest == 0.0 or not math.isfinite(largest):
            return largest, -largest
        high = self.lp_radius * largest * float(np.linalg.norm(p / largest, dual)) * _UP
        return high, -high

    def _spread(self) -> tuple[float, float, list[float]]:
        count = self._columns("inner radius") if self.p < 2.0 else 1
        width = self.lp_radius * math.pow(count, min(0.0, 0.5 - 1.0 / self.p))
        return width, 0.0, [1.0] * self.intercept

    def __repr__(self) -> str:
        tail = f", n_covariates={self.n_covariates}" if self.n_covariates is not None else ""
        tail += ", intercept=True" if self.intercept else ""
        return f"LpBall({self.p:.17g}, {self.lp_radius:.17g}{tail})"


class Interval:
    """Column with values in ``[low, high]``; values outside are moved to the nearer end.

    Parameters
    ----------
    low, high : float
        Public ends.

    Examples
    --------
    >>> dpfast.models.Product([dpfast.models.Interval(0.0, 1.0)]).project(np.array([[2.0]]))
    array([[1.]])
    """

    width = 1

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = real_number(low, "low"), real_number(high, "high")
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InvalidInput(
                f"an interval needs finite ends, low below high; received {described(low)} and "
                f"{described(high)}."
            )

    @property
    def points(self) -> Array:
        """Extreme points, one per row, shape (2, 1)."""
        return np.array([[self.low], [self.high]])

    @property
    def spread(self) -> tuple[float, float]:
        """Least half-range and largest middle of ``p'x``, per ``||p||``."""
        return 0.5 * (self.high - self.low), 0.5 * abs(self.high + self.low)

    def project(self, block: Array) -> Array:
        """Move values to the nearer end, shape (n, 1).

        Parameters
        ----------
        block : ndarray of shape (n, 1)
        """
        return np.asarray(np.clip(block, self.low, self.high))

    def __repr__(self) -> str:
        return f"Interval({self.low:.17g}, {self.high:.17g})"


class OneHot:
    """A one-hot block of ``levels`` columns: exactly one of them is 1, the others 0.

    A row is mapped to the level of its largest entry (the first of equal ones).  A reference level
    has no column; a row is mapped to it if no entry exceeds 1/2.

    Parameters
    ----------
    levels : int
        Number of columns.
    reference : bool
        Whether a further level is coded as zero in every column.

    Examples
    --------
    >>> dpfast.models.Product([dpfast.models.OneHot(3)]).project(np.array([[0.9, 0.2, 0.0]]))
    array([[1., 0., 0.]])
    """

    def __init__(self, levels: int, *, reference: bool = False) -> None:
        self.width = whole_number(levels, "levels", 1)
        self.reference = reference

    @property
    def points(self) -> Array:
        """Extreme points, one per row, shape (levels, levels); a last one for the reference."""
        eye = np.eye(self.width)
        return np.vstack([eye, np.zeros((1, self.width))]) if self.reference else eye

    @property
    def spread(self) -> tuple[float, float]:
        """Least half-range and largest middle, with a reference level; see :class:`Interval`."""
        return 0.5 / math.sqrt(self.width), 0.5

    def project(self, block: Array) -> Array:
        """Set a 1 at the largest entry of each row; none at the reference, shape (n, levels).

        Parameters
        ----------
        block : ndarray of shape (n, levels)
        """
        top = block.argmax(axis=1)
        rows = np.arange(len(block))
        coded = np.zeros(block.shape)
        coded[rows, top] = (block[rows, top] > 0.5) if self.reference else 1.0
        return coded

    def __repr__(self) -> str:
        return f"OneHot({self.width}{', reference=True' if self.reference else ''})"


class Product(Domain):
    """Independent intervals and one-hot blocks, in the order of the columns of X.

    Parameters
    ----------
    parts : sequence of Interval and OneHot
    intercept : bool
        Whether a row has a fixed first coordinate 1, which X does not contain.

    Examples
    --------
    >>> domain = dpfast.models.Product([dpfast.models.Interval(-1.0, 1.0), dpfast.models.OneHot(3)])
    >>> domain.project(np.array([[5.0, 0.0, 1.0, 0.0]]))
    array([[1., 0., 1., 0.]])
    """

    def __init__(self, parts: Sequence[Interval | OneHot], *, intercept: bool = False) -> None:
        self.parts = tuple(parts) if isinstance(parts, Sequence) else ()
        if not self.parts or not all(isinstance(p, Interval | OneHot) for p in self.parts):
            raise InvalidInput(
                "parts must be a non-empty sequence of Interval(low, high) and "
                f"OneHot(levels); received {described(parts)}."
            )
        self.intercept = intercept
        self.n_covariates = sum(part.width for part in self.parts)

    @property
    def radius(self) -> float:
        longest = [math.sqrt(float((p.points**2).sum(axis=1).max())) for p in self.parts]
        return math.hypot(1.0 if self.intercept else 0.0, *longest) * _UP

    def _project(self, rows: Array) -> Array:
        out = np.empty(rows.shape)
        start = 0
        for part in self.parts:
            stop = start + part.width
            out[:, start:stop] = part.project(rows[:, start:stop])
            start = stop
        return out

    def _reach(self, p: Array) -> tuple[float, float]:
        high = low = size = 0.0
        start = 0
        for part in self.parts:
            values = part.points @ p[start : start + part.width]
            high, low = high + float(values.max()), low + float(values.min())
            size += float(np.abs(values).max())
            start += part.width
        slack = size * (_UP - 1.0)
        return high + slack, low - slack

    def _spread(self) -> tuple[float, float, list[float]]:
        anchors = [1.0] * self.intercept
        width, centres = math.inf, [0.0]
        for part in self.parts:
            if isinstance(part, OneHot) and not part.reference:
                anchors.append(math.sqrt(part.width))
                continue
            half, middle = part.spread
            width = min(width, half)
            centres.append(middle)
        return width, math.hypot(*centres), anchors

    def __repr__(self) -> str:
        tail = ", intercept=True" if self.intercept else ""
        return f"Product({list(self.parts)!r}{tail})"
