"""Sums over records, compiled: gradient, Hessian, score covariance, loss, loss difference.

The meaning of every code and the rounding guarantees are stated in records.h; a plain NumPy twin
of each function is in tests/twins/records.py.
"""

import numpy as np

cimport numpy as cnp
from libc.math cimport isfinite
from dpfast.kernels.process_threads import asked_threads, quota_threads

cdef extern from "records.h" nogil:
    enum:
        WANT_GRADIENT
        WANT_HESSIAN
        WANT_MEAT
        WANT_MAJORIZE
        LOSS_USER
        C_IS_ONE
        USES_H
        FREE_SCALE
        NO_CURVATURE
        OF_PREDICTOR
        WANT_VIEW
        NO_LOSS
        PLAIN_SQUARES

    ctypedef struct records_view:
        size_t q
        size_t p
        int what
        int loss
        double c
        double h
        double scale
        double shift
        double y_centre
        double y_spread
        double weigh
        const double *centre
        const double *inverse
        const double *matrix
        const double *theta
        const double *predictor
        double reach
        const double *squares
        double *keep
        const double *back
        const double *far_theta
        double far_scale
        double radius
        double power
        const double *edges
        size_t n_edges
        double whole
        const Py_ssize_t *group_of_row
        Py_ssize_t first_group
        size_t groups
        double longest
        double *scores
        unsigned char *has_row

    ctypedef struct records_loss_row:
        const char *name
        int code
    const records_loss_row records_losses[]
    int records_loss_traits(int loss)
    double records_steepest(int loss, double c, double h)

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
        double largest_weight
        int user_coupled
        records_user_slopes user_slopes
        records_user_values user_psi
        records_user_values user_values

    ctypedef struct records_data:
        const char *x
        Py_ssize_t x_row
        Py_ssize_t x_column
        size_t x_item
        const char *y
        Py_ssize_t y_step
        const char *weight
        const char *offset
        Py_ssize_t weight_step
        Py_ssize_t offset_step
        size_t n
        size_t q

    int records_sums(const records_model *model, const records_data *data, const double *theta,
                     int want, double divisor, int threads, double *gradient, double *hessian,
                     double *meat)
    int records_sums_of_view(const records_model *model, const records_data *data,
                             const records_view *view, const double *theta, int want,
                             double divisor, int threads, double *gradient, double *hessian,
                             double *meat, long long *counts)
    int records_lengths(const records_data *data, const records_view *view, int threads,
                        long long *counts)
    int records_scores(const records_data *data, const records_view *view)
    int records_loss(const records_model *model, const records_data *data, const double *theta,
                     double divisor, int threads, double *result)
    int records_loss_difference(const records_model *model, const records_data *data,
                                const double *theta_new, const double *theta_old, double divisor,
                                int threads, double *result)
    int records_gradient_change(const records_model *model, const records_data *data,
                                const double *theta_new, const double *theta_old, double limit,
                                double divisor, int threads, double *change)
    size_t records_summation_depth(size_t n, size_t p, int want)
    int records_default_threads()
    void records_set_default_threads(int chosen, int quota)
    ctypedef struct records_plan:
        size_t block_rows
        size_t blocks_per_chunk
        size_t n_chunks

    records_plan records_make_plan(size_t n, size_t p, int want)
    const char *const *records_isas()
    int records_set_isa(const char *name)

cnp.import_array()
records_set_default_threads(asked_threads(), quota_threads())

GRADIENT, HESSIAN, MEAT = WANT_GRADIENT, WANT_HESSIAN, WANT_MEAT
# The Hessian with the majorising curvature psi(r)/r in place of psi'(r).
MAJORIZER = WANT_HESSIAN | WANT_MAJORIZE

#: Code of each built-in loss by its name in csrc/losses/list.h, and of the weightings in records.h.
LOSS_CODES = {}
cdef const records_loss_row *row = records_losses
while row.name != NULL:
    LOSS_CODES[row.name.decode().replace("_", "-")] = row.code
    row += 1
