# Counts below thresholds of columns, and histograms of distances (claims D2 and D6).

cdef object complete_weight, counts_receipt, distances_receipt, window_of, turned_records
cdef object distances_of_block
cdef double WHOLE


def connect_columns(counted, measured, weight, window, turned, distances, Py_ssize_t octaves,
                    double whole):
    """Set the receipts, the weight of the complete records, and how records are read."""
    global counts_receipt, distances_receipt, complete_weight, window_of, turned_records
    global distances_of_block, WHOLE
    counts_receipt, distances_receipt, complete_weight = counted, measured, weight
    window_of, turned_records, distances_of_block, WHOLE = window, turned, distances, whole
    if octaves != SIDE:
        raise ValueError("kernels and session must have as many cells on a side")


cdef class ColumnQuestions:
    """Base of queries about columns: how many records lie below thresholds, and how far away.

    Attributes
    ----------
    _windows : dict
        Exact counts in the windows that were read, by column and window.
    _complete : int
        Number of complete records, once a window was read.
    _few : bool
        Whether records are in memory, and few enough to be turned once for all queries.
    _measured : tuple
        Arguments of the last distances, and their exact cells.
    """

    cdef public object ledger, _noise, _records, _max_records, _complete, _few_turned
    cdef public Py_ssize_t n_columns
    cdef public bint _few
    cdef public dict _windows
    cdef tuple _measured

    def below(self, thresholds, mu, later=()):
        """Release how many complete records have a key below each threshold: ``mu`` (claim D2)."""
        cdef tuple asked = tuple(thresholds)
        cdef Py_ssize_t m = len(asked), i
        cdef cnp.npy_intp size = m + 1
        receipt, cost = counts_receipt(self._max_records, m, mu)
        cdef list places = self._places(asked)
        charge(self.ledger, cost, (<tuple>receipt)[0])
        cdef cnp.ndarray value = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
        cdef double *centred = <double *>cnp.PyArray_DATA(value)
        # exact: halves and 32nds of integers below 2^33
        cdef double half = 0.5 * self._count(asked, places, centred, later)
        for i in range(m):
            centred[i] -= half
        centred[m] *= <double>complete_weight(m)
        question = ((<tuple>receipt)[0], mu, asked)
        return release_with_noise(self._noise, question, receipt, value)

    cdef list _places(self, tuple thresholds):
        """Find the windows of thresholds, which few records need not; refuse keys that have none."""
        if not self._few:
            return [(column, window_of(key)) for column, key in thresholds]
        for column, key in thresholds:
            if <int64_t>key & 0xFFFF:
                window_of(key)
        return None

    def _turned(self):
        """Return these few records in columns; they are read once."""
        if self._few_turned is None:
            self._few_turned = self._records.total(turned_records)
        return self._few_turned

    cdef double _count(self, tuple thresholds, list places, double *counts, later) except? -1.0:
        """Count records below each threshold, and last the complete ones, which are returned."""
        cdef Py_ssize_t i, m = len(thresholds)
        cdef list below
        if self._few:  # shorter than passes for windows
            below = self._turned().below(thresholds)
            for i in range(m):
                counts[i] = <double>below[i]
            counts[m] = self._few_turned.n_complete
            return counts[m]
        for place in places:
            if place not in self._windows:
                self._count_windows(thresholds, later)
                break
        for i in range(m):
            shift, start = places[i][1]
            counts[i] = <double>self._windows[places[i]][(thresholds[i][1] - start) >> shift]
        counts[m] = self._complete
        return counts[m]

    def distances(self, columns, centres, nearest, octaves, mu):
        """Release histograms of distances from centres, each in so many octaves: ``mu`` (claim D6).

        Each distance is shared between two adjacent cells.  The last cell has all that is farther
        away.  Cells beyond the last one of a column are 0.
        """
        cdef tuple asked = tuple(columns), cells = tuple(octaves)
        receipt, cost = distances_receipt(self._max_records, len(asked), mu)
        charge(self.ledger, cost, (<tuple>receipt)[0])
        value = self._distances(asked, centres, nearest, cells)
        question = ((<tuple>receipt)[0], mu, asked, centres, nearest, cells)
        answer = <tuple>release_with_noise(self._noise, question, receipt, value)
        return new_tuple(Answer, (on_both_sides(answer[0], cells), answer[1], answer[2]))

    cdef object _distances(self, tuple columns, centres, nearest, tuple octaves):
        """Compute the exact cells in use, in records; few records are read once for all queries."""
        cdef tuple key = (columns, octaves, centres.tobytes(), nearest.tobytes())
        if self._measured is not None and self._measured[0] == key:  # the same at another price
            return self._measured[1]
        cdef cnp.npy_intp size = self.n_columns
        places = cnp.PyArray_ZEROS(1, &size, cnp.NPY_DOUBLE, 0)
        far = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
        sides = cnp.PyArray_EMPTY(1, &size, cnp.NPY_INT64, 0)
        cdef double *centre = <double *>cnp.PyArray_DATA(<cnp.ndarray>places)
        cdef double *near = <double *>cnp.PyArray_DATA(<cnp.ndarray>far)
        cdef int64_t *side = <int64_t *>cnp.PyArray_DATA(<cnp.ndarray>sides)
        cdef cnp.ndarray at = doubles(centres), distance = doubles(nearest)
        cdef Py_ssize_t i, column
        for i in range(self.n_columns):
            near[i], side[i] = INFINITY, SIDE  # nothing of this column
        for i, column in enumerate(columns):
            centre[column] = (<double *>cnp.PyArray_DATA(at))[i]
            near[column] = (<double *>cnp.PyArray_DATA(distance))[i]
            side[column] = octaves[i]
        if self._few:
            sums = self._turned().distances(places, far, sides)
        else:
            sums = self._records.total(distances_of_block, places, far, sides)
        value = cells_in_use(sums, columns, octaves)
        self._measured = key, value
        return value


cdef object cells_in_use(sums, tuple columns, tuple octaves):
    """Return the cells of these columns, one after the other; exact: whole numbers below 2^51."""
    cdef cnp.ndarray whole = contiguous(sums)
    cdef cnp.npy_intp size = 0
    cdef Py_ssize_t i, j, side, k, octave
    for k in octaves:
        size += 2 * k
    value = cnp.PyArray_EMPTY(1, &size, cnp.NPY_DOUBLE, 0)
    cdef double *cell = <double *>cnp.PyArray_DATA(<cnp.ndarray>value)
    cdef const double *sum_of = <const double *>cnp.PyArray_DATA(whole)
    for i, j in enumerate(columns):
        k = octaves[i]
        for side in range(2):
            for octave in range(k):
                cell[octave] = sum_of[(2 * j + side) * SIDE + octave] / WHOLE
            cell += k
    return value


cdef object on_both_sides(released, tuple octaves):
    """Return released cells as histograms of shape (columns, 2, SIDE), 0 where there are none."""
    cdef cnp.npy_intp[3] shape
    shape[0], shape[1], shape[2] = len(octaves), 2, SIDE
    histograms = cnp.PyArray_ZEROS(3, shape, cnp.NPY_DOUBLE, 0)
    cdef double *to = <double *>cnp.PyArray_DATA(<cnp.ndarray>histograms)
    cdef cnp.ndarray array = doubles(released)
    cdef const double *cell = <const double *>cnp.PyArray_DATA(array)
    cdef Py_ssize_t k, side
    for k in octaves:
        for side in range(2):
            memcpy(to, cell, k * sizeof(double))
            cell += k
            to += SIDE
    return histograms
