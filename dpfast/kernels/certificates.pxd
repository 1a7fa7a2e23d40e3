# Certificates of a public recursion for other compiled modules: functions of public constants and of
# one number (claims R12 and R13 of dpfast/privacy/release/PROOFS-release.md).
#
# No records, no budgets; all can be called without the GIL, from several threads at once.
from libc.stdint cimport int64_t

# Nodes of the table of a recursion, for numbers up to `largest`; the constants are those of
# dpfast.kernels.certificates.RecursionTable.  Zero where it would refuse them.
cdef Py_ssize_t table_size(int kind, double a, double k, double g, double ridge, double threshold,
                           double largest, double eta, double growth) noexcept nogil

# Fill a table of 5 * size doubles; 0, or another number where a step is not finite.
cdef int fill_table(int kind, double a, double k, double g, double ridge, double threshold,
                    double largest, double eta, double growth, Py_ssize_t size,
                    double *table) noexcept nogil

# Of a filled table: a count of sensitivity one, and a number whose count is at most this.
cdef int64_t table_count(const double *table, Py_ssize_t size, double x) noexcept nogil
cdef double table_inverse(const double *table, Py_ssize_t size, int64_t count) noexcept nogil
