"""One exact Newton step of a Huber regression, without the GIL.  Nothing about it is private."""

from libc.stdlib cimport free, malloc

from dpfast.kernels.linalg cimport symmetric_eigen
from dpfast.kernels.records cimport weighted_loss, weighted_sums

cdef enum:
    HUBER = 0
    MALLOWS = 1
    GRADIENT = 1
    HESSIAN = 2


cdef int solve(const double *hessian, Py_ssize_t p, const double *gradient, double *scratch,
               double *theta) noexcept nogil:
    """theta -= hessian^-1 gradient through the eigenvalues; `scratch` holds p + 2 p^2."""
    cdef double *values = scratch
    cdef double *vectors = scratch + p
    cdef double part
    cdef Py_ssize_t i, j
    cdef int status = symmetric_eigen(hessian, p, values, vectors, scratch + p + p * p)
    if status != 0:
        return status
    for i in range(p):
        part = 0.0
        for j in range(p):
            part += vectors[i * p + j] * gradient[j]
        for j in range(p):
            theta[j] -= part / values[i] * vectors[i * p + j]
    return 0


def newton_step(const double[:, ::1] x, const double[::1] y, double[::1] theta, int threads):
    """Move theta in place and return (mean loss before, mean loss after)."""
    cdef Py_ssize_t n = x.shape[0], p = x.shape[1]
    cdef double before = 0.0, after = 0.0
    cdef double *memory
    cdef int status
    with nogil:
        memory = <double *> malloc((2 * p + 3 * p * p) * sizeof(double))
        status = -1
        if memory != NULL:
            status = weighted_loss(HUBER, MALLOWS, False, 1.345, 1.0, 1.0, 3.0, &x[0, 0], n, p,
                                   8 * p, 8, &y[0], &theta[0], <double> n, threads, &before)
        if status == 0:
            status = weighted_sums(HUBER, MALLOWS, False, 1.345, 1.0, 1.0, 3.0, &x[0, 0], n, p,
                                   8 * p, 8, &y[0], &theta[0], GRADIENT | HESSIAN, <double> n,
                                   threads, memory, memory + p, NULL)
        if status == 0:
            status = solve(memory + p, p, memory, memory + p + p * p, &theta[0])
        if status == 0:
            status = weighted_loss(HUBER, MALLOWS, False, 1.345, 1.0, 1.0, 3.0, &x[0, 0], n, p,
                                   8 * p, 8, &y[0], &theta[0], <double> n, threads, &after)
        free(memory)
    if status != 0:
        raise RuntimeError(f"the kernels returned {status}")
    return before, after


def gradient_of_floats(const float[:, ::1] x, const double[::1] y, const double[::1] theta,
                       double[::1] gradient):
    """The gradient of records that are stored in single precision."""
    cdef Py_ssize_t n = x.shape[0], p = x.shape[1]
    with nogil:
        weighted_sums(HUBER, MALLOWS, False, 1.345, 1.0, 1.0, 3.0, &x[0, 0], n, p, 4 * p, 4, &y[0],
                      &theta[0], GRADIENT, <double> n, 1, &gradient[0], NULL, NULL)


def status_of(int loss, int weighting, double radius, int want):
    """What the kernels return for one record at the origin."""
    cdef double x = 0.0, y = 0.0, theta = 0.0
    cdef double[3] sums
    cdef int status
    with nogil:
        status = weighted_sums(loss, weighting, False, 1.0, 1.0, 1.0, radius, &x, 1, 1, 8, 8, &y,
                               &theta, want, 1.0, 1, sums, sums + 1, sums + 2)
    return status
