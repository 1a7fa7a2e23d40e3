# Questions about rows under a released map: means of clipped scores, Grams and moments.

cdef object JointAnswer, TransformedView, RecordView, Records, total_of_records, Layout, Clip
cdef object NO_CLIPPING, plans_of, at_zero, rotate_rows


def connect_rows(classes, kinds, functions):
    """Set the classes of views, answers and records, and what plans a question."""
    global JointAnswer, TransformedView, RecordView, Records, total_of_records, Layout, Clip
    global NO_CLIPPING, plans_of, at_zero, rotate_rows
    JointAnswer, TransformedView, RecordView, Records, Layout = classes
    NO_CLIPPING, Clip = kinds
    plans_of, at_zero, rotate_rows = functions
    total_of_records = Records.total


cdef cnp.ndarray contiguous(object array):
    """Return a vector or matrix of doubles as C lays it out."""
    return cnp.PyArray_FROM_OTF(array, cnp.NPY_DOUBLE, cnp.NPY_ARRAY_CARRAY_RO)


cdef inline tuple fields(object named):
    """Return a tuple with names as it is; its class is not looked at again."""
    if not isinstance(named, tuple):
        raise TypeError(f"expected a tuple; received {type(named).__name__}")
    return <tuple>named


cdef Py_ssize_t columns_of(object matrix) except -1:
    if not (cnp.PyArray_Check(matrix) and cnp.PyArray_NDIM(matrix) == 2):
        raise TypeError("the map of a view must be a matrix")
    return cnp.PyArray_DIM(matrix, 1)


cdef const double *numbers(object array, int dimensions, Py_ssize_t size) except NULL:
    """Return the numbers of a contiguous array of doubles with so many entries a side."""
    cdef int i
    if cnp.PyArray_NDIM(array) != dimensions:
        raise ValueError(f"expected {dimensions} dimension(s); received shape {array.shape}")
    for i in range(dimensions):
        if cnp.PyArray_DIM(array, i) != size:
            raise ValueError(f"expected {size} entries a side; received shape {array.shape}")
    return <const double *>cnp.PyArray_DATA(array)


cdef cnp.ndarray new_array(int dimensions, Py_ssize_t size):
    cdef cnp.npy_intp[2] shape = [size, size]
    return cnp.PyArray_EMPTY(dimensions, shape, cnp.NPY_DOUBLE, 0)


cdef object negative(object named):
    """Return the mean score: minus the mean gradient."""
    cdef tuple answer = fields(named)
    cdef cnp.ndarray value
    cdef Py_ssize_t i
    if answer[0] is (<tuple>NOTHING)[0]:
        return named
    value = cnp.PyArray_NewCopy(contiguous(answer[0]), cnp.NPY_CORDER)
    for i in range(cnp.PyArray_SIZE(value)):
        (<double *>cnp.PyArray_DATA(value))[i] = -(<double *>cnp.PyArray_DATA(value))[i]
    return new_tuple(Answer, (value, answer[1], answer[2]))


def negated(answer):
    """Return an answer of minus the released mean."""
    return negative(answer)


