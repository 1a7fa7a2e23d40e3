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

    theta: Array
    path: Array
    scores: Array
    method: str
    privacy: Guarantee
