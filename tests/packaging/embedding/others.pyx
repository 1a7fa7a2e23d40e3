"""A noisy count of keys, an eigenvalue's certificate and a surrogate, from outside.

What a count is released with is the caller's business: noise on a public grid, charged before.
"""

from libc.stdint cimport int64_t

from dpfast.kernels.acquisition cimport value_and_gradient_at
from dpfast.kernels.certificates cimport fill_table, table_count, table_inverse, table_size
from dpfast.kernels.keys cimport count_keys, key
from dpfast.kernels.sampler cimport add_noise, exact_laplace, exact_normals


def key_of(double x):
    return key(x)


def noisy_counts(const double[:] x, int64_t first, int shift, int cells, sampler, double grid):
    """How many entries each cell of keys has, with normal noise of 2^16 steps of the grid."""
    cdef int64_t[256] counts, noise
    cdef double[256] exact, found
    cdef int i
    for i in range(cells):
        counts[i] = 0
    with nogil:
        count_keys(&x[0], x.shape[0], x.strides[0], first, shift, counts, cells)
    for i in range(cells):
        exact[i] = <double> counts[i]
    exact_normals(sampler, noise, cells, 16)
    with nogil:
        add_noise(exact, noise, found, cells, grid)
    return [found[i] for i in range(cells)], [noise[i] for i in range(cells)]


def laplace(sampler, int size):
    cdef int64_t[256] found
    exact_laplace(sampler, found, size, 1, 3)
    return [found[i] for i in range(size)]


def certificate(double[::1] table, double x, constants):
    """Count of x, and a number with this count at most; None where the constants are refused."""
    cdef int kind
    cdef double a, k, g, ridge, threshold, largest, eta, growth
    kind, a, k, g, ridge, threshold, largest, eta, growth = constants
    cdef Py_ssize_t size = table_size(kind, a, k, g, ridge, threshold, largest, eta, growth)
    if size == 0 or 5 * size > table.shape[0]:
        return None
    if fill_table(kind, a, k, g, ridge, threshold, largest, eta, growth, size, &table[0]) != 0:
        return None
    cdef int64_t count = table_count(&table[0], size, x)
    return count, table_inverse(&table[0], size, count)


def surrogate(kernel, const double[:, ::1] Z, const double[::1] theta, double[:, ::1] gradient):
    return value_and_gradient_at(kernel, &Z[0, 0], Z.shape[0], Z.shape[1], &theta[0],
                                 &gradient[0, 0])
