# Noisy histograms of norms, their tails, and clipping norms; part of decisions.pyx.
#
# A histogram's bins are C arrays of its own, and its tail is extrapolated once.

cdef enum:
    # powers of 2 of the smallest and the largest edge
    LOWEST = -6
    HIGHEST = 20
    # octaves of a tail, and points in each
    TAIL_OCTAVES = 6
    FINER = 8
    OCTAVES = TAIL_OCTAVES + 2
    # tails: ratios of neighbouring shares, and accelerations
    N_RATIOS = 12
    N_ACCELERATIONS = 7
    N_TAILS = N_RATIOS * N_ACCELERATIONS
    # neighbouring bins that may be detected by their sum: outliers lie in several bins
    RUN_LENGTH = 4
    # candidates for bounds and, the first of them, for radii
    N_TRIED = 104
    N_TRIED_RADII = 64

#: Relative deviation of an octave's share from such a tail.
cdef double MISFIT = 0.2

#: Standard deviations above which a fine bin beside detected ones is detected.
NEIGHBOUR_SDS = 3.0
cdef double _NEIGHBOUR_SDS = NEIGHBOUR_SDS

#: Standard deviations above which any bin is detected.  One of 40 empty bins is so by noise once in
#: a million histograms.
SINGLE_BIN_SDS = 5.5
cdef double _SINGLE_BIN_SDS = SINGLE_BIN_SDS

#: Part of the sum of squared norms that is compared: longer norms are of few records, and the noise
#: of each bin would count as theirs.
cdef double SQUARES_PART = 0.9

#: Bias of clipping, relative to the mean norm clipped off, if tails are asymmetric.  Measured:
#: a quarter for capital gains of adult, three quarters for house prices.
ASYMMETRY = 0.4
cdef double _ASYMMETRY = ASYMMETRY

#: Variance of undetected scores in a direction, relative to the mean of others: about 1, and more
#: where a start is too steep, so that too few of them are foreseen.
cdef double UNDETECTED_VARIATION = 3.0

#: Part of the doubt about undetected scores that counts as bias.  With all of it intervals of least
#: squares are 10% wider, and most fits of skewed tables warn; without it too few cover.
cdef double DOUBT_PART = 0.5

#: Noise of a clipping norm, as a part of the sampling variance, that is allowed for the sake of
#: undetected scores: a smaller norm saves too little noise for its bias.
cdef double NO_REASON = 0.05


def _tails():
    """Return shares by octave, relative to the last detected one, and profiles of an octave.

    Ratios of neighbouring shares are evenly spaced in the tail's index, up to those of norms with
    rarely a mean; and factors on the ratio from octave to octave, down to those of normal scores.
    """
    ratios = np.exp2(-np.linspace(0.8, 6.0, N_RATIOS))
    accelerations = np.exp2(-np.linspace(0.0, 3.0, N_ACCELERATIONS))
    ratio, change = [axis.ravel()[:, None] for axis in np.meshgrid(ratios, accelerations)]
    octave = np.arange(-1.0, TAIL_OCTAVES + 1.0)
    profile = ratio**_EVENLY
    shares = ratio**octave * change ** (octave * (octave - 1.0) / 2.0)
    return shares, np.ascontiguousarray(profile / profile.sum(axis=1, keepdims=True))


# Arrays whose data the constants below point to; nothing writes to them.
cdef cnp.ndarray _EVENLY = (np.arange(FINER) + 0.5) / FINER
cdef cnp.ndarray _BEYOND = np.exp2(np.arange(TAIL_OCTAVES)[:, None] + _EVENLY).ravel()
cdef cnp.ndarray _TRIED_PARTS = np.exp2(-np.arange(N_TRIED) / 8.0)
cdef cnp.ndarray _SHARES, _PROFILES
_SHARES, _PROFILES = _tails()

#: Shares of a tail by octave, and its profile in the points of an octave.
cdef const double *TAIL_SHARES = _data(_SHARES)
cdef const double *TAIL_PROFILES = _data(_PROFILES)

#: Points of a bin, in octaves, and of the tail, over the longest norm that is detected.
cdef const double *EVENLY = _data(_EVENLY)
cdef const double *BEYOND = _data(_BEYOND)

