# Keys of doubles for other compiled modules: their bit patterns as integers in numeric order.
#
# All can be called without the GIL, from several threads at once.  Nothing here knows of budgets or
# noise: COUNTS ARE EXACT AND NOT PRIVATE.
from libc.stdint cimport int64_t

# `key(-x) = -key(x)`, both zeros have key 0, and x <= y if and only if key(x) <= key(y).
cdef int64_t key(double x) noexcept nogil

# Add the n numbers at `x`, `step_bytes` bytes apart, to the cells of a window: cell i has the keys
# from `first + i 2^shift` on, below `first + (i + 1) 2^shift`.  Numbers that are not finite, or in
# none of the cells, are not counted.  0 <= shift < 63.
cdef void count_keys(const double *x, Py_ssize_t n, Py_ssize_t step_bytes, int64_t first, int shift,
                     int64_t *counts, Py_ssize_t cells) noexcept nogil
