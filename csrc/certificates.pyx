# cython: language_level=3, boundscheck=False, wraparound=False
"""Recursive eigenvalue certificates: counts of a public recursion, its inverse and its integral.

Functions of public constants and of one number; no records, no budgets.  Claims R12 and R13 of
``dpfast/privacy/release/PROOFS-release.md``; ``tests/twins/certificates.py`` is the NumPy twin.
"""

from libc.float cimport DBL_MAX
from libc.math cimport ldexp
from libc.stdint cimport int64_t

cimport numpy as cnp

import numpy as np

from dpfast.errors import InvalidInput

cnp.import_array()

cdef extern from "certificates/certificates_core.h" nogil:
    ctypedef struct dpf_recursion:
        int kind
        double a
        double k
        double g
        double ridge
        double threshold
    int64_t dpf_recursion_count(const dpf_recursion *r, double x, int64_t most)
    size_t dpf_table_size(const dpf_recursion *r, double largest, double eta, double growth)
    int dpf_table_fill(const dpf_recursion *r, double largest, double eta, double growth, size_t m,
                       double *b, double *D, double *e, double *slope, double *prefix)
    int64_t dpf_table_count(size_t m, const double *b, const double *e, const double *slope,
                            double x)
    double dpf_table_inverse(size_t m, const double *b, const double *e, const double *slope,
                             int64_t count)
    double dpf_table_integral(size_t m, const double *b, const double *D, const double *prefix,
                              double x)
    double dpf_table_integral_inverse(size_t m, const double *b, const double *D,
                                      const double *prefix, double t)

LINEAR_MODEL = 0
SMOOTH_LOSS = 1

#: Most nodes of a table.
MOST_NODES = 1 << 22
cdef enum:
    MOST_TABLE = 1 << 22


cdef class RecursionTable:
    """Public recursion ``x -> x - step(x)``, its counts, their inverse and the skip integral.

    Parameters
    ----------
    kind : {LINEAR_MODEL, SMOOTH_LOSS}
        ``step(x)`` is ``x (exp(k (1 - sqrt(1 - a/(x + ridge)))) - 1) + g`` or
        ``x - sqrt(x^2 - a) + g``.
    a, k, g, ridge : float
        Public constants of the step.
    threshold : float
        Up to it the recursion is zero.
    largest : float
        Public bound on the numbers it is used for.
    eta : float
        Public bound on their error.
    growth : float
        Ratio of consecutive nodes of the table, above 1.
    """

    cdef dpf_recursion recursion
    cdef size_t size
    cdef readonly object nodes, heights, _levels, _slopes, _prefix
    cdef double *b
    cdef double *D
    cdef double *e
    cdef double *s
    cdef double *p

    def __init__(self, int kind, double a, double k, double g, double ridge, double threshold,
                 double largest, double eta=0.0, double growth=1.001953125):
        numbers = (a, k, g, ridge, threshold, largest, eta, growth)
        if not (kind in (0, 1) and all(0.0 <= x < float("inf") for x in numbers)
                and g > 0.0 and largest > 0.0 and growth >= 1.0 + 2.0**-20):
            raise InvalidInput(
                "a recursion needs kind 0 or 1 and finite public constants of at least 0, g and "
                f"largest positive and growth above 1; received kind={kind}, (a, k, g, ridge, "
                f"threshold, largest, eta, growth)={numbers}."
            )
        cdef dpf_recursion r
        r.kind, r.a, r.k, r.g, r.ridge, r.threshold = kind, a, k, g, ridge, threshold
        self.recursion = r
        self.size = dpf_table_size(&r, largest, eta, growth)
        if self.size > MOST_NODES:
            raise InvalidInput(
                f"the table would need more than {MOST_NODES} nodes. Pass a larger growth."
            )
        cdef cnp.ndarray table = np.zeros((5, self.size))
        cdef double *start = <double *> cnp.PyArray_DATA(table)
        self.b, self.D = start, start + self.size
        self.e, self.s = start + 2 * self.size, start + 3 * self.size
        self.p = start + 4 * self.size
        table.flags.writeable = False
        self.nodes, self.heights, self._levels, self._slopes, self._prefix = table
        cdef int status
        with nogil:
            status = dpf_table_fill(&self.recursion, largest, eta, growth, self.size, self.b,
                                    self.D, self.e, self.s, self.p)
        if status:
            raise InvalidInput(
                "the step is not finite at the threshold, or the error of the numbers is not small "
                f"beside the threshold: threshold={threshold!r}, a={a!r}, eta={eta!r}. Pass "
                "constants with a < threshold + ridge and a smaller eta."
            )

    def exact_count(self, double x, int64_t most=1 << 40):
        """Count steps of the plain recursion, without outward rounding; not for a release."""
        cdef int64_t count
        with nogil:
            count = dpf_recursion_count(&self.recursion, x, most)
        return count

    def count(self, double x):
        """Compute ``min{N : S^N(x) = 0}`` of the tabulated minorant S: sensitivity 1 (R12)."""
        cdef int64_t count
        with nogil:
            count = dpf_table_count(self.size, self.b, self.e, self.s, x)
        return count

    def inverse(self, int64_t count):
        """Find a number whose count is at most this, within rounding of the largest (R12)."""
        cdef double x
        with nogil:
            x = dpf_table_inverse(self.size, self.b, self.e, self.s, count)
        return x

    def integral(self, double x):
        """Compute the integral of one over the step: sensitivity 1 without iterating (R13)."""
        return dpf_table_integral(self.size, self.b, self.D, self.p, x)

    def integral_inverse(self, double t):
        """Find a number at which :meth:`integral` is at most t, within rounding of the largest."""
        return dpf_table_integral_inverse(self.size, self.b, self.D, self.p, t)

    @property
    def integral_error(self):
        """Bound on the rounding of :meth:`integral` (claim R13)."""
        return (self.size + 64) * 2.0**-50 * self.p[self.size - 1]


