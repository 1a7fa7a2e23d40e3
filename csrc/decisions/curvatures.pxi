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


cdef void _transport(const double *whiten, const double *back, const double *curvature,
                     const double *old, double before, double old_across, double old_along,
                     const double *new, double size, double new_across, double new_along,
                     Py_ssize_t p, double *memory, double *out) noexcept nogil:
    """Transport a curvature, the identity if it is NULL; `memory` has 2 p*p + 4 p numbers."""
    cdef double *turn = memory
    cdef double *scratch = memory + p * p
    cdef double *vectors = scratch + p * p  # of the new slopes and of the old, mapped and back
    cdef Py_ssize_t i, j
    # square roots of both curvatures, the second one's inverse
    cdef double to_root = (sqrt(new_along) - sqrt(new_across)) / size
    cdef double from_inverse = (1.0 / sqrt(old_along) - 1.0 / sqrt(old_across)) / before
    cdef double cross = to_root * _dot(new, old, p) * from_inverse
    memset(turn, 0, p * p * sizeof(double))
    memset(vectors, 0, 2 * p * sizeof(double))
    for i in range(p):
        for j in range(p):
            vectors[j] += whiten[i * p + j] * new[i]
            vectors[p + j] += whiten[i * p + j] * old[i]
        vectors[2 * p + i] = _dot(back + i * p, new, p)
        vectors[3 * p + i] = _dot(back + i * p, old, p)
    _rank_two(vectors, vectors + 2 * p, to_root / sqrt(old_across), p, turn)
    _rank_two(vectors, vectors + 3 * p, cross, p, turn)
    _rank_two(vectors + p, vectors + 3 * p, from_inverse * sqrt(new_across), p, turn)
    for i in range(p):
        turn[i * p + i] += sqrt(new_across / old_across)
    if curvature != NULL:
        congruent(turn, curvature, p, scratch, out)
        return
    for i in range(p):
        for j in range(p):
            scratch[i * p + j] = turn[j * p + i]
    multiply(turn, scratch, p, out)


def transport(whiten, back, curvature, was, here):
    """Transport a curvature by the ratio of the expected curvatures at two points."""
    cdef list copies = []
    cdef Py_ssize_t p = len(whiten)
    cdef cnp.ndarray forward = _float_array(whiten, "whiten"), inverse = _float_array(back, "back")
    cdef cnp.ndarray start, out = _new_matrix(p)
    cdef const double *known = NULL
    if curvature is not None:
        start = _square(curvature, "curvature")
        known = _of(start, p * p, copies)
    old, before, old_across, old_along = was
    new, size, new_across, new_along = here
    cdef cnp.ndarray room = _new_vector(2 * p * p + 4 * p)
    cdef double *memory = _data(room)
    _transport(_of(forward, p * p, copies), _of(inverse, p * p, copies), known, _of(old, p, copies), before, old_across,
               old_along, _of(new, p, copies), size, new_across, new_along, p, memory, _data(out))
    return out


def bfgs_update(curvature, step_from, step_to, score_from, score_to, double doubt_sds,
                double noise_from, double noise_to, double min_condition):
    """Update a Hessian by BFGS; None where the change of the scores is below its noise."""
    cdef list copies = []
    cdef Py_ssize_t p = len(step_to), i, j
    cdef const double *a = _of(step_from, p, copies)
    cdef const double *b = _of(step_to, p, copies)
    cdef const double *s = _of(score_from, p, copies)
    cdef const double *t = _of(score_to, p, copies)
    cdef cnp.ndarray start, out
    cdef const double *known = NULL
    cdef double *updated
    cdef double size, predicted, observed, doubt
    cdef bint positive = False
    cdef int status
    if curvature is not None:
        start = _square(curvature, "curvature")
        known = _of(start, p * p, copies)
    cdef cnp.ndarray room = _new_vector(3 * p + 2 * p * p)
    cdef double *memory = _data(room)
    cdef double *step = memory
    cdef double *change = memory + p
    cdef double *hessian_step = memory + 2 * p
    cdef double *values = memory
    for i in range(p):
        step[i] = b[i] - a[i]
        change[i] = s[i] - t[i]
    for i in range(p):
        hessian_step[i] = step[i] if known == NULL else _dot(known + i * p, step, p)
    size = sqrt(_dot(step, step, p))
    predicted, observed = _dot(step, hessian_step, p), _dot(step, change, p)
    doubt = doubt_sds * hypot(noise_to, noise_from) * size + p * noise_from * noise_from
    if not (fabs(observed - predicted) > doubt and predicted > 0.0 and observed > 0.0):
        return None
    out = _new_matrix(p)
    updated = _data(out)
    for i in range(p):
        for j in range(p):
            updated[i * p + j] = (i == j) if known == NULL else known[i * p + j]
            updated[i * p + j] -= hessian_step[i] * hessian_step[j] / predicted
            updated[i * p + j] += change[i] * change[j] / observed
    status = symmetric_eigen(updated, p, values, memory + 3 * p, memory + 3 * p + p * p)
    positive = status == 0 and values[0] > min_condition * values[p - 1]
    _check_memory(status)
    return out if positive else None


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


