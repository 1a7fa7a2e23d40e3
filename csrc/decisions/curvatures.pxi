# Expected and updated curvatures, and the information bound; part of decisions.pyx.

cdef double _bounded(double curvature, double smallest, double largest) noexcept nogil:
    """Return a curvature within limits; the smallest if it is NaN."""
    return largest if curvature >= largest else curvature if curvature > smallest else smallest


cdef void _design_hessian(const double *slope, double variance, double across, double along,
                          Py_ssize_t p, double *out) noexcept nogil:
    cdef double factor = (along - across) / variance
    cdef Py_ssize_t i, j
    for i in range(p):
        for j in range(p):
            out[i * p + j] = factor * (slope[i] * slope[j])
        out[i * p + i] += across


def design_hessian(slopes, double variance, double across, double along):
    """Compute a Hessian of one curvature across the slopes and another along them."""
    cdef cnp.ndarray given = _float_array(slopes, "slopes")
    cdef Py_ssize_t p = cnp.PyArray_SIZE(given)
    cdef cnp.ndarray out = _new_matrix(p)
    _design_hessian(_data(given), variance, across, along, p, _data(out))
    return out


cdef void _rank_two(const double *left, const double *right, double factor, Py_ssize_t p,
                    double *out) noexcept nogil:
    """Add `factor left right'` to a matrix."""
    cdef Py_ssize_t i, j
    cdef double entry
    for i in range(p):
        entry = factor * left[i]
        for j in range(p):
            out[i * p + j] += entry * right[j]


cdef struct Expected:
    # Expected curvature of a Gaussian design: slopes without their part in the intercept, their
    # square, curvature across them and along.
    double *slopes
    double variance, across, along


cdef void _transport(const double *whiten, const double *back, const double *curvature,
                     const Expected *was, const Expected *here, Py_ssize_t p, double *memory,
                     double *out) noexcept nogil:
    """Transport a curvature to another point, by the ratio of the expected curvatures.

    It is the identity if it is NULL; `memory` has 2 p*p + 4 p numbers.
    """
    cdef const double *old = was.slopes
    cdef const double *new = here.slopes
    cdef double *turn = memory
    cdef double *scratch = memory + p * p
    cdef double *vectors = scratch + p * p  # of the new slopes and of the old, mapped and back
    cdef Py_ssize_t i, j
    # square roots of both curvatures, the second one's inverse
    cdef double to_root = (sqrt(here.along) - sqrt(here.across)) / here.variance
    cdef double from_inverse = (1.0 / sqrt(was.along) - 1.0 / sqrt(was.across)) / was.variance
    cdef double cross = to_root * _dot(new, old, p) * from_inverse
    memset(turn, 0, p * p * sizeof(double))
    memset(vectors, 0, 2 * p * sizeof(double))
    for i in range(p):
        for j in range(p):
            vectors[j] += whiten[i * p + j] * new[i]
            vectors[p + j] += whiten[i * p + j] * old[i]
        vectors[2 * p + i] = _dot(back + i * p, new, p)
        vectors[3 * p + i] = _dot(back + i * p, old, p)
    _rank_two(vectors, vectors + 2 * p, to_root / sqrt(was.across), p, turn)
    _rank_two(vectors, vectors + 3 * p, cross, p, turn)
    _rank_two(vectors + p, vectors + 3 * p, from_inverse * sqrt(here.across), p, turn)
    for i in range(p):
        turn[i * p + i] += sqrt(here.across / was.across)
    if curvature != NULL:
        congruent(turn, curvature, p, scratch, out)
        return
    for i in range(p):
        for j in range(p):
            scratch[i * p + j] = turn[j * p + i]
    multiply(turn, scratch, p, out)


