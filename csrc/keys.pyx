# cython: language_level=3, boundscheck=False, wraparound=False
"""Counts, distances and moments of columns, as integers, for releases of locations.

A double's *key* is its bit pattern as a 64-bit integer in numeric order: ``key(-x) = -key(x)``, both
zeros have key 0, and ``x <= y`` if and only if ``key(x) <= key(y)``.  A cell is an interval of
``2^shift`` keys, so that numbers of every magnitude are counted in one table without a range.

A record with a non-finite entry, in any column, is counted nowhere and adds nothing.  Everything is
a sum of integers: exact, whatever the order, the blocks and the machines (claims D1, D2 and D6 of
``dpfast/privacy/scaling/PROOFS-scaling.md``).  ``tests/twins/keys.py`` is the NumPy twin.
"""

from libc.float cimport DBL_MAX
from libc.math cimport fabs, rint
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

cimport numpy as cnp

import math

import numpy as np

cnp.import_array()

#: Cells of a window.
CELLS = 4096

#: A standardised entry is rounded to a multiple of ``1/UNIT``.
UNIT = 1 << 15

#: Most records whose sums of squares fit 64 bits.
MOST_RECORDS = 1 << 32

#: Cells of distances on either side of a centre.
OCTAVES = 100

#: Root of the sum of squares of what one record adds to the cells of a column, at most.
WHOLE = 1 << 19


def parts_of_an_octave():
    """Compute the parts of a distance ``1 + t/512`` in two cells, in WHOLE: shape (512, 2).

    The sum of these parts times 1 and times 4 is the squared distance, and the root of the sum of
    their squares is not above WHOLE, because the first is a root that is rounded down.
    """
    parts = np.empty((512, 2), dtype=np.int64)
    for t in range(512):
        squared = (1.0 + t / 512.0) ** 2
        above = math.floor(WHOLE * (4.0 * squared - math.sqrt(17.0 - squared * squared)) / 17.0)
        parts[t] = math.isqrt(WHOLE * WHOLE - above * above), above
    return parts


PARTS = parts_of_an_octave()
PARTS.flags.writeable = False

cdef extern from "keys/blocks.h":
    enum: WINDOW_CELLS, SIDE_OCTAVES, PART_OF_FAR, KEYS_PARTS, PACKED_ROWS
    int isa_of(const char *name)
    void turn_rows(int isa, const char *at, ptrdiff_t row, size_t m, size_t q,
                   double *block) noexcept nogil
    void usable_records(int isa, double *block, size_t m, size_t columns,
                        int64_t *complete) noexcept nogil
    void count_in_window(int isa, const double *x, const int64_t *complete, size_t m, int64_t first,
                         int shift, uint32_t *counts, size_t tables) noexcept nogil
    int64_t count_below(int isa, const double *x, size_t m, double limit) noexcept nogil
    void add_distances(int isa, const double *x, size_t m, double centre, double nearest,
                       int32_t octaves, const uint64_t *packed, uint64_t *sums) noexcept nogil
    void unpack_distances(uint64_t *sums, size_t octaves, int64_t *cells) noexcept nogil

#: Two parts in one number, the second in its upper half: a column's sums of 4,096 rows fit 32 bits.
PACKED = np.zeros(KEYS_PARTS, dtype=np.uint64)
PACKED[:512] = PARTS[:, 0] | PARTS[:, 1] << 32
PACKED[PART_OF_FAR] = WHOLE
cdef const uint64_t[::1] PACKED_PARTS = PACKED

cdef int ISA = isa_of(b"")
cdef int64_t INFINITE_KEY = (<int64_t>2047) << 52

cdef enum:
    ROWS = 128
    TABLES = 4
    MANY = 64
    SEVERAL = 16384

ctypedef fused floating:
    float
    double


cdef inline int64_t key_of(double x) noexcept nogil:
    cdef int64_t bits, negative
    memcpy(&bits, &x, sizeof(double))
    negative = bits >> 63  # no branch: signs are hard to foretell
    return ((bits & INT64_MAX) ^ negative) - negative


cdef int64_t key(double x) noexcept nogil:
    return key_of(x)


