# Whitening by released matrices, and steps from a released moment or score; part of decisions.pyx.

cdef int _precondition(const double *gram, double floor, const double *expected, Py_ssize_t p,
                       double *whiten, double *unwhiten, double *values,
                       double *scratch) noexcept nogil:
    """Fill whitening, its inverse and the eigenvalues; `scratch` has p*p numbers.

    An eigenvalue is at least ``floor``, or as expected if that is smaller; `expected` may be NULL.
    """
    cdef Py_ssize_t i, k
    cdef double limit, root, entry
    cdef int status = symmetric_eigen(gram, p, values, unwhiten, scratch)
    for k in range(p):
        limit = floor
        if expected != NULL:
            entry = 0.0
            for i in range(p):
                entry += unwhiten[k * p + i] * _dot(expected + i * p, unwhiten + k * p, p)
            limit = _smaller(floor, entry)
        root = sqrt(_larger(values[k], limit))
        for i in range(p):
            whiten[i * p + k] = unwhiten[k * p + i] / root
            unwhiten[k * p + i] *= root
    return status


cdef void _shrink(double *gram, double noise, const double *target, Py_ssize_t p,
                  double *difference) noexcept nogil:
    """Shrink a released matrix to a target, by the noise's part in their squared distance.

    James and Stein (1961); for covariance matrices Ledoit and Wolf (2004).
    """
    cdef Py_ssize_t i
    cdef double weight
    for i in range(p * p):
        difference[i] = gram[i] - target[i]
    weight = pow(noise, 2.0) * p * (p + 1) / 2.0
    weight = _larger(1.0 - weight / _larger(inner(difference, difference, p * p, 1), TINY), 0.0)
    for i in range(p * p):
        gram[i] = target[i] + weight * difference[i]


def precondition(gram, double noise, expected=None, double times=1.0, bint shrinks=False):
    """Compute ``U (max(L, floor))^-1/2`` of a released matrix over ``times``, and its inverse.

    ``expected`` has the curvatures of a Gaussian design.  The matrix is shrunk to their Hessian, or
    an eigenvalue within noise is as expected, if that is smaller.

    Returns
    -------
    whiten, unwhiten : ndarray of shape (p, p)
    values : ndarray of shape (p,)
        Eigenvalues, increasing.
    floor : float
        Noise explains those below.
    noise : float
        Of an entry of the matrix.
    trace : float
        Of the matrix before it was shrunk.
    """
    cdef list copies = []
    cdef cnp.ndarray source = _square(gram, "gram")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0), i
    cdef cnp.ndarray whiten = _new_matrix(p), unwhiten = _new_matrix(p), values = _new_vector(p)
    cdef cnp.ndarray room = _new_vector(3 * p * p)
    cdef double *matrix = _data(room)
    cdef double *scratch = matrix + p * p
    cdef double *target = NULL
    cdef double trace = 0.0, floor
    for i in range(p * p):
        matrix[i] = _data(source)[i] / times
    for i in range(p):
        trace += matrix[i * p + i]
    noise /= times
    floor = sqrt(2.0 * p) * noise
    if expected is not None:
        slopes, variance, across, along = expected
        target = scratch + p * p
        _design_hessian(_of(slopes, p, copies), variance, across, along, p, target)
        if shrinks:
            _shrink(matrix, noise, target, p, scratch)
            target = NULL
    _check_memory(_precondition(matrix, floor, target, p, _data(whiten), _data(unwhiten),
                                _data(values), scratch))
    return whiten, unwhiten, values, floor, noise, trace


def white(values, double floor):
    """Return the whitening of rows that are white: the identity, its eigenvalues and their noise.

    ``values`` and ``floor`` are those of the matrix that whitened them.
    """
    cdef list copies = []
    cdef Py_ssize_t p = len(values), i
    cdef const double *value = _of(values, p, copies)
    cdef cnp.ndarray unit = _new_matrix(p), ones = _new_vector(p), noises = _new_vector(p)
    memset(_data(unit), 0, p * p * sizeof(double))
    for i in range(p):
        _data(unit)[i * p + i] = _data(ones)[i] = 1.0
        _data(noises)[i] = floor / (sqrt(2.0 * p) * value[i])
    return unit, ones, noises


def matrix_vector(matrix, vector):
    """Multiply a square matrix and a vector, with the bits of NumPy's product."""
    cdef list copies = []
    cdef cnp.ndarray left = _square(matrix, "matrix")
    cdef Py_ssize_t p = cnp.PyArray_DIM(left, 0)
    cdef cnp.ndarray out = _new_vector(p)
    apply(_data(left), False, _of(vector, p, copies), p, _data(out))
    return out


