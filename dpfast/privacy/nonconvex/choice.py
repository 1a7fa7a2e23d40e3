"""The exponential mechanism over a list, sampled exactly from integer noise (claim K5).

A nonnegative discrete Laplace integer is at least k with probability ``exp(-k rate)``: from it
and a fair coin a uniform candidate is accepted with its relative weight.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpfast.errors import InvalidInput
from dpfast.privacy.noise import NoiseSource


def choose_smallest(scores: Sequence[int], rate: tuple[int, int], source: NoiseSource) -> int:
    """Draw an index with probability proportional to ``exp(-score * rate)``, by rejection."""
    if not scores:
        raise InvalidInput("there is nothing to choose from: scores is empty.")
    best = min(scores)
    while True:
        index = _uniform_below(len(scores), source)
        if _geometric(rate, source) >= scores[index] - best:
            return index


def _geometric(rate: tuple[int, int], source: NoiseSource) -> int:
    """Draw an integer that is at least k with probability ``exp(-k rate)``."""
    while True:
        draws = source.discrete_laplace(4, *rate)
        nonnegative = draws[draws >= 0]
        if nonnegative.size:
            return int(nonnegative[0])


def _uniform_below(size: int, source: NoiseSource) -> int:
    """Draw a uniform integer below ``size``, from fair coins, by rejection."""
    n_bits = (size - 1).bit_length()
    while True:
        value = 0
        for _ in range(n_bits):
            value = 2 * value + _coin(source)
        if value < size:
            return value


def _coin(source: NoiseSource) -> int:
    while True:
        draws = source.discrete_laplace(4, 1, 1)
        nonzero = draws[draws != 0]
        if nonzero.size:
            return int(nonzero[0] > 0)
