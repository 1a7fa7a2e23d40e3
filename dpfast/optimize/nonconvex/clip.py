"""Where gradients are clipped: at a quantile of their lengths at the start, until asked again.

Most gradients are far shorter than declared constants, and noise in proportion to the worst is
wasted on them.  A histogram of lengths on a public ladder costs a small part of the budget (claim
K7); the clip is the rung below which three quarters lie, read from above: too long rather than too
short.

Where lengths and directions go together what a clip takes away has a direction, and no budget finds
the minimum.  So a clip follows nothing by itself: the mean of what gradients have between it and a
longer one is asked for, whose sensitivity is the difference of the two (claim K8).  The four clips
are the one in use, the length that 98% stay below, the longest that was seen, and the declared
bound; while the path clearly moves a question is as fine as its gradient asks for, otherwise it has
a share of the budget, and answers are averaged.  Where harm is certain the next clip is used, a
shorter one where it is certain that it does none; what cannot be told from noise changes nothing,
but that the declared bound gives way to the longest that was seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.curator.nonconvex.gradients import GradientCurator, public_length
from dpfast.optimize.nonconvex.descent import LEAST_RHO, noise_for, price_of
from dpfast.optimize.nonconvex.tail import Tail

Array = NDArray[np.float64]

#: Parts of the budget after which lengths are released again.
RENEWALS = (0.0, 0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8)

#: Part of the budget that one release of lengths gets at most, and one question of a still path.
SHARE = 0.01

#: Noise of a share that is fine enough, and beyond which nothing could be read.
FINE, COARSE = 0.005, 0.1

#: Part of its ``SHARE`` that a release of lengths gets however fine it is: with the budget, what is
#: seen of the longest gradients grows.
ANYWAY = 0.1

#: Steps from one question of a moving path to the next.
EVERY = 10

#: What these questions may cost: a part of the budget, and of what was spent.
AT_ONCE, BY_AND_BY = 0.01, 0.03

#: Parts of the budget: all questions of a still path, and from one of them to the next.
STILL, APART = 0.08, 0.05

#: Share of the gradients that the second clip leaves as they are.
NEARLY_ALL = 0.98

#: Standard deviations of a share that make a gradient seen.
SEEN = 3.0

#: Standard deviations of a squared length of noise that a clip's bias must exceed.
CERTAIN = 2.5

#: Part of a moving path's squared gradient: half of its length turns it by 30 degrees.
MISLED = 0.25

#: Where gradients are shorter by this factor, what was asked before is about other ones.
ELSEWHERE = 4.0

#: A declared bound that exceeds every clip of a run by this factor is worth a warning.
FAR_TOO_LARGE = 1000.0

#: Rungs of the ladder, and the factor between them.
RUNGS, FACTOR = 32, math.sqrt(2.0)

#: Clips, from the quantile to the declared bound.
LEVELS = 4


class _Motion(NamedTuple):
    """Of a path that clearly moves: its gradient, that one's square, and what of it is certain."""

    drift: Array
    square: float
    sure: float


class _Verdict(NamedTuple):
    """Squared lengths: what a clip takes away, its uncertainty, and the noise it saves."""

    bias: float
    doubt: float
    saved: float


