"""What a released histogram of lengths shows, and the constants that are chosen by it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

#: Powers of 2 of the shortest and the longest edge.
LOWEST, HIGHEST = -6, 20

#: Standard deviations by which a fine cell stands out beside those that do, and any on its own: one
#: of 40 empty cells does once in a million histograms; and by which one that does not may have more
#: than was told of it.
NEIGHBOUR_SDS, SINGLE_BIN_SDS, NEXT_OCTAVE_SDS = 3.0, 5.5, 3.0

#: What is cut off scores on either side leaves about so much of its mean length: adult's capital
#: gains a quarter, house prices three quarters.
ASYMMETRY = 0.4

#: From one octave to the next an unseen tail falls to this part at most: that of lengths with a
#: mean; and of lengths with a variance, without which there is no standard error, and no curvature.
LEAST_FALL, WITH_VARIANCE = 0.5, 0.25

#: Of squares of lengths: longer ones are of few records, and noise of each would count as theirs.
SQUARES_PART = 0.9

#: What scores that nobody sees may vary by in a direction, over what others do in the mean: about
#: 1, and more where a start is too steep, so that too few of them are foreseen.
UNDETECTED_VARIATION = 3.0

#: Noise, as a part of what sampling varies by, that a bound may have for scores that nobody sees.
NO_REASON = 0.05

#: Octaves of an unseen tail, and points in each.
TAIL_OCTAVES, FINER = 6, 8

#: Standard deviations, growing with the square root of its number, by which such an octave has more
#: than noise: of noise alone then less is left from one to the next than they are longer.
DOUBTED = 1.6
_ROOTS = [math.sqrt(octaves) for octaves in range(1, TAIL_OCTAVES + 1)]

#: Points of a cell, and lengths in these octaves over the longest that is seen.
_EVENLY = (np.arange(FINER) + 0.5) / FINER
_BEYOND = np.outer(np.exp2(np.arange(TAIL_OCTAVES)), np.exp2(_EVENLY)).ravel()

#: Where the last three octaves that are seen begin, over the longest: halfway between cells.
_LAST = np.exp2([-2.5, -1.5, -0.5]) * (1.0 - 1e-9)

#: What radii and bounds are tried, as parts of the longest.
_TRIED = np.exp2(-np.arange(104) / 8.0)


@lru_cache(maxsize=8)
def bin_edges(per_octave: int) -> Array:
    """Longest lengths of the cells, so many to a factor 2; the last one holds all beyond, too."""
    tops = np.exp2(np.arange(LOWEST * per_octave, HIGHEST * per_octave + 1) / per_octave)
    tops.flags.writeable = False
    return tops


#: Neighbouring cells that may stand out together: what lies far from the others is in several.
RUN_LENGTH = 4


def _mean_over(bounds: Array, lengths: Array, shares: Array) -> Array:
    """Means of ``(length - bound)^+`` of lengths that increase: linear between them."""
    knots, means = np.zeros(lengths.size + 1), np.zeros(lengths.size + 1)
    knots[1:] = lengths
    means[-2::-1] = (shares[::-1].cumsum() * (lengths - knots[:-1])[::-1]).cumsum()
    return np.interp(bounds, knots, means)


def _sums(of: NDArray[Any]) -> Array:
    """Of so many neighbours each."""
    return np.correlate(of, _ONES, "valid")


_ONES = np.ones(RUN_LENGTH)


class NormHistogram(NamedTuple):
    """The cells of a histogram that stand out of their noise."""

    shares: Array
    upper: Array
    midpoints: Array
    max_undetected: float
    max_next: float = math.inf
    min_tail: Sequence[float] = (0.0,) * TAIL_OCTAVES

    @staticmethod
    def from_noisy_shares(
        shares: Array, noise_scale: float, per_octave: int, unit: float = 1.0
    ) -> NormHistogram:
        """Cells that stand out on their own, and finer ones in a run around the largest."""
        mode, fine, seen = (
            int(shares.argmax()),
            per_octave > 1,
            shares > SINGLE_BIN_SDS * noise_scale,
        )
        seen[mode] = True
        if fine:  # in a run around the largest; and several together, of less noise each
            gaps = (shares <= NEIGHBOUR_SDS * noise_scale).nonzero()[0]
            gaps = gaps[gaps != mode]
            k = int(gaps.searchsorted(mode))
            seen[gaps[k - 1] + 1 if k else 0 : gaps[k] if k < len(gaps) else len(shares)] = True
            sums, others = _sums(shares), _sums(seen) < 0.5
            for first in (
                others & (sums > SINGLE_BIN_SDS * noise_scale * RUN_LENGTH**0.5)
            ).nonzero()[0]:
                some = slice(first, first + RUN_LENGTH)
                seen[some] |= shares[some] > noise_scale
        noise, beyond = noise_scale * per_octave**0.5, shares[1 + seen.nonzero()[0][-1] :].tolist()
        beyond += [0.0] * (TAIL_OCTAVES * per_octave)
        octaves = [*map(sum, zip(*[iter(beyond)] * per_octave, strict=False))]
        most = max(octaves[0], 0.0) + NEXT_OCTAVE_SDS * noise
        least = [one - DOUBTED * noise * root for one, root in zip(octaves, _ROOTS, strict=False)]
        tops, shares = unit * bin_edges(per_octave)[seen], np.maximum(shares[seen], 0.0)
        middles = tops * 2.0 ** (-0.5 / per_octave)
        return NormHistogram(shares, tops, middles, SINGLE_BIN_SDS * noise_scale, most, least)

    @property
    def longest(self) -> float:
        return float(self.upper[-1])

    def mean_square(self, bound: float) -> float:
        """Of lengths that are held to a bound."""
        return float(self.shares.dot(np.minimum(self.midpoints, bound) ** 2))

    def mean_of_squares(self) -> float:
        """Mean length of what the squares are of."""
        squares = self.shares * self.midpoints**2
        return float(squares.dot(self.midpoints) / max(float(np.add.reduce(squares)), 1e-300))

    def density_ratio(
        self, shares: Array, noise_scale: float, per_octave: int, times: float
    ) -> float:
        """Mean square of lengths in a window so many times narrower, over what these have per
        window, as far as noise tells it from 1.
        """
        squares = np.maximum((self.shares * self.midpoints**2).cumsum() / times, 1e-300)
        most = min(int(squares.searchsorted(SQUARES_PART * squares[-1])), len(squares) - 1)
        tops, own = bin_edges(per_octave), float(squares[most])
        few = tops[tops <= self.upper[most]] ** 2 * 2.0 ** (-1.0 / per_octave)
        away = min(max(0.0, float(shares[: few.size].dot(few))) / own, times) - 1.0
        noise = noise_scale * float(few.dot(few)) ** 0.5 / own
        return max(1.0 + away**3 / max(away**2 + noise * noise, 1e-300), 1.0 / times)

    def mean_excess(self, radius: float, exponent: float) -> float:
        """Mean ``(radius^2e a^(2-2e) - radius^2)^+``, with e the exponent."""
        discounted = radius ** (2.0 * exponent) * self.midpoints ** (2.0 - 2.0 * exponent)
        over = self.shares.dot(np.maximum(discounted - radius**2, 0.0))
        return float(over / max(np.add.reduce(self.shares), 1e-300))

    def rescaled(self, unit: float) -> NormHistogram:
        """The same in units of this length."""
        return self._replace(upper=self.upper / unit, midpoints=self.midpoints / unit)

    def choose_weight_radius(self, p: int, typical: float, noise: float) -> float:
        """The radius R with the least sum of what is left out and of noise, relatively."""
        candidates = self.upper[-1] * _TRIED[:64]
        squares = _mean_over(candidates**2, self.upper**2, self.shares)
        left = squares / (p * typical * float(np.add.reduce(self.shares)))
        return float(candidates[(left + noise * candidates**2).argmin()])

    def median(self) -> float:
        """The length that half of the visible records exceed."""
        passed = self.shares.cumsum() / max(float(np.add.reduce(self.shares)), 1e-300)
        return float(np.exp2(np.interp(0.5, passed, np.log2(self.upper))))

    def tail(self, bounds: Array, fall: float = LEAST_FALL) -> Array:
        """Means of ``(length - bound)^+``."""
        lengths, (shares,) = self.extrapolate_tail(fall)
        return _mean_over(bounds, lengths, shares)

    def undetected_square(self) -> float:
        """Mean of the squares of lengths in the octaves beyond the last that is seen."""
        lengths, (shares,) = self.extrapolate_tail(LEAST_FALL)
        beyond = lengths > self.upper[-1]
        return float((lengths[beyond] ** 2).dot(shares[beyond]))

    def extrapolate_tail(self, *falls: float) -> tuple[Array, list[Array]]:
        """Lengths, and shares for each of these falls, evenly in the cells: beyond what is seen
        they fall as within it, and at least by so much, where noise leaves no more.
        """
        top, told = self.longest, self.shares.tolist()
        a, b, c = self.upper.searchsorted(top * _LAST).tolist()
        first, second, last = sum(told[a:b]), sum(told[b:c]), sum(told[c:])
        before = min(1.0, second / first) if first > 0.0 else 1.0
        then = min(1.0, last / second) if second > 0.0 else 1.0
        bends = min(1.0, then / before) if before > 0.0 else 1.0
        if last * then * bends > self.max_next:
            bends = self.max_next / (last * then)
        steps = [then * bends**octave for octave in range(1, TAIL_OCTAVES + 1)]
        within = max(then, 1e-3) ** _EVENLY
        within *= last / np.add.reduce(within)
        width, seen = (self.midpoints[-1] / top) ** 2, (self.shares / FINER).repeat(FINER)
        shares, least = [], [one / (last or math.inf) for one in self.min_tail]
        for fall in falls:
            parts = accumulate(map(min, steps, repeat(fall)), operator.mul)
            tail = np.array([*map(max, parts, least)])[:, None] * within
            shares.append(np.concatenate([seen, tail.ravel()]))
        lengths = self.upper[:, None] * width ** _EVENLY[::-1]  # they increase
        return np.concatenate([lengths.ravel(), top * _BEYOND]), shares

    def downweighted_share(self, radius: float, power: float) -> float:
        """Part of these lengths' squares that discounts with this radius and power take."""
        squares = self.shares * self.midpoints**2
        kept = squares.dot(np.minimum(1.0, radius / self.midpoints) ** (2.0 * power))
        return 1.0 - float(kept) / max(float(np.add.reduce(squares)), 1e-300)

    def clipped_off(self, spread: float, radius: float, power: float, bound: float) -> float:
        """Mean of ``(|s|^2 - bound^2)^+`` for scores of these rows with normal residuals."""
        discounts = np.minimum(1.0, (radius / self.midpoints) ** 2) ** power
        sizes = np.maximum(spread * discounts * self.midpoints, 1e-300)
        at = np.minimum(bound / sizes, 40.0)
        return float(self.shares.dot(sizes**2 * np.maximum(_beyond(at), 0.0)))


