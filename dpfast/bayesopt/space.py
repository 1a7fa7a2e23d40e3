"""Search space: the declared parameters and the box of columns that represents them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpfast.arguments import Array, one_of, real_array
from dpfast.bayesopt.parameters import Parameter, Real
from dpfast.errors import InvalidInput, described

#: Most evaluations of the remaining uncertainty while a batch is rounded.
MOST_TRIALS = 1000

#: Search coordinates: sides of the box have length one, or the caller's units.
UNITS = ("box", "theta")


class Box:
    """Public bounds of the parameters."""

    def __init__(self, bounds: ArrayLike, units: str = "box") -> None:
        corners = np.array(real_array(bounds, "bounds"))
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) == 0:
            raise InvalidInput(
                "bounds must have shape (d, 2), one (lower, upper) pair per parameter; received "
                f"shape {corners.shape}."
            )
        if not (np.isfinite(corners).all() and (corners[:, 0] < corners[:, 1]).all()):
            raise InvalidInput("every lower bound must be finite and below its finite upper bound.")
        with np.errstate(all="ignore"):
            if not np.isfinite(corners[:, 1] - corners[:, 0]).all():
                raise InvalidInput("the length of every side of the box must be finite.")
        units = one_of(units, UNITS, "units")
        self.lower = corners[:, 0].copy()
        self.upper = corners[:, 1].copy()
        self.dimension = len(corners)
        self.units = units
        unit_sides = units == "box"
        self._origin = self.lower if unit_sides else np.zeros(self.dimension)
        self._width = self.upper - self.lower if unit_sides else np.ones(self.dimension)

    @property
    def search_bounds(self) -> Array:
        """Bounds in search coordinates, shape (d, 2)."""
        return np.column_stack((self.to_unit(self.lower), self.to_unit(self.upper)))

    def to_unit(self, theta: ArrayLike) -> Array:
        """Convert parameters (..., d) to search coordinates."""
        return np.asarray((real_array(theta, "theta") - self._origin) / self._width)

    def from_unit(self, point: ArrayLike) -> Array:
        """Convert search coordinates to parameters, inside the bounds to the last bit."""
        theta = self._origin + np.asarray(point, dtype=np.float64) * self._width
        return np.asarray(np.clip(theta, self.lower, self.upper))

    def project(self, point: Array) -> Array:
        """Project onto the box, in search coordinates (line 9 lacks this)."""
        low, high = self.search_bounds.T
        return np.asarray(np.clip(point, low, high))


def as_parameter(bounds: Any, what: str) -> Parameter:
    """Return a parameter, made of ``(low, high)`` or ``(low, high, "log")`` where needed."""
    if isinstance(bounds, Parameter):
        return bounds
    if isinstance(bounds, (list, tuple)) and len(bounds) in (2, 3):
        if len(bounds) == 2:
            return Real(*bounds)
        if type(bounds[2]) is str and bounds[2] == "log":
            return Real(bounds[0], bounds[1], log=True)
    raise InvalidInput(
        f"{what} must be dpfast.bayesopt.Real(low, high), Integer(low, high), "
        f"Categorical(choices), or (low, high) or (low, high, 'log'); received {described(bounds)}."
    )


class Space:
    """Declared parameters, and the box of the columns that represent them."""

    def __init__(self, bounds: Any, units: str = "box") -> None:
        self._names: tuple[str, ...] | None = None
        self._parameters: list[Parameter] | None = None
        if isinstance(bounds, Mapping):
            self._names = tuple(bounds)
            if not self._names or not all(type(name) is str for name in self._names):
                raise InvalidInput(
                    "a mapping of bounds must have parameter names as keys; received "
                    f"{described(bounds)}."
                )
            self._parameters = [
                as_parameter(bounds[name], f"bounds[{described(name, text=True)}]")
                for name in self._names
            ]
        elif isinstance(bounds, (list, tuple)) and any(isinstance(p, Parameter) for p in bounds):
            self._parameters = [as_parameter(p, f"bounds[{k}]") for k, p in enumerate(bounds)]
        if self._parameters is None:
            self.box = Box(bounds, units)
            return
        columns = np.concatenate([parameter.column_bounds for parameter in self._parameters])
        self.box = Box(columns, units)
        if units != "box":
            raise InvalidInput(
                'units must be "box" where parameters have types or names; received '
                f"{described(units, text=True)}."
            )

    @property
    def rounds(self) -> bool:
        """True if a parameter needs rounding."""
        return any(parameter._spacing() for parameter in self._parameters or [])

    def default_length_scales(self, length: float) -> float | Array:
        """Return default length-scales, at least the relative distance of neighbouring values."""
        if not self.rounds:
            return length
        default_scales = np.full(self.box.dimension, length)
        for parameter, at in self._blocks():
            default_scales[at] = max(length, parameter._spacing())
        return default_scales

    def start(self, initial: Any) -> Array:
        """Return the start in search coordinates, by default the middle."""
        if self._parameters is None:
            return self._start_of_array(initial)
        if initial is None:
            theta = np.concatenate([parameter._middle() for parameter in self._parameters])
        else:
            pairs = zip(self._parameters, self._values_of(initial), strict=True)
            theta = np.concatenate([parameter._columns(value) for parameter, value in pairs])
        return self.box.to_unit(theta)

    def _start_of_array(self, initial: Any) -> Array:
        box = self.box
        if initial is None:
            return box.to_unit(0.5 * box.lower + 0.5 * box.upper)
        theta = np.array(real_array(initial, "start"))
        if theta.shape != (box.dimension,) or not np.isfinite(theta).all():
            raise InvalidInput(
                f"start must be {box.dimension} finite public numbers; received shape "
                f"{theta.shape}."
            )
        if not ((theta >= box.lower) & (theta <= box.upper)).all():
            raise InvalidInput("start must lie within the bounds.")
        return box.to_unit(theta)

    def _values_of(self, requested: Any) -> list[Any]:
        count = len(self._parameters or [])
        if self._names is None:
            if isinstance(requested, (list, tuple)) and len(requested) == count:
                return list(requested)
            expected = f"a list of {count} values, one per parameter"
        else:
            if isinstance(requested, Mapping) and {*requested} == {*self._names}:
                return [requested[name] for name in self._names]
            expected = f"a mapping of {', '.join(self._names)} to values"
        raise InvalidInput(f"start must be {expected}; received {described(requested)}.")

    def parameters(self, theta: Array) -> Any:
        """Convert columns to the caller's form: an array, a list or a dict."""
        if self._parameters is None:
            return theta
        values = [parameter._value(theta[at]) for parameter, at in self._blocks()]
        return values if self._names is None else dict(zip(self._names, values, strict=True))

    def all_parameters(self, points: Array) -> Any:
        """Convert several points, shape (b, d), to an array or a list."""
        if self._parameters is None:
            return points
        return [self.parameters(theta) for theta in points]

    def project(self, point: Array) -> Array:
        """Return the nearest point that the search may use, in search coordinates."""
        if not self.rounds:
            return self.box.project(point)
        theta = self.box.from_unit(point)  # weights of choices are the same in both units
        for parameter, at in self._blocks():
            theta[at] = parameter._project(theta[at])
        return self.box.project(self.box.to_unit(theta))

    def snap(self, point: Array) -> Array:
        """Return the nearest point that can be evaluated, in search coordinates."""
        if not self.rounds:
            return point
        theta = self.box.from_unit(point)
        for parameter, at in self._blocks():
            theta[at] = parameter._columns(parameter._value(theta[at]))
        return self.box.to_unit(theta)

    def snap_batch(self, points: Array, point: Array, unknown: Callable[[Array], float]) -> Array:
        """Round a batch to points that can be evaluated and inform about a slope."""
        if not self.rounds:
            return points
        batch = np.array([self.snap(row) for row in points])
        theta = self.box.from_unit(point)
        lowest, trials = unknown(batch), 0
        for parameter, at in self._blocks():
            options = [self._inside(columns, at) for columns in parameter._neighbours(theta[at])]
            for row in batch:
                for option in options:
                    if trials >= MOST_TRIALS or np.array_equal(row[at], option):
                        continue
                    before, row[at] = row[at].copy(), option
                    trial, trials = unknown(batch), trials + 1
                    if trial < lowest:
                        lowest = trial
                    else:
                        row[at] = before
        return batch

    def spread(self, count: int, first: Array | None, width: float) -> Array:
        """Return points that fill the box, or a part of this width around the first point."""
        low, high = self.box.search_bounds.T
        offsets = width * (spread_unit(count, self.box.dimension) - 0.5) * (high - low)
        points = 0.5 * (low + high) + offsets
        if first is not None:
            # the part lies in the box: as many points remain at its faces
            half = 0.5 * width * (high - low)
            middle = np.clip(first, low + half, high - half)
            points = np.vstack((first, middle + offsets[: count - 1]))
        rounded = np.array([self.snap(self.box.project(point)) for point in points])
        _, unique_rows = np.unique(rounded, axis=0, return_index=True)
        return np.asarray(rounded[np.sort(unique_rows)])

    def _inside(self, columns: Array, at: slice) -> Array:
        theta = self.box.lower.copy()
        theta[at] = columns
        return self.box.to_unit(theta)[at]

    def _blocks(self) -> Iterator[tuple[Parameter, slice]]:
        """Iterate over parameters and their columns."""
        first = 0
        for parameter in self._parameters or []:
            last = first + len(parameter.column_bounds)
            yield parameter, slice(first, last)
            first = last

    def __repr__(self) -> str:
        """List every public constant of typed parameters; empty for an array."""
        if self._parameters is None:
            return ""
        if self._names is None:
            return repr(self._parameters)
        return repr(dict(zip(self._names, self._parameters, strict=True)))


def spread_unit(count: int, dimension: int) -> Array:
    """Return the low-discrepancy R-sequence in the unit box (Roberts 2018).

    Coordinates are multiples of powers of a generalised golden ratio.
    """
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (dimension + 1.0))
    steps = root ** -np.arange(1.0, dimension + 1.0)
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0)
