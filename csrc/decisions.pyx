# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decisions of private clipped Newton about numbers that were released.

    apply, congruent, inner, multiply, multiply_by_blas, solve_in_place, solve_rows, symmetric_eigen
)

import math

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
    apply, congruent, inner, multiply, multiply_by_blas, solve_in_place, solve_rows, symmetric_eigen
)

import math

import numpy as np

cnp.import_array()

#: Replacement of zero in denominators.
cdef double TINY = 1e-300

# Constants of dpfast.solvers.pcn, set once by the functions `connect_`...
cdef double UPDATE_SDS, MIN_CONDITION, MIN_CURVATURE, MAX_CURVATURE
cdef double SIGNAL_SDS, CUTTING_PLANE_PART, TRUST_REGION, MIN_VARIATION
cdef double FALSE_ALARM, SLIGHT, OF_SAMPLING
cdef Py_ssize_t N_NODES, MANY, MEATS
cdef const double *NODES
cdef const double *MASSES
cdef object quadrature, NewtonSolution, NoisyScore, MAX_STEPS
cdef object new_tuple = tuple.__new__

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


def connect_curvatures(nodes, masses, double update_sds, double min_condition, double smallest,
                       double largest):
    """Set the quadrature for a standard normal, and the constants of curvatures."""
    global quadrature, N_NODES, NODES, MASSES
    global UPDATE_SDS, MIN_CONDITION, MIN_CURVATURE, MAX_CURVATURE
    quadrature, N_NODES = [nodes, masses], len(nodes)
    NODES, MASSES = _of(nodes, N_NODES, quadrature), _of(masses, N_NODES, quadrature)
    UPDATE_SDS, MIN_CONDITION = update_sds, min_condition
    MIN_CURVATURE, MAX_CURVATURE = smallest, largest


def connect_limits(double signal_sds, double cutting_plane_part, double trust_region):
    """Set the constants of limits on the length of a step."""
    global SIGNAL_SDS, CUTTING_PLANE_PART, TRUST_REGION
    SIGNAL_SDS, CUTTING_PLANE_PART, TRUST_REGION = signal_sds, cutting_plane_part, trust_region


def connect_steps(solution, score, max_steps, Py_ssize_t many, Py_ssize_t meats,
                  double min_variation, double false_alarm, double slight, double of_sampling):
    """Set the classes of results, and the constants of Newton steps."""
    global NewtonSolution, NoisyScore, MAX_STEPS, MANY, MEATS
    global MIN_VARIATION, FALSE_ALARM, SLIGHT, OF_SAMPLING
    NewtonSolution, NoisyScore, MAX_STEPS = solution, score, max_steps
    MANY, MEATS = many, meats
    MIN_VARIATION, FALSE_ALARM, SLIGHT, OF_SAMPLING = min_variation, false_alarm, slight, of_sampling


include "decisions/norms.pxi"
include "decisions/whitening.pxi"
include "decisions/curvatures.pxi"
include "decisions/links.pxi"
include "decisions/covariances.pxi"
include "decisions/steps.pxi"
include "decisions/newton.pxi"
