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


cdef double _slope_moments(const double *theta, const double *one, Py_ssize_t p, double *signal,
                           double *size) noexcept nogil:
    """Return the mean of a predictor, with its squared slopes and the intercept's squared norm.

    ``one`` has the coefficients of the constant 1, or is NULL.
    """
    cdef double along
    signal[0], size[0] = _dot(theta, theta, p), 1.0
    if one == NULL:
        return 0.0
    along, size[0] = _dot(theta, one, p), _dot(one, one, p)
    signal[0] = _larger(0.0, signal[0] - along * along / size[0])
    return along / size[0]


def slope_signal(theta, intercept):
    """Return the squared norm of whitened coefficients without their part in the intercept."""
    cdef list copies = []
    cdef Py_ssize_t p = len(theta)
    cdef const double *one = NULL if intercept is None else _of(intercept, p, copies)
    cdef double signal, size
    _slope_moments(_of(theta, p, copies), one, p, &signal, &size)
    return signal


def predictor_moments(theta, intercept, unmapping):
    """Return mean and standard deviation of the predictor over rows with second moments 1.

    ``intercept`` has the coefficients of the constant 1 in these rows, or is None; ``unmapping``
    maps coefficients to those of these rows.
    """
    cdef list copies = []
    cdef Py_ssize_t p = len(theta)
    cdef const double *one = NULL if intercept is None else _of(intercept, p, copies)
    cdef cnp.ndarray mapped = matrix_vector(unmapping, theta)
    cdef double signal, size, mean
    mean = _slope_moments(_data(mapped), one, p, &signal, &size)
    return mean, sqrt(signal / size)


def step_coordinates(theta, root, mapping, unmapping, unwhiten, intercept):
    """Map an estimate to coordinates in which a Newton step is the score.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        Whitened coefficients.
    root : ndarray of shape (p, p) or None
        Their curvature, by which they are multiplied; None for the identity.
    mapping, unmapping : ndarray of shape (p, p)
        Maps of whitened coefficients to those of the columns, and of these to the first whitened
        ones.
    unwhiten : ndarray of shape (p, p)
        Map of the first whitened coefficients to these.
    intercept : ndarray of shape (p,) or None
        First whitened coefficients of the constant 1.

    Returns
    -------
    theta, coefficients : ndarray of shape (p,)
        In these coordinates, and in columns.
    mapping, unmapping : ndarray of shape (p, p)
        Between the two; the first one's columns are contiguous.
    intercept : ndarray of shape (p,) or None
    rows : ndarray of shape (p, p)
        Map of the columns' coefficients to whitened ones.
    """
    cdef list copies = []
    cdef Py_ssize_t p = len(theta), i, j
    cdef const double *W = _of(mapping, p * p, copies)
    cdef const double *back = _of(unwhiten, p * p, copies)
    cdef const double *H
    cdef cnp.ndarray turned = _new_matrix(p), rows = _new_matrix(p), known, room
    cdef cnp.ndarray coefficients = _new_vector(p)
    cdef double *memory
    multiply_by_blas(back, _of(unmapping, p * p, copies), p, _data(rows))
    for i in range(p):
        for j in range(p):
            _data(turned)[j * p + i] = W[i * p + j]
    whole = rows
    one = None
    if root is None:
        one = None if intercept is None else matrix_vector(unwhiten, intercept)
    else:
        known, room = _square(root, "curvature"), _new_vector(2 * p * p + p)
        H, memory = _of(known, p * p, copies), _data(room)
        memcpy(memory, W, p * p * sizeof(double))
        _check_solved(solve_rows(H, p, memory, memory + p * p))
        for i in range(p):
            for j in range(p):
                _data(turned)[j * p + i] = memory[i * p + j]
        whole = _new_matrix(p)
        multiply_by_blas(H, _data(rows), p, _data(<cnp.ndarray> whole))
        theta = matrix_vector(root, theta)
        if intercept is not None:
            multiply_by_blas(H, back, p, memory)
            one = _new_vector(p)
            apply(memory, False, _of(intercept, p, copies), p, _data(<cnp.ndarray> one))
    apply(_data(turned), True, _of(theta, p, copies), p, _data(coefficients))
    return theta, coefficients, turned.T, whole, one, rows


def known_part(values, noise, double floor):
    """Compute the part of each direction's curvature that is not noise, of at least a floor."""
    cdef list copies = []
    cdef Py_ssize_t p = len(values), k
    cdef const double *value = _of(values, p, copies)
    cdef const double *noises = NULL
    cdef cnp.ndarray out = _new_vector(p)
    cdef double common = 0.0, left
    if isinstance(noise, float):
        common = noise
    else:
        noises = _of(noise, p, copies)
    for k in range(p):
        left = value[k] - (common if noises == NULL else noises[k])
        left = 0.0 if left < 0.0 else left
        _data(out)[k] = left / (floor if value[k] < floor else value[k])
    return out


def count_hidden(known, values, double floor):
    """Count directions that are noise alone, or whose curvature is at most a floor."""
    cdef list copies = []
    cdef Py_ssize_t p = len(known), k, hidden = 0
    cdef const double *part = _of(known, p, copies)
    cdef const double *value = _of(values, p, copies)
    for k in range(p):
        hidden += part[k] <= 0.0 or value[k] <= floor
    return hidden


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