cdef int _bfgs_update(const double *known, const double *here, const double *next_point,
                      const double *score, const double *next_score, double noise,
                      double next_noise, Py_ssize_t p, double *memory, double *out) noexcept nogil:
    """Update a Hessian, the identity if it is NULL, by BFGS: Nocedal and Wright (2006), 6.1.

    Returns 1; 0 where the change of the scores is below its noise, or the update would not be
    positive definite; -1 where memory ran out.  `memory` has 3 p + 2 p*p numbers.
    """
    cdef double *step = memory
    cdef double *change = memory + p
    cdef double *hessian_step = memory + 2 * p
    cdef double *values = memory
    cdef double size, predicted, observed, doubt
    cdef Py_ssize_t i, j
    cdef int status
    for i in range(p):
        step[i] = next_point[i] - here[i]
        change[i] = score[i] - next_score[i]
    for i in range(p):
        hessian_step[i] = step[i] if known == NULL else _dot(known + i * p, step, p)
    size = sqrt(_dot(step, step, p))
    predicted, observed = _dot(step, hessian_step, p), _dot(step, change, p)
    doubt = UPDATE_SDS * hypot(next_noise, noise) * size + p * noise * noise
    if not (fabs(observed - predicted) > doubt and predicted > 0.0 and observed > 0.0):
        return 0
    for i in range(p):
        for j in range(p):
            out[i * p + j] = (i == j) if known == NULL else known[i * p + j]
            out[i * p + j] -= hessian_step[i] * hessian_step[j] / predicted
            out[i * p + j] += change[i] * change[j] / observed
    status = symmetric_eigen(out, p, values, memory + 3 * p, memory + 3 * p + p * p)
    return status if status < 0 else status == 0 and values[0] > MIN_CONDITION * values[p - 1]


def bfgs_update(curvature, before, here):
    """Update a Hessian between two released scores; None where it stays as it is."""
    cdef list copies = []
    cdef Py_ssize_t p = len(here[0])
    cdef cnp.ndarray start, out = _new_matrix(p), room = _new_vector(3 * p + 2 * p * p)
    cdef const double *known = NULL
    if curvature is not None:
        start = _square(curvature, "curvature")
        known = _of(start, p * p, copies)
    cdef int status = _bfgs_update(
        known, _of(before[0], p, copies), _of(here[0], p, copies), _of(before[1], p, copies),
        _of(here[1], p, copies), before[2], here[2], p, _data(room), _data(out),
    )
    _check_memory(status)
    return out if status else None


cdef int _relative(const double *curvature, const double *meat, Py_ssize_t p, double *values,
                   double *columns, double *memory, double *square) noexcept nogil:
    """Fill variances and columns (as columns) of :func:`relative_variances`.

    `memory` has 4 p*p numbers; `square` is the squared norm of the whitening.
    """
    cdef double *white = memory
    cdef double *scratch = memory + p * p
    cdef double *other = memory + 2 * p * p
    cdef double *rotation = memory + 3 * p * p
    cdef Py_ssize_t i, k
    cdef double root
    cdef int status = symmetric_eigen(curvature, p, values, white, scratch)
    if status < 0:
        return status
    for k in range(p):  # rows are whitened eigenvectors: W' of the whitening W
        root = sqrt(_larger(values[k], TINY))
        for i in range(p):
            white[k * p + i] /= root
    square[0] = _dot(white, white, p * p)
    congruent(white, meat, p, scratch, other)
    status = symmetric_eigen(other, p, values, rotation, scratch)
    if status < 0:
        return status
    multiply(rotation, white, p, scratch)  # rows are the columns
    for k in range(p):
        for i in range(p):
            columns[i * p + k] = scratch[k * p + i]
    return 0


def relative_variances(curvature, meat):
    """Compute variances of scores along columns of curvature 1, in which they do not covary.

    Returns
    -------
    values : ndarray of shape (p,)
        Increasing.
    columns : ndarray of shape (p, p)
    square : float
        Squared norm of the columns.
    """
    cdef list copies = []
    cdef cnp.ndarray H = _square(curvature, "curvature"), Q = _square(meat, "meat")
    cdef Py_ssize_t p = cnp.PyArray_DIM(H, 0)
    cdef cnp.ndarray values = _new_vector(p), columns = _new_matrix(p)
    cdef double square = 0.0
    cdef cnp.ndarray room = _new_vector(4 * p * p)
    cdef double *memory = _data(room)
    cdef int status = _relative(_data(H), _of(Q, p * p, copies), p, _data(values), _data(columns), memory,
                                &square)
    _check_memory(status)
    return values, columns, square


