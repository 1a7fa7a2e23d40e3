"""Noisy histograms of norms."""

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

from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)

Array = NDArray[np.float64]

#: Powers of 2 of the smallest and the largest edge.
LOWEST, HIGHEST = -6, 20

#: Bins to a factor 2 in the histograms of rows and of scores: wider bins detect tails of fewer
#: records.
FINE, COARSE = 2, 1

#: Standard deviations above which a fine bin beside detected ones is detected.
NEIGHBOUR_SDS = 3.0

#: Standard deviations above which any bin is detected.  One of 40 empty bins is so by noise once in
#: a million histograms.
SINGLE_BIN_SDS = 5.5

#: Standard deviations of noise added to the share of the first octave beyond: it may have more than
#: the noisy share.
NEXT_OCTAVE_SDS = 3.0

#: Largest ratio of an undetected octave's share to the one before: that of norms with a mean.
LEAST_FALL = 0.5

#: The same of norms with a variance, without which there is no standard error, and no curvature.
WITH_VARIANCE = 0.25

#: Part of the sum of squared norms that is compared: longer norms are of few records, and the noise
#: of each bin would count as theirs.
SQUARES_PART = 0.9

#: Octaves of an extrapolated tail, and points in each.
TAIL_OCTAVES, FINER = 6, 8

#: Standard deviations, times the square root of its number, above which an undetected octave has
#: more than noise: noise alone then falls faster than norms grow.
DOUBTED = 1.6
_ROOTS = [math.sqrt(octaves) for octaves in range(1, TAIL_OCTAVES + 1)]

#: Points of a bin, and norms in the tail's octaves over the longest that is detected.
_EVENLY = (np.arange(FINER) + 0.5) / FINER
_BEYOND = np.outer(np.exp2(np.arange(TAIL_OCTAVES)), np.exp2(_EVENLY)).ravel()

#: Starts of the last three detected octaves, over the longest norm: halfway between bins.
_LAST = np.exp2([-2.5, -1.5, -0.5]) * (1.0 - 1e-9)

#: Candidates for radii and bounds, as parts of the longest.
TRIED_PARTS = np.exp2(-np.arange(104) / 8.0)


@lru_cache(maxsize=8)
def bin_edges(per_octave: int) -> Array:
    """Return the upper edges of the bins, so many to a factor 2; the last bin has no upper end."""
    edges = np.exp2(np.arange(LOWEST * per_octave, HIGHEST * per_octave + 1) / per_octave)
    edges.flags.writeable = False
    return edges


#: Number of bins of the finer histogram.
N_FINE_BINS = len(bin_edges(FINE))

#: Number of neighbouring bins that may be detected by their sum: outliers lie in several bins.
RUN_LENGTH = 4


def mean_excess_over(bounds: Array, norms: Array, shares: Array) -> Array:
    """Compute means of ``(norm - bound)^+`` for increasing norms: linear between them."""
    knots, means = np.zeros(norms.size + 1), np.zeros(norms.size + 1)
    knots[1:] = norms
    means[-2::-1] = (shares[::-1].cumsum() * (norms - knots[:-1])[::-1]).cumsum()
    return np.interp(bounds, knots, means)


def _sums(shares: NDArray[Any]) -> Array:
    """Sum every run of neighbouring bins."""
    return np.correlate(shares, _ONES, "valid")


_ONES = np.ones(RUN_LENGTH)