def round_step(score, double noise, whiten, unwhiten, double variance, double trust_region):
    """Compute the step of a round, and its score in the coordinates before whitening.

    The score is shrunk by its noise, and predictors move by at most ``trust_region``, or by half of
    the slopes' spread, whose square is ``variance``.
    """
    cdef list copies = []
    cdef cnp.ndarray given = _float_array(score, "score")
    cdef Py_ssize_t p = cnp.PyArray_SIZE(given), i
    cdef cnp.ndarray step = _new_vector(p), back = _new_vector(p)
    cdef double error = p * noise * noise, square, part, longest
    square = _larger(_dot(_data(given), _data(given), p) - error, 0.0)
    part = square / (square + error)
    apply(_of(whiten, p * p, copies), False, _data(given), p, _data(step))
    apply(_of(unwhiten, p * p, copies), True, _data(given), p, _data(back))
    for i in range(p):
        _data(step)[i] *= part
    longest = _larger(0.5 * sqrt(variance), trust_region)
    part = longest / _larger(TINY, sqrt(_dot(_data(step), _data(step), p)))
    part = _smaller(part, 1.0)
    for i in range(p):
        _data(step)[i] *= part
    return step, back


cdef void _moment_noise(const double *whiten, double noise, Py_ssize_t p, double *out) noexcept nogil:
    """Fill the variances of noise in a whitened moment."""
    cdef Py_ssize_t i, k
    memset(out, 0, p * sizeof(double))
    for k in range(p):
        for i in range(p):
            out[i] += whiten[k * p + i] * whiten[k * p + i]
    for i in range(p):
        out[i] *= pow(noise, 2.0)


def shrunken_coefficients(moment, double noise, whiten):
    """Estimate whitened coefficients from a moment, shrunk by its noise, with their variances."""
    cdef list copies = []
    cdef cnp.ndarray given = _float_array(moment, "moment")
    cdef Py_ssize_t p = cnp.PyArray_SIZE(given), i
    cdef const double *W = _of(whiten, p * p, copies)
    cdef cnp.ndarray theta = _new_vector(p), variances = _new_vector(p)
    cdef double shrinkage
    _moment_noise(W, noise, p, _data(variances))
    apply(W, True, _data(given), p, _data(theta))
    for i in range(p):
        # whitened coefficients of a standardised response have mean square below 1/p
        shrinkage = 1.0 / (1.0 + p * _data(variances)[i])
        _data(theta)[i] *= shrinkage
        _data(variances)[i] *= shrinkage
    return theta, variances


def coefficients_through_link(moment, double noise, whiten, unwhiten, double middle, predictor,
                              tuple offset, int link, double largest, nodes, masses,
                              double smallest, double highest, double overstated,
                              double trust_region):
    """Estimate whitened coefficients of a link from a moment, with their variances.

    ``predictor`` maps a mean response, which is ``middle`` where the moment is zero, and its error
    to the level; it is None without an intercept.  The slopes are shrunk by their noise, and stay
    in the trust region.
    """
    cdef list copies = []
    cdef cnp.ndarray given = _float_array(moment, "moment")
    cdef Py_ssize_t p = cnp.PyArray_SIZE(given), i
    cdef const double *W = _of(whiten, p * p, copies)
    cdef const double *V = _of(unwhiten, p * p, copies)
    cdef cnp.ndarray theta = _new_vector(p), variances = _new_vector(p), room = _new_vector(3 * p)
    cdef double *moments = _data(room)
    cdef double *direction = moments + p
    cdef double *at_one = direction + p
    cdef double level = 0.0, along = 0.0, size, mean, slope, flat, shrinkage, length
    _moment_noise(W, noise, p, _data(variances))
    apply(W, True, _data(given), p, moments)
    memset(_data(theta), 0, p * sizeof(double))
    if predictor is not None:
        size = sqrt(inner(V, V, p, p))  # the first column has the coefficients of 1
        for i in range(p):
            direction[i] = V[i * p] / size
        along = inner(direction, moments, p, 1)
        apply(W, False, direction, p, at_one)
        level = predictor(middle + along / size, noise * (sqrt(inner(at_one, at_one, p, 1)) / size))
        for i in range(p):
            _data(theta)[i] = level * V[i * p]
            moments[i] -= along * direction[i]
    mean, slope = mean_response(link, level + offset[0], offset[1], largest, nodes, masses)
    flat = _bounded(slope, smallest, highest)
    size = inner(moments, moments, p, 1)
    shrinkage = _larger(size - _sum(_data(variances), p), 0.0) / _larger(TINY, size) / flat
    shrinkage *= overstated
    length = shrinkage * sqrt(size)
    shrinkage = _smaller(trust_region / _larger(TINY, length), 1.0) * shrinkage
    for i in range(p):
        _data(theta)[i] += shrinkage * moments[i]
        _data(variances)[i] /= pow(flat, 2.0)
    return theta, variances
