"""Prefix sums from noisy mapped histograms, and the covariance of their noise (post-processing)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpfast.arguments import Array
from dpfast.privacy.tables.prefix_sums import UNIT, root_coefficients


@lru_cache(maxsize=8)
def left_coefficients(n_bins: int) -> Array:
    """Return the first column of ``L = A R^-1``, so that ``L R`` are exactly prefix sums A.

    All three are lower triangular Toeplitz matrices, so this is a division of power series.
    """
    right = root_coefficients(n_bins) / UNIT
    left = np.empty(n_bins)
    for k in range(n_bins):
        left[k] = 1.0 - right[1 : k + 1] @ left[:k][::-1]
    left.flags.writeable = False
    return left


def _convolved(rows: Array, coefficients: Array) -> Array:
    """Multiply rows by the lower triangular Toeplitz matrix with this first column."""
    m = coefficients.size
    length = 1 << (2 * m - 1).bit_length()
    product = np.fft.rfft(rows, length) * np.fft.rfft(coefficients, length)
    return np.asarray(np.fft.irfft(product, length)[..., :m])


@lru_cache(maxsize=8)
def _products_with_last(n_bins: int) -> Array:
    """Return the inner products of the rows of L with its last row."""
    left = left_coefficients(n_bins)
    products = _convolved(left[::-1], left)
    products.flags.writeable = False
    return products


class PrefixNoise(NamedTuple):
    """Covariance of the noise of prefix sums, given a count of all with noise of its own.

    The last prefix sum counts all records, and so does a separate release.  Conditioning on the
    latter makes both equal, and all sums more precise (best linear unbiased).
    """

    n_bins: int
    #: Standard deviations of the noise of a mapped histogram's entries, and of the count.
    scale: float
    count_scale: float

    @property
    def _with_last(self) -> Array:
        """Covariances of the prefix sums with the last one, before conditioning."""
        return self.scale**2 * _products_with_last(self.n_bins)

    @property
    def _total_variance(self) -> float:
        return float(self._with_last[-1]) + self.count_scale**2

    def below(self, mapped: Array, counts: Array) -> Array:
        """Compute prefix sums of each cell, the last of which is its count, shape (cells, bins)."""
        sums = _convolved(mapped, left_coefficients(self.n_bins))
        gain = self._with_last / self._total_variance
        return np.asarray(sums + gain * (counts - sums[:, -1])[:, None])

    def variances(self) -> tuple[Array, Array]:
        """Return the variances of the prefix sums, and their covariances with the last one."""
        left, with_last = left_coefficients(self.n_bins), self._with_last
        total = self._total_variance
        variances = self.scale**2 * np.cumsum(left**2) - with_last**2 / total
        return variances, with_last * (self.count_scale**2 / total)

    def variances_of_excess(self, share: Any) -> Array:
        """Return the variances of the prefix sums less a share of the last one, or shares."""
        variances, with_last = self.variances()
        excess = variances + share * share * with_last[-1] - 2.0 * share * with_last
        return np.asarray(np.maximum(excess, 0.0))

    def variance_of(self, weights: Array) -> Array:
        """Compute the variance of weighted sums of prefix sums; ``weights`` has a row for each."""
        left = left_coefficients(self.n_bins)
        rows = _convolved(weights[..., ::-1], left)
        square = self.scale**2 * np.sum(rows**2, axis=-1)
        with_last = self.scale**2 * (rows @ left)
        return np.asarray(np.maximum(square - with_last**2 / self._total_variance, 0.0))