cdef class RowQuestions:
    """Base of queries about mapped rows: each is charged, summed and released here.

    ``subsample`` is of a secret sample of the same records; the same ledger pays (C85).
    """

    cdef public object _curator, _sample, _layout, _rotated, _raw, _units, _matrix, n
    cdef object view_of_all
    cdef tuple viewed
    cdef public bint _means, _intercept
    cdef public double _weigh
    cdef public Py_ssize_t dimension

    def __init__(self, curator, matrix=None, *, subsample=None, double weigh=0.0):
        records = curator._records
        self._curator, self._sample, self._weigh = curator, subsample, weigh
        self._means, self._matrix, self.n = records.means, matrix, curator.n
        self._raw, self._units = records.uncoded
        self._intercept = curator.objective.fit_intercept
        self.dimension = records.n_covariates + self._intercept
        if matrix is not None:
            self.dimension = matrix.shape[1]
        layout = fields(curator._layout)
        self._layout = new_tuple(Layout, (
            layout[0], self.dimension, layout[2], layout[3], layout[4], layout[5],
            matrix is not None,
        ))
        if matrix is not None and not self._means:
            self._rotated = rotate_rows(matrix, self._raw, self._layout)

    def clipped(self, at, radius, mu, mu_meat=0.0, row_clipping=None):
        """Release the mean of norm-clipped scores, and its meat: less than both (claim C17)."""
        view = self._view("score", at, 0.0, row_clipping)
        answer = <tuple>self._release_means(view, Clip, radius, 0.0, mu, 0.0, mu_meat)
        return new_tuple(JointAnswer, (negative(answer[0]), answer[1], answer[2], answer[3]))

    cpdef object _view(self, what, at, shift=0.0, row_clipping=None, bint rotate=True):
        """Return the view of the records that a question is about."""
        row_clipping = NO_CLIPPING if row_clipping is None else row_clipping
        matrix = at_zero(self.dimension)[1] if self._matrix is None else self._matrix
        if rotate and self._rotated is not None:
            matrix, at, row_clipping = self._rotated.rotated(at, row_clipping)
        return new_tuple(
            TransformedView, (matrix, self._intercept, what, at, shift, row_clipping, self._weigh)
        )

    cpdef object _release_means(self, view, weights, double radius, double cap,
                                double gradient, double hessian=0.0, double meat=0.0):
        """Release means of the transformed records at these mu.

        The loss is the square.  A ``cap`` clips its residuals, and not its curvature.
        """
        cdef Question question
        cdef noisy_part[3] parts
        cdef list answers, sums
        cdef tuple receipts
        cdef RowPlans plans
        curator, layout = self._curator, self._layout
        if self._means and weights is Clip:
            layout = self._scores_layout
        if self._rotated is not None:
            layout = self._rotated.layout(view, radius, cap)
        plans = plans_of(weights, cap != 0.0, layout, gradient > 0.0, hessian > 0.0, meat > 0.0)
        plans.ask(&question, radius, cap, gradient, hessian, meat)
        receipts = plans.receipts(&question)
        charge(curator.ledger, price_of(question.mu)[0], plans.label)
        sums = self.summed(view, plans, &question, weights is Clip, layout)
        asked = (plans.label, question.mu, at_zero(self.dimension)[0],
                 *self._observed(view, radius, cap))
        answers = released(curator._noise, asked, receipts, sums, parts,
                           means_of(&question, sums, parts, self.dimension))
        if self._rotated is not None:
            answers = [self._rotated.back(answer) for answer in answers]
        return new_tuple(JointAnswer, (answers[0], answers[1], answers[2], question.mu))

    def norm_histogram(self, edges, double mu, at=None, what="response", row_clipping=None,
                       direction=None):
        """Release a histogram of norms of the transformed records (claim C60)."""
        cdef noisy_part part
        cdef cnp.ndarray shares
        cdef tuple receipt
        curator = self._curator
        found, cost = priced_histogram(self.n, fields(self._layout)[4], len(edges) + 1, mu)
        if what == "weight":
            found = found._replace(query="histogram of weights")
        receipt = fields(found)
        charge(curator.ledger, cost, receipt[0])
        view = self._view(what, at, 0.0, row_clipping, direction is None)
        shares = self.counted(view, edges, direction)
        asked = (receipt[0], mu, edges, what, None if at is None else fields(at)[0],
                 *(() if direction is None else (direction,)), *self._observed(view))
        vector_part(&part, shares, receipt[4])
        return released(curator._noise, asked, (receipt,), [shares], &part, 1)[0]

    cdef bint in_arrays(self) except -1:
        """Say whether the rows are those of arrays in memory, and mapped as they are read."""
        return (type(self._raw) is Records and self._rotated is None and not self._means
                and Records.total is total_of_records)  # else an audit sees who reads

    cdef object whole_view(self, view):
        """Compile the map and the units of these records; what a view is about is set for each."""
        if self.view_of_all is None or self.viewed[0] is not fields(view)[0] or (
                self.viewed[1] is not self._units):
            centres, spreads, response = units_of(self._units)
            self.view_of_all = RecordView(
                mapped_by(view[0], view[1]), centres=centres, spreads=spreads, response=response
            )
            self.viewed = fields(view)[0], self._units
        return self.view_of_all

    cdef list summed(self, view, RowPlans plans, const Question *question, bint scores,
                     layout):
        """Compute exact means of the transformed records, in arrays of their own."""
        cdef double *at[3]
        cdef row_view of
        cdef list sums = []
        cdef int i
        if not self.in_arrays():
            for value in self._sums(view, plans.kernel(question), question.want,
                                    question.norm if scores else None, layout):
                if value is not None:
                    value = cnp.PyArray_NewCopy(contiguous(value), cnp.NPY_CORDER)
                sums.append(value)
            return sums
        for i in range(3):
            at[i] = NULL
            if question.means[i].wanted:
                sums.append(new_array(2 if i else 1, self.dimension))
                at[i] = <double *>cnp.PyArray_DATA(sums[i])
            else:
                sums.append(None)
        held = about(view, &of)
        sums_of_rows(
            self.whole_view(view), &of, self._raw.X, self._raw.y, question.loss,
            question.weighting, question.c, question.h, question.norm,
            numbers(at_zero(self.dimension)[0], 1, self.dimension), question.want, self.n,
            self._curator._threads, at[0], at[1], at[2],
        )
        return sums

    cdef cnp.ndarray counted(self, view, edges, direction):
        """Compute the shares of records with norms between these edges, exactly."""
        cdef cnp.ndarray shares, ends
        cdef long long *counts
        cdef row_view of
        cdef Py_ssize_t i, cells = len(edges) + 1
        cdef double n = self.n
        if direction is not None or not self.in_arrays():
            shares = contiguous(self._special_counts(view, edges, direction))
            return contiguous(shares / self.n)
        ends = contiguous(edges)
        shares = new_array(1, cells)
        counts = <long long *>PyMem_Malloc(cells * sizeof(long long))
        if counts == NULL:
            raise MemoryError("no memory for the counts of a histogram")
        try:
            held = about(view, &of)
            lengths_of_rows(self.whole_view(view), &of, self._raw.X, self._raw.y,
                            <const double *>cnp.PyArray_DATA(ends), cells - 1,
                            self._curator._threads, counts)
            for i in range(cells):
                (<double *>cnp.PyArray_DATA(shares))[i] = <double>counts[i] / n
        finally:
            PyMem_Free(counts)
        return shares

    def _sums(self, view, kernel, want, radius, layout=None):
        """Compute exact means of the transformed records; of persons, their rows or scores."""
        if self._rotated is not None or (self._means and radius is not None):
            return self._special_sums(view, kernel, want, radius, layout)
        return self._raw.total(
            kernel.sums, at_zero(self.dimension)[0], want, <double>self.n, self._curator._threads,
            compiled(view, self._units),
        )

    def _counts(self, view, edges):
        """Count rows with lengths between these edges, exactly."""
        if self._rotated is not None:
            return self._rotated_counts(view, edges)
        return self._raw.total(compiled(view, self._units).counts, edges, self._curator._threads)

    cpdef tuple _observed(self, view, norm=None, cap=None):
        """Return what observers receive: the view, the clipping norms, and the units."""
        if get_value(OBSERVER) is None:
            return ()
        norms = tuple([number for number in (norm, cap) if number is not None])
        return view, norms, self._units, self._curator._made_with