USER_LOSS = LOSS_USER
WEIGHT_CODES = (0, 1, 2, 3, 4)
#: Flag of sums of a view, whose blocks are smaller: added to the sums' codes, for their depth.
VIEW = WANT_VIEW
#: In place of a code: squares of residuals, without a bound.
SQUARES = PLAIN_SQUARES

cdef int MAJORIZER_ONLY = WANT_HESSIAN | WANT_MAJORIZE
cdef int BOUNDED = 0
cdef int MALLOWS = 1
cdef int CLIP = 2
cdef int SCHWEPPE = 3
cdef int MALLOWS_LINEAR = 4

include "records/faults.pxi"
include "records/view.pxi"


# ---- for other compiled modules; documented in dpfast/kernels/records.pxd ----------------------

cdef void plain_model(records_model *model, int loss, int weighting, bint intercept, double c,
                      double h, double scale, double radius) noexcept nogil:
    """Fill a model of a built-in loss with a known scale, of records without weights."""
    model.loss, model.weighting, model.intercept = loss, weighting, intercept
    model.c, model.h, model.scale, model.radius = c, h, scale, radius
    model.scale_factor = model.kappa = 0.0
    model.largest_weight, model.user_coupled = 1.0, 0
    model.user_slopes, model.user_psi, model.user_values = NULL, NULL, NULL


cdef int take(records_model *model, records_data *data, int loss, int weighting, bint intercept,
              double c, double h, double scale, double radius, const void *x, Py_ssize_t n,
              Py_ssize_t q, Py_ssize_t row_bytes, int item_bytes, const double *y,
              double divisor, int threads) noexcept nogil:
    """Fill model and data from plain arguments; return 0 or REFUSED."""
    plain_model(model, loss, weighting, intercept, c, h, scale, radius)
    if loss == LOSS_USER or settle(model) != FINE:
        return REFUSED
    if n < 0 or q < 0 or q + intercept == 0 or threads < 0:
        return REFUSED
    if item_bytes != sizeof(float) and item_bytes != sizeof(double):
        return REFUSED
    if not (divisor > 0.0 and isfinite(divisor)):
        return REFUSED
    data.x, data.x_row = <const char *> x, row_bytes
    data.x_column = data.x_item = item_bytes
    data.y, data.y_step = <const char *> y, sizeof(double)
    data.weight = data.offset = NULL
    data.n, data.q = n, q
    return 0


cdef int weighted_sums(int loss, int weighting, bint intercept, double c, double h, double scale,
                       double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                       Py_ssize_t row_bytes, int item_bytes, const double *y,
                       const double *theta, int want, double divisor, int threads,
                       double *gradient, double *hessian, double *meat) noexcept nogil:
    cdef records_model model
    cdef records_data data
    if take(&model, &data, loss, weighting, intercept, c, h, scale, radius, x, n, q, row_bytes,
            item_bytes, y, divisor, threads) != 0 or judge_want(&model, want) != FINE:
        return REFUSED
    return records_sums(&model, &data, theta, want, divisor, threads, gradient, hessian, meat)


cdef double NO_OFFSET = 0.0
cdef double FULL_WEIGHT = 1.0


cdef int sums_beside(int loss, int weighting, bint intercept, double c, double h, double scale,
                     double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                     Py_ssize_t row_bytes, int item_bytes, const double *y, const double *weight,
                     const double *offset, double largest_weight, const double *theta, int want,
                     double divisor, int threads, double *gradient, double *hessian,
                     double *meat) noexcept nogil:
    cdef records_model model
    cdef records_data data
    if take(&model, &data, loss, weighting, intercept, c, h, scale, radius, x, n, q, row_bytes,
            item_bytes, y, divisor, threads) != 0 or judge_want(&model, want) != FINE:
        return REFUSED
    if not in_range(largest_weight):
        return REFUSED
    model.largest_weight = largest_weight
    data.weight, data.weight_step = <const char *> &FULL_WEIGHT, 0
    data.offset, data.offset_step = <const char *> &NO_OFFSET, 0
    if weight != NULL:
        data.weight, data.weight_step = <const char *> weight, sizeof(double)
    if offset != NULL:
        data.offset, data.offset_step = <const char *> offset, sizeof(double)
    return records_sums(&model, &data, theta, want, divisor, threads, gradient, hessian, meat)


