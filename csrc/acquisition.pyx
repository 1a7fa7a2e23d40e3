# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Gradient information of a Gaussian process: trace, derivatives, minimisation (paper 4).

With the evaluated points D (m of them), b new points Z, both scaled, and ``K + noise = U'U``:

    B = U'^-1 A_D'               whitened covariance of the gradient with D     (m, d), cached
    V = U'^-1 k(D, Z)                                                           (m, b)
    S = k(Z, Z) + noise - V'V    what D does not tell about the values at Z     (b, b)
    R = A_Z - B'V                and its covariance with the gradient           (d, b)
    trace = T0 - |B|^2 - Tr(R S^-1 R')

and with G = R S^-1 (d, b) and M = G'G

    d Tr(R S^-1 R') = 2 <G, dA_Z> + 2 <P, dk(D, Z)> - <M, dk(Z, Z)>,   P = U^-1 (V M - B G).

Only U and B are as large as D squared and D times d; both are kept, U across steps as well: a
grown D extends it, to the same bits as if it had been there from the start.

Jitter: the noise variance of a point is ``noise_variance + 1e-10 k(point, point)``, and no pivot
of a factorisation is let below that, which without rounding it never is.  Nothing fails.
"""

cimport numpy as cnp
from libc.string cimport memcmp, memcpy

import threading

import numpy as np

cnp.import_array()

cdef extern from "acquisition/acquisition.h" nogil:
    ctypedef struct acquisition_model:
        size_t d, dp, m
        double *y
        double *theta
        double *B
        double trace
    ctypedef struct minimiser_options:
        size_t max_evaluations
        double first_step, gradient_tolerance, value_tolerance, target
        size_t evaluations
    enum:
        POLYNOMIAL2
    const char *const *acquisition_isas()
    int acquisition_set_isa(const char *name)
    int acquisition_new(acquisition_model *model, int family, size_t d,
                        const double *length_scales, double scale2, double offset, double noise)
    void acquisition_free(acquisition_model *model)
    int acquisition_points(acquisition_model *model, size_t keep, const double *y, size_t count)
    void acquisition_theta(acquisition_model *model, const double *theta)
    int acquisition_evaluate(acquisition_model *model, const double *z, size_t b, double *value,
                             double *gradient)
    void acquisition_weights(const acquisition_model *model, double *W)
    void acquisition_mean_weights(const acquisition_model *model, double *w)
    int acquisition_minimise(acquisition_model *model, double *z, size_t b, const double *lower,
                             const double *upper, minimiser_options *options, double *value)


def instruction_sets():
    """List the variants this machine can run, best first."""
    cdef const char *const *name = acquisition_isas()
    names = []
    while name[0] != NULL:
        names.append(name[0].decode())
        name += 1
    return names


def use_instruction_set(str name=""):
    """Choose a variant for the whole process; the empty name takes the best (for tests)."""
    if acquisition_set_isa(name.encode()) != 0:
        raise ValueError(
            f"instruction set {name!r} is not available here; use one of {instruction_sets()}"
        )


cdef cnp.ndarray _floats(object value, str name, int ndim, Py_ssize_t width):
    """Convert to a C-contiguous float64 array of `ndim` dimensions, the last `width` long."""
    cdef cnp.ndarray array
    if (cnp.PyArray_CheckExact(value) and cnp.PyArray_TYPE(value) == cnp.NPY_FLOAT64
            and cnp.PyArray_ISCARRAY_RO(value)):
        array = <cnp.ndarray> value
    else:
        array = np.require(np.asarray(value), np.float64, ["C", "A"])
    if cnp.PyArray_NDIM(array) != ndim or cnp.PyArray_DIM(array, ndim - 1) != width:
        shape = f"({width},)" if ndim == 1 else f"(any, {width})"
        raise ValueError(f"{name} must have shape {shape}, got {np.shape(array)}")
    return array


cdef cnp.ndarray _new(Py_ssize_t rows, Py_ssize_t columns):
    cdef cnp.npy_intp[2] shape
    shape[0] = rows
    shape[1] = columns
    return cnp.PyArray_SimpleNew(2, shape, cnp.NPY_FLOAT64)


cdef inline double *_data(cnp.ndarray array) noexcept:
    return <double *> cnp.PyArray_DATA(array)


cdef int _check_memory(int status) except -1:
    if status != 0:
        raise MemoryError("no memory for the matrices of the acquisition")
    return 0


cdef class AcquisitionKernel:
    """Surrogate at the points evaluated so far; one thread at a time works with it.

    Parameters
    ----------
    family : int
        0 RBF, 1 Matern-5/2, 2 Matern-7/2, 3 polynomial of degree 2.
    length_scales, lower, upper : ndarray of shape (d,)
    output_scale, offset, noise_variance : float
    """

    cdef acquisition_model model
    cdef object lock
    cdef tuple arguments
    cdef bint stale                  # theta or the points changed since B was computed
    cdef double clamp
    cdef cnp.ndarray lengths, centre, lower, upper, scaled_lower, scaled_upper
    cdef cnp.ndarray raw             # the points as they were given, (m, d)
    cdef cnp.ndarray raw_theta

    def __cinit__(self, int family, length_scales, double output_scale, double offset,
                  double noise_variance, lower, upper):
        if not 0 <= family <= 3:
            raise ValueError(f"family must be 0, 1, 2 or 3, got {family}")
        cdef Py_ssize_t d = np.size(length_scales)
        self.lengths = _floats(length_scales, "length_scales", 1, d).copy()
        self.lower = _floats(lower, "lower", 1, d).copy()
        self.upper = _floats(upper, "upper", 1, d).copy()
        self.arguments = (family, self.lengths, output_scale, offset, noise_variance,
                          self.lower, self.upper)
        # Products of coordinates beyond this would leave the range of doubles.
        self.clamp = 1e30 if family == POLYNOMIAL2 else 1e140
        self.centre = np.zeros(d) if family == POLYNOMIAL2 else self.lower / 2 + self.upper / 2
        self.lock = threading.Lock()
        _check_memory(acquisition_new(&self.model, family, d, _data(self.lengths),
                                      output_scale * output_scale, offset, noise_variance))
        self.scaled_lower = self._scaled(self.lower.reshape(1, -1))
        self.scaled_upper = self._scaled(self.upper.reshape(1, -1))
        self.raw = np.empty((0, d))
        self.raw_theta = np.full(d, np.nan)
        self.stale = True
        _check_memory(acquisition_points(&self.model, 0, NULL, 0))

    def __dealloc__(self):
        acquisition_free(&self.model)

    def __reduce__(self):
        with self.lock:
            return _rebuild, (self.arguments, self.raw)

    cdef cnp.ndarray _scaled(self, cnp.ndarray points):
        """Compute (points - centre) / length-scale, clamped, as a new array."""
        cdef Py_ssize_t d = self.model.d, rows = cnp.PyArray_DIM(points, 0), i, j
        cdef cnp.ndarray out = _new(rows, d)
        cdef const double *source = _data(points)
        cdef const double *centre = _data(self.centre)
        cdef const double *lengths = _data(self.lengths)
        cdef double *target = _data(out)
        cdef double value
        for i in range(rows):
            for j in range(d):
                value = (source[i * d + j] - centre[j]) / lengths[j]
                if value > self.clamp:
                    value = self.clamp
                elif value < -self.clamp:
                    value = -self.clamp
                target[i * d + j] = value
        return out

    def condition(self, points):
        """Set the evaluated points, (m, d); return how many were known already."""
        cdef cnp.ndarray given = _floats(points, "points", 2, self.model.d)
        cdef cnp.ndarray scaled
        cdef double *coordinates
        cdef size_t d = self.model.d, keep = 0, count
        cdef size_t most = min(<size_t> cnp.PyArray_DIM(given, 0), self.model.m)
        cdef int status = 0
        with self.lock:
            while keep < most and memcmp(_data(given) + keep * d, _data(self.raw) + keep * d,
                                         d * sizeof(double)) == 0:
                keep += 1
            count = cnp.PyArray_DIM(given, 0) - keep
            if count == 0 and keep == self.model.m:
                return keep
            scaled = self._scaled(given[keep:])
            self.raw = given.copy()
            self.stale = True
            coordinates = _data(scaled)
            with nogil:
                status = acquisition_points(&self.model, keep, coordinates, count)
            if status != 0:
                self.raw = self.raw[:keep].copy()
            _check_memory(status)
        return keep

    cdef int _at(self, cnp.ndarray theta) except -1:
        """Update B and the trace to `theta`; the caller holds the lock."""
        cdef cnp.ndarray scaled
        cdef size_t size = self.model.d * sizeof(double)
        if not self.stale and memcmp(_data(theta), _data(self.raw_theta), size) == 0:
            return 0
        scaled = self._scaled(theta.reshape(1, -1))
        memcpy(_data(self.raw_theta), _data(theta), size)
        cdef double *coordinates = _data(scaled)
        with nogil:
            acquisition_theta(&self.model, coordinates)
        self.stale = False
        return 0

    def value(self, Z, theta):
        """Compute the trace after Z, (b, d), is added."""
        cdef cnp.ndarray new = _floats(Z, "Z", 2, self.model.d)
        cdef cnp.ndarray at = _floats(theta, "theta", 1, self.model.d)
        cdef cnp.ndarray scaled = self._scaled(new)
        cdef double *z = _data(scaled)
        cdef size_t b = cnp.PyArray_DIM(new, 0)
        cdef double value = 0.0
        cdef int status = 0
        with self.lock:
            self._at(at)
            with nogil:
                status = acquisition_evaluate(&self.model, z, b, &value, NULL)
        _check_memory(status)
        return value

    def value_and_gradient(self, Z, theta):
        """Compute the trace and its derivative with respect to Z, (b, d)."""
        cdef cnp.ndarray new = _floats(Z, "Z", 2, self.model.d)
        cdef cnp.ndarray at = _floats(theta, "theta", 1, self.model.d)
        cdef cnp.ndarray scaled = self._scaled(new)
        cdef size_t b = cnp.PyArray_DIM(new, 0), d = self.model.d, i, j
        cdef cnp.ndarray gradient = _new(b, d)
        cdef double *z = _data(scaled)
        cdef double *out = _data(gradient)
        cdef const double *lengths = _data(self.lengths)
        cdef double value = 0.0
        cdef int status = 0
        with self.lock:
            self._at(at)
            with nogil:
                status = acquisition_evaluate(&self.model, z, b, &value, out)
                if status == 0:
                    for i in range(b):
                        for j in range(d):
                            out[i * d + j] = out[i * d + j] / lengths[j]
        _check_memory(status)
        return value, gradient

    def minimise(self, start, theta, size_t max_evaluations, double gradient_tolerance,
                 double value_tolerance, double target):
        """Minimise the trace over points in the box; tolerances are in units of the trace.

        Returns
        -------
        points : ndarray of shape (b, d)
        value : float
        evaluations : int
        """
        cdef cnp.ndarray new = _floats(start, "start", 2, self.model.d)
        cdef cnp.ndarray at = _floats(theta, "theta", 1, self.model.d)
        cdef cnp.ndarray scaled = self._scaled(new)
        cdef double *z = _data(scaled)
        cdef const double *low = _data(self.scaled_lower)
        cdef const double *high = _data(self.scaled_upper)
        cdef size_t b = cnp.PyArray_DIM(new, 0)
        cdef minimiser_options options
        cdef double value = 0.0
        cdef int status = 0
        options.max_evaluations = max_evaluations
        options.first_step = 0.2
        options.gradient_tolerance = gradient_tolerance
        options.value_tolerance = value_tolerance
        options.target = target
        options.evaluations = 0
        with self.lock:
            self._at(at)
            with nogil:
                status = acquisition_minimise(&self.model, z, b, low, high, &options, &value)
        _check_memory(status)
        points = np.clip(self.centre + scaled * self.lengths, self.lower, self.upper)
        return points, value, options.evaluations

    def weights(self, theta):
        """Compute W = (K + noise)^-1 A_D', (m, d)."""
        cdef cnp.ndarray at = _floats(theta, "theta", 1, self.model.d)
        cdef cnp.ndarray out
        cdef double *W
        with self.lock:
            self._at(at)
            out = _new(self.model.m, self.model.dp)
            W = _data(out)
            with nogil:
                acquisition_weights(&self.model, W)
        return np.ascontiguousarray(out[:, :self.model.d])

    def mean_weights(self):
        """Compute (K + noise)^-1 1, (m,): the weights of the values in their mean, up to scale."""
        cdef cnp.ndarray out
        cdef double *w
        with self.lock:
            out = _new(1, self.model.m + 16)
            w = _data(out)
            with nogil:
                acquisition_mean_weights(&self.model, w)
        return out[0, :self.model.m].copy()

    def whitened(self, theta):
        """Compute B, (m, d): the posterior gradient covariance is the prior one minus B'B."""
        cdef cnp.ndarray at = _floats(theta, "theta", 1, self.model.d)
        cdef cnp.ndarray out
        with self.lock:
            self._at(at)
            out = _new(self.model.m, self.model.dp)
            memcpy(_data(out), self.model.B, self.model.m * self.model.dp * sizeof(double))
        return np.ascontiguousarray(out[:, :self.model.d])


def _rebuild(tuple arguments, points):
    kernel = AcquisitionKernel(*arguments)
    kernel.condition(points)
    return kernel


# ---- for other compiled modules; documented in dpfast/kernels/acquisition.pxd ------------------

cdef double value_and_gradient_at(object kernel, const double *Z, Py_ssize_t b, Py_ssize_t d,
                                  const double *theta, double *gradient) except? -1.0:
    cdef cnp.ndarray points = _new(b, d), at = _new(1, d), found
    memcpy(_data(points), Z, b * d * sizeof(double))
    memcpy(_data(at), theta, d * sizeof(double))
    value, found = (<AcquisitionKernel?>kernel).value_and_gradient(points, at.reshape(d))
    memcpy(gradient, _data(found), b * d * sizeof(double))
    return value
