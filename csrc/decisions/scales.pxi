# Location and scale of a column by a histogram of distances; part of decisions.pyx.

cdef void _farthest(const double *cells, double noise, Py_ssize_t octaves, double single_sds,
                    double neighbour_sds, Py_ssize_t *ends) noexcept nogil:
    """Find how many cells there are on each side up to the farthest that exceeds its noise."""
    cdef Py_ssize_t i, side, last = -1, gap = -1
    cdef bint connected, single, neighbour
    ends[0] = ends[1] = 0
    for i in range(octaves):
        single = cells[i] > single_sds * noise or cells[octaves + i] > single_sds * noise
        neighbour = cells[i] > neighbour_sds * noise or cells[octaves + i] > neighbour_sds * noise
        # and what is beside it: on the other side, or farther out, and so on
        connected = single or last > gap
        for side in range(2):
            if (cells[side * octaves + i] > single_sds * noise
                    or (connected and cells[side * octaves + i] > neighbour_sds * noise)):
                ends[side] = i + 1
        if single:
            last = i
        if not neighbour:
            gap = i


def scale_of_cells(cells, double noise, double centre, double nearest, double complete,
                   double single_sds, double neighbour_sds, double cell_mean, double smallest,
                   double largest):
    """Compute mean, spread and both ends of a column; None where nothing is detected.

    Distances in a cell are taken to be ``cell_mean`` of its power of two; the first cell ends at
    that above ``nearest``.  Spreads are from ``smallest`` to ``largest``, ends at most this large.
    """
    cdef list copies = []
    cdef Py_ssize_t octaves = cells.shape[1], ends[2], side, i, last
    cdef const double *cell = _of(cells, 2 * octaves, copies)
    cdef double mean = 0.0, square = 0.0, error = 0.0, step, first, second, scale
    cdef double low, high, spread
    cdef int power = 0
    _farthest(cell, noise, octaves, single_sds, neighbour_sds, ends)
    last = ends[0] if ends[0] > ends[1] else ends[1]
    if last == 0:
        return None
    for side in range(2):  # in units of the farthest cell
        for i in range(ends[side]):
            step = ldexp(1.0, <int> (i - last))
            mean += (1.0 - 2.0 * side) / cell_mean * step * cell[side * octaves + i]
            square += step * step * cell[side * octaves + i]
    mean /= complete
    square /= complete
    for side in range(2):
        for i in range(ends[side]):
            step = ldexp(1.0, <int> (i - last))
            first = (1.0 - 2.0 * side) / cell_mean * step
            second = step * step - 2.0 * mean * first
            error += second * second
    error = noise * sqrt(error) / complete
    frexp(nearest, &power)
    scale = _binary(power - 1 + last)
    low = _larger(centre - _binary(power - 1 + ends[1]), -largest)
    high = _smaller(centre + _binary(power - 1 + ends[0]), largest)
    spread = sqrt(_larger(square - mean * mean, 2.0 * error)) * scale
    return (_smaller(_larger(centre + mean * scale, low), high),
            _smaller(_larger(spread, smallest), largest), low, high)


cdef double _binary(Py_ssize_t power) noexcept nogil:
    """Compute a power of two, at most 2^1000."""
    return ldexp(1.0, <int> (power if power < 1000 else 1000))
