# Mean responses and curvatures of links, averaged over normal predictors; part of decisions.pyx.
#
# A link has the code of its loss (csrc/losses/list.h).  `dpfast.models` has the same formulas for
# arrays; here they are summed over the nodes without one.

cdef enum:
    LOGISTIC = 3
    POISSON = 14
    GAMMA = 16
    PROBIT = 17

#: Largest predictor of a log link.
cdef double LARGEST_PREDICTOR = 708.0


cdef double _mean_and_slope(int link, double eta, double largest, double *slope) noexcept nogil:
    """Compute the mean response at a predictor, up to a largest one, and its derivative."""
    cdef double e, mean
    if link == LOGISTIC:
        e = exp(-fabs(eta))
        slope[0] = e / ((1.0 + e) * (1.0 + e))
        return (1.0 if eta >= 0.0 else e) / (1.0 + e)
    if link == PROBIT:
        slope[0] = exp(-0.5 * eta * eta) * 0.3989422804014327  # (2 pi)^-1/2
        return 0.5 * erfc(-eta * 0.7071067811865476)  # 2^-1/2
    mean = exp(LARGEST_PREDICTOR if eta > LARGEST_PREDICTOR else eta)
    slope[0] = mean
    if mean >= largest:
        slope[0] = 0.0
        return largest
    return mean


cdef double _curvature(int link, double eta, double largest) noexcept nogil:
    """Compute the expected curvature at a predictor: the squared slope over the variance."""
    cdef double slope = 0.0, size, tail
    if link == GAMMA:
        return 1.0
    if link == PROBIT:
        size = fabs(eta)
        tail = 0.5 * erfc(size * 0.7071067811865476)
        _mean_and_slope(link, eta, largest, &slope)
        if size > 30.0:  # the tail is the density over the predictor
            return slope * size
        return slope / tail * (slope / (1.0 - tail))
    _mean_and_slope(link, eta, largest, &slope)
    return slope


def mean_response(int link, double level, double spread, double largest, nodes, masses):
    """Average the mean response, and its derivative, over normal predictors."""
    cdef list copies = []
    cdef Py_ssize_t size = len(nodes), i
    cdef const double *node = _of(nodes, size, copies)
    cdef const double *mass = _of(masses, size, copies)
    cdef double mean = 0.0, slopes = 0.0, slope = 0.0
    if link not in (LOGISTIC, POISSON, GAMMA, PROBIT):
        raise ValueError(f"no link has the code {link}")
    for i in range(size):
        mean += mass[i] * _mean_and_slope(link, level + spread * node[i], largest, &slope)
        slopes += mass[i] * slope
    return mean, slopes


def design_curvature(theta, intercept, double mean, double spread, int link, double largest,
                     double constant):
    """Average curvatures over normal predictors: across the slopes, and along them.

    Parameters
    ----------
    theta, intercept
        Coefficients, and those of a predictor of 1 or None.
    mean, spread
        Of the offsets.
    constant
        The average curvature, of losses without a link.

    Returns
    -------
    slopes : ndarray of shape (p,)
        Coefficients without those along the intercept.
    variance, across, along : float
        Squared norm of the slopes, and the two curvatures.
    """
    cdef list copies = []
    cdef cnp.ndarray whole = _float_array(theta, "theta")
    cdef Py_ssize_t p = len(whole)
    cdef const double *one = NULL if intercept is None else _of(intercept, p, copies)
    cdef cnp.ndarray slopes = _new_vector(p)
    cdef Expected found
    found.slopes = _data(slopes)
    _design_curvature(_data(whole), one, p, mean, spread, link, largest, constant, &found)
    return slopes, found.variance, found.across, found.along


cdef void _design_curvature(const double *theta, const double *one, Py_ssize_t p, double mean,
                            double spread, int link, double largest, double constant,
                            Expected *found) noexcept nogil:
    """Fill the expected curvature at coefficients."""
    cdef double variance, across = constant, along = constant
    mean += _split(theta, one, p, found.slopes, &variance)
    if link == LOGISTIC or link == POISSON or link == GAMMA or link == PROBIT:
        _normal_curvatures(link, largest, mean, sqrt(variance + spread * spread), NODES, MASSES,
                           N_NODES, &across, &along)
    across = _bounded(across, MIN_CURVATURE, MAX_CURVATURE)
    if spread != 0.0:  # offsets go with no slope
        along = across + variance / _larger(variance + spread * spread, TINY) * (along - across)
    found.variance, found.across, found.along = TINY, across, across
    if variance > TINY:
        found.variance = variance
        found.along = _larger(_smaller(along, MAX_CURVATURE), MIN_CONDITION * across)


cdef void _normal_curvatures(int link, double largest, double mean, double spread,
                             const double *node, const double *mass, Py_ssize_t size,
                             double *across, double *along) noexcept nogil:
    """Average curvatures over normal predictors, and weighted by their squared distances."""
    cdef double part
    cdef Py_ssize_t i
    across[0] = along[0] = 0.0
    for i in range(size):
        part = mass[i] * _curvature(link, mean + spread * node[i], largest)
        across[0] += part
        along[0] += part * (node[i] * node[i])


cdef double _split(const double *theta, const double *one, Py_ssize_t p, double *slopes,
                   double *variance) noexcept nogil:
    """Split coefficients in their level along the intercept, and the slopes; return the level."""
    cdef double level = 0.0 if one == NULL else _dot(one, theta, p) / _dot(one, one, p)
    cdef Py_ssize_t i
    for i in range(p):
        slopes[i] = theta[i] if one == NULL else theta[i] - level * one[i]
    variance[0] = _dot(slopes, slopes, p)
    return level