class NormHistogram(NamedTuple):
    """Bins of a noisy histogram of norms that stand out of their noise."""

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
        """Detect the bins above their noise: single ones, and runs around the mode."""
        mode, fine, detected = (
            int(shares.argmax()),
            per_octave > 1,
            shares > SINGLE_BIN_SDS * noise_scale,
        )
        detected[mode] = True
        if fine:  # a run around the mode; and several bins by their sum, whose noise is smaller
            gaps = (shares <= NEIGHBOUR_SDS * noise_scale).nonzero()[0]
            gaps = gaps[gaps != mode]
            k = int(gaps.searchsorted(mode))
            detected[gaps[k - 1] + 1 if k else 0 : gaps[k] if k < len(gaps) else len(shares)] = True
            sums, undetected = _sums(shares), _sums(detected) < 0.5
            for first in (
                undetected & (sums > SINGLE_BIN_SDS * noise_scale * RUN_LENGTH**0.5)
            ).nonzero()[0]:
                some = slice(first, first + RUN_LENGTH)
                detected[some] |= shares[some] > noise_scale
        noise, tail = (
            noise_scale * per_octave**0.5,
            shares[1 + detected.nonzero()[0][-1] :].tolist(),
        )
        tail += [0.0] * (TAIL_OCTAVES * per_octave)
        octaves = [*map(sum, zip(*[iter(tail)] * per_octave, strict=False))]
        max_next = max(octaves[0], 0.0) + NEXT_OCTAVE_SDS * noise
        min_tail = [
            octave - DOUBTED * noise * root for octave, root in zip(octaves, _ROOTS, strict=False)
        ]
        edges, shares = unit * bin_edges(per_octave)[detected], np.maximum(shares[detected], 0.0)
        midpoints = edges * 2.0 ** (-0.5 / per_octave)
        return NormHistogram(
            shares, edges, midpoints, SINGLE_BIN_SDS * noise_scale, max_next, min_tail
        )

    @property
    def longest(self) -> float:
        return float(self.upper[-1])

    def mean_square(self, bound: float) -> float:
        """Return the mean square of norms clipped at a bound."""
        return float(self.shares @ (np.minimum(self.midpoints, bound) ** 2))

    def mean_of_squares(self) -> float:
        """Return the mean norm, weighted by the squared norms."""
        squares = self.shares * self.midpoints**2
        return float(squares @ self.midpoints / max(float(np.add.reduce(squares)), 1e-300))

    def density_ratio(
        self, shares: Array, noise_scale: float, per_octave: int, times: float
    ) -> float:
        """Estimate the ratio of densities in a window so many times narrower and in this one.

        Densities are mean squares of norms per window.  The ratio is shrunk to 1 by its noise.
        """
        squares = np.maximum((self.shares * self.midpoints**2).cumsum() / times, 1e-300)
        last = min(int(squares.searchsorted(SQUARES_PART * squares[-1])), len(squares) - 1)
        edges, reference = bin_edges(per_octave), float(squares[last])
        squared_edges = edges[edges <= self.upper[last]] ** 2 * 2.0 ** (-1.0 / per_octave)
        excess = (
            min(max(0.0, float(shares[: squared_edges.size] @ squared_edges)) / reference, times)
            - 1.0
        )
        noise = noise_scale * float(squared_edges @ squared_edges) ** 0.5 / reference
        return max(1.0 + excess**3 / max(excess**2 + noise * noise, 1e-300), 1.0 / times)

    def mean_excess(self, radius: float, exponent: float) -> float:
        """Compute the mean ``(radius^2e a^(2-2e) - radius^2)^+``, with e the exponent."""
        discounted = radius ** (2.0 * exponent) * self.midpoints ** (2.0 - 2.0 * exponent)
        over = self.shares @ np.maximum(discounted - radius**2, 0.0)
        return float(over / max(np.add.reduce(self.shares), 1e-300))

    def rescaled(self, unit: float) -> NormHistogram:
        """Return the histogram in another unit of length."""
        return self._replace(upper=self.upper / unit, midpoints=self.midpoints / unit)

    def choose_weight_radius(self, p: int, typical: float, noise: float) -> float:
        """Choose the radius with the smallest sum of relative excess and noise."""
        candidates = self.upper[-1] * TRIED_PARTS[:64]
        squares = mean_excess_over(candidates**2, self.upper**2, self.shares)
        excess = squares / (p * typical * float(np.add.reduce(self.shares)))
        return float(candidates[(excess + noise * candidates**2).argmin()])

    def median(self) -> float:
        """Return the norm that half of the detected records exceed."""
        passed = self.shares.cumsum() / max(float(np.add.reduce(self.shares)), 1e-300)
        return float(np.exp2(np.interp(0.5, passed, np.log2(self.upper))))

    def tail(self, bounds: Array, fall: float = LEAST_FALL) -> Array:
        """Compute means of ``(norm - bound)^+``, with the extrapolated tail."""
        norms, (shares,) = self.extrapolate_tail(fall)
        return mean_excess_over(bounds, norms, shares)

    def undetected_square(self) -> float:
        """Return the mean of squared norms in the octaves beyond the last detected one."""
        norms, (shares,) = self.extrapolate_tail(LEAST_FALL)
        undetected = norms > self.upper[-1]
        return float((norms[undetected] ** 2) @ shares[undetected])

    def extrapolate_tail(self, *falls: float) -> tuple[Array, list[Array]]:
        """Extrapolate the tail by the ratio of the last octaves, at most each of ``falls``.

        Shares are spread evenly over points of the bins.  An octave has at least its noisy share
        less a margin of noise.

        Returns
        -------
        norms : ndarray of shape (m,)
            Increasing.
        shares : list of ndarray of shape (m,)
            One for each of ``falls``.
        """
        top, observed = self.longest, self.shares.tolist()
        a, b, c = self.upper.searchsorted(top * _LAST).tolist()
        first, second, last = sum(observed[a:b]), sum(observed[b:c]), sum(observed[c:])
        earlier_ratio = min(1.0, second / first) if first > 0.0 else 1.0
        ratio = min(1.0, last / second) if second > 0.0 else 1.0
        acceleration = min(1.0, ratio / earlier_ratio) if earlier_ratio > 0.0 else 1.0
        if last * ratio * acceleration > self.max_next:
            acceleration = self.max_next / (last * ratio)
        steps = [ratio * acceleration**octave for octave in range(1, TAIL_OCTAVES + 1)]
        profile = max(ratio, 1e-3) ** _EVENLY
        profile *= last / np.add.reduce(profile)
        width, spread_shares = (self.midpoints[-1] / top) ** 2, (self.shares / FINER).repeat(FINER)
        shares, min_ratios = [], [minimum / (last or math.inf) for minimum in self.min_tail]
        for fall in falls:
            parts = accumulate(map(min, steps, repeat(fall)), operator.mul)
            tail = np.array([*map(max, parts, min_ratios)])[:, None] * profile
            shares.append(np.concatenate([spread_shares, tail.ravel()]))
        norms = self.upper[:, None] * width ** _EVENLY[::-1]  # they increase
        return np.concatenate([norms.ravel(), top * _BEYOND]), shares

    def downweighted_share(self, radius: float, power: float) -> float:
        """Return the part of these squared norms that weights with this radius and power remove."""
        squares = self.shares * self.midpoints**2
        remaining = squares @ (np.minimum(1.0, radius / self.midpoints) ** (2.0 * power))
        return 1.0 - float(remaining) / max(float(np.add.reduce(squares)), 1e-300)

    def clipped_off(self, spread: float, radius: float, power: float, bound: float) -> float:
        """Compute the mean ``(|s|^2 - bound^2)^+`` of these rows' scores for normal residuals."""
        discounts = np.minimum(1.0, (radius / self.midpoints) ** 2) ** power
        sizes = np.maximum(spread * discounts * self.midpoints, 1e-300)
        at = np.minimum(bound / sizes, 40.0)
        return float(self.shares @ (sizes**2 * np.maximum(normal_excess(at), 0.0)))


def released_norms(
    rows: PreconditionedQueries,
    mu: float,
    at: Linearization | None,
    what: str,
    per_octave: int = COARSE,
    unit: float = 1.0,
    row_clipping: RowClipping = NO_CLIPPING,
    direction: Array | None = None,
) -> NormHistogram:
    """Release a histogram of norms of these rows or scores; costs ``mu`` (claim C60)."""
    edges = unit * bin_edges(per_octave)[:-1]
    counts = rows.norm_histogram(edges, mu, at, what, row_clipping, direction)
    return NormHistogram.from_noisy_shares(*counts[:2], per_octave, unit)


#: Density of a standard normal number at 0.
_DENSITY = (2.0 * math.pi) ** -0.5


def normal_excess(at: Any) -> Any:
    """Compute the mean of ``(z^2 - at^2)^+`` for a standard normal z."""
    return 2.0 * (at * _DENSITY * np.exp(-0.5 * at**2) + (1.0 - at**2) * ndtr(-at))
