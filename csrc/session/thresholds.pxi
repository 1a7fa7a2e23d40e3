# Thresholds of a noisy bisection of doubles, from a public prior on their magnitudes.
#
# Keys are the doubles in numeric order, as integers, so that no range has to be declared.
# `tests/twins/thresholds.py` is the plain Python twin.

#: Keys of the numbers between two powers of two.
cdef int64_t BINADE = <int64_t>1 << 52
#: Width of an interval of keys, 1e-9 of a number, below which it is a tie: one value is frequent.
cdef int64_t TIE_KEYS = <int64_t>1 << 22
#: Smallest distance from a tie at zero, where no scale is known.
cdef double MIN_AT_ZERO = ldexp(1.0, -50)
#: Prior mass of the keys below each multiple of a binade, from -2048 on.
cdef double[4096] MASS_BELOW
#: Public limits of released locations, which ``connect_scales`` sets.
cdef double SMALLEST, LARGEST


cdef double _mass_below(Py_ssize_t binade) noexcept nogil:
    """Compute the prior mass of the keys below ``binade * 2^52``.

    The prior has a tenth at zero and is Cauchy in ``log2 |x|``.
    """
    cdef double tail
    if binade == 0:
        return 0.45
    tail = 0.5 + atan(((binade if binade > 0 else -binade) - 1023 - 4.0) / 6.0) / M_PI
    return 0.55 + 0.45 * tail if binade > 0 else 0.45 * (1.0 - tail)


cdef void _tabulate() noexcept:
    cdef Py_ssize_t binade
    for binade in range(-2048, 2048):
        MASS_BELOW[binade + 2048] = _mass_below(binade)


_tabulate()


cdef inline double value_of(int64_t key) noexcept nogil:
    """Return the double with this key, in a range whose differences do not overflow."""
    cdef uint64_t bits = <uint64_t>key if key >= 0 else 0 - <uint64_t>key
    cdef double value
    memcpy(&value, &bits, sizeof(double))
    value = value if value < LARGEST else LARGEST  # beyond the largest: infinity
    return value if key >= 0 else -value


cdef inline bint is_tie(int64_t low, int64_t high) noexcept nogil:
    """Say whether so many records have one value, or zero, that more counts do not help."""
    return (<uint64_t>high - <uint64_t>low <= <uint64_t>TIE_KEYS
            or (low == 0 and high == BINADE))


cdef int64_t _halving_prior(int64_t low, int64_t high) noexcept nogil:
    """Return the median of the prior on keys between two, more than a binade apart."""
    cdef Py_ssize_t first = (low >> 52) + 1, last = (high >> 52) - 1, middle
    cdef const double *mass = MASS_BELOW + 2048
    cdef double half = 0.5 * (mass[low >> 52] + mass[high >> 52])
    while first < last:
        middle = (first + last) >> 1
        if mass[middle] < half:
            first = middle + 1
        else:
            last = middle
    if first > (low >> 52) + 1 and half - mass[first - 1] < mass[first] - half:
        first -= 1
    return first * BINADE


cdef int64_t next_key(int64_t low, int64_t high, bint patient) noexcept nogil:
    """Return a threshold inside an interval.

    After many answers that the quantile is lower, the lower end is tried for a tie.
    """
    cdef uint64_t width = <uint64_t>high - <uint64_t>low, differing
    cdef int shift = 0
    if width > <uint64_t>BINADE:
        return _halving_prior(low, high)
    if patient and width > <uint64_t>2 << 40:
        return low + (<int64_t>1 << 40)
    if patient and width > <uint64_t>2 << 22:
        return low + (<int64_t>1 << 22)
    differing = <uint64_t>low ^ (<uint64_t>high - 1)
    while differing >> shift > 1:
        shift += 1
    return <int64_t>((<uint64_t>high - 1) >> shift << shift)  # the roundest number inside


cdef inline int level_of(int64_t key) noexcept nogil:
    """Return the level of the cells that a threshold ends, by 12 bits of its powers of two."""
    if not key & (BINADE - 1):
        return 52
    if not key & ((<int64_t>1 << 40) - 1):
        return 40
    return 28 if not key & ((<int64_t>1 << 28) - 1) else 16


cdef void place_of(int64_t first, int64_t last, double *centre, double *nearest) noexcept nogil:
    """Find a centre, at a tie its own value, and the smallest distance resolved from it."""
    cdef double low = value_of(first), high = value_of(last)
    if first == 0 and last == BINADE:
        centre[0], nearest[0] = 0.0, MIN_AT_ZERO
        return
    if is_tie(first, last):
        centre[0], nearest[0] = low, high - low
    else:
        centre[0], nearest[0] = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    if not nearest[0] > SMALLEST:
        nearest[0] = SMALLEST


def place_between(low, high):
    """Return centre and nearest distance of an interval of keys, as :func:`place_of` finds them."""
    cdef double centre, nearest
    place_of(low, high, &centre, &nearest)
    return centre, nearest


def threshold_between(low, high, patient):
    """Return the next threshold in an interval of keys, its level, and whether it is a tie."""
    cdef int64_t key = next_key(low, high, patient)
    return key, level_of(key), is_tie(low, high)
