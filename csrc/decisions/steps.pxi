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


def inverse_variance_weights(answers, curvature, curvatures):
    """Weight scores by the inverse variance of their noise and of their curvature's change."""
    cdef list copies = []
    cdef Py_ssize_t size = len(answers), p, k, i
    cdef cnp.ndarray last = _float_array(answers[size - 1][0], "theta")
    cdef cnp.ndarray start, weights = _new_vector(size)
    cdef const double *here = _data(last)
    cdef const double *there
    cdef const double *known = NULL
    cdef double *weight = _data(weights)
    cdef double change, total = 0.0, level, along, last_level = 1.0, last_along = 1.0, noise
    p = len(last)
    if curvature is not None:
        start = _square(curvature, "curvature")
        known = _of(start, p * p, copies)
    if len(curvatures):
        last_level, last_along = curvatures[len(curvatures) - 1][2:4]
    cdef cnp.ndarray room = _new_vector(2 * p)
    cdef double *memory = _data(room)
    for k in range(size):
        noise = answers[k][2]
        weight[k] = noise * noise
        if k + 1 < <Py_ssize_t> len(curvatures):
            there = _of(answers[k][0], p, copies)
            level, along = curvatures[k][2], curvatures[k][3]
            change = _larger(fabs(level / last_level - 1.0), fabs(along / last_along - 1.0))
            for i in range(p):
                memory[i] = here[i] - there[i]
            for i in range(p):
                memory[p + i] = memory[i] if known == NULL else _dot(known + i * p, memory, p)
            weight[k] += 0.25 * change * change * _dot(memory + p, memory + p, p)
    for k in range(size):
        weight[k] = 1.0 / weight[k]
        total += weight[k]
    for k in range(size):
        weight[k] /= total
    return weights


def averaged_newton_point(answers, weights, curvature, bound):
    """Average the Newton steps from the points where scores were released."""
    cdef list copies = []
    cdef Py_ssize_t size = len(answers), p = len(answers[size - 1][0]), k, i
    cdef const double *weight = NULL if weights is None else _of(weights, size, copies)
    cdef cnp.ndarray start, out = _new_vector(p)
    cdef const double *entry
    cdef const double *columns
    cdef const double *share
    cdef double *point = _data(out)
    cdef double part
    cdef int status = 0
    cdef cnp.ndarray room = _new_vector(2 * p + p * p)
    cdef double *memory = _data(room)
    cdef double *scores = memory
    cdef double *inner = memory + p
    memset(point, 0, p * sizeof(double))
    memset(scores, 0, p * sizeof(double))
    for k in range(0 if weight != NULL else size - 1, size):
        part = 1.0 if weight == NULL else weight[k]
        entry = _of(answers[k][0], p, copies)
        for i in range(p):
            point[i] += part * entry[i]
        entry = _of(answers[k][1], p, copies)
        for i in range(p):
            scores[i] += part * entry[i]
    if bound is not None:
        columns, share = _of(bound[0], p * p, copies), _of(bound[1], p, copies)
        memset(inner, 0, p * sizeof(double))
        for i in range(p):
            for k in range(p):
                inner[k] += columns[i * p + k] * scores[i]
        for k in range(p):
            inner[k] /= share[k]
        for i in range(p):
            scores[i] = _dot(columns + i * p, inner, p)
    elif curvature is not None:
        start = _square(curvature, "curvature")
        memcpy(memory + 2 * p, _of(start, p * p, copies), p * p * sizeof(double))
        status = solve_in_place(memory + 2 * p, p, scores)
    for i in range(p):
        point[i] += scores[i]
    _check_solved(status)
    return out


cdef int _check_solved(int status) except -1:
    _check_memory(status)
    if status:
        raise np.linalg.LinAlgError("Singular matrix")
    return 0


def solve_after(curvature, step, transported):
    """Solve with a transported curvature for the change that a curvature expects of a step."""
    cdef list copies = []
    cdef Py_ssize_t p = len(step), i
    cdef const double *move = _of(step, p, copies)
    cdef cnp.ndarray known, there = _square(transported, "transported"), out = _new_vector(p)
    cdef cnp.ndarray room = _new_vector(p * p)
    cdef double *memory = _data(room)
    memcpy(_data(out), move, p * sizeof(double))
    if curvature is not None:
        known = _square(curvature, "curvature")
        for i in range(p):
            _data(out)[i] = _dot(_of(known, p * p, copies) + i * p, move, p)
    memcpy(memory, _of(there, p * p, copies), p * p * sizeof(double))
    cdef int status = solve_in_place(memory, p, _data(out))
    _check_solved(status)
    return out


def cutting_plane(step, scores, double part_of_way, double signal_sds):
    """Shorten a step that crosses a cutting plane of an earlier score."""
    cdef list copies = []
    cdef Py_ssize_t p = len(step), size = len(scores), k, i
    cdef const double *move = _of(step, p, copies)
    cdef const double *here = _of(scores[size - 1][0], p, copies)
    cdef const double *there
    cdef const double *score
    cdef double part = 1.0, slope, to_plane, distance, noise
    for k in range(size - 1):
        theta, earlier, noise = scores[k]
        score = _of(earlier, p, copies)
        slope = -_dot(score, move, p)
        if not slope > 0.0:
            continue
        there, to_plane, distance = _of(theta, p, copies), 0.0, 0.0
        for i in range(p):
            to_plane += score[i] * (here[i] - there[i])
            distance += (here[i] - there[i]) * (here[i] - there[i])
        if (slope > part_of_way * to_plane and to_plane > 0.0
                and to_plane > signal_sds * noise * sqrt(distance)):
            part = _smaller(part, 0.5 * to_plane / slope)
    return part


def moved_mean(scores):
    """Average the scores after the first by inverse-variance weights, and its noise's variance.

    Each score was released after a step to the average of the Newton points before it, so that it
    holds the noise of these, too.
    """
    cdef list copies = []
    cdef Py_ssize_t size = len(scores), p = len(scores[0][1]), i, k
    cdef cnp.ndarray out = _new_vector(p), room = _new_vector(2 * size)
    cdef double *precision = _data(room)
    cdef double *part = precision + size  # of each score's noise in the mean
    cdef double *mean = _data(out)
    cdef const double *score
    cdef double later = 0.0, cumulative = 0.0, variance = 0.0, noise, weight
    for k in range(size):
        noise = scores[k][2]
        precision[k] = 1.0 / (noise * noise)
        later += precision[k] if k else 0.0
    memset(mean, 0, p * sizeof(double))
    for k in range(size):
        part[k] = precision[k] / later if k else 0.0
        score = _of(scores[k][1], p, copies)
        for i in range(p):
            mean[i] += part[k] * score[i]
    for k in range(1, size):
        cumulative += precision[k - 1]
        weight = precision[k] / later
        for i in range(k):
            part[i] -= weight * precision[i] / cumulative
    for k in range(size):
        variance += part[k] * part[k] / precision[k]
    return out, variance


def chi_squared_tail(Py_ssize_t degrees, double statistic):
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