cdef int means_of(const Question *question, list sums, noisy_part *parts,
                  Py_ssize_t p) except -1:
    """Describe the means of a question for the mechanism; return how many there are."""
    cdef const Mean *mean
    cdef int i, n_parts = 0
    for i in range(3):
        mean = &question.means[i]
        if mean.wanted != (sums[i] is not None):
            raise ValueError("a question needs the sums of its means, and no others")
        if not mean.wanted:
            continue
        parts[n_parts].values = <double *>numbers(sums[i], 2 if i else 1, p)
        parts[n_parts].p, parts[n_parts].bits = p, mean.bits
        parts[n_parts].grid, parts[n_parts].grid_off = mean.grid, mean.grid_off
        n_parts += 1
    return n_parts


cdef bint is_unmapped(object matrix) except -1:
    return matrix is at_zero(columns_of(matrix))[1]


cdef object mapped_by(object matrix, bint intercept):
    """Return the map of (1, z) to rows; its shape alone, where rows are as they are."""
    cdef Py_ssize_t p = columns_of(matrix)
    if is_unmapped(matrix):
        return p + 1 - intercept, p
    if intercept:
        return contiguous(matrix)
    return np.concatenate([np.zeros((1, p)), contiguous(matrix)])


cdef tuple units_of(units):
    return (None, None, (0.0, 1.0)) if units is None else tuple(units)


