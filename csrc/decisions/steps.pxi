# Averaged Newton steps and limits on their length; part of decisions.pyx.

def squared_norm(score, double noise):
    """Compute the squared norm of a score without its noise's part, and the noise's part."""
    cdef list copies = []
    cdef Py_ssize_t p = len(score)
    cdef const double *entry = _of(score, p, copies)
    cdef double error = p * noise * noise
    return _larger(_dot(entry, entry, p) - error, 0.0), error


def length(vector):
    """Compute the Euclidean norm of a vector."""
    cdef cnp.ndarray given = _float_array(vector, "vector")
    cdef Py_ssize_t p = len(given)
    return sqrt(_dot(_data(given), _data(given), p))


cdef void _inverse_variance_weights(const double *points, const double *noises,
                                    const Expected *expected, Py_ssize_t size,
                                    const double *curvature, Py_ssize_t p, double *memory,
                                    double *weight) noexcept nogil:
    """Weight scores by the inverse variance of their noise and of their curvature's change.

    The curvature is the identity, and the expected ones are all the same, if they are NULL;
    `memory` has 2 p numbers.
    """
    cdef const double *here = points + (size - 1) * p
    cdef const Expected *last = expected + size - 1
    cdef double change, total = 0.0
    cdef Py_ssize_t i, k
    for k in range(size):
        weight[k] = noises[k] * noises[k]
        if expected != NULL and k + 1 < size:
            change = _larger(fabs(expected[k].across / last.across - 1.0),
                             fabs(expected[k].along / last.along - 1.0))
            for i in range(p):
                memory[i] = here[i] - points[k * p + i]
            for i in range(p):
                memory[p + i] = memory[i]
                if curvature != NULL:
                    memory[p + i] = _dot(curvature + i * p, memory, p)
            weight[k] += 0.25 * change * change * _dot(memory + p, memory + p, p)
    for k in range(size):
        weight[k] = 1.0 / weight[k]
        total += weight[k]
    for k in range(size):
        weight[k] /= total


cdef int _averaged_newton_point(const double *points, const double *scores, const double *weight,
                                Py_ssize_t size, const double *curvature, const double *columns,
                                const double *share, Py_ssize_t p, double *memory,
                                double *point) noexcept nogil:
    """Average the Newton steps from the points where scores were released.

    The last one counts alone without weights.  With the columns of a bound and its shares these
    are the curvature.  Returns the status of `solve_in_place`; `memory` has 2 p + p*p numbers.
    """
    cdef double *average = memory
    cdef double *inner = memory + p
    cdef double part
    cdef int status = 0
    cdef Py_ssize_t i, k
    memset(point, 0, p * sizeof(double))
    memset(average, 0, p * sizeof(double))
    for k in range(0 if weight != NULL else size - 1, size):
        part = 1.0 if weight == NULL else weight[k]
        for i in range(p):
            point[i] += part * points[k * p + i]
            average[i] += part * scores[k * p + i]
    if columns != NULL:
        memset(inner, 0, p * sizeof(double))
        for i in range(p):
            for k in range(p):
                inner[k] += columns[i * p + k] * average[i]
        for k in range(p):
            inner[k] /= share[k]
        for i in range(p):
            average[i] = _dot(columns + i * p, inner, p)
    elif curvature != NULL:
        memcpy(memory + 2 * p, curvature, p * p * sizeof(double))
        status = solve_in_place(memory + 2 * p, p, average)
    for i in range(p):
        point[i] += average[i]
    return status


cdef int _check_solved(int status) except -1:
    _check_memory(status)
    if status:
        raise np.linalg.LinAlgError("Singular matrix")
    return 0


cdef int _solve_after(const double *curvature, const double *there, Py_ssize_t p, double *memory,
                      double *step) noexcept nogil:
    """Replace a step by one with another curvature; `memory` has p + p*p numbers.

    Its right-hand side is the change that the curvature here, the identity if it is NULL, expects.
    Returns the status of `solve_in_place`.
    """
    cdef Py_ssize_t i
    if curvature != NULL:
        memcpy(memory, step, p * sizeof(double))
        for i in range(p):
            step[i] = _dot(curvature + i * p, memory, p)
    memcpy(memory + p, there, p * p * sizeof(double))
    return solve_in_place(memory + p, p, step)


cdef double _cutting_plane(const double *step, const double *points, const double *scores,
                           const double *noises, Py_ssize_t size, Py_ssize_t p) noexcept nogil:
    """Return the part of a step from the last point up to the cutting planes of earlier scores."""
    cdef const double *here = points + (size - 1) * p
    cdef const double *there
    cdef const double *score
    cdef double part = 1.0, slope, to_plane, distance
    cdef Py_ssize_t i, k
    for k in range(size - 1):
        score = scores + k * p
        slope = -_dot(score, step, p)
        if not slope > 0.0:
            continue
        there, to_plane, distance = points + k * p, 0.0, 0.0
        for i in range(p):
            to_plane += score[i] * (here[i] - there[i])
            distance += (here[i] - there[i]) * (here[i] - there[i])
        if (slope > CUTTING_PLANE_PART * to_plane and to_plane > 0.0
                and to_plane > SIGNAL_SDS * noises[k] * sqrt(distance)):
            part = _smaller(part, 0.5 * to_plane / slope)
    return part


