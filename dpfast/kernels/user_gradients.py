"""Users' gradients of one record, compiled by Numba into a loop over records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: ``(theta, X, y, out, usable)``: fill the rows of ``out`` for the records that are usable.
CompiledGradients = Callable[[Array, Array, Array, Array, NDArray[np.bool_]], None]


def compiled_gradients(function: Callable[..., Any]) -> CompiledGradients | None:
    """Compile a loop over records that calls the function with one record at a time."""
    try:
        import numba
        from numba import types
    except ImportError:
        return None
    # "numpy": a division by zero is an infinity, as in NumPy
    options: Any = {"error_model": "numpy", "boundscheck": True}
    vector, matrix = types.float64[::1], types.float64[:, ::1]
    try:
        of_record = numba.njit(**options)(getattr(function, "py_func", function))

        def over_records(theta: Any, X: Any, y: Any, out: Any, usable: Any) -> None:
            theta_copy, X_copy, y_copy = np.empty_like(theta), X[:1].copy(), y[:1].copy()
            for i in range(len(y)):
                if not usable[i]:
                    continue
                theta_copy[:] = theta
                X_copy[0] = X[i]
                y_copy[0] = y[i]
                try:
                    result = of_record(theta_copy, X_copy, y_copy)
                    if result.shape[0] == 1 and result.shape[1] == out.shape[1]:
                        for j in range(out.shape[1]):
                            out[i, j] = result[0, j]
                except Exception:
                    out[i] = 0.0

        loop = numba.njit(**options)(over_records)
        loop.compile((vector, matrix, vector, matrix, types.boolean[::1]))
    except Exception:
        return None
    compiled: CompiledGradients = loop
    return compiled