class PrivateClip:
    """The clip of a run, and what it is released for."""

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
        self.longest = bound
        #: clips of which each leaves more gradients as they are, and which of them is in use
        self._levels, self._level = np.full(LEVELS, self.value), 0
        #: from each of them to the next: the mean of what lies between, and what it cost
        self._between: list[tuple[Array, float] | None] = [None] * (LEVELS - 1)
        self._moving, self._still = AT_ONCE * total, STILL * total
        self._raised_at = 0.0
        self._steps, self._averages = 0, False
        self._next_share = APART * total
        self._edges = bound * FACTOR ** -np.arange(RUNGS - 1.0, -1.0, -1.0)
        n = curator.n
        fine = min(SHARE * total, 1.0 / (n * FINE) ** 2)
        self._price = max(fine, ANYWAY * SHARE * total)
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
        self._follow(shares)
        self.path.append((used, self.value))
        return self._price

    def _follow(self, shares: Array) -> None:
        """New levels from new lengths, and none below the clip in use takes its place unasked."""
        assert self._quantile is not None
        found = [
            self._quantile_of(shares, self._quantile)[0],
            self._quantile_of(shares, max(NEARLY_ALL, self._quantile), SEEN)[1],
            self._quantile_of(shares, 1.0, SEEN)[0],
            self._curator.lipschitz,
        ]
        levels = np.maximum.accumulate(found)
        if self.path:
            # it replaces the shortest that is as long, or the longest that was seen
            self._level = int(np.searchsorted(levels, self.value))
            if self.value < levels[-1]:
                self._level = min(self._level, LEVELS - 2)
            levels[self._level] = self.value
        for i in range(LEVELS - 1):
            if not np.array_equal(levels[i : i + 2], self._levels[i : i + 2]):
                self._between[i] = None
        self._levels, self._shares = levels, shares
        self.value = float(levels[self._level])
        self.longest = max(self.longest, float(levels[2])) if self.path else float(levels[2])

    def question(self, theta: Array, used: float, tail: Tail) -> float:
        """Ask what the clip takes away if it is time, and choose the clip again; the cost."""
        self._steps += 1
        if not self._asks or not tail.steps or self._steps <= EVERY:
            return 0.0
        motion = self._motion(tail)
        steps = [i for i in range(LEVELS - 1) if self._could_matter(i)]
        prices = self._fine_prices(steps, motion, used)
        averages = not prices
        if averages:
            prices = self._share_prices(steps, used)
        if not prices:
            return 0.0
        averages = averages and motion is None
        if not (averages and self._averages):
            self._between = [None] * (LEVELS - 1)
        self._steps, self._averages = 0, averages
        for i, price in prices.items():
            low, high = float(self._levels[i]), float(self._levels[i + 1])
            found, paid = self._curator.gradient_remainder(theta, price, low, high).value, price
            before = self._between[i]
            if before is not None:
                paid = before[1] + price
                found = (before[1] * before[0] + price * found) / paid
            self._between[i] = (found, paid)
        cost = math.fsum(prices.values())
        level = self._best(self._total - used - cost, motion)
        if level > self._level:
            self.raised, self._raised_at = used, float(self._levels[0])
            tail.restart()
        if not level:
            self.raised = None
        self._level, self.value = level, float(self._levels[level])
        return cost

    def _motion(self, tail: Tail) -> _Motion | None:
        """What the path moves with, or None where that may be noise."""
        if tail.still(self._total, self.value / self._curator.lipschitz):
            return None
        drift, noise = tail.drift(EVERY)
        d, length = len(drift), public_length(drift)
        square = length * length - d * noise * noise
        sure = square - _doubt(d) * noise * noise
        return _Motion(drift, square, sure) if 0.0 < sure < math.inf else None

    def _could_matter(self, i: int) -> bool:
        """Whether so many gradients may be longer that a share of the budget could tell."""
        low, high = float(self._levels[i]), float(self._levels[i + 1])
        if not high > low:
            return False
        beyond = self._edges > low
        doubt = 2.0 * self._noise * math.sqrt(float(beyond.sum()))
        share = float(self._shares[beyond].sum()) + doubt
        noise = noise_for(1.0, self._curator.n, SHARE * self._total)
        return share > noise * math.sqrt(_doubt(self._curator.dimension))

    def _fine_prices(
        self, steps: list[int], motion: _Motion | None, used: float
    ) -> dict[int, float]:
        """Of the next steps that can be asked about as finely as the gradient needs."""
        prices: dict[int, float] = {}
        if motion is None:
            return prices
        d, n = self._curator.dimension, self._curator.n
        afford = 0.5 * min(self._moving + BY_AND_BY * used, self._curator.remaining)
        for i in steps:
            low, high = float(self._levels[i]), float(self._levels[i + 1])
            # half of the harm that matters is the uncertainty: with all of it nothing would be told
            allowed = 0.5 * MISLED * motion.square / _doubt(d, high / self.value)
            price = max(price_of(high - low, n, math.sqrt(allowed)), LEAST_RHO)
            if price > afford:
                break
            prices[i], afford = price, afford - price
        if not prices or min(prices) > self._level:
            return {}
        self._moving -= math.fsum(prices.values())
        return prices

    def _share_prices(self, steps: list[int], used: float) -> dict[int, float]:
        """A share of the budget for what the clip in use takes away, half of it for each other."""
        if not steps or used < self._next_share:
            return {}
        here = max((i for i in steps if i <= self._level), default=steps[0])
        share = SHARE * self._total
        prices = {i: share if i == here else 0.5 * share for i in steps}
        cost = math.fsum(prices.values())
        if cost > min(self._still, 0.5 * self._curator.remaining) or 0.5 * share < LEAST_RHO:
            return {}
        self._still -= cost
        self._next_share = used + APART * self._total
        return prices

    def _best(self, left: float, motion: _Motion | None) -> int:
        """The clip to use: a shorter one that certainly does no harm, or a longer one."""
        misled, sure = (0.0, 0.0) if motion is None else (motion.square, motion.sure)
        # what was seen of gradients that were far longer says nothing about these
        elsewhere = motion is None and self._levels[0] * ELSEWHERE < self._raised_at
        for level in range(self._level):
            bias, doubt, saved = self._judge(level, self._level, left, motion)
            if max(bias, 0.0) + (0.0 if elsewhere else doubt) <= max(saved, MISLED * sure):
                return level
            # where lengths show nothing, an answer that shows nothing is enough
            if level == LEVELS - 2 and bias <= max(saved, doubt) < math.inf:
                return level
        level = self._level
        for longer in range(level + 1, LEVELS):
            bias, doubt, saved = self._judge(level, longer, left, motion)
            if bias > max(saved, doubt, MISLED * misled):
                level = longer
        return level

    def _judge(self, low: int, high: int, left: float, motion: _Motion | None) -> _Verdict:
        """What the clip at one level takes away from the gradients as clipped at another."""
        n, d = self._curator.n, self._curator.dimension
        mean, variance = np.zeros(d), 0.0
        for i in range(low, high):
            between = self._between[i]
            if between is not None:
                mean = mean + between[0]
                beyond = float(self._levels[i + 1] - self._levels[i])
                variance += noise_for(beyond, n, between[1]) ** 2
            elif self._could_matter(i):
                return _Verdict(0.0, math.inf, 0.0)
        if motion is not None:  # what leads where the path goes anyway makes it slower, no more
            unit = motion.drift / public_length(motion.drift)
            mean = mean - max(float(mean @ unit), 0.0) * unit
        length = public_length(mean)
        short, long = (noise_for(float(self._levels[i]), n, left) for i in (low, high))
        saved = d * (long * long - short * short)
        doubt = variance * _doubt(d, float(self._levels[high] / self._levels[low]))
        return _Verdict(length * length - d * variance, doubt, saved)

    def _quantile_of(
        self, shares: Array, quantile: float, sure: float = 1.0
    ) -> tuple[float, float]:
        """The rung above a quantile, and where between it and the next lower one that lies."""
        rung, above, allowed = len(shares) - 1, 0.0, 0.0
        while rung > 0:
            # standard deviations of what was added up: so much noise is no record
            doubt = sure * self._noise * math.sqrt(len(shares) - rung)
            allowed = 1.0 - quantile + doubt - above
            share = float(shares[rung])
            if share > allowed:
                break
            above += share
            rung -= 1
        edge = float(self._edges[rung])
        if rung == 0:
            return edge, edge
        return edge, edge * FACTOR ** -min(max(allowed / share, 0.0), 1.0)

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


def _doubt(dimension: int, ratio: float = 1.0) -> float:
    """How far the squared length of unit noise may be above its expectation."""
    x = math.log(max(ratio, 1.0))
    costly = 2.0 * math.sqrt(dimension * x) + 2.0 * x
    return max(CERTAIN * math.sqrt(2.0 * dimension), costly)
