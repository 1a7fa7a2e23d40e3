# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A private Newton fit with intervals as compiled arithmetic only: what `dpfast.fit` is held to.

The records passes, the noise, the release grid, the Newton steps and the sandwich covariance of
`dpfast.fit(..., "log-cosh", method="newton")`, for a plan that was made beforehand: no checks, no
ledger, no receipts, no Python from the first record to the last interval.
"""

cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.math cimport floor, ldexp, sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from numpy.random cimport bitgen_t
from numpy.random.c_distributions cimport random_standard_normal_fill

from dpfast.kernels.linalg cimport symmetric_eigen
from dpfast.kernels.records cimport weighted_sums

import numpy as np

cnp.import_array()

cdef extern from "sampler/sampler_core.h" nogil:
    ctypedef struct dpf_stream:
        unsigned char *buffer
        size_t position
        size_t length
        int status
        int (*refill)(dpf_stream *stream) noexcept
        void *owner
        uint64_t consumed
    int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits) noexcept
    void dpf_release(const double *value, const int64_t *noise, double *out, size_t size,
                     double grid) noexcept
    void dpf_release_symmetric(const double *matrix, const int64_t *noise, double *out, size_t p,
                               double grid, double grid_off) noexcept

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void *buffer, size_t length, unsigned int flags)

cdef enum:
    LOG_COSH = 1
    MALLOWS = 1
    BYTES = 4080   # of entropy fetched at once, as by dpfast.EntropyNoise
    HESSIAN = 2
    MEAT = 4
    MAJORIZE = 32


cdef int refill(dpf_stream *stream) noexcept nogil:
    stream.position = 0
    stream.length = BYTES
    return 0 if getrandom(stream.buffer, BYTES, 0) == BYTES else -1


cdef struct Part:
    # noise scale, and the grid as mechanisms.py sets it
    double scale
    double grid
    double grid_off
    int64_t bits


cdef struct Step:
    int64_t want
    double size
    double floor
    Part gradient
    Part curvature
    Part meat


cdef struct Noise:
    bitgen_t *generator   # NULL: exact noise
    dpf_stream stream
    double *drawn
    int64_t *integers


cdef void draw(Noise *noise, Py_ssize_t size, int bits) noexcept nogil:
    cdef Py_ssize_t i
    cdef double factor = ldexp(1.0, bits)
    if noise.generator == NULL:
        dpf_normals(&noise.stream, noise.integers, size, bits)
        return
    random_standard_normal_fill(noise.generator, size, noise.drawn)
    for i in range(size):
        noise.integers[i] = <int64_t> floor(factor * noise.drawn[i])


cdef void add(Noise *noise, Part part, double *matrix, Py_ssize_t p, double *out) noexcept nogil:
    draw(noise, p * (p + 1) // 2, <int> part.bits)
    dpf_release_symmetric(matrix, noise.integers, out, p, part.grid, part.grid_off)


cdef void product(const double *A, const double *B, Py_ssize_t p, double *out) noexcept nogil:
    cdef Py_ssize_t i, j, k
    memset(out, 0, p * p * sizeof(double))
    for i in range(p):
        for k in range(p):
            for j in range(p):
                out[i * p + j] += A[i * p + k] * B[k * p + j]


cdef void congruence(const double *A, const double *S, Py_ssize_t p, double *scratch,
                     double *out) noexcept nogil:
    """out = A S A'."""
    cdef Py_ssize_t i, j, k
    cdef double total
    product(A, S, p, scratch)
    for i in range(p):
        for j in range(i, p):
            total = 0.0
            for k in range(p):
                total += scratch[i * p + k] * A[j * p + k]
            out[i * p + j] = total
            out[j * p + i] = total


cdef void rebuilt(const double *vectors, const double *values, Py_ssize_t p,
                  double *out) noexcept nogil:
    """out = sum_k values[k] v_k v_k'."""
    cdef Py_ssize_t i, j, k
    memset(out, 0, p * p * sizeof(double))
    for k in range(p):
        for i in range(p):
            for j in range(p):
                out[i * p + j] += values[k] * vectors[k * p + i] * vectors[k * p + j]


