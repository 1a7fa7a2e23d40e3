"""Noisy histograms of norms."""

from __future__ import annotations

import math
from functools import lru_cache
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
from dpfast.solvers.pcn.tail import BEYOND, EVENLY, FINER, TAIL_OCTAVES, tail_posterior

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

#: Part of the sum of squared norms that is compared: longer norms are of few records, and the noise
#: of each bin would count as theirs.
SQUARES_PART = 0.9

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


def _last_octaves(shares: Array, last: int, per_octave: int) -> Array:
    """Sum bins to the octave of the last detected bin, the one before, and those beyond."""
    before, beyond = np.zeros(2 * per_octave), np.zeros(TAIL_OCTAVES * per_octave)
    padded = np.concatenate([before, shares, beyond])
    octaves = padded[last + 1 : last + 1 + (TAIL_OCTAVES + 2) * per_octave]
    return np.asarray(octaves.reshape(-1, per_octave).sum(axis=1))


#: Octaves of a histogram without a tail.
NO_TAIL = np.zeros(TAIL_OCTAVES + 2)


class NormHistogram(NamedTuple):
    """Bins of a noisy histogram of norms that stand out of their noise."""

    shares: Array
    upper: Array
    midpoints: Array
    max_undetected: float
    #: Noisy shares of the last two detected octaves and of those beyond, and their noise.
    octaves: Array = NO_TAIL
    octave_noise: float = 0.0
    #: Whether the first of them is before the mode.
    before_mode: bool = True

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
        last = int(detected.nonzero()[0][-1])
        octaves = _last_octaves(shares, last, per_octave)
        edges, shares = unit * bin_edges(per_octave)[detected], np.maximum(shares[detected], 0.0)
        midpoints = edges * 2.0 ** (-0.5 / per_octave)
        return NormHistogram(
            shares,
            edges,
            midpoints,
            SINGLE_BIN_SDS * noise_scale,
            octaves,
            noise_scale * per_octave**0.5,
            mode > last - per_octave,
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

    def tail(self, bounds: Array, n: float = math.inf) -> Array:
        """Compute means of ``(norm - bound)^+``, with the expected tail."""
        norms, shares, _ = self.extrapolate_tail(n)
        return mean_excess_over(bounds, norms, shares)

    def undetected_square(self) -> float:
        """Return a likely largest mean of squared norms beyond the last detected octave."""
        norms, shares, deviations = self.extrapolate_tail()
        undetected = norms > self.longest
        return float((norms[undetected] ** 2) @ (shares + deviations)[undetected])

    def clipped_square(self, bound: float, n: float = math.inf) -> float:
        """Compute the mean ``(norm^2 - bound^2)^+``, with the expected tail."""
        norms, shares, _ = self.extrapolate_tail(n)
        return float(shares @ np.maximum(norms**2 - bound**2, 0.0))

    def extrapolate_tail(self, n: float = math.inf) -> tuple[Array, Array, Array]:
        """Add the tail of n records' norms; shares are spread evenly over points of the bins.

        Returns
        -------
        norms : ndarray of shape (m,)
            Increasing.
        shares, deviations : ndarray of shape (m,)
            Posterior means and standard deviations, which are zero in detected bins.
        """
        tail = tail_posterior(self.octaves, self.octave_noise, n, self.before_mode)
        detected = (self.shares / FINER).repeat(FINER)
        width = (self.midpoints[-1] / self.longest) ** 2
        norms = (self.upper[:, None] * width ** EVENLY[::-1]).ravel()  # they increase
        return (
            np.concatenate([norms, self.longest * BEYOND]),
            np.concatenate([detected, tail.mean]),
            np.concatenate([np.zeros(detected.size), tail.deviation]),
        )

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
