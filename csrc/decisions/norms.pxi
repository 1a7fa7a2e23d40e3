# Histograms of norms, their tails, and clipping norms; part of decisions.pyx.

cdef struct norm_bins:
    Py_ssize_t size
    const double *shares
    const double *upper
    const double *midpoints
    double max_undetected
    const double *octaves
    Py_ssize_t n_octaves
    double octave_noise
    int before_mode


cdef struct tail_shapes:
    # shares by octave of each possible tail, relative to the last detected one, and its profile
    # in the points of an octave
    const double *shares
    const double *profiles
    Py_ssize_t shapes
    Py_ssize_t octaves
    Py_ssize_t points
    double misfit
    const double *evenly
    const double *beyond


cdef int _read_bins(histogram, norm_bins *bins, list copies) except -1:
    bins.size = len(histogram[0])
    bins.shares = _of(histogram[0], bins.size, copies)
    bins.upper = _of(histogram[1], bins.size, copies)
    bins.midpoints = _of(histogram[2], bins.size, copies)
    bins.max_undetected = histogram[3]
    bins.n_octaves = len(histogram[4])
    bins.octaves = _of(histogram[4], bins.n_octaves, copies)
    bins.octave_noise, bins.before_mode = histogram[5], histogram[6]
    if bins.size == 0:
        raise ValueError("a histogram has at least one detected bin")
    return 0


cdef int _read_tail(tail, tail_shapes *shapes, list copies) except -1:
    shares, profiles, shapes.misfit, evenly, beyond = tail
    (shapes.shapes, shapes.octaves), shapes.points = shares.shape, profiles.shape[1]
    shapes.shares = _of(shares, shapes.shapes * shapes.octaves, copies)
    shapes.profiles = _of(profiles, shapes.shapes * shapes.points, copies)
    shapes.evenly = _of(evenly, shapes.points, copies)
    shapes.beyond = _of(beyond, (shapes.octaves - 2) * shapes.points, copies)
    return 0