cdef int weighted_loss(int loss, int weighting, bint intercept, double c, double h, double scale,
                       double radius, const void *x, Py_ssize_t n, Py_ssize_t q,
                       Py_ssize_t row_bytes, int item_bytes, const double *y,
                       const double *theta, double divisor, int threads,
                       double *result) noexcept nogil:
    cdef records_model model
    cdef records_data data
    if take(&model, &data, loss, weighting, intercept, c, h, scale, radius, x, n, q, row_bytes,
            item_bytes, y, divisor, threads) != 0 or weighting == CLIP:
        return REFUSED
    return records_loss(&model, &data, theta, divisor, threads, result)


def default_threads():
    """Return the default number of threads: see ``dpfast.kernels.process_threads``."""
    return records_default_threads()


def summation_depth(Py_ssize_t n, Py_ssize_t p, int want):
    """Return the most roundings any record's contribution passes through in ``sums``.

    ``p`` is the number of entries of a design row.  With ``d`` this number and ``u = 2**-53``,
    every entry of a result differs from the exact sum of the contributions, divided, by at most
    ``d u / (1 - d u)`` times the sum of their absolute values (divided): see ``csrc/records.h``.
    """
    if n < 0 or p < 0:
        raise ValueError(f"n and p must not be negative; got n={n}, p={p}")
    return records_summation_depth(n, p, want)


def _plan(Py_ssize_t n, Py_ssize_t p, int want):
    """Return rows of a block, blocks of a chunk, and chunks (for tests)."""
    cdef records_plan plan = records_make_plan(n, p, want)
    return plan.block_rows, plan.blocks_per_chunk, plan.n_chunks


def _available_isas():
    """List the instruction sets this machine can run, best first (for tests)."""
    cdef const char *const *names = records_isas()
    names_found = []
    while names[0] != NULL:
        names_found.append(names[0].decode())
        names += 1
    return tuple(names_found)


def _set_isa(str name):
    """Use one variant of the loops from now on, "" for the best (for tests)."""
    if records_set_isa(name.encode()) != 0:
        raise ValueError(f"unknown instruction set {name!r}; this machine has {_available_isas()}")


cdef int check_threads(int threads) except -1:
    if threads < 0:
        raise ValueError(f"threads must be 0 (all available CPUs) or positive; got {threads}")
    return 0


cdef int check_divisor(double divisor) except -1:
    if not (divisor > 0.0 and isfinite(divisor)):
        raise ValueError(f"divisor must be a positive finite number; got {divisor}")
    return 0


cdef int check_array(object array, int dimensions, str name, bint narrow=False) except -1:
    if not cnp.PyArray_Check(array):
        raise TypeError(f"{name} must be a NumPy array; got {type(array).__name__}")
    cdef int kind = cnp.PyArray_TYPE(array)
    if (kind != cnp.NPY_DOUBLE and not (narrow and kind == cnp.NPY_FLOAT)
            or not cnp.PyArray_ISNOTSWAPPED(array)):
        allowed = "float64 or float32" if narrow else "float64"
        raise TypeError(f"{name} must have dtype {allowed} in native byte order; got {array.dtype}")
    if cnp.PyArray_NDIM(array) != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s); got shape {array.shape}")
    return 0


cdef const double *coefficients(object theta, Py_ssize_t p, str name) except NULL:
    """Check a vector of p coefficients, contiguous, and return its data."""
    check_array(theta, 1, name)
    if cnp.PyArray_DIM(theta, 0) != p:
        raise ValueError(f"{name} must have {p} entries, one per coefficient; "
                         f"got {cnp.PyArray_DIM(theta, 0)}")
    if not (cnp.PyArray_IS_C_CONTIGUOUS(theta) and cnp.PyArray_ISALIGNED(theta)):
        raise ValueError(f"{name} must be contiguous and aligned")
    return <const double *> cnp.PyArray_DATA(theta)


