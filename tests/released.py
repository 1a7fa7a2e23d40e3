"""One value released alone, as the door of answers does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpfast.privacy import NoiseSource
from dpfast.privacy.mechanisms import joint_grids, release_together


def released_alone(value: Any, noise_scale: float, source: NoiseSource) -> Any:
    """A vector with independent noise, or a symmetric matrix with noise in an orthonormal basis."""
    value = np.asarray(value)
    return release_together((value,), joint_grids((value.shape,), (noise_scale,)), source)[0]
