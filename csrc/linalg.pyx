# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Small symmetric matrices: eigenvalues, flooring, Newton directions, sandwiches.

Everything here is post-processing of matrices that were already released with noise; it knows
nothing of records or budgets.  It exists because p is small and the call overhead of
``numpy.linalg`` then dominates.  ``tests/twins/linalg.py`` holds the plain NumPy twins.

Conventions of the file
-----------------------
* Only the symmetric part of a matrix argument counts.
* Eigenvectors are stored inside as *rows* (vector k is contiguous); Python sees columns.
* A matrix with a non-finite entry never reaches an iteration: its answer is NaN.
"""

cimport cython
cimport numpy as cnp
from libc.float cimport DBL_MAX
from libc.math cimport NAN, fabs, frexp, ldexp, sqrt
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from scipy.linalg.cython_blas cimport ddot, dgemm, dgemv, dsyrk
from scipy.linalg.cython_lapack cimport dgesv, dsyevd

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #ifdef __FAST_MATH__
    #error "-ffast-math deletes the NaN checks; build without it"
    #endif
    #define DPFAST_JACOBI_MAX_P 8      /* beyond this LAPACK is faster (bench/kernels) */
    #define DPFAST_LOOP_MAX_P 16       /* beyond this BLAS products are faster */
    #define DPFAST_MAX_SWEEPS 40       /* convergence takes 4 to 7; this is only a guard */
    """
    enum:
        JACOBI_MAX_P "DPFAST_JACOBI_MAX_P"
        LOOP_MAX_P "DPFAST_LOOP_MAX_P"
        MAX_SWEEPS "DPFAST_MAX_SWEEPS"


include "linalg/arguments.pxi"
include "linalg/eigenvalues.pxi"
include "linalg/products.pxi"
include "linalg/steps.pxi"


# ---------------------------------------------------------------------------------------------
# Python functions

def eigh(A):
    """Compute eigenvalues, ascending, and eigenvectors, as columns, of a symmetric matrix.

    NaN where `A` has a non-finite entry.
    """
    cdef cnp.ndarray source = _square(A, "A")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0), i, j
    cdef cnp.ndarray values = _new_vector(p), vectors = _new_matrix(p)
    cdef const double *a = _data(source)
    cdef double *w = _data(values)
    cdef double *v = _data(vectors)
    cdef double *memory = _workspace(2 * p * p)
    cdef int status
    with nogil:
        status = symmetric_eigen(a, p, w, memory, memory + p * p)
        for i in range(p):
            for j in range(p):
                v[i * p + j] = memory[j * p + i]
        free(memory)
    _check_memory(status)
    return values, vectors


def floor_eigenvalues(A, double floor):
    """Compute the nearest symmetric matrix whose eigenvalues are at least `floor`.

    Nearest in the Frobenius and in the operator norm.  Where no eigenvalue is below `floor` the
    matrix comes back unchanged, without reconstruction error.

    Parameters
    ----------
    A : ndarray of shape (p, p)
    floor : float
        Finite, at least zero.

    Returns
    -------
    floored : ndarray of shape (p, p)
        Exactly symmetric.
    eigenvalues : ndarray of shape (p,)
        Eigenvalues of `A` before flooring, ascending.
    n_floored : int
        How many were not at least `floor` (NaN counts).
    """
    _check_floor(floor, False)
    cdef cnp.ndarray source = _square(A, "A")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0), i, k, count
    cdef cnp.ndarray values = _new_vector(p), out = _new_matrix(p)
    cdef const double *a = _data(source)
    cdef double *w = _data(values)
    cdef double *result = _data(out)
    cdef double *memory = _workspace(p * p)
    cdef double root
    cdef int status
    with nogil:
        status = symmetric_eigen(a, p, w, memory, result)   # result: the symmetric part
        count = _count_floored(w, p, floor)
        if status != 0:
            for i in range(p * p):
                result[i] = NAN
        elif count > 0:
            for k in range(p):
                root = sqrt(_floored(w[k], floor))
                for i in range(p):
                    memory[k * p + i] *= root
            _sum_of_squares(memory, p, result)
        free(memory)
    _check_memory(status)
    return out, values, count


def weighted_mean(arrays, weights):
    """Compute the weighted mean of vectors or matrices of one shape, added in order.

    Parameters
    ----------
    arrays : sequence of ndarray, length K, at least 1
    weights : sequence of float, length K
        Positive; they need not add up to 1.

    Returns
    -------
    ndarray of the shape of each
    """
    cdef list parts = [_float_array(array, "arrays") for array in arrays]
    cdef Py_ssize_t K = len(parts), size, i, k
    if K == 0 or len(weights) != K:
        raise ValueError(
            f"there must be as many weights as arrays, at least one; got {len(weights)} and {K}"
        )
    cdef cnp.ndarray first = parts[0], array
    cdef cnp.ndarray out = cnp.PyArray_SimpleNew(
        cnp.PyArray_NDIM(first), cnp.PyArray_DIMS(first), cnp.NPY_FLOAT64
    )
    cdef double *mean = _data(out)
    cdef const double *part
    cdef double weight, total = 0.0
    size = cnp.PyArray_SIZE(first)
    for k in range(K):
        array = parts[k]
        if not cnp.PyArray_SAMESHAPE(array, first):
            raise ValueError("arrays must all have one shape")
        weight = weights[k]
        part = _data(array)
        for i in range(size):
            mean[i] = weight * part[i] if k == 0 else mean[i] + weight * part[i]
        total += weight
    for i in range(size):
        mean[i] /= total
    return out


