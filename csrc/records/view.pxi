# What is seen of records under a released map; part of records.pyx.

#: What there is to see, in the order of records.h.
WHATS = ("response", "curvature", "score", "foreseen", "residual", "weight")


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


cdef class RecordView:
    """What is seen of each record: a row ``(1, z) W``, z in units, and a number beside it.

    Parameters
    ----------
    matrix : ndarray of shape (q + 1, p), or a tuple of two numbers
        W; its first row is that of the constant.  The shape alone: of no map, rows are (1, z) if
        p = q + 1, and z if p = q.
    what : {"response", "curvature", "score", "foreseen", "residual", "weight"}
        The row a beside ``y - shift``; ``sqrt(c) a`` beside it, c the loss's curvature; ``d a``
        beside the score; a beside what is foreseen of the score, the residual or the weight.
    loss : int or None
        A value of :data:`LOSS_CODES`; -2 for squares without a bound; None for a response only,
        which is then less its offset.  Elsewhere offsets join predictors.
    c, h, scale : float
        Of the loss.
    theta : ndarray of shape (p,), optional
        Where predictors are ``a'theta``; zero by default.
    shift : float
    centres, spreads : ndarray of shape (q,), optional
        ``z = (x - centre)/spread``; z is x by default.
    response : tuple of two floats
        Centre and spread of responses.
    reach : float
        Rows are shortened until ``|a|`` times what is foreseen is no longer.
    back : tuple, optional
        ``(B, theta, scale, radius, power)``: rows with ``size = sqrt(c)|a B|`` above the radius, c
        the curvature at this theta and scale, are multiplied by ``(radius/size)^(2 power)``.
    weigh : float
        If positive, weights times this are part of what is seen: of curvatures and scores, and
        their roots of rows and responses.
    keep : ndarray of shape (n,), optional
        With a map: filled with the squared length of each record's row, rounded up; infinite where
        a record counts for nothing.
    squares : ndarray of shape (n,), optional
        Without a map: lengths that were kept of the rows of these records under some map.  What is
        seen is that of rows of these lengths, and sums are those of multiples of ``(1, z)``; a sum
        for rows under the map is this times it.

    Notes
    -----
    What is seen of a record is a function of that record alone, the same bits wherever it stands.
    One with an entry that is not finite, or a response that the loss cannot have, is beside NaN.
    """

    cdef records_view view
    cdef object arguments, arrays
    cdef readonly str what
    cdef Py_ssize_t n_kept

    def __init__(self, matrix_, str what="response", loss=None, double c=1.0, double h=1.0,
                 double scale=1.0, theta=None, double shift=0.0, centres=None, spreads=None,
                 response=(0.0, 1.0), double reach=float("inf"), back=None,
                 double weigh=0.0, keep=None, squares=None):
        cdef records_view *view = &self.view
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
                          response, reach, back, weigh)
        view.q, view.p, view.what = q, p, WHATS.index(what)
        view.matrix = NULL
        if type(matrix_) is not tuple:
            view.matrix = matrix(matrix_, q + 1, p, "matrix")
        view.loss = NO_LOSS if loss is None else loss
        if view.loss >= 0 and (records_loss_traits(view.loss) < 0 or view.loss == LOSS_USER):
            raise ValueError(f"loss must be one of {LOSS_CODES}; got {loss}")
        if view.loss == NO_LOSS and what not in ("response", "weight"):
            raise ValueError("only responses and weights are seen without a loss")
        if not (in_range(c) and in_range(h) and in_range(scale)):
            raise ValueError("c, h and scale must lie between 1e-100 and 1e100")
        view.c, view.h, view.scale, view.shift = c, h, scale, shift
        view.y_centre, view.y_spread = response
        view.weigh = weigh
        theta = np.zeros(p) if theta is None else theta
        centres = np.zeros(q) if centres is None else centres
        inverses = np.ones(q) if spreads is None else 1.0 / spreads
        view.theta = vector(theta, p, "theta")
        view.centre, view.inverse = vector(centres, q, "centres"), vector(inverses, q, "spreads")
        view.reach, view.back, view.far_theta = reach, NULL, NULL
        self.arrays = [matrix_, theta, centres, inverses]
        if back is not None:
            turn, far, view.far_scale, view.radius, view.power = back
            view.back, view.far_theta = matrix(turn, p, p, "back"), vector(far, p, "theta")
            self.arrays += [turn, far]

        self.what, self.n_kept, view.keep, view.squares, view.whole = what, -1, NULL, NULL, 0.0
        if keep is not None or squares is not None:
            kept = keep if squares is None else squares
            self.n_kept = len(kept)
            at = vector(kept, self.n_kept, "lengths that are kept")
            if (squares is not None and (keep is not None or view.matrix != NULL)
                    or weigh > 0.0 or back is not None):
                raise ValueError("lengths are kept with a map, and read without one; there are "
                                 "neither discounts nor weights that are seen")
            if squares is None:
                view.keep = <double *> at
            else:
                view.squares = at
            self.arrays.append(kept)
            self.arguments = None

    def __reduce__(self):
        if self.arguments is None:
            raise TypeError("lengths that are kept are of the records, and stay with them")
        return RecordView, self.arguments

    cdef Py_ssize_t check(self, const records_data *data) except -1:
        if data.q != self.view.q:
            raise ValueError(f"X must have {self.view.q} columns; got {data.q}")
        if self.n_kept >= 0 and (<size_t> self.n_kept != data.n or data.weight != NULL):
            raise ValueError("lengths are kept of all of these records, which have no weights")
        return self.view.p

    def counts(self, X, y, edges, int threads=0, double whole=0.0):
        """Number of records in each cell of lengths, shape (k + 1,).

        Lengths are those of the row times the number beside it; of curvatures and responses of the
        row alone, of residuals and weights of the number.

        Parameters
        ----------
        X, y, threads
            As for :meth:`RecordKernel.sums`.
        edges : ndarray of float64, shape (k,)
            Increasing; cell i ends with edge i, which is in it.
        whole : float
            If positive, a record with weight a counts ``floor(whole a)`` times.
        """
        cdef records_data data
        cdef records_view view = self.view
        describe(X, y, &data)
        self.check(&data)
        check_threads(threads)
        view.n_edges = len(edges)
        view.edges = vector(edges, len(edges), "edges")
        view.whole = whole
        if whole > 0.0 and data.weight == NULL:
            raise ValueError("only records with weights count in parts")
        found = np.empty(len(edges) + 1, dtype=np.int64)
        cdef long long *counts = <long long *> cnp.PyArray_DATA(found)
        cdef int failed
        with nogil:
            failed = records_lengths(&data, &view, threads, counts)
        if failed:
            raise MemoryError("no memory for the partial sums")
        return found

    def add_scores(self, X, y, cnp.ndarray whose, Py_ssize_t first, double longest, scores, told):
        """Add what is seen of rows, times what is beside them, to the scores of whose they are.

        Parameters
        ----------
        X, y
            Rows with weights, as for :meth:`RecordKernel.sums`.
        whose : ndarray of intp, shape (n,)
            Whose each row is; those of others than ``first`` and the next ones are passed over.
        longest : float
            Norm to which a row's score s is held.
        scores : ndarray of float64, shape (m, p)
            Has the nearest whole numbers to ``2^44 a s / longest`` added, a the row's weight: exactly.
        told : ndarray of bool, shape (m,)
            Becomes true of those who have a row that is seen.
        """
        cdef records_data data
        cdef records_view view = self.view
        describe(X, y, &data)
        self.check(&data)
        cdef Py_ssize_t n = data.n, groups = len(scores)
        if (data.weight == NULL or view.squares != NULL or whose.ndim != 1 or len(whose) != n
                or whose.dtype != np.intp or not cnp.PyArray_IS_C_CONTIGUOUS(whose)):
            raise ValueError("rows need weights, and each one whose it is, contiguous intp")
        if told.dtype != np.bool_ or told.shape != (groups,) or not told.flags.c_contiguous:
            raise ValueError("told must be contiguous booleans, one of each row of scores")
        check_divisor(longest)
        view.whose, view.first_group = <const Py_ssize_t *> cnp.PyArray_DATA(whose), first
        view.groups, view.longest = groups, longest
        view.scores = <double *> matrix(scores, groups, view.p, "scores")
        view.told = <unsigned char *> cnp.PyArray_DATA(told)
        cdef int failed
        with nogil:
            failed = records_scores(&data, &view)
        if failed:
            raise MemoryError("no memory for the partial sums")