#: Candidates for radii and bounds, as parts of the longest.
cdef const double *TRIED_PARTS = _data(_TRIED_PARTS)

cdef dict _EDGES = {}


def bin_edges(Py_ssize_t per_octave):
    """Return the upper edges of the bins, so many to a factor 2; the last bin has no upper end."""
    edges = _EDGES.get(per_octave)
    if edges is None:
        edges = np.exp2(np.arange(LOWEST * per_octave, HIGHEST * per_octave + 1) / per_octave)
        edges.flags.writeable = False
        _EDGES[per_octave] = edges
    return edges


def cell_edges(Py_ssize_t per_octave, double unit):
    """Return the edges between the bins in a unit of length."""
    cdef cnp.ndarray edges = bin_edges(per_octave)
    cdef Py_ssize_t m = cnp.PyArray_DIM(edges, 0) - 1, i
    cdef cnp.ndarray out = _new_vector(m)
    for i in range(m):
        _data(out)[i] = unit * _data(edges)[i]
    return out


cdef struct norm_bins:
    Py_ssize_t size
    double *shares
    double *upper
    double *midpoints
    # noisy shares of the last two detected octaves and of those beyond, and their noise
    double *octaves
    double octave_noise
    # whether the first of them is before the mode
    bint before_mode
    double max_undetected


cdef double _sum(const double *terms, Py_ssize_t size) noexcept nogil:
    """Sum numbers in NumPy's order, so that results have the bits of its arrays."""
    cdef Py_ssize_t i, k, half = size // 2 - size // 2 % 8
    cdef double total = 0.0
    cdef double[8] part
    if size < 8:
        for i in range(size):
            total += terms[i]
        return total
    if size > 128:
        return _sum(terms, half) + _sum(terms + half, size - half)
    for k in range(8):
        part[k] = terms[k]
    for i in range(8, size - size % 8, 8):
        for k in range(8):
            part[k] += terms[i + k]
    total = (((part[0] + part[1]) + (part[2] + part[3]))
             + ((part[4] + part[5]) + (part[6] + part[7])))
    for i in range(size - size % 8, size):
        total += terms[i]
    return total


cdef Py_ssize_t _detect(const double *share, double noise, Py_ssize_t per_octave, Py_ssize_t m,
                        unsigned char *detected, Py_ssize_t *mode) noexcept nogil:
    """Mark the bins above their noise, single ones and runs around the mode; return how many.

    `detected` has room for 2 m marks.
    """
    cdef unsigned char *before = detected + m
    cdef Py_ssize_t i, first, count = 0
    cdef double total
    cdef bint some
    mode[0] = 0
    for i in range(1, m):
        if share[i] > share[mode[0]]:
            mode[0] = i
    for i in range(m):
        detected[i] = share[i] > _SINGLE_BIN_SDS * noise
    detected[mode[0]] = 1
    if per_octave > 1:  # a run around the mode; and several bins by their sum, whose noise is smaller
        i = mode[0] - 1
        while i >= 0 and share[i] > _NEIGHBOUR_SDS * noise:
            detected[i] = 1
            i -= 1
        i = mode[0] + 1
        while i < m and share[i] > _NEIGHBOUR_SDS * noise:
            detected[i] = 1
            i += 1
        memcpy(before, detected, m)
        for first in range(m - RUN_LENGTH + 1):
            total, some = 0.0, False
            for i in range(first, first + RUN_LENGTH):
                total += share[i]
                some = some or before[i]
            if not some and total > _SINGLE_BIN_SDS * noise * sqrt(<double> RUN_LENGTH):
                for i in range(first, first + RUN_LENGTH):
                    if share[i] > noise:
                        detected[i] = 1
    for i in range(m):
        count += detected[i]
    return count


