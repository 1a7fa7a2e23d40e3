# Sums over records for other compiled modules: `from dpfast.kernels.records cimport ...`.
#
# Plain C types only; no header is needed.  These signatures do not change within a major version.
# All can be called without the GIL, from several threads at once, and in a forked child.  Nothing
# here knows of budgets or noise: THE RESULTS ARE EXACT AND NOT PRIVATE.
#
# Records: `x` has n rows of q entries, one entry next to the other, rows `row_bytes` bytes apart
# (negative and zero are fine); an entry is a double (item_bytes 8) or a float (item_bytes 4), whose
# value is used in double precision.  `y` has n doubles.  A record with an entry that is not finite,
# or for the logistic loss a response other than 0 and 1, contributes exactly zero.
#
# Model: `loss` 0 Huber, 1 log-cosh, 2 pseudo-Huber, 3 logistic, 4 smoothed Huber, 5
# Ostrovskii-Bach, 6 smooth absolute, 8 quantile (c the bandwidth, h the level), 10 Tukey,
# 11 Geman-McClure, 12 Welsch, 13 Cauchy, 14 Poisson (c the largest residual, h the largest mean),
# 15 quantile with a narrow score; these are the values of dpfast.kernels.records.LOSS_CODES;
# `weighting` 0 bounded, 1 Mallows, 2 per-record clipping, 3 Schweppe, 4 Mallows with the first
# power of the norm; `c`, `h` (corner of the smoothed Huber), `scale` and `radius` as in
# dpfast.kernels.records.RecordKernel.  What a loss does not have is ignored.  With an `intercept`
# a column of ones is prepended: theta has p = q + 1 entries, otherwise p = q.
#
# threads: 0 for every CPU the process may use; the result is the same bit for bit.
#
# Return: 0; -1 out of memory; -2 an argument that RecordKernel would refuse (then nothing is
# written).

# Sums of gradients (p doubles), Hessians and outer products of gradients (p * p each), over
# `divisor`; `want` is a sum of 1, 2 and 4 for these, and what is not wanted may be NULL.
cdef int weighted_sums(int loss, int weighting, bint intercept, double c, double h, double scale,
                       double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                       Py_ssize_t row_bytes, int item_bytes, const double *y,
                       const double *theta, int want, double divisor, int threads,
                       double *gradient, double *hessian, double *meat) noexcept nogil

# The same of records with weights and offsets, n doubles each; NULL for weights of 1 and offsets of
# 0.  A weight below zero or missing is zero, one above `largest_weight` is held to it, and a record
# counts with its weight over that.  Offsets are part of the linear predictor.
cdef int sums_beside(int loss, int weighting, bint intercept, double c, double h, double scale,
                     double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                     Py_ssize_t row_bytes, int item_bytes, const double *y, const double *weight,
                     const double *offset, double largest_weight, const double *theta, int want,
                     double divisor, int threads, double *gradient, double *hessian,
                     double *meat) noexcept nogil

# Sum of weighted losses over `divisor`.
cdef int weighted_loss(int loss, int weighting, bint intercept, double c, double h, double scale,
                       double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                       Py_ssize_t row_bytes, int item_bytes, const double *y,
                       const double *theta, double divisor, int threads,
                       double *result) noexcept nogil

# ---- of our own query session, which holds the records; these may change and need the GIL ------

# What a view of records is about, beside its map and its units: dpfast.kernels.records.RecordView.
# Every field is set for every question.
cdef struct row_view:
    int what  # of `quantity`
    bint has_loss
    int loss
    double c
    double h
    double scale
    double shift
    double reach
    double weigh
    const double *theta  # p doubles
    const double *predictor  # q + 1 doubles, or NULL
    const double *back  # p * p doubles, or NULL; then the rest
    const double *far_theta
    double far_scale
    double radius
    double power

# Number of a quantity of a view by its name.
cdef int quantity(object what) except -1

# Sums of rows, as those of RecordKernel (Mallows or clipping, scale 1) of a RecordView of this map
# and these units; `theta` is p zeros, `X` and `y` are arrays.
cdef int sums_of_rows(object view, const row_view *of, object X, object y, int loss, int weighting,
                      double c, double h, double radius, const double *theta, int want,
                      double divisor, int threads, double *gradient, double *hessian,
                      double *meat) except -1

# Records in each cell of lengths, as RecordView.counts; one more than there are edges.
cdef int lengths_of_rows(object view, const row_view *of, object X, object y, const double *edges,
                         Py_ssize_t n_edges, int threads, long long *counts) except -1