def excess_variation(curvature, meat, double noise, double most):
    """Return how much more scores vary along a direction than along others; None if not clearly.

    The curvature is the identity if it is None; more than ``most`` times is clear.
    """
    cdef list copies = []
    cdef cnp.ndarray Q = _square(meat, "meat"), H, direction
    cdef Py_ssize_t p = cnp.PyArray_DIM(Q, 0), i
    cdef cnp.ndarray room = _new_vector(6 * p * p + p)
    cdef double *columns = _data(room)
    cdef double *memory = columns + p * p
    cdef double *value = columns + 6 * p * p
    cdef double *identity = columns + 5 * p * p
    cdef const double *known = identity
    cdef double square, doubt, others, ratio
    if p < 2:
        return None
    memset(identity, 0, p * p * sizeof(double))
    for i in range(p):
        identity[i * p + i] = 1.0
    if curvature is not None:
        H = _square(curvature, "curvature")
        known = _of(H, p * p, copies)
    _check_memory(_relative(known, _data(Q), p, value, columns, memory, &square))
    # the largest eigenvalue of the noise, and its standard deviations along one direction
    doubt = (sqrt(2.0 * p) + SIGNAL_SDS) * noise * square / p
    others = math.fsum([_larger(value[i], 0.0) for i in range(p - 1)]) / (p - 1)
    ratio = (value[p - 1] - doubt) / _larger(TINY, _larger(noise, others))
    if not ratio > most:
        return None
    direction = _new_vector(p)
    for i in range(p):
        _data(direction)[i] = columns[i * p + p - 1]
    return ratio, direction