def cutting_plane(step, scores):
    """Shorten a step that crosses a cutting plane of an earlier score."""
    cdef list copies = []
    cdef Py_ssize_t p = len(step), size = len(scores), k
    cdef cnp.ndarray room = _new_vector((2 * p + 1) * size)
    cdef double *points = _data(room)
    cdef double *values = points + size * p
    cdef double *noises = values + size * p
    for k in range(size):
        theta, score, noise = scores[k]
        memcpy(points + k * p, _of(theta, p, copies), p * sizeof(double))
        memcpy(values + k * p, _of(score, p, copies), p * sizeof(double))
        noises[k] = noise
    return _cutting_plane(_of(step, p, copies), points, values, noises, size, p)


cdef double _trust_region(double length, double variance) noexcept nogil:
    """Return the factor that keeps a step of this length in its trust region."""
    cdef double longest = _larger(0.5 * sqrt(variance), TRUST_REGION)
    return _smaller(longest / _larger(TINY, length), 1.0)


def trust_region(step, double variance):
    """Return the factor that keeps a step in its trust region."""
    return _trust_region(length(step), variance)


cdef struct StoppingRule:
    double whitening_error, curvature_change, score_mean_square


cdef StoppingRule _stopping_rule(given) except *:
    cdef StoppingRule rule
    rule.whitening_error, rule.curvature_change, rule.score_mean_square = given
    return rule


cdef bint _has_converged(StoppingRule rule, double square, double error, bint has_before,
                         double square_before, double error_before, double mu, double later,
                         bint averages, Py_ssize_t p, double n) noexcept nogil:
    """Return whether one further step, with all of the rest, is as good as several.

    Squared norms of the score here and before are without their noise's part, which is the error.
    ``mu`` is that of this score, which counts in averages or not, and ``later`` that of the others.
    """
    cdef double length = sqrt(square), total_mu = hypot(averages * mu, later)
    cdef double rate, explained, share, averaged_error, error_left, noise
    rate = rule.whitening_error + rule.curvature_change * length
    if has_before:
        explained = error_before * (1.0 + SIGNAL_SDS * sqrt(2.0 / p))
        if square > explained:
            rate = _larger(sqrt((square - explained) / _larger(TINY, square_before)), rate)
    share = (averages * mu / total_mu) * (averages * mu / total_mu)
    averaged_error = rate * hypot(rate * length, sqrt(error))
    error_left = share * rate * length + (1.0 - share) * averaged_error
    noise = sqrt(error) * mu / total_mu
    return error_left <= hypot(SLIGHT * noise, OF_SAMPLING * sqrt(rule.score_mean_square / n))


def has_converged(rule, step, before, mus, bint averages, double n):
    """Return whether one further step, with all of the rest, is as good as several."""
    cdef double square, error, square_before = 0.0, error_before = 0.0, later = 0.0, mu
    for mu in mus[1:]:
        later = hypot(later, mu)
    square, error = squared_norm(step[1], step[2])
    if before is not None:
        square_before, error_before = before
    return _has_converged(_stopping_rule(rule), square, error, before is not None, square_before,
                          error_before, mus[0], later, averages, len(step[1]), n)


cdef double _moved_mean(const double *scores, const double *noises, Py_ssize_t size, Py_ssize_t p,
                        double *memory, double *mean) noexcept nogil:
    """Average the scores after the first by inverse-variance weights; return its noise's variance.

    Each score was released after a step to the average of the Newton points before it, so that it
    holds the noise of these, too.  `memory` has twice as many numbers as there are scores.
    """
    cdef double *precision = memory
    cdef double *part = precision + size  # of each score's noise in the mean
    cdef double later = 0.0, cumulative = 0.0, variance = 0.0, weight
    cdef Py_ssize_t i, k
    for k in range(size):
        precision[k] = 1.0 / (noises[k] * noises[k])
        later += precision[k] if k else 0.0
    memset(mean, 0, p * sizeof(double))
    for k in range(size):
        part[k] = precision[k] / later if k else 0.0
        for i in range(p):
            mean[i] += part[k] * scores[k * p + i]
    for k in range(1, size):
        cumulative += precision[k - 1]
        weight = precision[k] / later
        for i in range(k):
            part[i] -= weight * precision[i] / cumulative
    for k in range(size):
        variance += part[k] * part[k] / precision[k]
    return variance


cpdef double chi_squared_tail(Py_ssize_t degrees, double statistic) noexcept nogil:
    """Compute the probability that a chi-squared variable exceeds a statistic.

    The sum of Poisson probabilities for whole halves of the degrees of freedom, and the same from
    the normal tail upwards for others (Abramowitz and Stegun 1964, 26.4.4 and 26.4.5).
    """
    cdef double half = 0.5 * _larger(statistic, 0.0), total = 0.0, k = 0.0
    cdef double log_half
    if statistic != statistic:
        return statistic
    if half == 0.0 or half == INFINITY:
        return 1.0 if half == 0.0 else 0.0
    log_half = log(half)
    if degrees % 2:
        total, k = erfc(sqrt(half)), 0.5
    while k < 0.5 * degrees:
        total += exp(k * log_half - half - lgamma(k + 1.0))
        k += 1.0
    return _smaller(total, 1.0)
