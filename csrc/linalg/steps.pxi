# Newton steps on a floored curvature; part of linalg.pyx.

def newton_direction(H, g, double floor):
    """Solve with the floored matrix: ``floor_eigenvalues(H, floor)^-1 @ g``.

    Parameters
    ----------
    H : ndarray of shape (p, p)
    g : ndarray of shape (p,)
    floor : float
        Finite and positive.

    Returns
    -------
    direction : ndarray of shape (p,)
    eigenvalues : ndarray of shape (p,)
        Eigenvalues of `H` before flooring, ascending.
    n_floored : int
        How many were not at least `floor` (NaN counts).
    """
    _check_floor(floor, True)
    cdef cnp.ndarray source = _square(H, "H")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0), k, count
    cdef cnp.ndarray right = _vector(g, "g", p)
    cdef cnp.ndarray values = _new_vector(p), out = _new_vector(p)
    cdef const double *a = _data(source)
    cdef const double *b = _data(right)
    cdef double *w = _data(values)
    cdef double *direction = _data(out)
    cdef double *memory = _workspace(2 * p * p + p)
    cdef double *floored = memory + 2 * p * p
    cdef int status
    with nogil:
        status = symmetric_eigen(a, p, w, memory, memory + p * p)
        count = _count_floored(w, p, floor)
        for k in range(p):
            floored[k] = _floored(w[k], floor)
        _solve(memory, floored, b, p, direction)
        free(memory)
    _check_memory(status)
    return out, values, count


def floored_step(H, g, double floor):
    """Compute the Newton direction and the floored inverse.

    Parameters
    ----------
    H : ndarray of shape (p, p)
    g : ndarray of shape (p,)
    floor : float
        Finite and positive.

    Returns
    -------
    direction : ndarray of shape (p,)
        The same as of `newton_direction`.
    eigenvalues : ndarray of shape (p,)
        Eigenvalues of `H` after flooring, ascending.
    inverse : ndarray of shape (p, p)
        Inverse of the floored matrix, exactly symmetric.
    """
    _check_floor(floor, True)
    cdef cnp.ndarray source = _square(H, "H")
    cdef Py_ssize_t p = cnp.PyArray_DIM(source, 0)
    cdef cnp.ndarray right = _vector(g, "g", p)
    cdef cnp.ndarray values = _new_vector(p), out = _new_vector(p), inverse = _new_matrix(p)
    cdef const double *a = _data(source)
    cdef const double *b = _data(right)
    cdef double *w = _data(values)
    cdef double *direction = _data(out)
    cdef double *inverted = _data(inverse)
    cdef double *memory = _workspace(p * p)
    cdef int status
    with nogil:
        status = _floored_step(a, b, p, floor, w, memory, direction, inverted)
        free(memory)
    _check_memory(status)
    return out, values, inverse


cdef int _floored_step(const double *H, const double *g, Py_ssize_t p, double floor, double *values,
                       double *vectors, double *direction, double *inverse) noexcept nogil:
    """Do the same; `vectors` has p*p numbers.  Returns the status of `symmetric_eigen`."""
    cdef Py_ssize_t i, k
    cdef double root
    cdef int status = symmetric_eigen(H, p, values, vectors, inverse)
    for k in range(p):
        values[k] = _floored(values[k], floor)
    _solve(vectors, values, g, p, direction)
    for k in range(p):
        root = 1.0 / sqrt(values[k])
        for i in range(p):
            vectors[k * p + i] *= root
    _sum_of_squares(vectors, p, inverse)
    return status


def capped_step(theta, direction, double step_size, double max_step):
    """Compute ``theta - step_size * direction``, the direction clipped to `max_step`.

    A direction whose length is not finite carries no information: the step is then zero.

    Parameters
    ----------
    theta, direction : ndarray of shape (p,)
    step_size : float
    max_step : float
        Positive.

    Returns
    -------
    ndarray of shape (p,)
    """
    cdef cnp.ndarray start = _float_array(theta, "theta")
    cdef Py_ssize_t p = cnp.PyArray_SIZE(start), i
    cdef cnp.ndarray step = _vector(direction, "direction", p), out = _new_vector(p)
    cdef const double *old = _data(_vector(start, "theta", p))
    cdef const double *d = _data(step)
    cdef double *new = _data(out)
    cdef double factor = 1.0, length
    cdef int n = <int> p, one = 1
    length = sqrt(ddot(&n, <double *> d, &one, <double *> d, &one))
    if not length <= DBL_MAX:
        memcpy(new, old, p * sizeof(double))
        return out
    if length > max_step:
        factor = max_step / length
    for i in range(p):
        new[i] = old[i] - step_size * (d[i] * factor)
    return out