cdef int _information_bound(const double *known, const double *meat, double noise, double factor,
                            const double *hidden, bint of_step, Py_ssize_t p, double *memory,
                            double *columns, double *share, double *value, double *doubt,
                            double *reference) noexcept nogil:
    """Compute the bound of :func:`information_bound`; `memory` has 4 p*p numbers."""
    cdef double square = 0.0, of_hidden, total, entry
    cdef Py_ssize_t i, k
    cdef int status = _relative(known, meat, p, value, columns, memory, &square)
    for k in range(p):
        value[k] = _larger(value[k], 0.0)
    reference[0] = _larger(_larger(factor, 0.5 * (value[(p - 1) // 2] + value[p // 2])), TINY)
    doubt[0] = sqrt(2.0 / p) * noise * square
    for k in range(p):
        share[k] = _smaller(reference[0], value[k] + doubt[0]) / reference[0]
        if of_step and factor > 0.0:
            share[k] = _smaller(share[k] / MIN_VARIATION, 1.0)
        if hidden != NULL:
            of_hidden, total = 0.0, 0.0
            for i in range(p):
                entry = columns[i * p + k]
                of_hidden += hidden[i] * entry * entry
                total += entry * entry
            share[k] += (1.0 - share[k]) * (of_hidden / total)
    return status


def information_bound(known, meat, double noise, double factor, undetermined, bint of_step=False):
    """Compute a bound of the Hessian by the variance of the scores (White 1982).

    By the information equality both are equal in most directions, up to a common unit: at least
    ``factor``.  Where that is known, the bound of a step is twice the variance: the model may be
    wrong.  Columns without determined curvature have no bound: their scores do not vary.

    Returns
    -------
    columns : ndarray of shape (p, p)
        Along them the curvature is 1.
    shares : ndarray of shape (p,)
        Parts of it that scores determine.
    values : ndarray of shape (p,)
        Score variances there.
    doubt, reference : float
        Their noise, and the unit of the parts.
    """
    cdef list copies = []
    cdef cnp.ndarray H = _square(known, "curvature"), Q = _square(meat, "meat")
    cdef Py_ssize_t p = cnp.PyArray_DIM(H, 0)
    cdef cnp.ndarray values = _new_vector(p), columns = _new_matrix(p), shares = _new_vector(p)
    cdef const double *hidden = NULL if undetermined is None else _of(undetermined, p, copies)
    cdef double doubt, reference
    cdef cnp.ndarray room = _new_vector(4 * p * p)
    _check_memory(_information_bound(
        _data(H), _of(Q, p * p, copies), noise, factor, hidden, of_step, p, _data(room),
        _data(columns), _data(shares), _data(values), &doubt, &reference,
    ))
    return columns, shares, values, doubt, reference


cdef Py_ssize_t _apply_information_bound(const double *H, const double *columns,
                                         const double *share, const double *value, double doubt,
                                         double reference, Py_ssize_t p, double *memory,
                                         double *bounded, double *meat) noexcept nogil:
    """Fill what :func:`apply_information_bound` returns; `memory` has 3 p*p numbers."""
    cdef double *dual = memory
    cdef double *left = memory + p * p
    cdef double *right = memory + 2 * p * p
    cdef Py_ssize_t i, k, n_hidden = 0
    multiply(H, columns, p, dual)
    for i in range(p):
        for k in range(p):
            right[k * p + i] = dual[i * p + k]
            left[i * p + k] = dual[i * p + k] * share[k]
    multiply(left, right, p, bounded)
    for i in range(p):
        for k in range(p):
            left[i * p + k] = dual[i * p + k] * (reference * share[k] if share[k] < 1.0 else 0.0)
    multiply(left, right, p, meat)
    for k in range(p):
        n_hidden += value[k] < doubt and SIGNAL_SDS * share[k] < 1.0
    return n_hidden


def apply_information_bound(curvature, columns, shares, values, double doubt, double reference):
    """Apply the bound to a Hessian.

    Returns
    -------
    curvature : ndarray of shape (p, p)
        The part that the scores determine.
    min_meat : ndarray of shape (p, p)
        The smallest score variance where the bound applies.
    n_hidden : int
        Number of directions that are too noisy.
    """
    cdef list copies = []
    cdef cnp.ndarray H = _square(curvature, "curvature")
    cdef Py_ssize_t p = cnp.PyArray_DIM(H, 0), n_hidden
    cdef cnp.ndarray bounded = _new_matrix(p), meat = _new_matrix(p), room = _new_vector(3 * p * p)
    n_hidden = _apply_information_bound(
        _data(H), _of(columns, p * p, copies), _of(shares, p, copies), _of(values, p, copies),
        doubt, reference, p, _data(room), _data(bounded), _data(meat),
    )
    return bounded, meat, n_hidden


def indicators(moments, natural, double tolerance):
    """Find columns of 0 and 1 by their released moments.

    ``natural`` has the columns as rows, in terms of the design's, the constant first.

    Returns
    -------
    columns : list of int
        From 0 on, without the constant.
    shares : list of float
        Share of ones in each column that was found.
    known : float
        Share of records that count.
    """
    cdef list copies = [], columns = [], found = []
    cdef cnp.ndarray second = _square(moments, "moments")
    cdef Py_ssize_t p = cnp.PyArray_DIM(second, 0), q = len(natural) - 1, i, j
    cdef const double *row = _of(natural, (q + 1) * p, copies)
    cdef const double *moment = _data(second)
    cdef cnp.ndarray room = _new_vector(p)
    cdef double *constant = _data(room)
    cdef const double *column
    cdef double known, share, square, deviation
    for i in range(p):
        constant[i] = _dot(moment + i * p, row, p)
    known = _dot(constant, row, p)
    for j in range(q):
        column, square = row + (j + 1) * p, 0.0
        share = _dot(column, constant, p)
        for i in range(p):
            square += column[i] * _dot(moment + i * p, column, p)
        deviation = fabs(square - share)
        if (_smaller(share, known - share) > 0.0
                and deviation < tolerance * _larger(share, known - share)
                # noise is a larger part of the smaller one
                and deviation < 2.0 * tolerance * _smaller(share, known - share)):
            columns.append(j)
            found.append(share)
    return columns, found, known