cdef void _posterior(const norm_bins *bins, double n, double *mean, double *deviation) noexcept nogil:
    """Compute posterior means and deviations of the shares at the points of a tail of n records."""
    cdef const double *octaves = bins.octaves
    cdef const double *shape
    cdef double[N_TAILS] weights
    cdef double[FINER] profile
    cdef Py_ssize_t k, j, i
    cdef double noise = bins.octave_noise, level = _larger(octaves[1], TINY)
    cdef double best = -INFINITY, total = 0.0
    cdef double share, spread, variance, part, value, off, first, second, product
    for k in range(N_TAILS):
        shape, value, product = TAIL_SHARES + k * OCTAVES, 0.0, 1.0
        for j in range(bins.before_mode, OCTAVES):
            share = level * shape[j]
            off = MISFIT * share
            variance = _larger(share / n + off * off + noise * noise, TINY)
            value += (octaves[j] - share) * (octaves[j] - share) / variance
            # one logarithm of a product, unless it would leave the range of numbers
            if not (1e-100 < variance < 1e100 and 1e-200 < product < 1e200):
                value += log(product)
                product = 1.0
            product *= variance
        weights[k] = -0.5 * (value + log(product))
        best = _larger(best, weights[k])
    for k in range(N_TAILS):
        weights[k] = exp(weights[k] - best)
        total += weights[k]
    for k in range(N_TAILS):
        weights[k] /= total
    for i in range(FINER):
        value = 0.0
        for k in range(N_TAILS):
            value += weights[k] * TAIL_PROFILES[k * FINER + i]
        profile[i] = value
    for j in range(2, OCTAVES):
        first, second = 0.0, 0.0
        for k in range(N_TAILS):
            share = level * TAIL_SHARES[k * OCTAVES + j]
            off = MISFIT * share
            spread = share / n + off * off
            part = spread / _larger(spread + noise * noise, TINY)
            # an octave deviates from its tail as far as its noisy share shows
            value = _larger(share + part * (octaves[j] - share), 0.0)
            first += weights[k] * value
            second += weights[k] * (value * value + part * noise * noise)
        value = sqrt(_larger(second - first * first, 0.0))
        for i in range(FINER):
            mean[(j - 2) * FINER + i] = first * profile[i]
            deviation[(j - 2) * FINER + i] = value * profile[i]


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


cdef inline double _excess(double x, const double *knots, const double *means, Py_ssize_t size,
                           Py_ssize_t *last) noexcept nogil:
    """Interpolate linearly between size + 1 knots, as ``numpy.interp`` does.

    `last` is the last knot up to which it may lie, at first `size`; it falls with x.
    """
    cdef Py_ssize_t i = last[0]
    if not x < knots[size]:
        return means[size]
    if x < knots[0]:
        return means[0]
    while x < knots[i]:
        i -= 1
    last[0] = i
    return (means[i + 1] - means[i]) / (knots[i + 1] - knots[i]) * (x - knots[i]) + means[i]


