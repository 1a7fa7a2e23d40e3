# Location and scale of a column from a released histogram of distances from a centre.

#: Cells on either side of a centre, at most.
cdef enum:
    SIDE = 100

cdef object ColumnScale
cdef double SINGLE_SDS, NEIGHBOUR_SDS, CELL_MEAN


def connect_scales(scale, double single_sds, double neighbour_sds, double cell_mean,
                   double smallest, double largest):
    """Set the class of a scale, when a cell exceeds its noise, and limits of what is released.

    Distances in a cell are taken to be ``cell_mean`` of its power of two.  Spreads are from
    ``smallest`` to ``largest``, ends at most this large.
    """
    global ColumnScale, SINGLE_SDS, NEIGHBOUR_SDS, CELL_MEAN, SMALLEST, LARGEST
    ColumnScale, SINGLE_SDS, NEIGHBOUR_SDS = scale, single_sds, neighbour_sds
    CELL_MEAN, SMALLEST, LARGEST = cell_mean, smallest, largest


cdef inline object doubles(object array):
    """Return numbers as C lays out doubles: mostly the array itself."""
    if (cnp.PyArray_CheckExact(array) and cnp.PyArray_TYPE(<cnp.ndarray>array) == cnp.NPY_DOUBLE
            and cnp.PyArray_ISCARRAY_RO(<cnp.ndarray>array)):
        return array
    return contiguous(array)


cdef inline double larger(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline double smaller(double a, double b) noexcept nogil:
    return a if a < b else b


cdef class DistanceHistogram:
    """Released histogram of the distances of one column, above and below a centre.

    Parameters
    ----------
    centre, nearest : float
    octaves : int
        Number of cells on a side; the last has all that is farther away.
    cells : ndarray of shape (2, SIDE)
    noise : float
        Standard deviation of that of a cell.
    """

    cdef double centre, nearest, noise
    cdef Py_ssize_t octaves
    cdef double[2 * SIDE] cells

    def __init__(self, double centre, double nearest, Py_ssize_t octaves, cells, double noise):
        self.centre, self.nearest, self.octaves, self.noise = centre, nearest, octaves, noise
        copied = doubles(cells)
        if not (0 < octaves <= SIDE and cnp.PyArray_SIZE(<cnp.ndarray>copied) == 2 * SIDE):
            raise ValueError("a histogram has two sides of as many cells")
        memcpy(self.cells, cnp.PyArray_DATA(<cnp.ndarray>copied), sizeof(self.cells))

    cdef bint ends_too_early(self) noexcept:
        """Say whether records are in the last cell, though more cells are possible."""
        cdef Py_ssize_t last = self.octaves - 1
        cdef double threshold = SINGLE_SDS * self.noise
        return last + 1 < SIDE and (self.cells[last] > threshold
                                    or self.cells[SIDE + last] > threshold)

    cdef void join(self, DistanceHistogram earlier):
        """Pool with an earlier histogram of the same distances, by inverse variances."""
        cdef double weight = pow(self.noise, -2.0), before = pow(earlier.noise, -2.0)
        cdef Py_ssize_t i
        if (self.centre != earlier.centre or self.nearest != earlier.nearest
                or self.octaves != earlier.octaves):
            return
        for i in range(2 * SIDE):
            self.cells[i] = (weight * self.cells[i] + before * earlier.cells[i]) / (weight + before)
        self.noise = pow(weight + before, -0.5)

    cdef void _farthest(self, Py_ssize_t *ends) noexcept:
        """Find how many cells there are on each side up to the farthest that exceeds its noise."""
        cdef Py_ssize_t i, side, last = -1, gap = -1
        cdef double single_sds = SINGLE_SDS * self.noise, near = NEIGHBOUR_SDS * self.noise, largest
        cdef bint connected
        ends[0] = ends[1] = 0
        for i in range(self.octaves):
            largest = larger(self.cells[i], self.cells[SIDE + i])
            # and what is beside it: on the other side, or farther out, and so on
            connected = largest > single_sds or last > gap
            for side in range(2):
                if (self.cells[side * SIDE + i] > single_sds
                        or (connected and self.cells[side * SIDE + i] > near)):
                    ends[side] = i + 1
            if largest > single_sds:
                last = i
            if not largest > near:
                gap = i

    cdef object scale(self, double complete):
        """Compute mean, spread and both ends of a column of so many complete records."""
        cdef Py_ssize_t[2] ends
        cdef Py_ssize_t side, i, last
        cdef double mean = 0.0, square = 0.0, error = 0.0, step, first, second, scale
        cdef double low, high, spread
        cdef int power = 0
        self._farthest(ends)
        last = ends[0] if ends[0] > ends[1] else ends[1]
        if last == 0:  # nothing is detected
            return new_tuple(ColumnScale, (self.centre, 1.0, self.centre, self.centre, False))
        for side in range(2):  # in units of the farthest cell
            for i in range(ends[side]):
                step = ldexp(1.0, <int> (i - last))
                mean += (1.0 - 2.0 * side) / CELL_MEAN * step * self.cells[side * SIDE + i]
                square += step * step * self.cells[side * SIDE + i]
        mean /= complete
        square /= complete
        for side in range(2):
            for i in range(ends[side]):
                step = ldexp(1.0, <int> (i - last))
                first = (1.0 - 2.0 * side) / CELL_MEAN * step
                second = step * step - 2.0 * mean * first
                error += second * second
        error = self.noise * sqrt(error) / complete
        frexp(self.nearest, &power)  # the first cell ends at the power of two above the nearest
        scale = _binary(power - 1 + last)
        low = larger(self.centre - _binary(power - 1 + ends[1]), -LARGEST)
        high = smaller(self.centre + _binary(power - 1 + ends[0]), LARGEST)
        spread = sqrt(larger(square - mean * mean, 2.0 * error)) * scale
        spread = smaller(larger(spread, SMALLEST), LARGEST)
        return new_tuple(ColumnScale, (
            smaller(larger(self.centre + mean * scale, low), high), spread, low, high, True
        ))


cdef double _binary(Py_ssize_t power) noexcept nogil:
    """Compute a power of two, at most 2^1000."""
    return ldexp(1.0, <int> (power if power < 1000 else 1000))


def column_scales(histograms, double complete):
    """Return mean and spread of each column, up to the farthest cells above their noise."""
    cdef DistanceHistogram histogram
    cdef list scales = []
    for histogram in histograms:
        scales.append(histogram.scale(complete))
    return scales
