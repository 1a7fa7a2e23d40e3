"""Exact logistic steps in Numba, with weights and offsets.  Nothing about it is private."""

import ctypes as c

import numba
import numpy as np
from numba.extending import get_cython_function_address

KINDS = {"i": c.c_int, "n": c.c_ssize_t, "d": c.c_double, "p": c.c_size_t}
address = get_cython_function_address("dpfast.kernels.records", "sums_beside")
sums_beside = c.CFUNCTYPE(*[KINDS[k] for k in "iiiiddddpnnnipppdpidippp"])(address)
LOGISTIC, MALLOWS, INTERCEPT, GRADIENT_AND_HESSIAN = 3, 1, 1, 3


@numba.njit
def newton(x, y, weight, offset, steps):
    n, q = x.shape
    theta, gradient, hessian = np.zeros(q + 1), np.zeros(q + 1), np.zeros((q + 1, q + 1))
    for _ in range(steps):
        if sums_beside(
            LOGISTIC, MALLOWS, INTERCEPT, 1.0, 1.0, 1.0, 3.0, x.ctypes.data, n, q, 8 * q, 8,
            y.ctypes.data, weight.ctypes.data, offset.ctypes.data, 2.0, theta.ctypes.data,
            GRADIENT_AND_HESSIAN, 1.0 * n, 1, gradient.ctypes.data, hessian.ctypes.data, 0,
        ):  # fmt: skip
            raise MemoryError
        theta -= np.linalg.solve(hessian, gradient)
    return theta
