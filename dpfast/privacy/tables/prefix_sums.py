"""The square-root factorisation of prefix sums, in whole numbers (claim T5).

Counts below thresholds are prefix sums ``A h`` of a histogram h.  With ``A = L R`` a mechanism adds
noise to ``R h`` and multiplies by L afterwards.  The square root of A on both sides is nearly the
best choice (Fichtenberger, Henzinger and Upadhyay 2023, "Constant matters").
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpfast.privacy.mechanisms import GRID_COST
from dpfast.privacy.rounding import ROUNDING_FORMULA, ROUNDING_SUM
from dpfast.privacy.sensitivity import relative_slack

Array = NDArray[np.float64]

#: Entries of R are multiples of 1 over this, so that products with counts are whole numbers.
UNIT = 1 << 20

#: Largest number of bins.
MAX_BINS = 1 << 16

#: Bins that are multiplied at once.
BLOCK = 256


@lru_cache(maxsize=8)
def root_coefficients(n_bins: int) -> Array:
    """Return the first column of R times ``UNIT``: whole numbers that do not increase.

    Entry k of the exact square root of prefix sums is ``binomial(2k, k) / 4^k``.
    """
    k = np.arange(1.0, n_bins)
    exact = np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / k)])
    coefficients = np.rint(exact * float(UNIT))
    coefficients.flags.writeable = False
    return coefficients


def column_norm(n_bins: int) -> float:
    """Return the norm of the longest column of R, which is the first one; rounded up."""
    squares = sum([int(entry) ** 2 for entry in root_coefficients(n_bins).tolist()])
    return (math.isqrt(squares) + 1) / UNIT


def lag_mu(mu: float, waves: int) -> float:
    """Return the mu of a sum that weights a wave by 1, such that all ``waves`` cost mu (C108)."""
    kept = mu * (1.0 - ROUNDING_SUM) - math.sqrt(waves) * GRID_COST
    return kept / column_norm(waves) * (1.0 - ROUNDING_SUM)


def sum_of_scores(bound: float, n: int, waves: int, depth: int) -> float:
    """Bound how far a record moves a sum of n scores, over its wave's weight there (C108)."""
    slack = relative_slack(n, depth + waves + 8) * UNIT / float(root_coefficients(waves)[-1])
    return 2.0 * bound * (1.0 + slack) * (1.0 + ROUNDING_FORMULA)


def mapped_histograms(histograms: NDArray[np.int64]) -> Array:
    """Return ``R h`` for each row h of counts, exactly.

    Products are of Toeplitz blocks.  All partial sums are whole numbers of at most ``2^20 n``, so
    they are exact in any order for fewer than ``2^32`` records.
    """
    n_cells, n_bins = histograms.shape
    n_blocks = -(-n_bins // BLOCK)
    counts = np.zeros((n_cells, n_blocks, BLOCK))
    counts.reshape(n_cells, -1)[:, :n_bins] = histograms
    coefficients = np.zeros((n_blocks + 1) * BLOCK)
    coefficients[BLOCK : BLOCK + n_bins] = root_coefficients(n_bins)
    lags = np.arange(BLOCK)[:, None] - np.arange(BLOCK)
    sums = np.zeros_like(counts)
    for block in range(n_blocks):
        toeplitz = coefficients[(block + 1) * BLOCK + lags]
        rows = counts[:, : n_blocks - block].reshape(-1, BLOCK)  # one product of two matrices
        sums[:, block:] += (rows @ toeplitz.T).reshape(n_cells, -1, BLOCK)
    return sums.reshape(n_cells, -1)[:, :n_bins] / float(UNIT)
