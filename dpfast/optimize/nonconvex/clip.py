"""Where gradients are clipped: a quantile of their lengths, released and renewed as a run proceeds.

Declared constants are bounds on the worst record; most gradients are far shorter, and noise in
proportion to the worst is wasted on them.  A histogram of the lengths on a public ladder costs a
small part of the budget (claim K7); the clip is the rung below which three quarters of them lie,
read from above, so that noise leaves it too long rather than too short.

What such a clip takes away has a direction where the gradients' lengths and directions go together,
and then no budget finds the minimum.  So it is asked for, once the path is still: the mean of what
gradients have between this clip and the length that 98% of them stay below, whose sensitivity is
the difference of the two (claim K8).  Where that is more than noise, and more than the noise that
the longer clip brings, the clip is raised.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.optimize.nonconvex.descent import LEAST_RHO, noise_for
from dpfast.optimize.nonconvex.tail import Tail

__all__ = ["FAR_TOO_LARGE", "Clip"]

Array = NDArray[np.float64]

#: Parts of the budget after which lengths are released again.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)

#: Part of the budget that one release of lengths gets at most.
SHARE = 0.01

#: Noise of a share that is fine enough, and beyond which nothing could be read.
FINE, COARSE = 0.005, 0.1

#: Parts of the budget after which a still path asks what its clip takes away; a ``SHARE`` each.
QUESTIONS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5)

#: Share of the gradients that a raised clip leaves as they are.
NEARLY_ALL = 0.98

#: Standard deviations of a squared length of noise that a clip's bias must exceed.
CERTAIN = 2.5

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
    raised : float or None
        Budget spent when what the clip took away was found to matter.
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
        self.raised: float | None = None
        self._high = self.value
        self._next_question = 0
        #: clips, the mean of what lies between them, and of how many answers
        self._between: tuple[float, float, Array, int] | None = None
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
        assert self._quantile is not None
        shares = self._curator.gradient_lengths(theta, self._edges, self._price).value
        self.value, _ = self._quantile_of(shares, self._quantile)
        _, self._high = self._quantile_of(shares, max(NEARLY_ALL, self._quantile))
        if self.raised is not None:
            self.value = max(self.value, self._high)
        self.path.append((used, self.value))
        return self._price

    def question(self, theta: Array, used: float, tail: Tail) -> float:
        """Ask what the clip takes away if it is time, and raise it if that matters; the cost."""
        price = SHARE * self._total
        if not self._asks or self.raised is not None or self._next_question >= len(QUESTIONS):
            return 0.0
        if used < QUESTIONS[self._next_question] * self._total or price > self._curator.remaining:
            return 0.0
        self._next_question += 1
        part = self.value / self._curator.lipschitz
        if not tail.still(self._total, part) or price < LEAST_RHO:
            return 0.0
        before = self._between
        if before is None or before[0] != self.value:
            before = (self.value, self._high, np.zeros_like(theta), 0)
        low, high, mean, count = before
        if not high > low:
            return 0.0
        found = self._curator.gradient_remainder(theta, price, low, high).value
        mean, count = (count * mean + found) / (count + 1), count + 1
        self._between = (low, high, mean, count)
        if self._matters(low, high, mean, price * count, self._total - used - price):
            self.value, self.raised = high, used
            tail.restart()
        return price

    def _matters(self, low: float, high: float, mean: Array, paid: float, left: float) -> bool:
        """Whether a clip's bias is certain, and more than the noise of the longer clip."""
        n, d = self._curator.n, len(mean)
        noise = noise_for(high - low, n, paid)
        length = public_length(mean)
        bias = length * length - d * noise * noise
        long, short = noise_for(high, n, left), noise_for(low, n, left)
        dearer = d * (long * long - short * short)
        return bias > max(dearer, CERTAIN * math.sqrt(2.0 * d) * noise * noise)

    def _quantile_of(self, shares: Array, quantile: float) -> tuple[float, float]:
        """The rung above a quantile, and where between it and the next lower one that lies."""
        rung, above, allowed = len(shares) - 1, 0.0, 0.0
        while rung > 0:
            # one standard deviation of what was added up: so much noise is no record
            allowed = 1.0 - quantile + self._noise * math.sqrt(len(shares) - rung) - above
            share = float(shares[rung])
            if share > allowed:
                break
            above += share
            rung -= 1
        edge = float(self._edges[rung])
        if rung == 0:
            return edge, edge
        return edge, edge * FACTOR ** -min(max(allowed / share, 0.0), 1.0)

    def remark(self) -> str:
        """What the lengths say about the declared bound, or nothing."""
        longest = max((value for _, value in self.path), default=math.inf)
        if not longest * FAR_TOO_LARGE <= self._curator.lipschitz:
            return ""
        return (
            f"most of the released gradients are shorter than {longest:.3g} all along, and "
            f"lipschitz={self._curator.lipschitz:g} was declared: a bound that is more than "
            f"{FAR_TOO_LARGE:g} times too large costs accuracy where nothing is clipped below it."
        )