cdef inline double value_of(int64_t key) noexcept nogil:
    """Return the double that has this key."""
    cdef int64_t bits = key if key >= 0 else -key | ~INT64_MAX
    cdef double x
    memcpy(&x, &bits, sizeof(double))
    return x


cdef void count_keys(const double *x, Py_ssize_t n, Py_ssize_t step_bytes, int64_t first, int shift,
                     int64_t *counts, Py_ssize_t cells) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t entry_key
    cdef uint64_t cell
    cdef double entry
    for i in range(n):
        memcpy(&entry, <const char *>x + i * step_bytes, sizeof(double))
        entry_key = key_of(entry)
        cell = (<uint64_t>entry_key - <uint64_t>first) >> shift
        if fabs(entry) <= DBL_MAX and entry_key >= first and cell < <uint64_t>cells:
            counts[cell] += 1


cdef void load(const floating[:, :] X, const double[:] y, Py_ssize_t start, Py_ssize_t m,
               double *block) noexcept nogil:
    """Copy m records column by column, so that vectors of records are processed together.

    By memcpy, because a column may lie anywhere: a field of packed records is not aligned.
    """
    cdef Py_ssize_t i, j, q = X.shape[1], row = X.strides[0], column = X.strides[1]
    cdef const char *at = <const char *>&X[0, 0] + start * row if q else NULL
    cdef floating entry
    if (row if row >= 0 else -row) < (column if column >= 0 else -column):
        for j in range(q):
            for i in range(m):
                memcpy(&entry, at + i * row + j * column, sizeof(floating))
                block[j * ROWS + i] = <double>entry
    elif floating is double and column == sizeof(double):
        turn_rows(ISA, at, row, m, q, block)
    else:
        for i in range(m):
            for j in range(q):
                memcpy(&entry, at + i * row + j * column, sizeof(floating))
                block[j * ROWS + i] = <double>entry
    for i in range(m):
        memcpy(block + q * ROWS + i, <const char *>&y[start + i], sizeof(double))


def key_cells(const floating[:, :] X, y, const int64_t[::1] columns,
              const int64_t[::1] starts, const int64_t[::1] shifts):
    """Count the entries before each cell of some windows, and all; (windows, CELLS + 1).

    Parameters
    ----------
    X : ndarray of shape (n, q), float64 or float32
    y : ndarray of shape (n,) or (n, 3)
        Column q, without weights and offsets: where columns lie records all count alike.
    columns, starts, shifts : int64 arrays of shape (windows,)
        Window w counts column ``columns[w]`` in CELLS cells of ``2^shifts[w]`` keys, the first of
        which begins at key ``starts[w]``.
    """
    cdef const double[:] responses = y if y.ndim == 1 else y[:, 0]
    cdef Py_ssize_t w, start, m, t, cell, n = responses.shape[0], q = X.shape[1]
    cdef int64_t total
    # several tables, so that an entry need not wait for the one before to be counted
    cdef Py_ssize_t tables = TABLES if columns.shape[0] <= MANY and n >= SEVERAL else 1
    counts = np.zeros((columns.shape[0], tables, WINDOW_CELLS + 1), dtype=np.uint32)
    cdef uint32_t[:, :, ::1] table = counts
    cdef double[::1] block = np.empty((q + 1) * ROWS)
    cdef int64_t complete[ROWS]
    below = np.empty((columns.shape[0], CELLS + 1), dtype=np.int64)
    cdef int64_t[:, ::1] before_cell = below
    with nogil:
        for start from 0 <= start < n by ROWS:
            m = min(n - start, ROWS)
            load(X, responses, start, m, &block[0])
            usable_records(ISA, &block[0], m, q + 1, complete)
            for w in range(columns.shape[0]):
                count_in_window(ISA, &block[columns[w] * ROWS], complete, m, starts[w],
                                <int>shifts[w], &table[w, 0, 0], tables)
        for w in range(columns.shape[0]):
            before_cell[w, 0] = total = 0
            for cell in range(WINDOW_CELLS):
                for t in range(tables):
                    total += table[w, t, cell]
                before_cell[w, cell + 1] = total
    return below