#: Of a standard normal number at 0.
_DENSITY = (2.0 * math.pi) ** -0.5


def _beyond(at: Any) -> Any:
    """Mean of ``(z^2 - at^2)^+`` for a standard normal z."""
    return 2.0 * (at * _DENSITY * np.exp(-0.5 * at**2) + (1.0 - at**2) * ndtr(-at))


def clipped_in_rare_direction(length: float, spread: float, bound: float) -> float:
    """What a bound takes of how scores vary along a direction that only rows so long tell."""
    return float(spread**2 * _beyond(min(bound / (length * spread + 1e-300), 40.0)))


def choose_weight_exponent(lengths: NormHistogram, radius: float, most: float) -> float:
    """The least power of ``w = min(1, radius^2/a^2)`` that keeps the curvature in hand."""
    for exponent in (0.0, 0.25, 0.5, 0.75):
        if lengths.mean_excess(radius, exponent) <= most:
            return exponent
    return 1.0


def _undetected_excess(
    rows: NormHistogram, scores: NormHistogram, vary: float, longest: float, bounds: Array
) -> Array:
    """Means of ``(length - bound)^+`` of scores that rows can have, of which none is seen."""
    lengths = np.minimum(rows.midpoints, longest)
    far = lengths > scores.longest
    shares, lengths = rows.shares[far], lengths[far]
    likely = scores.longest / lengths
    # none is known to be short where the octaves up to theirs may hide them all
    likely[shares <= np.ceil(np.log2(1.0 / likely)) * scores.max_undetected] = 1.0
    few = np.minimum(shares * likely, scores.max_undetected)
    few = np.minimum(few, vary / lengths**2)
    return _mean_over(bounds, lengths, few)


