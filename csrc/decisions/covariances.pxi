# The covariance of an estimate, and what its slopes explain; part of decisions.pyx.

def score_variances(mean):
    """Compute the eigenvalues of a covariance of scores, not below zero.

    Returns
    -------
    variances : ndarray of shape (p,)
        Increasing.
    vectors : ndarray of shape (p, p)
        Eigenvectors as rows.
    average : float
    missing : float
        By how much they are below their median, together.
    """
    cdef cnp.ndarray source = _square(mean, "mean")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0), k
    cdef cnp.ndarray variances = _new_vector(p), vectors = _new_matrix(p), room = _new_matrix(p)
    cdef double *value = _data(variances)
    cdef double total = 0.0, median, missing = 0.0
    cdef int status = symmetric_eigen(_data(source), p, value, _data(vectors), _data(room))
    _check_memory(status)
    for k in range(p):
        value[k] = _larger(value[k], 0.0)
        total += value[k]
    median = 0.5 * (value[(p - 1) // 2] + value[p // 2])
    for k in range(p):
        missing += _larger(median - value[k], 0.0)
    return variances, vectors, total / p, missing


def with_removed_variance(variances, vectors, double removed, bint one_sided):
    """Add the variance that clipping removed: evenly, or to the smallest by water-filling."""
    cdef list copies = []
    cdef Py_ssize_t p = len(variances), i, j, k
    cdef const double *value = _of(variances, p, copies)
    cdef const double *vector = _of(vectors, p * p, copies)
    cdef cnp.ndarray out = _new_matrix(p)
    cdef double *total = _data(out)
    cdef double level = INFINITY, filled = removed, larger, entry
    for k in range(p):  # Cover and Thomas (2006), section 9.4
        filled += value[k]
        level = _smaller(level, filled / (k + 1))
    memset(total, 0, p * p * sizeof(double))
    for k in range(p):
        larger = value[k] + removed / p if one_sided else _larger(value[k], level)
        for i in range(p):
            entry = larger * vector[k * p + i]
            for j in range(p):
                total[i * p + j] += entry * vector[k * p + j]
    return out


def slope_moments(theta, intercept):
    """Compute the mean of a predictor, its squared slopes, and the squared norm of the intercept.

    ``intercept`` has the coefficients of the constant 1, or is None.
    """
    cdef list copies = []
    cdef cnp.ndarray whole = _float_array(theta, "theta")
    cdef Py_ssize_t p = len(whole)
    cdef const double *one = NULL if intercept is None else _of(intercept, p, copies)
    cdef double signal = _dot(_data(whole), _data(whole), p), along, size
    if one == NULL:
        return 0.0, signal, 1.0
    along, size = _dot(_data(whole), one, p), _dot(one, one, p)
    return along / size, _larger(0.0, signal - along * along / size), size


def bias_variance(known, noises, double signal, pilot_variance, double clipping_bias):
    """Compute the mean square of the bias along each direction: of the start, and of clipping."""
    cdef list copies = []
    cdef Py_ssize_t p = len(known), steps = len(noises), i, k
    cdef const double *curvature = _of(known, p, copies)
    cdef const double *pilot = _of(pilot_variance, p, copies)
    cdef cnp.ndarray out = _new_vector(p), room = _new_vector(steps)
    cdef double *precision = _data(room)
    cdef double each = signal / p, first, now, weighted, total, error
    for k in range(steps):
        error = noises[k]
        precision[k] = 1.0 / (error * error)
    for i in range(p):
        first = now = 1.0 - curvature[i]
        weighted, total = 0.0, 0.0
        for k in range(steps):  # each step leaves this part of the error of the point before it
            total += precision[k]
            weighted += precision[k] * first * now
            now = weighted / total
        error = _smaller(each, pilot[i] + first * first * each)
        _data(out)[i] = now * now * error + clipping_bias * clipping_bias / p
    return out


def explained_by_slopes(rows, theta):
    """Compute what slopes explain, and both parts of the mean prediction.

    ``rows`` is a root of the second moments of rows, whose first entry is 1.

    Returns
    -------
    explained : float
        Variance of the predictor.
    mean : float
        Mean of the predictor.
    of_slopes : float
        The same without the intercept.
    """
    cdef list copies = []
    cdef Py_ssize_t p = len(theta), m = len(rows), i, k
    cdef const double *row = _of(rows, m * p, copies)
    cdef const double *coefficient = _of(theta, p, copies)
    cdef double ones = 0.0, along = 0.0, square = 0.0, part
    for k in range(m):
        part = _dot(row + k * p + 1, coefficient + 1, p - 1)
        square += part * part
        along += row[k * p] * part
        ones += row[k * p] * row[k * p]
    part = along / _larger(ones, TINY)
    return (_larger(square - along * part, 0.0),
            ones / _larger(ones, TINY) * coefficient[0] + part, part)