def distances(const floating[:, :] X, y, const double[::1] centres,
              const double[::1] nearest, const int64_t[::1] octaves):
    """Histogram the distances from centres, by side, in octaves; shape (q + 1, 2, OCTAVES).

    An entry at the distance ``2^e (1 + t/512)``, its mantissa cut to 9 bits, adds the two numbers
    ``PARTS[t]`` to cells e and e + 1.  One that is not farther away than the nearest adds nothing,
    and one in the last octave of its column, or beyond, adds ``WHOLE`` to the last cell.

    Parameters
    ----------
    X : ndarray of shape (n, q), float64 or float32
    y : ndarray of shape (n,) or (n, 3)
        Column q, without weights and offsets: where columns lie records all count alike.
    centres : ndarray of shape (q + 1,)
        Finite.
    nearest : ndarray of shape (q + 1,)
        At least ``2^-1022``; the first cell is the octave it is in.  Infinite: nothing of this
        column.
    octaves : int64 array of shape (q + 1,)
        Cells of each column on a side, from 2 to OCTAVES.

    Returns
    -------
    ndarray
        Above the centre first, then below it.  Cells beyond those of a column are zero.
    """
    cdef const double[:] responses = y if y.ndim == 1 else y[:, 0]
    cdef Py_ssize_t start, m, j, n = responses.shape[0], q = X.shape[1], packed = 0
    check_distances(centres, nearest, octaves, q)
    sums = np.zeros((q + 1, 2, OCTAVES), dtype=np.int64)
    cdef int64_t[:, :, ::1] cells = sums
    cdef uint64_t[:, ::1] table = np.zeros((q + 1, 4 * 2 * OCTAVES), dtype=np.uint64)
    cdef double[::1] block = np.empty((q + 1) * ROWS)
    cdef int64_t complete[ROWS]
    with nogil:
        for start from 0 <= start < n by ROWS:
            m = min(n - start, ROWS)
            packed += m
            load(X, responses, start, m, &block[0])
            usable_records(ISA, &block[0], m, q + 1, complete)
            for j in range(q + 1):
                if nearest[j] > DBL_MAX:
                    continue
                add_distances(ISA, &block[j * ROWS], m, centres[j], nearest[j],
                              <int32_t>octaves[j], &PACKED_PARTS[0], &table[j, 0])
                if packed > PACKED_ROWS or start + m == n:  # before they overflow
                    unpack_distances(&table[j, 0], octaves[j], &cells[j, 0, 0])
            packed = 0 if packed > PACKED_ROWS else packed
    return sums


cdef int check_distances(const double[::1] centres, const double[::1] nearest,
                         const int64_t[::1] octaves, Py_ssize_t q) except -1:
    cdef Py_ssize_t j
    if not centres.shape[0] == nearest.shape[0] == octaves.shape[0] == q + 1:
        raise ValueError("each column and the response have a centre, and octaves")
    for j in range(q + 1):
        if not 2 <= octaves[j] <= SIDE_OCTAVES:
            raise ValueError(f"a column has 2 to {OCTAVES} octaves on a side.")
    return 0


