# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decisions of private clipped Newton about numbers that were released.

Nothing here knows of records, budgets or noise: everything is post-processing.  Each function
serves one of ``dpfast.solvers.pcn``, which documents it and passes its
constants; ``tests/twins/decisions.py`` holds the plain NumPy twins.

Conventions of the file
-----------------------
* Eigenvectors are rows (vector k is contiguous), as of :mod:`dpfast.kernels.linalg`.
* ``bins`` are those of a ``NormHistogram``: shares, upper edges and midpoints of the detected ones,
  and the noisy shares of the octaves at their end.
"""

cimport cython
cimport numpy as cnp
from libc.float cimport DBL_MAX
from libc.math cimport (
    INFINITY, ceil, erfc, exp, exp2, fabs, hypot, lgamma, log, log2, pow, sqrt
)
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from dpfast.kernels.linalg cimport (
    apply, congruent, inner, multiply, solve_in_place, symmetric_eigen
)

import numpy as np

cnp.import_array()

#: Replacement of zero in denominators.
cdef double TINY = 1e-300

include "linalg/arguments.pxi"


cdef inline double _dot(const double *a, const double *b, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(size):
        total += a[i] * b[i]
    return total


cdef inline double _larger(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline double _smaller(double a, double b) noexcept nogil:
    return a if a < b else b


cdef inline double _normal_excess(double at) noexcept nogil:
    cdef double density = exp(-0.5 * at * at) * 0.3989422804014327  # (2 pi)^-1/2
    return 2.0 * (at * density + (1.0 - at * at) * 0.5 * erfc(at * sqrt(0.5)))


cdef const double *_of(object value, Py_ssize_t size, list copies) except NULL:
    """Return the data of an array of this size; where it is no contiguous float64, of a copy."""
    cdef cnp.ndarray array = _float_array(value, "argument")
    if cnp.PyArray_SIZE(array) != size:
        raise ValueError(f"expected {size} numbers; got shape {np.shape(value)}")
    if array is not value:
        copies.append(array)
    return <const double *> cnp.PyArray_DATA(array)


include "decisions/norms.pxi"
include "decisions/whitening.pxi"
include "decisions/curvatures.pxi"
include "decisions/links.pxi"
include "decisions/covariances.pxi"
include "decisions/steps.pxi"
