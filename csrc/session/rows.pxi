# Questions about rows under a released map: means of clipped scores, Grams and moments.

cdef object JointAnswer, TransformedView, RecordView, NO_CLIPPING, Clip, plans_of, at_zero


def connect_rows(joint_answer, transformed_view, record_view, no_clipping, clip, plans, zero):
    """Set the classes of views and answers, and the cached plans of a question."""
    global JointAnswer, TransformedView, RecordView, NO_CLIPPING, Clip, plans_of, at_zero
    JointAnswer, TransformedView, RecordView = joint_answer, transformed_view, record_view
    NO_CLIPPING, Clip, plans_of, at_zero = no_clipping, clip, plans, zero


cdef object contiguous(object array):
    """Return a vector or matrix of doubles as C lays it out."""
    return cnp.PyArray_FROM_OTF(array, cnp.NPY_DOUBLE, cnp.NPY_ARRAY_CARRAY_RO)


cdef object negative(object named):
    """Return the mean score: minus the mean gradient."""
    answer = <tuple>named  # without a look at its class
    return new_tuple(Answer, (-answer[0], answer[1], answer[2]))


cdef class RowQuestions:
    """Base of queries about mapped rows: each is charged, summed and released here."""

    cdef public object _curator, _layout, _rotated, _raw, _units, _matrix, n
    cdef public bint _means, _intercept
    cdef public double _weigh
    cdef public Py_ssize_t dimension

    def clipped(self, at, radius, mu, mu_meat=0.0, row_clipping=None):
        """Release the mean of norm-clipped scores, and its meat: less than both (claim C17)."""
        view = self._view("score", at, 0.0, NO_CLIPPING if row_clipping is None else row_clipping)
        answer = <tuple>self._release_means(view, Clip, radius, 0.0, mu, 0.0, mu_meat)
        return new_tuple(JointAnswer, (negative(answer[0]), answer[1], answer[2], answer[3]))

    def _view(self, what, at, shift=0.0, row_clipping=None, bint rotate=True):
        """Return the view of the records that a question is about."""
        row_clipping = NO_CLIPPING if row_clipping is None else row_clipping
        matrix = at_zero(self.dimension)[1] if self._matrix is None else self._matrix
        if rotate and self._rotated is not None:
            matrix, at, row_clipping = self._rotated.rotated(at, row_clipping)
        return new_tuple(
            TransformedView, (matrix, self._intercept, what, at, shift, row_clipping, self._weigh)
        )

    def _release_means(self, view, weights, double radius, double cap, double gradient,
                       double hessian=0.0, double meat=0.0):
        """Release means of the transformed records at these mu.

        The loss is the square.  A ``cap`` clips its residuals, and not its curvature.
        """
        cdef list answers
        curator, layout = self._curator, self._layout
        if self._means and weights is Clip:
            layout = self._scores_layout
        if self._rotated is not None:
            layout = self._rotated.layout(view, radius, cap)
        kernel, plan = (<RowPlans>plans_of(
            weights, cap != 0.0, layout, gradient > 0.0, hessian > 0.0, meat > 0.0
        )).at(radius, cap, gradient, hessian, meat)
        label, cost, want, receipts, grids = plan
        charge(curator.ledger, cost, label)
        sums = self._sums(view, kernel, want, radius if weights is Clip else None, layout)
        question = (label, cost.mu, at_zero(self.dimension)[0], *self._observed(view, radius, cap))
        answers = release_jointly_with_noise(curator._noise, question, receipts, grids, sums)
        if self._rotated is not None:
            answers = [self._rotated.back(answer) for answer in answers]
        return new_tuple(JointAnswer, (*answers, cost.mu))

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

    def _observed(self, view, *norms):
        """Return what observers receive: the view, the clipping norms, and the units."""
        if get_value(OBSERVER) is None:
            return ()
        return view, norms, self._units, self._curator._made_with


def compiled(view, units=None, *, squares=None, keep=None):
    """Compile a view with a matrix, of records in these units, for the kernels.

    ``squares`` are stored squared lengths of the rows, ``keep`` is an array to store them in.
    """
    matrix, intercept, what, at, shift, row_clipping, weigh = view
    cdef Py_ssize_t p = matrix.shape[1]
    cdef bint unmapped = matrix is at_zero(p)[1]
    cdef double scale = 1.0
    code, c, h, theta, predictor, back = None, 1.0, 1.0, None, None, None
    if unmapped:
        matrix = p + 1 - intercept, p
    elif intercept:
        matrix = contiguous(matrix)
    else:
        matrix = np.concatenate([np.zeros((1, p)), contiguous(matrix)])
    weights, max_score_bound = row_clipping
    if weights is not None:
        back = (contiguous(weights.back), contiguous(weights.at.theta), weights.at.scale,
                weights.radius, weights.power)
    if at is not None:
        theta, loss, scale, raw = at
        declared = loss.code, loss.c, loss.h
        code, c, h = getattr(loss, "_kernel_parameters", declared)
        theta = contiguous(theta)
        if raw and not unmapped:
            predictor = np.concatenate([[] if intercept else [0.0], theta])
            theta = None
        if not 1e-100 <= scale <= 1e100:
            scale = min(max(1e-100, scale), 1e100)
    centres, spreads, response = (None, None, (0.0, 1.0)) if units is None else units
    return RecordView(
        matrix, what, code, c, h, scale, theta, shift, centres, spreads, response,
        max_score_bound, back, weigh, predictor, squares=squares, keep=keep,
    )
