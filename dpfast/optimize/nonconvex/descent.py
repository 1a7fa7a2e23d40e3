"""Parts shared by the algorithms for non-convex objectives: paths, prices, checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpfast.arguments import whole_number

Array = NDArray[np.float64]

#: Smallest zCDP cost of a release.  Less would not pay for its rounding to a grid, and its noise
#: would hide every gradient.
MIN_RHO = 1e-10


class Path:
    """Released points and norms of an algorithm; everything in it was paid for."""

    def __init__(self, start: Array) -> None:
        self.iterates = [start]
        self.norms = [math.nan]
        self.theta = start
        self.rounds: list[dict[str, Any]] = []
        self.remarks: list[str] = []
        self.longest = math.inf
        self.scales: Array | None = None

    def move(self, theta: Array) -> None:
        """Append a point, which becomes the answer."""
        self.iterates.append(theta)
        self.norms.append(math.nan)
        self.theta = theta

    def saw(self, norm: float) -> None:
        """Note the noisy norm at the last point."""
        self.norms[-1] = norm

    def append(self, path: Path) -> None:
        """Go on with another path, from its start to its answer."""
        self.iterates += path.iterates
        self.norms += path.norms
        self.rounds += path.rounds
        self.remarks += path.remarks
        self.theta = path.theta
        self.longest, self.scales = path.longest, path.scales


def noise_for(lipschitz: float, n: int, rho: float) -> float:
    """Return the noise per coordinate of a mean gradient for ``rho`` (up to rounding slack)."""
    return 2.0 * lipschitz / n / math.sqrt(2.0 * rho) if rho > 0.0 else math.inf


def price_of(lipschitz: float, n: int, noise: float) -> float:
    """Return the cost in zCDP of a mean gradient with this noise (up to rounding slack)."""
    ratio = 2.0 * lipschitz / n / noise
    return 0.5 * ratio * ratio


def checked_count(value: object, name: str, largest: int = 100_000) -> int:
    """Check a public number that must be whole and positive."""
    return whole_number(value, name, 1, largest)
