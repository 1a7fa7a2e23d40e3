"""C-level declarations of the compiled record kernels, for `cimport`."""

cdef extern from "records.h" nogil:
    enum:
        WANT_GRADIENT
        WANT_HESSIAN
        WANT_MEAT
        WANT_MAJORIZE

    ctypedef void (*records_user_slopes)(const double *, double *, double *, size_t) noexcept
    ctypedef void (*records_user_values)(const double *, double *, size_t) noexcept

    ctypedef struct records_model:
        int loss
        int weighting
        int intercept
        double c
        double scale
        double radius
        double scale_factor
        double kappa
        double h
        int user_coupled
        records_user_slopes user_slopes
        records_user_values user_values

    ctypedef struct records_data:
        const char *x
        Py_ssize_t x_row
        Py_ssize_t x_column
        const char *y
        Py_ssize_t y_step
        size_t n
        size_t q


cdef class RecordKernel:
    cdef readonly int loss_code
    cdef readonly int weighting
    cdef readonly bint intercept
    cdef readonly double c
    cdef readonly double scale
    cdef readonly double radius
    cdef readonly double scale_factor
    cdef readonly double kappa
    cdef readonly double h
    cdef readonly object user
    cdef records_model model

    cdef Py_ssize_t describe(self, X, y, records_data *data) except -1
    cdef const double *parameters(self, theta, Py_ssize_t p, str name) except NULL
    cdef int check_has_differences(self) except -1
    cdef int check_has_loss(self) except -1
