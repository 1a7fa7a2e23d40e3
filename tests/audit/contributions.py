"""What each record contributes to a step's sums, exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpfast.kernels.records import RecordKernel
from dpfast.models import Objective


def nonprivate_contributions(
    objective: Objective,
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    theta: NDArray[np.float64],
    want: int,
) -> tuple[NDArray[np.float64] | None, ...]:
    """Exact gradient, curvature and meat of each record on its own, by the compiled kernels."""
    sums, n = RecordKernel(*objective.kernel_arguments()).sums, len(y)
    parts = [sums(X[i : i + 1], y[i : i + 1], theta, want, 1.0, 1) for i in range(n)]
    return tuple(
        # much faster than stacking, for many small arrays
        None if column[0] is None else np.concatenate(column).reshape(n, *column[0].shape)
        for column in zip(*parts, strict=True)
    )
