"""Secret randomness of private selection: how many trials, and where (claims B10 and B11).

Neither depends on the data.  The number of trials must stay secret: it is what pays for
looking at all of them and publishing only the best.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpfast.errors import InvalidInput, described
from dpfast.privacy.mechanisms import laplace_rate
from dpfast.privacy.noise import NoiseSource

#: Largest expected number of trials: more would be paid for and never be over.
MOST_TRIALS = 100_000

#: Bits of the normals that places of trials are made of.
_BITS = 44


def number_of_trials(mean: float, source: NoiseSource) -> int:
    """Draw a geometric number of trials, at least one, with about this mean (claim B11).

    A discrete Laplace integer that is not negative is geometric (claim B7), and exactly so.
    """
    numerator, denominator = trials_rate(mean)
    while True:
        draws = source.discrete_laplace(16, numerator, denominator)
        found = draws[draws >= 0]
        if found.size:
            return 1 + int(found[0])


def trials_rate(mean: float) -> tuple[int, int]:
    """Rate of the number of trials; refuses a mean that it cannot have, and draws nothing."""
    known = isinstance(mean, (int, float, np.integer, np.floating))
    if not known or not 1.01 <= mean <= MOST_TRIALS:
        raise InvalidInput(
            f"the expected number of trials must lie in [1.01, {MOST_TRIALS}], because each calls "
            f"the function once; received {described(mean)}."
        )
    return laplace_rate(1, -math.log1p(-1.0 / float(mean)))


def trial_point(
    lower: NDArray[np.float64], upper: NDArray[np.float64], source: NoiseSource
) -> NDArray[np.float64]:
    """Draw a point uniformly from a box."""
    normals = source.normals(lower.size, _BITS) * 2.0**-_BITS
    inside = lower + ndtr(normals) * (upper - lower)
    return np.asarray(np.clip(inside, lower, upper), dtype=np.float64)