# ---- for other compiled modules; documented in dpfast/kernels/certificates.pxd -----------------

cdef bint take(dpf_recursion *r, int kind, double a, double k, double g, double ridge,
               double threshold, double largest, double eta, double growth) noexcept nogil:
    """Fill the constants; return whether RecursionTable accepts them."""
    r.kind, r.a, r.k, r.g, r.ridge, r.threshold = kind, a, k, g, ridge, threshold
    if not (0 <= kind <= 1 and 0.0 <= a <= DBL_MAX and 0.0 <= k <= DBL_MAX and 0.0 < g <= DBL_MAX):
        return False
    if not (0.0 <= ridge <= DBL_MAX and 0.0 <= threshold <= DBL_MAX and 0.0 <= eta <= DBL_MAX):
        return False
    return 0.0 < largest <= DBL_MAX and 1.0 + ldexp(1.0, -20) <= growth <= DBL_MAX


cdef Py_ssize_t table_size(int kind, double a, double k, double g, double ridge, double threshold,
                           double largest, double eta, double growth) noexcept nogil:
    cdef dpf_recursion r
    cdef size_t size = 0
    if take(&r, kind, a, k, g, ridge, threshold, largest, eta, growth):
        size = dpf_table_size(&r, largest, eta, growth)
    return 0 if size > MOST_TABLE else size


cdef int fill_table(int kind, double a, double k, double g, double ridge, double threshold,
                    double largest, double eta, double growth, Py_ssize_t size,
                    double *table) noexcept nogil:
    cdef dpf_recursion r
    if not take(&r, kind, a, k, g, ridge, threshold, largest, eta, growth):
        return 1
    return dpf_table_fill(&r, largest, eta, growth, size, table, table + size, table + 2 * size,
                          table + 3 * size, table + 4 * size)


cdef int64_t table_count(const double *table, Py_ssize_t size, double x) noexcept nogil:
    return dpf_table_count(size, table, table + 2 * size, table + 3 * size, x)


cdef double table_inverse(const double *table, Py_ssize_t size, int64_t count) noexcept nogil:
    return dpf_table_inverse(size, table, table + 2 * size, table + 3 * size, count)