cdef tuple about(view, row_view *of):
    """Set what a view is about; return the arrays that its pointers are into, or None.

    They are parameter, predictor, and map and parameter of leverage weights.
    """
    cdef double scale
    matrix, intercept, what, at, shift, row_clipping, weigh = fields(view)
    cdef Py_ssize_t p = columns_of(matrix)
    weights, reach = fields(row_clipping)
    theta, predictor, back, far = at_zero(p)[0], None, None, None
    of.what, of.shift, of.reach, of.weigh = quantity(what), shift, reach, weigh
    of.has_loss, of.loss, of.c, of.h, of.scale = False, 0, 1.0, 1.0, 1.0
    of.predictor, of.back, of.far_theta = NULL, NULL, NULL
    of.far_scale = of.radius = of.power = 0.0
    if at is not None:
        theta, loss, scale, raw = fields(at)
        parameters = getattr(loss, "_kernel_parameters", None)
        code, of.c, of.h = (loss.code, loss.c, loss.h) if parameters is None else parameters
        if code is not None:
            of.has_loss, of.loss = True, code
        theta = contiguous(theta)
        if raw and not is_unmapped(matrix):
            predictor = np.concatenate([[] if intercept else [0.0], theta])
            theta = at_zero(p)[0]
            of.predictor = numbers(predictor, 1, cnp.PyArray_DIM(matrix, 0) + (not intercept))
        of.scale = scale if 1e-100 <= scale <= 1e100 else min(max(1e-100, scale), 1e100)
    of.theta = numbers(theta, 1, p)
    if weights is not None:
        far_at, of.radius, of.power, back = fields(weights)
        far, _, of.far_scale, _ = fields(far_at)
        far, back = contiguous(far), contiguous(back)
        of.back, of.far_theta = numbers(back, 2, p), numbers(far, 1, p)
    return theta, predictor, back, far


def compiled(view, units=None, *, squares=None, keep=None):
    """Compile a view with a matrix, of records in these units, for the kernels.

    ``squares`` are stored squared lengths of the rows, ``keep`` is an array to store them in.
    """
    cdef row_view of
    theta, predictor, back, far = about(view, &of)
    centres, spreads, response = units_of(units)
    leverage = None if back is None else (back, far, of.far_scale, of.radius, of.power)
    return RecordView(
        mapped_by(view[0], view[1]), view[2], of.loss if of.has_loss else None, of.c, of.h,
        of.scale, theta, of.shift, centres, spreads, response, of.reach, leverage, of.weigh,
        predictor, squares=squares, keep=keep,
    )