cdef Py_ssize_t describe(X, y, records_data *data) except -1:
    """Check shapes and types, fill `data` and return the number of columns."""
    check_array(X, 2, "X", narrow=True)
    cdef bint with_weights = cnp.PyArray_Check(y) and cnp.PyArray_NDIM(y) == 2
    check_array(y, 2 if with_weights else 1, "y")
    if with_weights and cnp.PyArray_DIM(y, 1) != 3:
        raise ValueError("y must be a vector, or have three columns: response, weight and "
                         f"offset; got shape {y.shape}")
    data.n, data.q = cnp.PyArray_DIM(X, 0), cnp.PyArray_DIM(X, 1)
    if <size_t> cnp.PyArray_DIM(y, 0) != data.n:
        raise ValueError(f"y must have one entry per row of X ({data.n}); "
                         f"got {cnp.PyArray_DIM(y, 0)}")
    data.x, data.y = <const char *> cnp.PyArray_DATA(X), <const char *> cnp.PyArray_DATA(y)
    data.x_row, data.x_column = cnp.PyArray_STRIDE(X, 0), cnp.PyArray_STRIDE(X, 1)
    data.y_step = data.weight_step = data.offset_step = cnp.PyArray_STRIDE(y, 0)
    data.weight = data.y + cnp.PyArray_STRIDE(y, 1) if with_weights else NULL
    data.offset = data.y + 2 * cnp.PyArray_STRIDE(y, 1) if with_weights else NULL
    data.x_item = cnp.PyArray_ITEMSIZE(X)
    if data.q == 1:
        data.x_column = data.x_item  # never used as a distance
    return data.q