def choose_clipping_norm(
    scores: NormHistogram,
    noise_per_bound: float,
    p: int,
    longest: float = math.inf,
    leaves: float = ASYMMETRY,
    foreseen: NormHistogram | None = None,
    n: float = math.inf,
    fall: float = LEAST_FALL,
) -> tuple[float, float]:
    """The norm to which scores are held, nearest to where n would lead without; what it cuts."""
    # what nobody saw of scores may have a third moment half as large as that of others, of which
    # 4/27 over the squared bound is cut off at most: a shorter one saves less noise than it loses
    unseen = 2.0 / 27.0 * ASYMMETRY * scores.shares.dot(scores.midpoints**3)
    square = float(scores.shares.dot(scores.midpoints**2))
    slight = math.sqrt(NO_REASON / n * square / p) / noise_per_bound
    slight = min(slight, (2.0 / p) ** (1 / 6) * (unseen / noise_per_bound) ** (1 / 3))
    tried = max(2.0 * scores.upper[-1], (foreseen or scores).upper[-1], slight)
    candidates = min(tried, longest) * _TRIED
    lengths, (shares, unsquared) = scores.extrapolate_tail(WITH_VARIANCE, fall)
    lengths = np.minimum(lengths, longest)
    cut = _mean_over(candidates, lengths, shares)
    if foreseen:
        cut += _undetected_excess(
            foreseen, scores, UNDETECTED_VARIATION * square / p, longest, candidates
        )
    errors = (p**0.5 * noise_per_bound * np.maximum(candidates, slight)) ** 2
    best = int((errors + (leaves * cut) ** 2).argmin())
    lost = cut[best] if foreseen else np.maximum(lengths - candidates[best], 0.0).dot(unsquared)
    return float(min(max(candidates[best], slight), longest)), float(lost)
