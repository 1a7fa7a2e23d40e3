"""Where gradients are clipped: a quantile of their lengths, released and renewed as a run proceeds.

Declared constants are bounds on the worst record; most gradients are far shorter, and noise in
proportion to the worst is wasted on them.  A histogram of the lengths on a public ladder costs a
small part of the budget (claim K7); the clip is the rung below which 80% of the gradients lie,
read from above, so that noise leaves it too long rather than too short.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.descent import LEAST_RHO

__all__ = ["FAR_TOO_LARGE", "Clip"]

Array = NDArray[np.float64]

#: Parts of the budget after which lengths are released again.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)

#: Part of the budget that one release of lengths gets at most.
SHARE = 0.01

#: Noise of a share that is fine enough, and beyond which nothing could be read.
FINE, COARSE = 0.02, 0.1

#: Rungs of the ladder, and the factor between them.
RUNGS, FACTOR = 32, math.sqrt(2.0)

#: A declared bound that exceeds every clip of a run by this factor is worth a warning.
FAR_TOO_LARGE = 1000.0


class Clip:
    """The clip of a run, and what it is released for.

    Parameters
    ----------
    curator : GradientCurator
    total : float
        rho of the run.
    quantile : float or None
        None: the declared bound, always.
    given : float or None
        A public clip, which is not renewed.

    Attributes
    ----------
    value : float
        The clip now; at most the declared bound.
    path : list of (float, float)
        Budget spent before each release, and the clip it gave.
    """

    def __init__(
        self,
        curator: GradientCurator,
        total: float,
        quantile: float | None,
        given: float | None = None,
    ) -> None:
        self._curator, self._total, self._quantile = curator, total, quantile
        bound = curator.lipschitz
        self.value = bound if given is None else min(given, bound)
        self.path: list[tuple[float, float]] = []
        self._edges = bound * FACTOR ** -np.arange(RUNGS - 1.0, -1.0, -1.0)
        n = curator.n
        self._price = min(SHARE * total, 1.0 / (n * FINE) ** 2)
        self._noise = 1.0 / (n * math.sqrt(max(self._price, LEAST_RHO)))
        readable = self._price >= LEAST_RHO and self._noise <= COARSE
        self._asks = quantile is not None and given is None and curator.can_clip and readable
        self._next = 0

    def renew(self, theta: Array, used: float) -> float:
        """Release lengths at ``theta`` if it is time; returns what it cost."""
        if not self._asks or self._next >= len(RENEWALS):
            return 0.0
        if used < RENEWALS[self._next] * self._total or self._price > self._curator.remaining:
            return 0.0
        while self._next < len(RENEWALS) and used >= RENEWALS[self._next] * self._total:
            self._next += 1
        shares = self._curator.gradient_lengths(theta, self._edges, self._price).value
        self.value = self._quantile_of(shares)
        self.path.append((used, self.value))
        return self._price

    def _quantile_of(self, shares: Array) -> float:
        assert self._quantile is not None
        rung, above = len(shares) - 1, 0.0
        while rung > 0:
            above += float(shares[rung])
            # one standard deviation of what was added up: so much noise is no record
            slack = self._noise * math.sqrt(len(shares) - rung)
            if above > 1.0 - self._quantile + slack:
                break
            rung -= 1
        return float(self._edges[rung])

    def remark(self) -> str:
        """What the lengths say about the declared bound, or nothing."""
        longest = max((value for _, value in self.path), default=math.inf)
        if not longest * FAR_TOO_LARGE <= self._curator.lipschitz:
            return ""
        return (
            f"four fifths of the released gradients are shorter than {longest:.3g} all along, and "
            f"lipschitz={self._curator.lipschitz:g} was declared: a bound that is more than "
            f"{FAR_TOO_LARGE:g} times too large costs accuracy where nothing is clipped below it."
        )