def congruence(A, S):
    """Compute ``A S A'`` of a symmetric matrix, exactly symmetric.

    Parameters
    ----------
    A, S : ndarray of shape (p, p)

    Returns
    -------
    ndarray of shape (p, p)
    """
    cdef cnp.ndarray outer = _square(A, "A"), inner = _square(S, "S")
    cdef Py_ssize_t p = cnp.PyArray_DIM(outer, 0)
    if cnp.PyArray_DIM(inner, 0) != p:
        raise ValueError(f"S must have the shape of A, ({p}, {p}), got {np.shape(inner)}")
    cdef cnp.ndarray out = _new_matrix(p)
    cdef double *memory = _workspace(p * p)
    _congruence(_data(outer), _data(inner), p, memory, _data(out))
    free(memory)
    return out


def variance_bounds(mapping, meat, bias, directions, double noise, natural):
    """Bound the variances of mapped coefficients from below and above, without computing them.

    An eigenvalue of the covariance of whitened coefficients is at least ``noise^2`` and at most the
    trace.  Of what is not a number the bounds are NaN.

    Parameters
    ----------
    mapping : ndarray of shape (p, p)
        Map from whitened coefficients.
    meat : ndarray of shape (p, p)
        Covariance of sampling, up to a factor of at most one.
    bias : ndarray of shape (p,)
        Variances of the bias that is left.
    directions : ndarray of shape (p, d), optional
        More of that bias, in some directions.
    noise : float
    natural : ndarray of shape (p, p), optional
        A further map: variances are before and after it.

    Returns
    -------
    tuple of two floats
    """
    cdef cnp.ndarray rows = _square(mapping, "mapping"), scores = _square(meat, "meat")
    cdef Py_ssize_t p = cnp.PyArray_DIM(rows, 0), i
    cdef cnp.ndarray of_bias = _vector(bias, "bias", p), extra
    cdef const double *left = _data(of_bias)
    cdef cnp.ndarray further = rows if natural is None else _square(natural, "natural")
    if not cnp.PyArray_DIM(scores, 0) == cnp.PyArray_DIM(further, 0) == p:
        raise ValueError(f"meat and natural must have the shape of mapping, ({p}, {p})")
    cdef double total = p * noise * noise, squares = 0.0, least = DBL_MAX, factor = 1.0, row
    cdef double *product
    for i in range(p):
        total += _data(scores)[i * p + i] + left[i]
        row = _squares(_data(rows) + i * p, p)
        squares += row
        least = least if row >= least else row
    if directions is not None:
        extra = _float_array(directions, "directions")
        total += _squares(_data(extra), cnp.PyArray_SIZE(extra))
    if natural is not None:
        factor += _squares(_data(further), p * p)
        product = _workspace(p * p)
        _product(_data(further), _data(rows), p, product)
        for i in range(p):
            row = _squares(product + i * p, p)
            least = least if row >= least else row
        free(product)
    return noise * noise * least, total * squares * factor


cdef double _squares(const double *values, Py_ssize_t size) noexcept:
    """Sum squares."""
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(size):
        total += values[i] * values[i]
    return total


def noise_after_steps(inverses, curvatures, step_sizes, gradient_scales, curvature_scales):
    """Compute the error covariance that noise leaves after damped Newton steps.

    The step with inverse P and curvature H takes an error e to ``A e + eta P W e - eta P z`` with
    ``A = I - eta P H``, z normal of scale s, and W symmetric normal noise of scale w, for which
    ``E[W C W] = (w^2/2)(C + tr(C) I)``: a covariance C becomes
    ``A C A' + eta^2 P (s^2 I + (w^2/2)(C + tr(C) I)) P``.  It starts from zero.

    Parameters
    ----------
    inverses, curvatures : sequence of ndarray of shape (p, p), length K, at least 1
        ``P`` and ``H`` of each step, symmetric.
    step_sizes, gradient_scales, curvature_scales : sequence of float, length K
        ``eta``, ``s`` and ``w`` of each step.

    Returns
    -------
    ndarray of shape (p, p)
        Exactly symmetric.
    """
    cdef list P = [_square(matrix, "inverses") for matrix in inverses]
    cdef list H = [_square(matrix, "curvatures") for matrix in curvatures]
    cdef Py_ssize_t K = len(P), p, k
    if K == 0 or len(H) != K:
        raise ValueError(
            f"there must be as many curvatures as inverses, at least one; got {len(H)} and {K}"
        )
    p = cnp.PyArray_DIM(<cnp.ndarray> P[0], 0)
    for k in range(K):
        if (cnp.PyArray_DIM(<cnp.ndarray> P[k], 0) != p
                or cnp.PyArray_DIM(<cnp.ndarray> H[k], 0) != p):
            raise ValueError(f"inverses and curvatures must all have shape ({p}, {p})")
    cdef cnp.ndarray sizes = _vector(step_sizes, "step_sizes", K)
    cdef cnp.ndarray gradients = _vector(gradient_scales, "gradient_scales", K)
    cdef cnp.ndarray owns = _vector(curvature_scales, "curvature_scales", K)
    cdef cnp.ndarray out = _new_matrix(p)
    cdef double *result = _data(out)
    cdef double *memory = _workspace(3 * p * p)
    memset(result, 0, p * p * sizeof(double))
    for k in range(K):
        _noise_after_step(
            _data(<cnp.ndarray> P[k]), _data(<cnp.ndarray> H[k]), p, _data(sizes)[k],
            _data(gradients)[k], _data(owns)[k], memory, result,
        )
    free(memory)
    return out


