"""The box of parameters, and the coordinates the search works in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpfast.arguments import one_of, real_array
from dpfast.errors import InvalidInput

Array = NDArray[np.float64]

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
        self.lower, self.upper = corners[:, 0].copy(), corners[:, 1].copy()
        self.dimension = len(corners)
        self.units = units
        unit = units == "box"
        self._origin = self.lower if unit else np.zeros(self.dimension)
        self._width = self.upper - self.lower if unit else np.ones(self.dimension)

    @property
    def search_bounds(self) -> Array:
        """Bounds in the coordinates of the search, shape (d, 2)."""
        return np.column_stack((self.inside(self.lower), self.inside(self.upper)))

    def inside(self, theta: ArrayLike) -> Array:
        """Coordinates of the search of parameters (..., d)."""
        return np.asarray((real_array(theta, "theta") - self._origin) / self._width)

    def outside(self, point: ArrayLike) -> Array:
        """Parameters at coordinates of the search, inside the bounds to the last bit."""
        theta = self._origin + np.asarray(point, dtype=np.float64) * self._width
        return np.asarray(np.clip(theta, self.lower, self.upper))

    def project(self, point: Array) -> Array:
        """The nearest point of the box, in coordinates of the search (line 9 lacks this)."""
        low, high = self.search_bounds.T
        return np.asarray(np.clip(point, low, high))