def detect_bins(shares, double noise, Py_ssize_t per_octave, edges, double unit,
                double single_sds, double neighbour_sds, Py_ssize_t run_length,
                Py_ssize_t tail_octaves):
    """Detect the bins above their noise.

    Returns
    -------
    shares, upper, midpoints : ndarray
        Of the detected bins; shares are at least 0.
    octaves : ndarray of shape (tail_octaves + 2,)
        Noisy shares of the octave of the last detected bin, of the one before and of those beyond.
    before_mode : bool
        True if the first of them is before the mode.
    """
    cdef list copies = []
    cdef cnp.ndarray given = _float_array(shares, "shares")
    cdef Py_ssize_t m = len(given), i, first, last, mode = 0, count = 0
    cdef const double *share = _data(given)
    cdef const double *edge = _of(edges, m, copies)
    cdef double total, half_bin = pow(2.0, -0.5 / per_octave)
    cdef bint some
    cdef cnp.ndarray kept, upper, midpoints, octaves
    cdef double *out
    cdef cnp.ndarray room = _new_vector(m // 4 + 1)  # 2 m bytes
    cdef unsigned char *detected = <unsigned char *> _data(room)
    cdef unsigned char *before = detected + m
    if m == 0:
        raise ValueError("a histogram has at least one bin")
    for i in range(1, m):
        if share[i] > share[mode]:
            mode = i
    for i in range(m):
        detected[i] = share[i] > single_sds * noise
    detected[mode] = 1
    if per_octave > 1:  # a run around the mode; and several bins by their sum, whose noise is smaller
        i = mode - 1
        while i >= 0 and share[i] > neighbour_sds * noise:
            detected[i] = 1
            i -= 1
        i = mode + 1
        while i < m and share[i] > neighbour_sds * noise:
            detected[i] = 1
            i += 1
        memcpy(before, detected, m)
        for first in range(m - run_length + 1):
            total, some = 0.0, False
            for i in range(first, first + run_length):
                total += share[i]
                some = some or before[i]
            if not some and total > single_sds * noise * sqrt(<double> run_length):
                for i in range(first, first + run_length):
                    if share[i] > noise:
                        detected[i] = 1
    last = mode
    for i in range(m):
        if detected[i]:
            count += 1
            last = i
    kept, upper, midpoints = _new_vector(count), _new_vector(count), _new_vector(count)
    octaves = _new_vector(tail_octaves + 2)
    count = 0
    for i in range(m):
        if detected[i]:
            _data(kept)[count] = _larger(share[i], 0.0)
            _data(upper)[count] = unit * edge[i]
            _data(midpoints)[count] = unit * edge[i] * half_bin
            count += 1
    out = _data(octaves)
    for i in range(tail_octaves + 2):
        out[i] = 0.0
    for i in range((tail_octaves + 2) * per_octave):
        first = last + 1 - 2 * per_octave + i
        if 0 <= first < m:
            out[i // per_octave] += share[first]
    return kept, upper, midpoints, octaves, mode > last - per_octave


cdef void _posterior(const double *octaves, double noise, double n, bint before_mode,
                     const tail_shapes *tail, double *weights, double *mean,
                     double *deviation) noexcept nogil:
    """Compute posterior mean and deviation at the points of a tail; `weights` is scratch."""
    cdef Py_ssize_t k, j, i, columns = tail.octaves, points = tail.points
    cdef double level = _larger(octaves[1], TINY), best = -INFINITY, total = 0.0
    cdef double share, spread, variance, part, value, off, first, second
    cdef const double *shape
    for k in range(tail.shapes):
        shape, value = tail.shares + k * columns, 0.0
        for j in range(before_mode, columns):
            share = level * shape[j]
            off = tail.misfit * share
            variance = _larger(share / n + off * off + noise * noise, TINY)
            value += (octaves[j] - share) * (octaves[j] - share) / variance + log(variance)
        weights[k] = -0.5 * value
        best = _larger(best, weights[k])
    for k in range(tail.shapes):
        weights[k] = exp(weights[k] - best)
        total += weights[k]
    for i in range(points):
        value = 0.0
        for k in range(tail.shapes):
            value += weights[k] / total * tail.profiles[k * points + i]
        weights[tail.shapes + i] = value
    for j in range(2, columns):
        first, second = 0.0, 0.0
        for k in range(tail.shapes):
            share = level * tail.shares[k * columns + j]
            off = tail.misfit * share
            spread = share / n + off * off
            part = spread / _larger(spread + noise * noise, TINY)
            # an octave deviates from its tail as far as its noisy share shows
            value = _larger(share + part * (octaves[j] - share), 0.0)
            first += weights[k] / total * value
            second += weights[k] / total * (value * value + part * noise * noise)
        value = sqrt(_larger(second - first * first, 0.0))
        for i in range(points):
            mean[(j - 2) * points + i] = first * weights[tail.shapes + i]
            deviation[(j - 2) * points + i] = value * weights[tail.shapes + i]


def tail_posterior(octaves, double noise, double n, bint before_mode, tail):
    """Compute posterior means and standard deviations of the shares at the points of a tail."""
    cdef list copies = []
    cdef tail_shapes shapes
    _read_tail(tail, &shapes, copies)
    cdef const double *given = _of(octaves, shapes.octaves, copies)
    cdef Py_ssize_t size = (shapes.octaves - 2) * shapes.points
    cdef cnp.ndarray mean = _new_vector(size), deviation = _new_vector(size)
    cdef cnp.ndarray room = _new_vector(shapes.shapes + shapes.points)
    cdef double *weights = _data(room)
    _posterior(given, noise, n, before_mode, &shapes, weights, _data(mean), _data(deviation))
    return mean, deviation


cdef Py_ssize_t _points(const norm_bins *bins, const tail_shapes *tail) noexcept nogil:
    """Count the points of the detected bins and of the tail."""
    return (bins.size + tail.octaves - 2) * tail.points


cdef void _extrapolate(const norm_bins *bins, const tail_shapes *tail, double n, double *weights,
                       double *norms, double *shares, double *deviations) noexcept nogil:
    """Fill norms, shares and deviations of :func:`extrapolate_tail`."""
    cdef Py_ssize_t i, j, points = tail.points, first = bins.size * points
    cdef double longest = bins.upper[bins.size - 1], width
    width = bins.midpoints[bins.size - 1] / longest
    width *= width
    for j in range(points):
        weights[j] = pow(width, tail.evenly[points - 1 - j])
    for i in range(bins.size):
        for j in range(points):
            norms[i * points + j] = bins.upper[i] * weights[j]
            shares[i * points + j] = bins.shares[i] / points
            deviations[i * points + j] = 0.0
    for i in range((tail.octaves - 2) * points):
        norms[first + i] = longest * tail.beyond[i]
    _posterior(bins.octaves, bins.octave_noise, n, bins.before_mode, tail, weights,
               shares + first, deviations + first)


def extrapolate_tail(histogram, double n, tail):
    """Add the tail of n records' norms: increasing norms, their shares, and deviations of these."""
    cdef list copies = []
    cdef norm_bins bins
    cdef tail_shapes shapes
    _read_bins(histogram, &bins, copies)
    _read_tail(tail, &shapes, copies)
    if bins.n_octaves != shapes.octaves:
        raise ValueError(f"expected {shapes.octaves} octaves; got {bins.n_octaves}")
    cdef Py_ssize_t size = _points(&bins, &shapes)
    cdef cnp.ndarray norms = _new_vector(size), shares = _new_vector(size)
    cdef cnp.ndarray deviations = _new_vector(size)
    cdef cnp.ndarray room = _new_vector(shapes.shapes + shapes.points)
    cdef double *weights = _data(room)
    _extrapolate(&bins, &shapes, n, weights, _data(norms), _data(shares), _data(deviations))
    return norms, shares, deviations


cdef void _excess_table(const double *norms, const double *shares, Py_ssize_t size,
                        double *knots, double *means) noexcept nogil:
    """Tabulate means of `(norm - bound)^+` at bounds of 0 and of each norm; size + 1 numbers."""
    cdef Py_ssize_t i
    cdef double mass = 0.0
    knots[0], means[size] = 0.0, 0.0
    for i in range(size):
        knots[i + 1] = norms[i]
    for i in range(size - 1, -1, -1):
        mass += shares[i]
        means[i] = means[i + 1] + mass * (norms[i] - knots[i])


cdef double _interpolated(double x, const double *knots, const double *means,
                          Py_ssize_t size) noexcept nogil:
    """Interpolate linearly between size + 1 knots, as ``numpy.interp`` does."""
    cdef Py_ssize_t low = 0, high = size + 1, middle
    if not x < knots[size]:
        return means[size]
    if x < knots[0]:
        return means[0]
    while high - low > 1:  # knots[low] <= x < knots[high]
        middle = (low + high) // 2
        if x >= knots[middle]:
            low = middle
        else:
            high = middle
    return (means[low + 1] - means[low]) / (knots[low + 1] - knots[low]) * (x - knots[low]) + means[low]


def mean_excess_over(bounds, norms, shares):
    """Compute means of ``(norm - bound)^+`` for increasing norms: linear between them."""
    cdef list copies = []
    cdef cnp.ndarray given = _float_array(bounds, "bounds")
    cdef cnp.ndarray increasing = _float_array(norms, "norms")
    cdef Py_ssize_t size = len(increasing), i
    cdef const double *share = _of(shares, size, copies)
    cdef cnp.ndarray out = _new_vector(len(given))
    cdef cnp.ndarray room = _new_vector(2 * size + 2)
    cdef double *memory = _data(room)
    _excess_table(_data(increasing), share, size, memory, memory + size + 1)
    for i in range(len(given)):
        _data(out)[i] = _interpolated(_data(given)[i], memory, memory + size + 1, size)
    return out


cdef Py_ssize_t _undetected(const norm_bins *rows, const norm_bins *scores, double variance,
                            double longest, double *norms, double *shares) noexcept nogil:
    """Fill norms and shares of possible scores that were not detected; return how many bins."""
    cdef Py_ssize_t i, count = 0
    cdef double norm, share, probability, end = scores.upper[scores.size - 1], hidden
    for i in range(rows.size):
        norm = _smaller(rows.midpoints[i], longest)
        if not norm > end:
            continue
        share, probability = rows.shares[i], end / norm
        # where all of them may be undetected in the octaves up to theirs, none is known to be short
        if share <= ceil(log2(1.0 / probability)) * scores.max_undetected:
            probability = 1.0
        hidden = _smaller(share * probability, scores.max_undetected)
        norms[count], shares[count] = norm, _smaller(hidden, variance / (norm * norm))
        count += 1
    return count


def choose_clipping_norm(scores, double noise, Py_ssize_t p, double longest,
                         double asymmetry, foreseen, double n, tail, parts,
                         double undetected_asymmetry, double undetected_variation,
                         double doubt_part, double no_reason):
    """Choose a clipping norm by the least squared noise and bias; return it and its bias."""
    cdef list copies = []
    cdef norm_bins bins, rows
    cdef tail_shapes shapes
    _read_bins(scores, &bins, copies)
    _read_tail(tail, &shapes, copies)
    if bins.n_octaves != shapes.octaves:
        raise ValueError(f"expected {shapes.octaves} octaves; got {bins.n_octaves}")
    rows.size = 0
    if foreseen is not None:
        _read_bins(foreseen, &rows, copies)
    cdef Py_ssize_t size = _points(&bins, &shapes), tried = len(parts), i, hidden = 0
    cdef const double *part = _of(parts, tried, copies)
    cdef double cube = 0.0, square = 0.0, min_norm, largest, candidate, excess, error, least
    cdef double best = 0.0, best_excess = 0.0, doubt = 0.0, limit, scale
    # norms, shares, deviations, knots, means; those of undetected scores; weights of tails
    cdef cnp.ndarray room = _new_vector(5 * size + 2 + 4 * rows.size + 2 + shapes.shapes
                                     + shapes.points)
    cdef double *memory = _data(room)
    cdef double *norms = memory
    cdef double *shares = norms + size
    cdef double *deviations = shares + size
    cdef double *knots = deviations + size
    cdef double *means = knots + size + 1
    cdef double *few = means + size + 1
    cdef double *few_knots = few + 2 * rows.size
    cdef double *few_means = few_knots + rows.size + 1
    with nogil:
        for i in range(bins.size):
            square += bins.shares[i] * bins.midpoints[i] * bins.midpoints[i]
            cube += bins.shares[i] * bins.midpoints[i] * bins.midpoints[i] * bins.midpoints[i]
        min_norm = sqrt(no_reason / n * square / p) / noise
        limit = pow(2.0 / p, 1.0 / 6.0) * pow(
            2.0 / 27.0 * undetected_asymmetry * cube / noise, 1.0 / 3.0)
        min_norm = _smaller(min_norm, limit)
        largest = _larger(2.0 * bins.upper[bins.size - 1], min_norm)
        if rows.size:
            largest = _larger(largest, rows.upper[rows.size - 1])
        largest = _smaller(largest, longest)
        _extrapolate(&bins, &shapes, n, few_means + rows.size + 1, norms, shares, deviations)
        for i in range(size):
            norms[i] = _smaller(norms[i], longest)
        _excess_table(norms, shares, size, knots, means)
        if rows.size:
            hidden = _undetected(&rows, &bins, undetected_variation * square / p, longest, few,
                                 few + rows.size)
            _excess_table(few, few + rows.size, hidden, few_knots, few_means)
        least, scale = INFINITY, sqrt(<double> p) * noise
        for i in range(tried):
            candidate = largest * part[i]
            excess = _interpolated(candidate, knots, means, size)
            if hidden:
                excess += _interpolated(candidate, few_knots, few_means, hidden)
            error = scale * _larger(candidate, min_norm)
            error = error * error + asymmetry * excess * (asymmetry * excess)
            if error < least or i == 0:
                least, best, best_excess = error, candidate, excess
        for i in range(size):
            doubt += _larger(norms[i] - best, 0.0) * deviations[i]
    return _smaller(_larger(best, min_norm), longest), hypot(best_excess, doubt_part * doubt)


def choose_weight_radius(histogram, double typical_square, double noise, parts):
    """Choose the radius with the smallest sum of relative excess and noise."""
    cdef list copies = []
    cdef norm_bins bins
    _read_bins(histogram, &bins, copies)
    cdef Py_ssize_t size = bins.size, tried = len(parts), i
    cdef const double *part = _of(parts, tried, copies)
    cdef double total = 0.0, candidate, value, least = INFINITY, best = 0.0
    cdef cnp.ndarray room = _new_vector(3 * size + 2)
    cdef double *memory = _data(room)
    cdef double *means = memory + 2 * size + 1
    for i in range(size):
        memory[i] = bins.upper[i] * bins.upper[i]
        total += bins.shares[i]
    _excess_table(memory, bins.shares, size, memory + size, means)
    for i in range(tried):
        candidate = bins.upper[size - 1] * part[i]
        value = _interpolated(candidate * candidate, memory + size, means, size)
        value = value / (typical_square * total) + noise * candidate * candidate
        if value < least or i == 0:
            least, best = value, candidate
    return best


def mean_excess(histogram, double radius, double exponent):
    """Compute the mean ``(radius^2e a^(2-2e) - radius^2)^+`` of the norms a, with e the exponent."""
    cdef list copies = []
    cdef norm_bins bins
    _read_bins(histogram, &bins, copies)
    cdef Py_ssize_t i
    cdef double over = 0.0, total = 0.0, factor = pow(radius, 2.0 * exponent)
    for i in range(bins.size):
        over += bins.shares[i] * _larger(
            factor * pow(bins.midpoints[i], 2.0 - 2.0 * exponent) - radius * radius, 0.0)
        total += bins.shares[i]
    return over / _larger(total, TINY)


def mean_square(histogram, double bound):
    """Return the mean square of norms clipped at a bound."""
    cdef list copies = []
    cdef norm_bins bins
    _read_bins(histogram, &bins, copies)
    cdef Py_ssize_t i
    cdef double total = 0.0, norm
    for i in range(bins.size):
        norm = _smaller(bins.midpoints[i], bound)
        total += bins.shares[i] * norm * norm
    return total


def downweighted_share(histogram, double radius, double power):
    """Return the part of the squared norms that weights with this radius and power remove."""
    cdef list copies = []
    cdef norm_bins bins
    _read_bins(histogram, &bins, copies)
    cdef Py_ssize_t i
    cdef double total = 0.0, kept = 0.0, square
    for i in range(bins.size):
        square = bins.shares[i] * bins.midpoints[i] * bins.midpoints[i]
        kept += square * pow(_smaller(1.0, radius / bins.midpoints[i]), 2.0 * power)
        total += square
    return 1.0 - kept / _larger(total, TINY)


def clipped_square(histogram, double bound, double n, tail):
    """Compute the mean ``(norm^2 - bound^2)^+``, with the expected tail."""
    cdef cnp.ndarray norms, shares
    norms, shares, _ = extrapolate_tail(histogram, n, tail)
    cdef Py_ssize_t i
    cdef double total = 0.0, norm
    for i in range(len(norms)):
        norm = _data(norms)[i]
        total += _data(shares)[i] * _larger(norm * norm - bound * bound, 0.0)
    return total


def normal_excess(double at):
    """Compute the mean of ``(z^2 - at^2)^+`` for a standard normal z."""
    return _normal_excess(at)


def clipped_off(histogram, double spread, double radius, double power, double bound):
    """Compute the mean ``(|s|^2 - bound^2)^+`` of these rows' scores for normal residuals."""
    cdef list copies = []
    cdef norm_bins bins
    _read_bins(histogram, &bins, copies)
    cdef Py_ssize_t i
    cdef double total = 0.0, size, excess
    for i in range(bins.size):
        size = pow(_smaller(1.0, radius * radius / (bins.midpoints[i] * bins.midpoints[i])), power)
        size = _larger(spread * size * bins.midpoints[i], 1e-300)
        excess = _larger(_normal_excess(_smaller(bound / size, 40.0)), 0.0)
        total += bins.shares[i] * size * size * excess
    return total