def fit(const double[:, ::1] X, const double[::1] y, double radius, double c, double scale,
        double max_step, double quantile, cnp.ndarray plan not None, bit_generator=None):
    """Estimate and intervals.

    Parameters
    ----------
    plan : structured ndarray
        One :data:`STEP` for each step; only the last buys the meat.
    bit_generator : numpy.random.BitGenerator, optional
        Of seeded noise; exact noise from the operating system's entropy without.

    Returns
    -------
    theta : ndarray of shape (p,)
    interval : ndarray of shape (p, 2)
    """
    cdef Py_ssize_t n = X.shape[0], q = X.shape[1], p = q + 1, K = len(plan)
    cdef Py_ssize_t pp = p * p, half_p = p * (p + 1) // 2, k, i, j, count = 0
    cdef const Step *steps = <const Step *> cnp.PyArray_DATA(plan)
    cdef const Step *step
    theta, interval = np.zeros(p), np.empty((p, 2))
    cdef double[::1] at = theta
    cdef double[:, ::1] ends = interval
    cdef double *memory = <double *> malloc(((2 * K + 9) * pp + 4 * p + 2 * half_p) * sizeof(double)
                                            + BYTES)
    if memory == NULL:
        raise MemoryError
    cdef double *curvatures = memory
    cdef double *inverses = memory + K * pp
    cdef double *exact = inverses + K * pp
    cdef double *meat = exact + pp
    cdef double *vectors = meat + pp
    cdef double *scratch = vectors + pp
    cdef double *pooled = scratch + pp
    cdef double *covariance = pooled + pp
    cdef double *after = covariance + pp
    cdef double *own = after + pp
    cdef double *contraction = own + pp
    cdef double *values = contraction + pp
    cdef double *gradient = values + p
    cdef double *direction = gradient + p
    cdef double *inverted = direction + p
    cdef double length, coefficient, trace, half, weight, weights = 0.0, lowest, error
    cdef Noise noise
    noise.generator = NULL
    noise.drawn = inverted + p
    noise.integers = <int64_t *> (noise.drawn + half_p)
    noise.stream.buffer = <unsigned char *> (noise.drawn + 2 * half_p)
    noise.stream.position = noise.stream.length = 0
    noise.stream.refill = refill
    if bit_generator is not None:
        noise.generator = <bitgen_t *> PyCapsule_GetPointer(bit_generator.capsule, "BitGenerator")
    with nogil:
        memset(pooled, 0, pp * sizeof(double))
        for k in range(K):
            step = &steps[k]
            weighted_sums(LOG_COSH, MALLOWS, True, c, 1.0, scale, radius, &X[0, 0], n, q,
                          q * sizeof(double), sizeof(double), &y[0], &at[0], <int> step.want, n,
                          1, direction, exact, contraction)
            draw(&noise, p, <int> step.gradient.bits)
            dpf_release(direction, noise.integers, gradient, p, step.gradient.grid)
            add(&noise, step.curvature, exact, p, curvatures + k * pp)
            if step.want & MEAT:
                add(&noise, step.meat, contraction, p, meat)
            symmetric_eigen(curvatures + k * pp, p, values, vectors, scratch)
            memset(direction, 0, p * sizeof(double))
            for i in range(p):
                inverted[i] = 1.0 / (step.floor if values[i] < step.floor else values[i])
                coefficient = 0.0
                for j in range(p):
                    coefficient += vectors[i * p + j] * gradient[j]
                coefficient *= inverted[i]
                for j in range(p):
                    direction[j] += coefficient * vectors[i * p + j]
            rebuilt(vectors, inverted, p, inverses + k * pp)
            length = 0.0
            for i in range(p):
                length += direction[i] * direction[i]
            length = sqrt(length)
            length = step.size * (max_step / length if length > max_step else 1.0)
            for i in range(p):
                at[i] -= length * direction[i]
            if not step.want & MAJORIZE:
                weight = (steps[K - 1].curvature.scale / step.curvature.scale) ** 2
                weights += weight
                for i in range(pp):
                    pooled[i] += weight * curvatures[k * pp + i]
        # the pooled Hessian, floored, and its inverse
        for i in range(pp):
            pooled[i] /= weights
        lowest = 2.0 * steps[K - 1].curvature.scale / sqrt(weights) * sqrt(<double> p)
        symmetric_eigen(pooled, p, values, vectors, scratch)
        for i in range(p):
            if values[i] < lowest:
                values[i] = lowest
            inverted[i] = 1.0 / values[i]
        rebuilt(vectors, values, p, pooled)
        rebuilt(vectors, inverted, p, own)
        # the sampling part, with the meat's negative eigenvalues lifted to zero
        symmetric_eigen(meat, p, values, vectors, scratch)
        for i in range(p):
            values[i] = values[i] / n if values[i] > 0.0 else 0.0
        rebuilt(vectors, values, p, meat)
        congruence(own, meat, p, scratch, exact)
        # the privacy noise, through the matrices the steps used
        memset(covariance, 0, pp * sizeof(double))
        for k in range(K):
            step = &steps[k]
            half = 0.0 if step.want & MAJORIZE else 0.5 * step.curvature.scale ** 2
            product(inverses + k * pp, pooled if step.want & MAJORIZE else curvatures + k * pp, p,
                    contraction)
            trace = 0.0
            for i in range(p):
                trace += covariance[i * p + i]
            for i in range(pp):
                contraction[i] *= -step.size
                own[i] = half * covariance[i]
            for i in range(p):
                contraction[i * p + i] += 1.0
                own[i * p + i] += step.gradient.scale ** 2 + half * trace
            congruence(contraction, covariance, p, scratch, after)
            congruence(inverses + k * pp, own, p, scratch, contraction)
            for i in range(pp):
                covariance[i] = after[i] + step.size * step.size * contraction[i]
        for i in range(p):
            error = quantile * sqrt(exact[i * p + i] + covariance[i * p + i])
            ends[i, 0] = at[i] - error
            ends[i, 1] = at[i] + error
    free(memory)
    return theta, interval


#: What one entry of a plan holds; the same memory as the struct above.
PART = np.dtype([("scale", "f8"), ("grid", "f8"), ("grid_off", "f8"), ("bits", "i8")])
STEP = np.dtype([("want", "i8"), ("size", "f8"), ("floor", "f8"), ("gradient", PART),
                 ("curvature", PART), ("meat", PART)])