cdef class TurnedRecords:
    """Columns of some records in memory, for many queries: turned and checked for gaps once.

    Parameters
    ----------
    X : ndarray of shape (n, q), float64 or float32
    y : ndarray of shape (n,) or (n, 3)
        Column q, without weights and offsets: where columns lie records all count alike.
    """

    cdef Py_ssize_t n, q
    cdef double[:, ::1] blocks
    #: Number of complete records.
    cdef readonly int64_t n_complete

    def __init__(self, X, y):
        self.n, self.q, self.n_complete = X.shape[0], X.shape[1], 0
        cdef Py_ssize_t count = (self.n + ROWS - 1) // ROWS
        self.blocks = np.empty((count, (self.q + 1) * ROWS))
        if X.dtype == np.float32:
            self.turn[float](X, y if y.ndim == 1 else y[:, 0])
        else:
            self.turn[double](X, y if y.ndim == 1 else y[:, 0])

    def __reduce__(self):
        raise TypeError("records are not copied: turned ones cannot be pickled")

    cdef int turn(self, const floating[:, :] X, const double[:] responses) except -1:
        cdef Py_ssize_t start, m, i
        cdef double *block
        cdef int64_t complete[ROWS]
        with nogil:
            for start from 0 <= start < self.n by ROWS:
                m = min(self.n - start, ROWS)
                block = &self.blocks[start // ROWS, 0]
                load(X, responses, start, m, block)
                usable_records(ISA, block, m, self.q + 1, complete)
                for i in range(m):
                    self.n_complete += complete[i]
        return 0

    def below(self, thresholds):
        """Count complete records with a key below each of some (column, key); a list.

        The counts are those of :func:`key_cells`.  A key is that of a number or of an infinity.
        """
        cdef Py_ssize_t start
        cdef int64_t column, key, count
        cdef double limit
        cdef list counts = []
        for column, key in thresholds:
            if not (-INFINITE_KEY <= key <= INFINITE_KEY and 0 <= column <= self.q):
                raise ValueError("a threshold is the key of a number or infinity, in a column")
            limit, count = value_of(key), 0
            for start from 0 <= start < self.n by ROWS:
                count += count_below(ISA, &self.blocks[start // ROWS, column * ROWS],
                                     min(self.n - start, ROWS), limit)
            counts.append(count)
        return counts

    def distances(self, const double[::1] centres, const double[::1] nearest,
                  const int64_t[::1] octaves):
        """Histogram the distances from centres, as :func:`distances` does."""
        check_distances(centres, nearest, octaves, self.q)
        cdef Py_ssize_t start, j
        sums = np.zeros((self.q + 1, 2, OCTAVES), dtype=np.int64)
        cdef int64_t[:, :, ::1] cells = sums
        cdef uint64_t[4 * 2 * SIDE_OCTAVES] table
        with nogil:
            memset(table, 0, sizeof(table))
            for j in range(self.q + 1):
                if nearest[j] > DBL_MAX:
                    continue
                for start from 0 <= start < self.n by ROWS:
                    add_distances(ISA, &self.blocks[start // ROWS, j * ROWS],
                                  min(self.n - start, ROWS), centres[j], nearest[j],
                                  <int32_t>octaves[j], &PACKED_PARTS[0], table)
                    if start % PACKED_ROWS + ROWS >= PACKED_ROWS or start + ROWS >= self.n:
                        unpack_distances(table, octaves[j], &cells[j, 0, 0])  # or they overflow
        return sums


def moments(const floating[:, :] X, y, const double[::1] middles,
            const double[::1] halves):
    """Sum clipped entries and their squares, shape (2, q + 1), in whole numbers.

    The entry ``clip((x - middle)/half, -1, 1)`` is rounded to a multiple k of ``1/UNIT``; the sums are
    of k and of ``k^2``.

    Parameters
    ----------
    X : ndarray of shape (n, q), float64 or float32
    y : ndarray of shape (n,) or (n, 3)
        Column q, without weights and offsets: where columns lie records all count alike.
    middles, halves : ndarray of shape (q + 1,)
        Finite; halves are positive.
    """
    cdef const double[:] responses = y if y.ndim == 1 else y[:, 0]
    sums = np.zeros((2, X.shape[1] + 1), dtype=np.int64)
    cdef int64_t[:, ::1] table = sums
    cdef Py_ssize_t i, j, start, m, n = responses.shape[0], q = X.shape[1]
    cdef double[::1] block = np.empty((q + 1) * ROWS)
    cdef int64_t k, first, second
    cdef double u, middle, half
    cdef int64_t complete[ROWS]
    cdef const double *x
    with nogil:
        for start from 0 <= start < n by ROWS:
            m = min(n - start, ROWS)
            load(X, responses, start, m, &block[0])
            usable_records(ISA, &block[0], m, q + 1, complete)
            for j in range(q + 1):
                first = second = 0
                middle, half, x = middles[j], halves[j], &block[j * ROWS]
                for i in range(m):
                    u = (x[i] - middle) / half
                    u = u if u >= -1.0 else -1.0  # NaN of an incomplete record, too
                    u = u if u <= 1.0 else 1.0
                    k = <int64_t>rint(u * 32768.0) * complete[i]
                    first += k
                    second += k * k
                table[0, j] += first
                table[1, j] += second
    return sums