cdef class RecordKernel:
    """Sums over records of one objective (loss, scale and weights).

    Parameters
    ----------
    loss : int
        A value of :data:`LOSS_CODES`, or :data:`USER_LOSS`.  Redescending losses have no Hessian.
    c : float
        First constant of the loss (``c`` of its class; ignored by losses without one); the declared
        bound on ``|psi|`` of a user's loss.
    scale : float
        Public residual scale sigma (ignored by the logistic and the Poisson loss).
    weighting : int
        0 bounded (records are projected onto the declared ball), 1 Mallows, 2 per-record clipping
        (gradient and meat only), 3 Schweppe (row and residual scaled), 4 Mallows with the first
        power of the norm (no Hessian).
    radius : float
        R of the weighting, or the clipping norm C.
    intercept : bool
        Prepend a virtual column of ones, which becomes the first coefficient.
    scale_factor : float, default 0
        If positive, the scale is a parameter: theta has one more entry, the last, whose product
        with ``scale_factor`` is the scale (in [1e-100, 1e100]); ``scale`` is ignored.  Losses 0
        to 2 with weightings 0 and 1 only.
    kappa : float, default 0
        The loss of a record is then ``w (sigma rho(r) + kappa sigma / 2)``.
    h : float, default 1
        Second constant of losses that have one (``h`` of their class); the declared bound on
        ``psi'`` of a user's loss.
    largest_weight : float, default 1
        A: records' own weights are clipped to [0, A].
    user : object, optional
        The compiled functions of a user's loss: ``slopes_address``, ``psi_address`` and
        ``values_address`` are addresses of C functions as in records.h.  Kept alive and pickled
        with the kernel.

    Notes
    -----
    A record with a non-finite entry, a non-finite y or, for the logistic loss, a y other than 0
    and 1 contributes exactly zero; so does one whose weight is not positive or whose offset is not
    finite.  Values never raise.  Results do not depend on ``threads``.
    """

    cdef readonly int loss_code
    cdef readonly int weighting
    cdef readonly bint intercept
    cdef readonly double c
    cdef readonly double scale
    cdef readonly double radius
    cdef readonly double scale_factor
    cdef readonly double kappa
    cdef readonly double h
    cdef readonly double largest_weight
    cdef readonly object user
    cdef records_model model

    def __init__(self, int loss, double c, double scale, int weighting, double radius,
                 bint intercept, double scale_factor=0.0, double kappa=0.0,
                 double h=1.0, user=None, double largest_weight=1.0):
        cdef records_model *model = &self.model
        cdef int fault
        model.loss, model.weighting, model.intercept = loss, weighting, intercept
        model.c, model.h, model.scale, model.radius = c, h, scale, radius
        model.scale_factor, model.kappa = scale_factor, kappa
        model.largest_weight = self.largest_weight = largest_weight
        fault = settle(model)
        if fault != NO_SUCH_LOSS and (loss == LOSS_USER) != (user is not None):
            raise ValueError(f"loss {LOSS_USER}, and no other, needs its compiled functions in user; "
                             f"got loss {loss} and user={user!r}")
        if fault != FINE:
            raise ValueError(explanation(fault, model, 0))
        self.user = user
        if user is not None:
            model.user_coupled = bool(user.coupled)
            model.user_slopes = <records_user_slopes> <size_t> user.slopes_address
            model.user_psi = <records_user_values> <size_t> user.psi_address
            model.user_values = <records_user_values> <size_t> user.values_address
        self.loss_code, self.weighting, self.intercept = loss, weighting, intercept
        self.c, self.h, self.scale, self.radius = model.c, model.h, model.scale, model.radius
        self.scale_factor, self.kappa = scale_factor, kappa

    def __reduce__(self):
        return RecordKernel, (self.loss_code, self.c, self.scale, self.weighting, self.radius,
                              self.intercept, self.scale_factor, self.kappa, self.h, self.user,
                              self.largest_weight)

    cdef Py_ssize_t describe(self, X, y, records_data *data) except -1:
        """Check shapes and types, fill `data` and return the number of coefficients."""
        cdef Py_ssize_t p = describe(X, y, data) + self.further()
        if p == 0:
            raise ValueError("X must have at least one column when there is no intercept")
        return p

    cdef Py_ssize_t further(self) noexcept:
        """Count the coefficients without a column."""
        return self.intercept + (self.scale_factor > 0.0)

    cdef int check_view(self) except -1:
        if self.intercept or self.scale_factor > 0.0 or self.weighting not in (MALLOWS, CLIP):
            raise ValueError("sums of a view have Mallows weights or clipping, and no intercept "
                             "or free scale")
        return 0

    cdef int check_stored(self, str what, int want) except -1:
        """Refuse sums that need more of the rows than stored lengths."""
        scores = what == "score" and self.weighting == CLIP and not want & WANT_HESSIAN
        if not scores and not (what == "curvature" and self.weighting == MALLOWS
                               and want == WANT_HESSIAN):
            raise ValueError("stored lengths serve sums of clipped scores, or of curvatures with "
                             "Mallows weights, only")
        return 0

    cdef const double *parameters(self, theta, Py_ssize_t p, str name) except NULL:
        """Check a contiguous parameter, and a scale in its last entry; return its data."""
        cdef const double *at = coefficients(theta, p, name)
        if self.scale_factor > 0.0 and not 1e-100 <= self.scale_factor * at[p - 1] <= 1e100:
            raise ValueError("the scale, scale_factor times the last entry of theta, must lie "
                             f"between 1e-100 and 1e100; got {self.scale_factor * at[p - 1]}")
        return at

    def sums(self, X, y, theta, int want, double divisor, int threads=0, RecordView view=None,
             edges=None):
        """Sum gradient, Hessian and meat over the records in one pass; divide by ``divisor``.

        Parameters
        ----------
        X : ndarray of float64 or float32, shape (n, q)
            Any strides, read-only or not.  float32 is half the memory to read; the result is that
            of ``X.astype(float64)``, bit for bit.
        y : ndarray of float64, shape (n,) or (n, 3)
            Responses, or responses, the records' own weights and their offsets side by side.
        theta : ndarray of float64, shape (p,)
            p = q, one more with an intercept, and one more with a free scale; contiguous.
        want : int
            Any sum of GRADIENT, HESSIAN and MEAT.
        divisor : float
        threads : int, default 0
            0 uses every CPU the process may run on; the result is the same bit for bit.
        view : RecordView, optional
            Sum over this view of the records; ``theta`` is then zero, and p
            the view's.
        edges : ndarray of float64, shape (k,), optional
            Count the lengths of the view's rows in the same pass; see :meth:`RecordView.counts`.

        Returns
        -------
        tuple
            (gradient (p,), Hessian (p, p), meat (p, p)); None for what was not wanted.  With edges
            also the counts, last.
        """
        cdef records_data data
        cdef Py_ssize_t p = describe(X, y, &data) + self.further()
        cdef const records_view *view_of_records = NULL
        cdef records_view counted
        cdef long long *counts = NULL
        if edges is not None and view is None:
            raise ValueError("lengths are those of a view: pass one with edges")
        if view is not None:
            self.check_view()
            p = view.check(&data)
            counted = view.view
            view_of_records = &counted
            if view_of_records.squares != NULL:
                self.check_stored(view.what, want)
        elif p == 0:
            raise ValueError("X must have at least one column when there is no intercept")
        cdef const double *at = self.parameters(theta, p, "theta")
        cdef double *gradient = NULL
        cdef double *hessian = NULL
        cdef double *meat = NULL
        cdef cnp.npy_intp shape[2]
        cdef object g = None
        cdef object h = None
        cdef object m = None
        cdef int failed
        cdef int fault = judge_want(&self.model, want)
        if fault != FINE:
            raise ValueError(explanation(fault, &self.model, want))
        check_divisor(divisor)
        check_threads(threads)
        shape[0] = shape[1] = p
        if want & WANT_GRADIENT:
            g = cnp.PyArray_EMPTY(1, shape, cnp.NPY_DOUBLE, 0)
            gradient = <double *> cnp.PyArray_DATA(g)
        if want & WANT_HESSIAN:
            h = cnp.PyArray_EMPTY(2, shape, cnp.NPY_DOUBLE, 0)
            hessian = <double *> cnp.PyArray_DATA(h)
        if want & WANT_MEAT:
            m = cnp.PyArray_EMPTY(2, shape, cnp.NPY_DOUBLE, 0)
            meat = <double *> cnp.PyArray_DATA(m)
        if edges is not None:
            counted.n_edges, counted.whole = len(edges), 0.0
            counted.edges = vector(edges, len(edges), "edges")
            cells = np.empty(len(edges) + 1, dtype=np.int64)
            counts = <long long *> cnp.PyArray_DATA(cells)
        with nogil:
            failed = records_sums_of_view(&self.model, &data, view_of_records, at, want, divisor,
                                          threads, gradient, hessian, meat, counts)
        if failed:
            raise MemoryError("no memory for the partial sums")
        return (g, h, m) if edges is None else (g, h, m, cells)

    def scores_of_runs(self, X, y, theta, ends):
        """Sum the scores of each run of consecutive rows, as ``sums`` of the run alone does.

        Parameters
        ----------
        X, y, theta
            As for :meth:`sums`.
        ends : ndarray of intp, shape (k,)
            The row after the last of each run, in order; the first run begins with row 0, and
            none is empty.

        Returns
        -------
        ndarray of float64, shape (k, p)
            Each row is a function of its run and of theta alone, whatever stands beside it.
        """
        cdef records_data data
        cdef Py_ssize_t p = self.describe(X, y, &data)
        cdef const double *at = self.parameters(theta, p, "theta")
        if not (cnp.PyArray_Check(ends) and cnp.PyArray_TYPE(ends) == cnp.NPY_INTP
                and cnp.PyArray_NDIM(ends) == 1 and cnp.PyArray_IS_C_CONTIGUOUS(ends)):
            raise TypeError("ends must be a contiguous vector of intp")
        cdef const cnp.npy_intp *end = <const cnp.npy_intp *> cnp.PyArray_DATA(ends)
        cdef Py_ssize_t k, first = 0, count = cnp.PyArray_DIM(ends, 0), n = data.n
        cdef cnp.npy_intp shape[2]
        cdef double *scores
        cdef int failed = 0
        for k in range(count):
            if not first < end[k] <= n:
                raise ValueError("ends must increase, and none may lie outside of the rows")
            first = end[k]
        shape[0], shape[1] = count, p
        result = cnp.PyArray_EMPTY(2, shape, cnp.NPY_DOUBLE, 0)
        scores = <double *> cnp.PyArray_DATA(result)
        first = 0
        with nogil:
            for k in range(count):
                data.n = end[k] - first
                failed |= records_sums(&self.model, &data, at, WANT_GRADIENT, 1.0, 1,
                                       scores + k * p, NULL, NULL)
                data.x += data.n * data.x_row
                data.y += data.n * data.y_step
                if data.weight:
                    data.weight += data.n * data.weight_step
                if data.offset:
                    data.offset += data.n * data.offset_step
                first = end[k]
        if failed:
            raise MemoryError("no memory for the partial sums")
        return result

    def loss(self, X, y, theta, double divisor, int threads=0):
        """Sum the weighted losses over the records and divide by ``divisor``."""
        cdef records_data data
        cdef Py_ssize_t p = self.describe(X, y, &data)
        cdef const double *at = self.parameters(theta, p, "theta")
        cdef double result = 0.0
        cdef int failed
        self.check_has_loss()
        check_divisor(divisor)
        check_threads(threads)
        with nogil:
            failed = records_loss(&self.model, &data, at, divisor, threads, &result)
        if failed:
            raise MemoryError("no memory for the partial sums")
        return result

    def loss_difference(self, X, y, theta_new, theta_old, double divisor, int threads=0):
        """Sum L(theta_new) - L(theta_old) over the records and divide by ``divisor``.

        Each record's difference is clipped to psi_max |w xi'(theta_new - theta_old)|.
        """
        cdef records_data data
        cdef Py_ssize_t p = self.describe(X, y, &data)
        cdef const double *new = self.parameters(theta_new, p, "theta_new")
        cdef const double *old = self.parameters(theta_old, p, "theta_old")
        cdef double result = 0.0
        cdef int failed
        self.check_has_loss()
        self.check_has_differences()
        check_divisor(divisor)
        check_threads(threads)
        with nogil:
            failed = records_loss_difference(&self.model, &data, new, old, divisor, threads,
                                             &result)
        if failed:
            raise MemoryError("no memory for the partial sums")
        return result

    def gradient_change(self, X, y, theta_new, theta_old, double limit, double divisor,
                        int threads=0):
        """Sum each record's change of gradient, clipped to ``limit``; divide by ``divisor``.

        One pass over the records for both parameters.

        Parameters
        ----------
        X, y, divisor, threads
            As in :meth:`sums`.
        theta_new, theta_old : ndarray of float64, shape (p,)
        limit : float
            A record whose gradient at ``theta_new`` minus that at ``theta_old`` is longer is
            scaled down to this norm.

        Returns
        -------
        ndarray of shape (p,)
        """
        cdef records_data data
        cdef Py_ssize_t p = self.describe(X, y, &data)
        cdef const double *new = coefficients(theta_new, p, "theta_new")
        cdef const double *old = coefficients(theta_old, p, "theta_old")
        cdef cnp.npy_intp shape[1]
        cdef int failed
        cdef double *result
        self.check_has_differences()
        # Far below it, the squares of the shortest rows it could apply to would underflow.
        if not (1e-140 * max(self.c, 1e-60) <= limit <= 1e200):
            raise ValueError("limit must lie between 1e-140 * c and 1e200; got {}".format(limit))
        check_divisor(divisor)
        check_threads(threads)
        shape[0] = p
        change = cnp.PyArray_EMPTY(1, shape, cnp.NPY_DOUBLE, 0)
        result = <double *> cnp.PyArray_DATA(change)
        with nogil:
            failed = records_gradient_change(&self.model, &data, new, old, limit, divisor,
                                             threads, result)
        if failed:
            raise MemoryError("no memory for the partial sums")
        return change

    cdef int check_has_differences(self) except -1:
        if self.scale_factor > 0.0:
            raise ValueError("differences between parameters are not available with a free scale")
        return 0

    cdef int check_has_loss(self) except -1:
        if self.weighting == CLIP:
            raise ValueError("per-record clipping has no loss; use bounded or Mallows weights")
        return 0
