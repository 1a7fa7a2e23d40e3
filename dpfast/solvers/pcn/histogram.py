"""Noisy histograms of norms."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.curator.preconditioned import (
    NO_CLIPPING,
    Linearization,
    PreconditionedQueries,
    RowClipping,
)
from dpfast.kernels import decisions

#: Octaves of a tail, and points in each.
TAIL_OCTAVES, FINER = 6, 8

#: Ratios of neighbouring shares, evenly spaced in the tail's index, up to those of norms with
#: rarely a mean; and factors on the ratio from octave to octave, down to those of normal scores.
RATIOS = np.exp2(-np.linspace(0.8, 6.0, 12))
ACCELERATIONS = np.exp2(-np.linspace(0.0, 3.0, 7))

#: Relative deviation of an octave's share from such a tail.
MISFIT = 0.2

#: Points of a bin, in octaves, and of the tail, over the longest norm that is detected.
EVENLY = (np.arange(FINER) + 0.5) / FINER
BEYOND = np.exp2(np.arange(TAIL_OCTAVES)[:, None] + EVENLY).ravel()


class Tail(NamedTuple):
    """Posterior means and standard deviations of the shares at the points of a tail."""

    mean: Array
    deviation: Array


@lru_cache(maxsize=1)
def tail_shapes() -> tuple[Array, Array, float, Array, Array]:
    """Return the grid of tails with their misfit, and the points of an octave and of a tail."""
    shares, profiles = _grid()
    return shares, np.ascontiguousarray(profiles), MISFIT, EVENLY, BEYOND


def _grid() -> tuple[Array, Array]:
    """Return shares by octave, relative to the last detected one, and profiles of an octave."""
    ratio, change = (axis.ravel()[:, None] for axis in np.meshgrid(RATIOS, ACCELERATIONS))
    octave = np.arange(-1.0, TAIL_OCTAVES + 1.0)
    profile = ratio**EVENLY
    shares = ratio**octave * change ** (octave * (octave - 1.0) / 2.0)
    return shares, profile / profile.sum(axis=1, keepdims=True)


def tail_posterior(octaves: Array, noise: float, n: float, before_mode: bool) -> Tail:
    """Compute the posterior of a tail.

    Parameters
    ----------
    octaves : ndarray of shape (TAIL_OCTAVES + 2,)
        Noisy shares of the last two detected octaves, and of those beyond.
    noise : float
        Standard deviation of each.
    n : float
        Number of records; infinite for shares of a population.
    before_mode : bool
        True if the first octave is no part of the tail.
    """
    return Tail(*decisions.tail_posterior(octaves, noise, n, before_mode, tail_shapes()))


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
    #: Share of the records in all bins, and its noise.
    counted: tuple[float, float] = (1.0, 0.0)

    @staticmethod
    def from_noisy_shares(
        shares: Array, noise_scale: float, per_octave: int, unit: float = 1.0
    ) -> NormHistogram:
        """Detect the bins above their noise: single ones, and runs around the mode."""
        counted = float(np.add.reduce(shares)), noise_scale * len(shares) ** 0.5
        shares, upper, midpoints, octaves, before_mode = decisions.detect_bins(
            shares, noise_scale, per_octave, bin_edges(per_octave), unit,
            SINGLE_BIN_SDS, NEIGHBOUR_SDS, RUN_LENGTH, TAIL_OCTAVES,
        )  # fmt: skip
        undetected, octave_noise = SINGLE_BIN_SDS * noise_scale, noise_scale * per_octave**0.5
        return NormHistogram(
            shares, upper, midpoints, undetected, octaves, octave_noise, before_mode, counted
        )

    @property
    def longest(self) -> float:
        return float(self.upper[-1])

    def mean_square(self, bound: float) -> float:
        """Return the mean square of norms clipped at a bound."""
        return float(decisions.mean_square(self, bound))

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
        return float(decisions.mean_excess(self, radius, exponent))

    def rescaled(self, unit: float) -> NormHistogram:
        """Return the histogram in another unit of length."""
        return self._replace(upper=self.upper / unit, midpoints=self.midpoints / unit)

    def choose_weight_radius(self, p: int, typical: float, noise: float) -> float:
        """Choose the radius with the smallest sum of relative excess and noise."""
        return float(decisions.choose_weight_radius(self, p * typical, noise, TRIED_PARTS[:64]))

    def median(self) -> float:
        """Return the norm that half of the detected records exceed."""
        passed = self.shares.cumsum() / max(float(np.add.reduce(self.shares)), 1e-300)
        return float(np.exp2(np.interp(0.5, passed, np.log2(self.upper))))

    def tail(self, bounds: Array, n: float = math.inf) -> Array:
        """Compute means of ``(norm - bound)^+``, with the expected tail."""
        norms, shares, _ = self.extrapolate_tail(n)
        return np.asarray(decisions.mean_excess_over(bounds, norms, shares))

    def undetected_square(self) -> float:
        """Return a likely largest mean of squared norms beyond the last detected octave."""
        norms, shares, deviations = self.extrapolate_tail()
        undetected = norms > self.longest
        return float((norms[undetected] ** 2) @ (shares + deviations)[undetected])

    def clipped_square(self, bound: float, n: float = math.inf) -> float:
        """Compute the mean ``(norm^2 - bound^2)^+``, with the expected tail."""
        return float(decisions.clipped_square(self, bound, n, tail_shapes()))

    def extrapolate_tail(self, n: float = math.inf) -> tuple[Array, Array, Array]:
        """Add the tail of n records' norms; shares are spread evenly over points of the bins.

        Returns
        -------
        norms : ndarray of shape (m,)
            Increasing.
        shares, deviations : ndarray of shape (m,)
            Posterior means and standard deviations, which are zero in detected bins.
        """
        norms, shares, deviations = decisions.extrapolate_tail(self, n, tail_shapes())
        return norms, shares, deviations

    def downweighted_share(self, radius: float, power: float) -> float:
        """Return the part of these squared norms that weights with this radius and power remove."""
        return float(decisions.downweighted_share(self, radius, power))

    def clipped_off(self, spread: float, radius: float, power: float, bound: float) -> float:
        """Compute the mean ``(|s|^2 - bound^2)^+`` of these rows' scores for normal residuals."""
        return float(decisions.clipped_off(self, spread, radius, power, bound))


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
