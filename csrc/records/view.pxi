# Views of records under a released map; part of records.pyx.

#: Quantities of a view, in the order of records.h.
QUANTITIES = ("response", "curvature", "score", "score size", "residual", "weight")


cdef const double *vector(object array, Py_ssize_t size, str name) except NULL:
    check_array(array, 1, name)
    if cnp.PyArray_DIM(array, 0) != size or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise ValueError(f"{name} must be contiguous, with {size} entries")
    return <const double *> cnp.PyArray_DATA(array)


cdef const double *matrix(object array, Py_ssize_t rows, Py_ssize_t columns, str name) except NULL:
    check_array(array, 2, name)
    if (cnp.PyArray_DIM(array, 0) != rows or cnp.PyArray_DIM(array, 1) != columns
            or not cnp.PyArray_IS_C_CONTIGUOUS(array)):
        raise ValueError(f"{name} must be contiguous, of shape ({rows}, {columns})")
    return <const double *> cnp.PyArray_DATA(array)


cdef object inverted(object spreads, Py_ssize_t q):
    """Return one over each spread."""
    cdef cnp.npy_intp size = q
    cdef const double *spread = vector(spreads, q, "spreads")
    cdef cnp.ndarray inverses = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
    cdef Py_ssize_t j
    for j in range(q):
        (<double *> cnp.PyArray_DATA(inverses))[j] = 1.0 / spread[j]
    return inverses


cdef int quantity(object what) except -1:
    return QUANTITIES.index(what)


cdef int turn(records_view *view, const row_view *of) except -1:
    """Set what a view with its map and units is about; refuse constants out of range."""
    view.what, view.loss = of.what, of.loss if of.has_loss else NO_LOSS
    if view.loss >= 0 and (records_loss_traits(view.loss) < 0 or view.loss == LOSS_USER):
        raise ValueError(f"loss must be one of {LOSS_CODES}; got {view.loss}")
    if view.loss == NO_LOSS and QUANTITIES[of.what] not in ("response", "weight"):
        raise ValueError("a view without a loss is of responses or weights only")
    if not (in_range(of.c) and in_range(of.h) and in_range(of.scale)):
        raise ValueError("c, h and scale must lie between 1e-100 and 1e100")
    if of.predictor != NULL and (view.matrix == NULL or of.back != NULL):
        raise ValueError("predictors of rows without their map need a map, and no back")
    view.c, view.h, view.scale, view.shift = of.c, of.h, of.scale, of.shift
    view.reach, view.weigh = of.reach, of.weigh
    view.theta, view.predictor = of.theta, of.predictor
    view.back, view.far_theta, view.far_scale = of.back, of.far_theta, of.far_scale
    view.radius, view.power = of.radius, of.power
    view.keep, view.squares, view.whole = NULL, NULL, 0.0
    return 0


cdef int count_lengths(const records_data *data, const records_view *view, int threads,
                       long long *counts) except -1:
    cdef int failed
    check_threads(threads)
    with nogil:
        failed = records_lengths(data, view, threads, counts)
    if failed:
        raise MemoryError("no memory for the partial sums")
    return 0


