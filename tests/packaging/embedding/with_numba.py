"""Exact logistic steps in Numba, with weights and offsets.  Nothing about it is private."""

import ctypes

import numba
import numpy as np
from numba.extending import get_cython_function_address

INT, SIZE, REAL, POINTER = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_double, ctypes.c_size_t
sums_beside = ctypes.CFUNCTYPE(
    INT, INT, INT, INT, REAL, REAL, REAL, REAL, POINTER, SIZE, SIZE, SIZE, INT, POINTER, POINTER,
    POINTER, REAL, POINTER, INT, REAL, INT, POINTER, POINTER, POINTER,
)(get_cython_function_address("dpfast.kernels.records", "sums_beside"))  # fmt: skip
LOGISTIC, MALLOWS, INTERCEPT, GRADIENT_AND_HESSIAN = 3, 1, 1, 3


@numba.njit
def newton(x, y, weight, offset, steps):
    n, q = x.shape
    theta, gradient, hessian = np.zeros(q + 1), np.zeros(q + 1), np.zeros((q + 1, q + 1))
    for _ in range(steps):
        failed = sums_beside(
            LOGISTIC, MALLOWS, INTERCEPT, 1.0, 1.0, 1.0, 3.0, x.ctypes.data, n, q, 8 * q, 8,
            y.ctypes.data, weight.ctypes.data, offset.ctypes.data, 2.0, theta.ctypes.data,
            GRADIENT_AND_HESSIAN, 1.0 * n, 1, gradient.ctypes.data, hessian.ctypes.data, 0,
        )  # fmt: skip
        if failed:
            raise MemoryError
        theta -= np.linalg.solve(hessian, gradient)
    return theta