def information_bound(known, meat, double noise, double factor, undetermined, bint of_step,
                      double min_variation):
    """Compute the bound of a Hessian by the variance of the scores; see ``information_bound``."""
    cdef list copies = []
    cdef cnp.ndarray H = _square(known, "curvature"), Q = _square(meat, "meat")
    cdef Py_ssize_t p = cnp.PyArray_DIM(H, 0), i, k
    cdef cnp.ndarray values = _new_vector(p), columns = _new_matrix(p), shares = _new_vector(p)
    cdef const double *hidden = NULL if undetermined is None else _of(undetermined, p, copies)
    cdef double *value = _data(values)
    cdef double *share = _data(shares)
    cdef double square = 0.0, doubt, reference, of_hidden, total, entry
    cdef cnp.ndarray room = _new_vector(4 * p * p)
    cdef double *memory = _data(room)
    cdef int status = _relative(_data(H), _of(Q, p * p, copies), p, value, _data(columns), memory, &square)
    _check_memory(status)
    for k in range(p):
        value[k] = _larger(value[k], 0.0)
    reference = _larger(_larger(factor, 0.5 * (value[(p - 1) // 2] + value[p // 2])), TINY)
    doubt = sqrt(2.0 / p) * noise * square
    for k in range(p):
        share[k] = _smaller(reference, value[k] + doubt) / reference
        if of_step and factor > 0.0:
            share[k] = _smaller(share[k] / min_variation, 1.0)
        if hidden != NULL:
            of_hidden, total = 0.0, 0.0
            for i in range(p):
                entry = _data(columns)[i * p + k]
                of_hidden += hidden[i] * entry * entry
                total += entry * entry
            share[k] += (1.0 - share[k]) * (of_hidden / total)
    return columns, shares, values, doubt, reference


def apply_information_bound(curvature, columns, shares, minima):
    """Compute the bounded Hessian, and the smallest score variance where the bound applies."""
    cdef list copies = []
    cdef cnp.ndarray H = _square(curvature, "curvature")
    cdef Py_ssize_t p = cnp.PyArray_DIM(H, 0), i, k
    cdef const double *share = _of(shares, p, copies)
    cdef const double *minimum = _of(minima, p, copies)
    cdef cnp.ndarray bounded = _new_matrix(p), meat = _new_matrix(p)
    cdef cnp.ndarray room = _new_vector(3 * p * p)
    cdef double *memory = _data(room)
    cdef double *dual = memory
    cdef double *left = memory + p * p
    cdef double *right = memory + 2 * p * p
    multiply(_data(H), _of(columns, p * p, copies), p, dual)
    for i in range(p):
        for k in range(p):
            right[k * p + i] = dual[i * p + k]
            left[i * p + k] = dual[i * p + k] * share[k]
    multiply(left, right, p, _data(bounded))
    for i in range(p):
        for k in range(p):
            left[i * p + k] = dual[i * p + k] * minimum[k]
    multiply(left, right, p, _data(meat))
    return bounded, meat


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