cdef class RecordView:
    """View of each record: a row ``(1, z) W``, z in units, and a number.

    Parameters
    ----------
    matrix : ndarray of shape (q + 1, p), or a tuple of two numbers
        W; its first row is that of the constant.  The shape alone: of no map, rows are (1, z) if
        p = q + 1, and z if p = q.
    what : {"response", "curvature", "score", "score size", "residual", "weight"}
        Row and number.  "response": a and ``y - shift``; "curvature": ``sqrt(c) a`` and the
        response, c the loss's curvature; "score": ``d a`` and the score, d the clipping factor;
        otherwise a and the largest score at its predictor, the residual, or the weight.
    loss : int or None
        A value of :data:`LOSS_CODES`; -2 for squares without a bound; None for a response only,
        from which the offset is subtracted.  Otherwise the predictor includes the offset.
    c, h, scale : float
        Constants of the loss.
    theta : ndarray of shape (p,), optional
        Where predictors are ``a'theta``; zero by default.
    predictor : ndarray of shape (q + 1,), optional
        With a map and without leverage weights: predictors are ``(1, z)'predictor`` instead.
    shift : float
    centres, spreads : ndarray of shape (q,), optional
        ``z = (x - centre)/spread``; z is x by default.
    response : tuple of two floats
        Centre and spread of responses.
    reach : float
        Rows are shortened until ``|a|`` times the score size is at most this.
    back : tuple, optional
        ``(B, theta, scale, radius, power)``: rows with ``size = sqrt(c)|a B|`` above the radius, c
        the curvature at this theta and scale, are multiplied by ``(radius/size)^(2 power)``.
    weigh : float
        If positive, weights times this multiply curvatures and scores, and their roots multiply
        rows and responses.
    keep : ndarray of shape (n,), optional
        With a map: filled with the squared length of each record's row, rounded up; infinite for
        records that are not usable.
    squares : ndarray of shape (n,), optional
        Without a map: stored lengths of these records' rows under some map.  The view is of rows
        of these lengths, and sums are of multiples of ``(1, z)``.  The map times such a sum is the
        sum of mapped rows.

    Notes
    -----
    The view of a record is a function of that record alone, bit for bit, whatever its position.
    A record with an entry that is not finite, or an impossible response, has the number NaN.
    """

    cdef records_view view
    cdef object arguments, arrays
    cdef readonly str what
    cdef Py_ssize_t n_stored

    def __init__(self, matrix_, str what="response", loss=None, double c=1.0, double h=1.0,
                 double scale=1.0, theta=None, double shift=0.0, centres=None, spreads=None,
                 response=(0.0, 1.0), double reach=float("inf"), back=None,
                 double weigh=0.0, predictor=None, keep=None, squares=None):
        cdef records_view *view = &self.view
        cdef row_view of
        cdef const double *at
        cdef Py_ssize_t q, p
        if type(matrix_) is tuple:
            q, p = matrix_[0] - 1, matrix_[1]
            if p - q not in (0, 1):
                raise ValueError("without a map rows are (1, z), or z")
        else:
            check_array(matrix_, 2, "matrix")
            q, p = cnp.PyArray_DIM(matrix_, 0) - 1, cnp.PyArray_DIM(matrix_, 1)
        if q < 0 or p < 1:
            raise ValueError("matrix must have a row for the constant, and a column")
        self.arguments = (matrix_, what, loss, c, h, scale, theta, shift, centres, spreads,
                          response, reach, back, weigh, predictor)
        view.q, view.p = q, p
        view.matrix = NULL
        if type(matrix_) is not tuple:
            view.matrix = matrix(matrix_, q + 1, p, "matrix")
        of.what, of.has_loss, of.loss = quantity(what), loss is not None, 0
        if loss is not None:
            of.loss = loss
        of.c, of.h, of.scale, of.shift, of.reach, of.weigh = c, h, scale, shift, reach, weigh
        view.y_centre, view.y_spread = response
        theta = np.zeros(p) if theta is None else theta
        centres = np.zeros(q) if centres is None else centres
        inverses = np.ones(q) if spreads is None else inverted(spreads, q)
        of.theta = vector(theta, p, "theta")
        view.centre, view.inverse = vector(centres, q, "centres"), vector(inverses, q, "spreads")
        of.back, of.far_theta, of.predictor = NULL, NULL, NULL
        of.far_scale = of.radius = of.power = 0.0
        self.arrays = [matrix_, theta, centres, inverses]
        if back is not None:
            leverage, far, of.far_scale, of.radius, of.power = back
            of.back, of.far_theta = matrix(leverage, p, p, "back"), vector(far, p, "theta")
            self.arrays += [leverage, far]
        if predictor is not None:
            of.predictor = vector(predictor, q + 1, "predictor")
            self.arrays.append(predictor)
        turn(view, &of)

        self.what, self.n_stored = what, -1
        if keep is not None or squares is not None:
            lengths = keep if squares is None else squares
            self.n_stored = len(lengths)
            at = vector(lengths, self.n_stored, "stored lengths")
            if (squares is not None and (keep is not None or view.matrix != NULL)
                    or weigh > 0.0 or back is not None):
                raise ValueError("lengths are stored with a map, and used without one; there are "
                                 "no leverage weights, and no record weights in the view")
            if squares is None:
                view.keep = <double *> at
            else:
                view.squares = at
            self.arrays.append(lengths)
            self.arguments = None

    def __reduce__(self):
        if self.arguments is None:
            raise TypeError("stored lengths are exact numbers of the records, and are not copied")
        return RecordView, self.arguments

    cdef Py_ssize_t check(self, const records_data *data) except -1:
        if data.q != self.view.q:
            raise ValueError(f"X must have {self.view.q} columns; got {data.q}")
        if self.n_stored >= 0 and (<size_t> self.n_stored != data.n or data.weight != NULL):
            raise ValueError("lengths are stored for all of these records, which have no weights")
        return self.view.p

    def counts(self, X, y, edges, int threads=0, double whole=0.0):
        """Count the records in each cell of lengths, shape (k + 1,).

        A length is that of the row times its number; of curvatures and responses the row's alone,
        of residuals and weights the number's.

        Parameters
        ----------
        X, y, threads
            As for :meth:`RecordKernel.sums`.
        edges : ndarray of float64, shape (k,)
            Increasing; cell i ends with edge i, which is in it.
        whole : float
            If positive, a record with weight a is counted ``floor(whole a)`` times.
        """
        cdef records_data data
        cdef records_view view = self.view
        describe(X, y, &data)
        self.check(&data)
        view.n_edges = len(edges)
        view.edges = vector(edges, len(edges), "edges")
        view.whole = whole
        if whole > 0.0 and data.weight == NULL:
            raise ValueError("only records with weights are counted in parts")
        cells = np.empty(len(edges) + 1, dtype=np.int64)
        count_lengths(&data, &view, threads, <long long *> cnp.PyArray_DATA(cells))
        return cells

    def add_scores(self, X, y, cnp.ndarray group_of_row, Py_ssize_t first, double longest, scores,
                   has_row):
        """Add each row of the view, times its number, to the score of its group.

        Parameters
        ----------
        X, y
            Rows with weights, as for :meth:`RecordKernel.sums`.
        group_of_row : ndarray of intp, shape (n,)
            Group of each row; those outside ``first, ..., first + m - 1`` are skipped.
        longest : float
            Norm to which a row's score s is clipped.
        scores : ndarray of float64, shape (m, p)
            Receives the integers nearest to ``2^44 a s / longest``, a the row's weight; exact.
        has_row : ndarray of bool, shape (m,)
            Set to true for groups with a usable row.
        """
        cdef records_data data
        cdef records_view view = self.view
        describe(X, y, &data)
        self.check(&data)
        cdef Py_ssize_t n = data.n, groups = len(scores)
        if (data.weight == NULL or view.squares != NULL or group_of_row.ndim != 1
                or len(group_of_row) != n or group_of_row.dtype != np.intp or not cnp.PyArray_IS_C_CONTIGUOUS(group_of_row)):
            raise ValueError("rows need weights, and group_of_row must be contiguous intp, one of each row")
        if has_row.dtype != np.bool_ or has_row.shape != (groups,) or not has_row.flags.c_contiguous:
            raise ValueError("has_row must be contiguous booleans, one of each row of scores")
        check_divisor(longest)
        view.group_of_row = <const Py_ssize_t *> cnp.PyArray_DATA(group_of_row)
        view.first_group = first
        view.groups, view.longest = groups, longest
        view.scores = <double *> matrix(scores, groups, view.p, "scores")
        view.has_row = <unsigned char *> cnp.PyArray_DATA(has_row)
        cdef int failed
        with nogil:
            failed = records_scores(&data, &view)
        if failed:
            raise MemoryError("no memory for the partial sums")


