"""Exact logistic steps in Cython, with weights and offsets.  Nothing about it is private."""

import numpy as np

from dpfast.kernels.records cimport sums_beside

cdef enum: LOGISTIC = 3, MALLOWS = 1, INTERCEPT = 1, GRADIENT_AND_HESSIAN = 3

def newton(const double[:, ::1] x, const double[::1] y, const double[::1] weight,
           const double[::1] offset, int steps):
    cdef Py_ssize_t n = x.shape[0], q = x.shape[1]
    theta, gradient, hessian = np.zeros(q + 1), np.zeros(q + 1), np.zeros((q + 1, q + 1))
    cdef double[::1] at = theta, g = gradient, h = hessian.reshape(-1)
    for _ in range(steps):
        if sums_beside(LOGISTIC, MALLOWS, INTERCEPT, 1.0, 1.0, 1.0, 3.0, &x[0, 0], n, q, 8 * q, 8,
                       &y[0], &weight[0], &offset[0], 2.0, &at[0], GRADIENT_AND_HESSIAN, n, 1,
                       &g[0], &h[0], NULL):
            raise MemoryError
        theta -= np.linalg.solve(hessian, gradient)
    return theta
