"""The exponential mechanism over a list, sampled exactly from integer noise (claim K5).

A nonnegative discrete Laplace integer is at least k with probability ``exp(-k rate)``: from it
a uniform candidate is accepted with its relative weight.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpfast.errors import InvalidInput
from dpfast.privacy.noise import NoiseSource


def choose_smallest(scores: Sequence[int], rate: tuple[int, int], source: NoiseSource) -> int:
    """Draw an index with probability proportional to ``exp(-score * rate)``, by rejection."""
    if not scores:
        raise InvalidInput("there is nothing to choose from: scores is empty.")
    best = min(scores)
    excess = np.array([score - best for score in scores], dtype=np.int64)
    attempts = 4 * len(scores) + 8  # at a time: half or more come to nothing
    while True:
        lengths = _geometric(rate, attempts, source)
        indices = _uniform_below(len(scores), attempts, source)[: len(lengths)]
        accepted = np.flatnonzero(lengths[: len(indices)] >= excess[indices])
        if accepted.size:
            return int(indices[accepted[0]])


def _geometric(rate: tuple[int, int], size: int, source: NoiseSource) -> NDArray[np.int64]:
    """Draw integers, up to ``size`` of them, that are at least k with probability exp(-k rate)."""
    draws = source.discrete_laplace(size, *rate)
    return draws[draws >= 0]


def _uniform_below(length: int, size: int, source: NoiseSource) -> NDArray[np.int64]:
    """Draw uniform integers below ``length``, up to ``size`` of them, by rejection."""
    mask = np.uint64((1 << (length - 1).bit_length()) - 1)
    draws = (source.words(size) & mask).astype(np.int64)
    return draws[draws < length]