# ---- of the query session; documented in dpfast/kernels/records.pxd ----------------------------

cdef int sums_of_rows(object base, const row_view *of, object X, object y, int loss, int weighting,
                      double c, double h, double radius, const double *theta, int want,
                      double divisor, int threads, double *gradient, double *hessian,
                      double *meat) except -1:
    cdef RecordView whole = <RecordView?>base
    cdef records_view view = whole.view
    cdef records_model model
    cdef records_data data
    cdef int fault, failed
    turn(&view, of)
    plain_model(&model, loss, weighting, 0, c, h, 1.0, radius)
    fault = settle(&model)
    if fault == FINE:
        fault = judge_want(&model, want)
    if fault != FINE or loss == LOSS_USER or weighting not in (MALLOWS, CLIP):
        raise ValueError(explanation(fault, &model, want))
    describe(X, y, &data)
    whole.check(&data)
    check_divisor(divisor)
    check_threads(threads)
    with nogil:
        failed = records_sums_of_view(&model, &data, &view, theta, want, divisor, threads,
                                      gradient, hessian, meat, NULL)
    if failed:
        raise MemoryError("no memory for the partial sums")
    return 0


cdef int lengths_of_rows(object base, const row_view *of, object X, object y, const double *edges,
                         Py_ssize_t n_edges, int threads, long long *counts) except -1:
    cdef RecordView whole = <RecordView?>base
    cdef records_view view = whole.view
    cdef records_data data
    turn(&view, of)
    describe(X, y, &data)
    whole.check(&data)
    view.edges, view.n_edges = edges, n_edges
    return count_lengths(&data, &view, threads, counts)
