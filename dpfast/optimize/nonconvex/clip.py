"""Where gradients are clipped: where what is taken away costs no more than the noise that is saved.

Declared constants are bounds on the worst record; most gradients are far shorter, and noise in
proportion to the worst is wasted on them.  A histogram of the lengths on a public ladder costs a
small part of the budget (claim K7), and the clip is chosen by it.

A clip c takes from the mean at most ``E (||g|| - c)_+``, which is an area under the shares of
longer gradients, and that only if all of them point one way.  A part of it, ``ALIGNED``, is set
against the noise that all of the budget leaves in a mean of gradients clipped at c: the clip has
the smallest sum of squares.  So it falls to none that costs more than it saves, and with n and the
budget it goes to the longest gradient that is seen, and the excess to that without a clip.

Shares count with one standard deviation of their noise, up to the longest gradient seen at any
time: where a path makes most gradients short, a few that call it back may be too few to be seen,
and a clip that fell with the others would drive it away for good.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import GradientCurator
from dpfast.optimize.nonconvex.descent import LEAST_RHO, noise_for

Array = NDArray[np.float64]

#: Parts of the budget after which lengths are released again.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)

#: Part of the budget that one release of lengths gets.
SHARE = 0.005

#: Standard deviations of a share that make a gradient seen: of 32 sums of cells at eight times none
#: is so by noise in 997 of 1,000 runs, for what was seen once is never forgotten.
SEEN = 4.0

#: Part of the largest possible harm that is set against the noise: gradients rarely point one way.
ALIGNED = 0.1

#: A declared bound that exceeds every clip of a run by this factor is worth a warning.
FAR_TOO_LARGE = 1000.0

#: Rungs of the ladder, the factor between them, and clips that are tried from each to the next.
RUNGS, FACTOR, BETWEEN = 32, math.sqrt(2.0), 16


class PrivateClip:
    """The clip of a run, and what it is released for."""

    def __init__(
        self, curator: GradientCurator, total: float, asks: bool, given: float | None = None
    ) -> None:
        self._curator, self._total = curator, total
        bound, n = curator.lipschitz, curator.n
        self.value = self.longest = bound if given is None else min(given, bound)
        self.path: list[tuple[float, float]] = []
        self._edges = bound * FACTOR ** -np.arange(RUNGS - 1.0, -1.0, -1.0)
        self._price = SHARE * total
        self._noise = 1.0 / (n * math.sqrt(max(self._price, LEAST_RHO)))
        # by the middle of the ladder at the latest, all gradients together would be seen
        readable = SEEN * self._noise * math.sqrt(0.25 * RUNGS) <= 1.0
        readable = readable and self._price >= LEAST_RHO
        self._asks = asks and given is None and curator.can_clip and readable
        self._next = 0

    def renew(self, theta: Array, used: float) -> float:
        """Release lengths at ``theta`` and choose again if it is time; returns what it cost."""
        if not self._asks or self._next >= len(RENEWALS):
            return 0.0
        if used < RENEWALS[self._next] * self._total or self._price > self._curator.remaining:
            return 0.0
        while self._next < len(RENEWALS) and used >= RENEWALS[self._next] * self._total:
            self._next += 1
        self._follow(self._curator.gradient_norm_histogram(theta, self._edges, self._price).value)
        self.path.append((used, self.value))
        return self._price

    def _follow(self, shares: Array) -> None:
        """Choose the clip by the shares of gradients in each cell of the ladder."""
        # of the gradients of each cell and of longer ones, and the noise of that sum
        cells = np.arange(RUNGS, 0.0, -1.0)
        beyond = np.cumsum(shares[::-1])[::-1]
        doubt = self._noise * np.sqrt(cells)
        # that of all is known to be one: without it, a sum of many cells would be too noisy
        part = cells / RUNGS
        seen = beyond + part * (1.0 - beyond[0]) > SEEN * doubt * np.sqrt(1.0 - part)
        longest = float(self._edges[np.flatnonzero(seen)[-1]])
        self.longest = max(self.longest, longest) if self.path else longest
        upper = np.maximum(beyond, 0.0) + doubt
        upper = np.minimum(np.maximum.accumulate(upper[::-1])[::-1], 1.0)
        steps = np.diff(np.minimum(self._edges, self.longest), append=self.longest)
        upper = np.append(upper[1:], 0.0)  # of those that are longer than each rung
        harm = np.cumsum((upper * steps)[::-1])[::-1]
        places = np.arange((RUNGS - 1.0) * BETWEEN + 1.0) / BETWEEN
        clips = self._edges[-1] * FACTOR ** (places - (RUNGS - 1.0))
        curator = self._curator
        noise = math.sqrt(curator.dimension) * noise_for(1.0, curator.n, self._total)
        bias = ALIGNED * np.interp(clips, self._edges, harm) / noise
        self.value = float(clips[np.argmin(clips**2 + bias**2)])

    def remarks(self) -> list[str]:
        """What the lengths say about the declared bound."""
        longest = max((value for _, value in self.path), default=math.inf)
        if not longest * FAR_TOO_LARGE <= self._curator.lipschitz:
            return []
        return [
            f"most of the released gradients are shorter than {longest:.3g} all along, and "
            f"lipschitz={self._curator.lipschitz:g} was declared: a bound that is more than "
            f"{FAR_TOO_LARGE:g} times too large costs accuracy where nothing is clipped below it."
        ]