cdef void _noise_after_step(const double *P, const double *H, Py_ssize_t p, double size,
                            double gradient_scale, double curvature_scale, double *memory,
                            double *C) noexcept nogil:
    """Take one step of this recursion in place; `memory` has room for 3 p*p numbers."""
    cdef double *contraction = memory
    cdef double *excitation = memory + p * p
    cdef double *scratch = memory + 2 * p * p
    cdef double trace = 0.0, half = 0.5 * curvature_scale * curvature_scale
    cdef Py_ssize_t i
    _product(P, H, p, contraction)
    for i in range(p * p):
        contraction[i] *= -size
        excitation[i] = half * C[i]
    for i in range(p):
        contraction[i * p + i] += 1.0
        trace += C[i * p + i]
    for i in range(p):
        excitation[i * p + i] += gradient_scale * gradient_scale + half * trace
    _congruence(contraction, C, p, scratch, C)
    _congruence(P, excitation, p, scratch, contraction)
    for i in range(p * p):
        C[i] += size * size * contraction[i]


def sandwich(H, Q, double floor_h):
    """Compute the sandwich covariance ``Hf^-1 Qf Hf^-1`` of two symmetric matrices.

    Parameters
    ----------
    H : ndarray of shape (p, p)
        Bread; its eigenvalues are floored at `floor_h`.
    Q : ndarray of shape (p, p)
        Meat; its eigenvalues are floored at zero.
    floor_h : float
        Finite and positive.

    Returns
    -------
    covariance : ndarray of shape (p, p)
        Exactly symmetric and positive semidefinite up to rounding.
    n_floored_h, n_floored_q : int
        How many eigenvalues were floored in each (NaN counts).
    """
    _check_floor(floor_h, True)
    cdef cnp.ndarray bread = _square(H, "H"), meat = _square(Q, "Q")
    cdef Py_ssize_t p = cnp.PyArray_DIM(bread, 0), i, k, count_h, count_q
    if cnp.PyArray_DIM(meat, 0) != p:
        raise ValueError(f"Q must have the shape of H, ({p}, {p}), got {np.shape(meat)}")
    cdef cnp.ndarray out = _new_matrix(p)
    cdef const double *h = _data(bread)
    cdef const double *q = _data(meat)
    cdef double *result = _data(out)
    cdef double *memory = _workspace(4 * p * p + p)
    cdef double *bread_vectors = memory
    cdef double *meat_vectors = memory + p * p
    cdef double *first = memory + 2 * p * p
    cdef double *second = memory + 3 * p * p
    cdef double *values = memory + 4 * p * p
    cdef double root, one = 1.0, zero = 0.0
    cdef int status_h, status_q, n = <int> p
    with nogil:
        # Rows of `first`: W' / lambda (bread); rows of `meat_vectors`: sqrt(q_k) u_k'.
        status_h = symmetric_eigen(h, p, values, bread_vectors, first)
        count_h = _count_floored(values, p, floor_h)
        for k in range(p):
            root = _floored(values[k], floor_h)
            for i in range(p):
                first[k * p + i] = bread_vectors[k * p + i] / root
        status_q = symmetric_eigen(q, p, values, meat_vectors, second)
        count_q = _count_floored(values, p, 0.0)
        for k in range(p):
            root = sqrt(_floored(values[k], 0.0))
            for i in range(p):
                meat_vectors[k * p + i] *= root
        # In the column-major eyes of BLAS our row arrays are transposed:
        # second = (sqrt(q) U') W, then result = second (W' / lambda) = sqrt(q) U' Hf^-1.
        dgemm(b"T", b"N", &n, &n, &n, &one, bread_vectors, &n, meat_vectors, &n, &zero,
              second, &n)
        dgemm(b"N", b"N", &n, &n, &n, &one, first, &n, second, &n, &zero, meat_vectors, &n)
        if status_h == 0 and status_q == 0:
            _sum_of_squares(meat_vectors, p, result)
        else:
            for i in range(p * p):
                result[i] = NAN
        free(memory)
    _check_memory(status_h)
    _check_memory(status_q)
    return out, count_h, count_q
