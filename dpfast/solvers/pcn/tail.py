"""Tails of histograms of norms: the posterior of the shares beyond the last detected octave.

Shares of octaves fall by a ratio that itself falls.  A grid of such tails has equal prior
probabilities.  The noisy shares of the last two detected octaves, and of the octaves beyond, give
the likelihood.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels import decisions

Array = NDArray[np.float64]

#: Octaves of a tail, and points in each.
TAIL_OCTAVES, FINER = 6, 8

#: Ratios of neighbouring shares, evenly spaced in the tail's index, up to those of norms with
#: hardly a mean; and factors on the ratio from octave to octave, down to those of normal scores.
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