cdef class NormHistogram:
    """Bins of a noisy histogram of norms that stand out of their noise.

    ``octaves`` are the noisy shares of the last two detected octaves and of those beyond, with
    noise ``octave_noise``; ``before_mode`` says whether the first of them is before the mode.
    ``counted`` is the share of the records in all bins, and its noise.
    """

    cdef norm_bins bins
    cdef double *memory
    # points of the bins and of the tail of so many records
    cdef double *points
    cdef double n_of_points
    cdef readonly tuple counted

    def __init__(self, shares, upper, midpoints, double max_undetected, octaves=None,
                 double octave_noise=0.0, bint before_mode=True, tuple counted=(1.0, 0.0)):
        cdef list copies = []
        cdef Py_ssize_t size = len(shares)
        self.reserve(size)
        memcpy(self.bins.shares, _of(shares, size, copies), size * sizeof(double))
        memcpy(self.bins.upper, _of(upper, size, copies), size * sizeof(double))
        memcpy(self.bins.midpoints, _of(midpoints, size, copies), size * sizeof(double))
        if octaves is not None:
            memcpy(self.bins.octaves, _of(octaves, OCTAVES, copies), OCTAVES * sizeof(double))
        self.bins.octave_noise, self.bins.before_mode = octave_noise, before_mode
        self.bins.max_undetected, self.counted = max_undetected, counted

    cdef int reserve(self, Py_ssize_t size) except -1:
        """Make room for so many bins, and octaves of 0."""
        if size == 0:
            raise ValueError("a histogram has at least one detected bin")
        free(self.memory)
        free(self.points)
        self.points, self.memory = NULL, NULL
        self.memory = _workspace(3 * size + OCTAVES)
        self.bins.size, self.bins.shares = size, self.memory
        self.bins.upper, self.bins.midpoints = self.memory + size, self.memory + 2 * size
        self.bins.octaves = self.memory + 3 * size
        memset(self.bins.octaves, 0, OCTAVES * sizeof(double))
        return 0

    def __dealloc__(self):
        free(self.memory)
        free(self.points)

    @staticmethod
    def from_noisy_shares(shares, double noise_scale, Py_ssize_t per_octave, double unit=1.0):
        """Detect the bins above their noise: single ones, and runs around the mode."""
        cdef list copies = []
        cdef cnp.ndarray given = _float_array(shares, "shares")
        cdef Py_ssize_t m = cnp.PyArray_SIZE(given), i, k, mode = 0, last = 0, count
        cdef const double *share = _data(given)
        cdef const double *edge = _of(bin_edges(per_octave), m, copies)
        cdef double half_bin = pow(2.0, -0.5 / per_octave)
        cdef cnp.ndarray room = _new_vector(m // 4 + 1)  # 2 m bytes
        cdef unsigned char *detected = <unsigned char *> _data(room)
        cdef NormHistogram found = NormHistogram.__new__(NormHistogram)
        count = _detect(share, noise_scale, per_octave, m, detected, &mode)
        found.reserve(count)
        k = 0
        for i in range(m):
            if detected[i]:
                found.bins.shares[k] = _larger(share[i], 0.0)
                found.bins.upper[k] = unit * edge[i]
                found.bins.midpoints[k] = unit * edge[i] * half_bin
                k, last = k + 1, i
        for i in range(OCTAVES * per_octave):
            k = last + 1 - 2 * per_octave + i
            if 0 <= k < m:
                found.bins.octaves[i // per_octave] += share[k]
        found.bins.octave_noise = noise_scale * sqrt(<double> per_octave)
        found.bins.before_mode = mode > last - per_octave
        found.bins.max_undetected = _SINGLE_BIN_SDS * noise_scale
        found.counted = _sum(share, m), noise_scale * sqrt(<double> m)
        return found

    @property
    def shares(self):
        """Shares of the records in the detected bins."""
        return _copied(self.bins.shares, self.bins.size)

    @property
    def upper(self):
        """Upper edges of the detected bins."""
        return _copied(self.bins.upper, self.bins.size)

    @property
    def midpoints(self):
        """Middles of the detected bins."""
        return _copied(self.bins.midpoints, self.bins.size)

    @property
    def octaves(self):
        """Noisy shares of the last two detected octaves, and of those beyond."""
        return _copied(self.bins.octaves, OCTAVES)

    @property
    def octave_noise(self):
        """Standard deviation of the noise of each of them."""
        return self.bins.octave_noise

    @property
    def before_mode(self):
        """True if the first octave is no part of the tail."""
        return bool(self.bins.before_mode)

    @property
    def max_undetected(self):
        """Largest share of a bin that is not detected."""
        return self.bins.max_undetected

    @property
    def longest(self):
        """Upper edge of the last detected bin."""
        return self.bins.upper[self.bins.size - 1]

    def rescaled(self, double unit):
        """Return the histogram in another unit of length."""
        cdef NormHistogram other = NormHistogram.__new__(NormHistogram)
        cdef Py_ssize_t i, size = self.bins.size
        other.reserve(size)
        memcpy(other.memory, self.memory, (3 * size + OCTAVES) * sizeof(double))
        for i in range(size):
            other.bins.upper[i] /= unit
            other.bins.midpoints[i] /= unit
        other.bins.octave_noise, other.bins.before_mode = self.bins.octave_noise, self.bins.before_mode
        other.bins.max_undetected, other.counted = self.bins.max_undetected, self.counted
        return other

    def median(self):
        """Return the norm that half of the detected records exceed."""
        cdef Py_ssize_t i = 0, size = self.bins.size
        cdef double total = _larger(_sum(self.bins.shares, size), TINY), mass = 0.0, passed = 0.0
        cdef double before = 0.0, at, slope
        for i in range(size):
            mass += self.bins.shares[i]
            before, passed = passed, mass / total
            if passed > 0.5:
                break
        i = min(i, size - 1)
        at = log2(self.bins.upper[i])
        if i > 0 and passed > 0.5:
            slope = (at - log2(self.bins.upper[i - 1])) / (passed - before)
            at = slope * (0.5 - before) + log2(self.bins.upper[i - 1])
        return exp2(at)

    def mean_square(self, double bound):
        """Return the mean square of norms clipped at a bound."""
        cdef Py_ssize_t i
        cdef double total = 0.0, norm
        for i in range(self.bins.size):
            norm = _smaller(self.bins.midpoints[i], bound)
            total += self.bins.shares[i] * norm * norm
        return total

    def mean_of_squares(self):
        """Return the mean norm, weighted by the squared norms."""
        cdef double *squares = _workspace(self.bins.size)
        cdef Py_ssize_t i
        cdef double cubes
        for i in range(self.bins.size):
            squares[i] = self.bins.shares[i] * (self.bins.midpoints[i] * self.bins.midpoints[i])
        cubes = inner(squares, self.bins.midpoints, self.bins.size, 1)
        cubes /= _larger(_sum(squares, self.bins.size), TINY)
        free(squares)
        return cubes

    def mean_excess(self, double radius, double exponent):
        """Compute the mean ``(radius^2e a^(2-2e) - radius^2)^+`` of the norms a, e the exponent."""
        cdef Py_ssize_t i
        cdef double over = 0.0, total = 0.0, factor = pow(radius, 2.0 * exponent)
        for i in range(self.bins.size):
            over += self.bins.shares[i] * _larger(
                factor * pow(self.bins.midpoints[i], 2.0 - 2.0 * exponent) - radius * radius, 0.0)
            total += self.bins.shares[i]
        return over / _larger(total, TINY)

    def share_beyond(self, double bound):
        """Return the share of longer norms."""
        cdef Py_ssize_t i = 0
        while i < self.bins.size and not self.bins.midpoints[i] > bound:
            i += 1
        return _sum(self.bins.shares + i, self.bins.size - i)

    def downweighted_share(self, double radius, double power):
        """Return the part of these squared norms that weights with this radius and power remove."""
        cdef Py_ssize_t i
        cdef double total = 0.0, kept = 0.0, square
        for i in range(self.bins.size):
            square = self.bins.shares[i] * self.bins.midpoints[i] * self.bins.midpoints[i]
            kept += square * pow(_smaller(1.0, radius / self.bins.midpoints[i]), 2.0 * power)
            total += square
        return 1.0 - kept / _larger(total, TINY)

    def clipped_off(self, double spread, double radius, double power, double bound):
        """Compute the mean ``(|s|^2 - bound^2)^+`` of these rows' scores for normal residuals."""
        cdef Py_ssize_t i
        cdef double total = 0.0, size, excess, middle
        for i in range(self.bins.size):
            middle = self.bins.midpoints[i]
            size = pow(_smaller(1.0, radius * radius / (middle * middle)), power)
            size = _larger(spread * size * middle, TINY)
            excess = _larger(_normal_excess(_smaller(bound / size, 40.0)), 0.0)
            total += self.bins.shares[i] * size * size * excess
        return total

    def choose_weight_radius(self, Py_ssize_t p, double typical, double noise):
        """Choose the radius with the smallest sum of relative excess and noise."""
        cdef Py_ssize_t size = self.bins.size, i, last = size
        cdef double *memory = _workspace(3 * size + 2)
        cdef double *knots = memory + size
        cdef double *means = knots + size + 1
        cdef double total = 0.0, candidate, value, least = INFINITY, best = 0.0
        cdef double typical_square = p * typical
        for i in range(size):
            memory[i] = self.bins.upper[i] * self.bins.upper[i]
            total += self.bins.shares[i]
        _excess_table(memory, self.bins.shares, size, knots, means)
        for i in range(N_TRIED_RADII):
            candidate = self.bins.upper[size - 1] * TRIED_PARTS[i]
            value = _excess(candidate * candidate, knots, means, size, &last)
            value = value / (typical_square * total) + noise * candidate * candidate
            if value < least or i == 0:
                least, best = value, candidate
        free(memory)
        return best

    def density_ratio(self, shares, double noise_scale, Py_ssize_t per_octave, double times):
        """Estimate the ratio of densities in a window so many times narrower and in this one.

        Densities are mean squares of norms per window.  The ratio is shrunk to 1 by its noise.
        """
        cdef list copies = []
        cdef cnp.ndarray edges = bin_edges(per_octave)
        cdef Py_ssize_t m = cnp.PyArray_DIM(edges, 0), size = self.bins.size, i, last = 0
        cdef const double *share = _of(shares, m, copies)
        cdef double *squares = _workspace(size + m)
        cdef double *square = squares + size
        cdef double total = 0.0, reference, excess, noise, half_bin = pow(2.0, -1.0 / per_octave)
        for i in range(size):
            total += self.bins.shares[i] * (self.bins.midpoints[i] * self.bins.midpoints[i])
            squares[i] = _larger(total / times, TINY)
        while last < size - 1 and squares[last] < SQUARES_PART * squares[size - 1]:
            last += 1
        reference, i = squares[last], 0
        while i < m and _data(edges)[i] <= self.bins.upper[last]:
            square[i] = _data(edges)[i] * _data(edges)[i] * half_bin
            i += 1
        excess = _smaller(_larger(inner(share, square, i, 1), 0.0) / reference, times) - 1.0
        noise = noise_scale * sqrt(inner(square, square, i, 1)) / reference
        free(squares)
        excess = pow(excess, 3.0) / _larger(pow(excess, 2.0) + noise * noise, TINY)
        return _larger(1.0 + excess, 1.0 / times)

    cdef Py_ssize_t extrapolate(self, double n) except -1:
        """Fill `points` with norms, shares and deviations of :meth:`extrapolate_tail`."""
        cdef Py_ssize_t i, j, first = self.bins.size * FINER, size = first + TAIL_OCTAVES * FINER
        cdef double longest = self.bins.upper[self.bins.size - 1], width
        cdef double *norms = self.points
        cdef double[FINER] parts
        if norms != NULL and self.n_of_points == n:
            return size
        if norms == NULL:
            self.points = norms = _workspace(3 * size)
        width = self.bins.midpoints[self.bins.size - 1] / longest
        width *= width
        for j in range(FINER):
            parts[j] = pow(width, EVENLY[FINER - 1 - j])
        for i in range(self.bins.size):
            for j in range(FINER):
                norms[i * FINER + j] = self.bins.upper[i] * parts[j]
                norms[size + i * FINER + j] = self.bins.shares[i] / FINER
                norms[2 * size + i * FINER + j] = 0.0
        for i in range(TAIL_OCTAVES * FINER):
            norms[first + i] = longest * BEYOND[i]
        _posterior(&self.bins, n, norms + size + first, norms + 2 * size + first)
        self.n_of_points = n
        return size

    def extrapolate_tail(self, double n=INFINITY):
        """Add the tail of n records' norms; shares are spread evenly over points of the bins.

        Returns
        -------
        norms : ndarray of shape (m,)
            Increasing.
        shares, deviations : ndarray of shape (m,)
            Posterior means and standard deviations, which are zero in detected bins.
        """
        cdef Py_ssize_t size = self.extrapolate(n)
        return (_copied(self.points, size), _copied(self.points + size, size),
                _copied(self.points + 2 * size, size))

    def tail(self, bounds, double n=INFINITY):
        """Compute means of ``(norm - bound)^+``, with the expected tail."""
        cdef cnp.ndarray given = _float_array(bounds, "bounds")
        cdef Py_ssize_t size = self.extrapolate(n), i, last
        cdef cnp.ndarray out = _new_vector(cnp.PyArray_SIZE(given))
        cdef double *knots = _workspace(2 * size + 2)
        cdef double *means = knots + size + 1
        _excess_table(self.points, self.points + size, size, knots, means)
        for i in range(cnp.PyArray_SIZE(given)):
            last = size
            _data(out)[i] = _excess(_data(given)[i], knots, means, size, &last)
        free(knots)
        return out

    def undetected_square(self):
        """Return a likely largest mean of squared norms beyond the last detected octave."""
        cdef Py_ssize_t size = self.extrapolate(INFINITY), i, first = self.bins.size * FINER
        cdef double longest = self.bins.upper[self.bins.size - 1]
        cdef double *norms = self.points
        cdef double *squares
        cdef double *most
        cdef double found
        while first < size and not norms[first] > longest:
            first += 1
        squares = _workspace(2 * (size - first))
        most = squares + size - first
        for i in range(first, size):
            squares[i - first] = norms[i] * norms[i]
            most[i - first] = norms[size + i] + norms[2 * size + i]
        found = inner(squares, most, size - first, 1)
        free(squares)
        return found

    def clipped_square(self, double bound, double n=INFINITY):
        """Compute the mean ``(norm^2 - bound^2)^+``, with the expected tail."""
        cdef Py_ssize_t size = self.extrapolate(n), i
        cdef double total = 0.0, norm
        for i in range(size):
            norm = self.points[i]
            total += self.points[size + i] * _larger(norm * norm - bound * bound, 0.0)
        return total


cdef cnp.ndarray _copied(const double *numbers, Py_ssize_t size):
    cdef cnp.ndarray out = _new_vector(size)
    memcpy(_data(out), numbers, size * sizeof(double))
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


def choose_clipping_norm(NormHistogram scores not None, double noise, Py_ssize_t p,
                         double longest=INFINITY, double asymmetry=_ASYMMETRY,
                         NormHistogram foreseen=None, double n=INFINITY):
    """Choose the clipping norm of scores by bias plus noise, and return its bias.

    ``noise`` is that of ``noise_per_bound``.  Bias and noise are weighed as squares: the sum is the
    mean squared error.
    """
    cdef norm_bins *bins = &scores.bins
    cdef norm_bins *rows = NULL if foreseen is None else &foreseen.bins
    cdef Py_ssize_t size = scores.extrapolate(n), n_rows = 0 if rows == NULL else rows.size
    cdef Py_ssize_t i, hidden = 0, last = size, last_hidden
    cdef double cube = 0.0, square = 0.0, min_norm, largest, candidate, excess, error, least
    cdef double best = 0.0, best_excess = 0.0, doubt = 0.0, limit, scale
    cdef const double *shares = scores.points + size
    cdef const double *deviations = shares + size
    # norms, knots, means; those of undetected scores
    cdef double *norms = _workspace(3 * size + 2 + 4 * n_rows + 2)
    cdef double *knots = norms + size
    cdef double *means = knots + size + 1
    cdef double *few = means + size + 1
    cdef double *few_knots = few + 2 * n_rows
    cdef double *few_means = few_knots + n_rows + 1
    for i in range(bins.size):
        square += bins.shares[i] * bins.midpoints[i] * bins.midpoints[i]
        cube += bins.shares[i] * bins.midpoints[i] * bins.midpoints[i] * bins.midpoints[i]
    # Undetected scores may have a third moment half as large as the others'.  Clipping removes at
    # most 4/27 of it over the squared bound: a shorter bound saves less noise than its bias.
    min_norm = sqrt(NO_REASON / n * square / p) / noise
    limit = pow(2.0 / p, 1.0 / 6.0) * pow(
        2.0 / 27.0 * _ASYMMETRY * cube / noise, 1.0 / 3.0)
    min_norm = _smaller(min_norm, limit)
    largest = _larger(2.0 * bins.upper[bins.size - 1], min_norm)
    if rows != NULL:
        largest = _larger(largest, rows.upper[rows.size - 1])
    largest = _smaller(largest, longest)
    for i in range(size):
        norms[i] = _smaller(scores.points[i], longest)
    _excess_table(norms, shares, size, knots, means)
    if rows != NULL:
        hidden = _undetected(rows, bins, UNDETECTED_VARIATION * square / p, longest, few,
                             few + n_rows)
        _excess_table(few, few + n_rows, hidden, few_knots, few_means)
    least, scale, last_hidden = INFINITY, sqrt(<double> p) * noise, hidden
    for i in range(N_TRIED):
        candidate = largest * TRIED_PARTS[i]
        excess = _excess(candidate, knots, means, size, &last)
        if hidden:
            excess += _excess(candidate, few_knots, few_means, hidden, &last_hidden)
        error = scale * _larger(candidate, min_norm)
        error = error * error + asymmetry * excess * (asymmetry * excess)
        if error < least or i == 0:
            least, best, best_excess = error, candidate, excess
    for i in range(size):
        doubt += _larger(norms[i] - best, 0.0) * deviations[i]
    free(norms)
    return _smaller(_larger(best, min_norm), longest), hypot(best_excess, DOUBT_PART * doubt)


def normal_excess(double at):
    """Compute the mean of ``(z^2 - at^2)^+`` for a standard normal z."""
    return _normal_excess(at)
