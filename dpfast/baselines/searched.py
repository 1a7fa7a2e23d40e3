"""Results of the comparison searches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpfast.inference.guarantees import Guarantee

__all__ = ["Searched"]

Array = NDArray[np.float64]


class Searched(NamedTuple):
    """What a comparison search found; released and public numbers only."""

    #: The recommended parameters.
    theta: Array
    #: Iterates, or points evaluated in order; empty where their number is secret.
    path: Array
    #: Released mean losses of the points, where there are any.
    scores: Array
    method: str
    #: For the validation records; training data are not covered.
    privacy: Guarantee
