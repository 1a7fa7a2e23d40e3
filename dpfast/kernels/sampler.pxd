# Noise on public grids for other compiled modules.
#
# A release is private only if its noise is of a source that nobody else has seen, on a grid that was
# chosen before (claim C16 of dpfast/privacy/PROOFS.md), and if a ledger was charged for it.
from libc.stdint cimport int64_t

# `floor(2^bits Z)` of `size` independent exactly normal Z, 1 <= bits <= 44, of the operating
# system's bytes in this thread's own page; without the GIL.  -1 with an exception set where the
# system has no bytes.
cdef int entropy_normals(int64_t *out, Py_ssize_t size, int bits) except -1 nogil

# Integers with probabilities in proportion to exp(-|j| numerator/denominator), likewise; the two
# are in [1, 2^62), their ratio at least 2^-40.
cdef int entropy_laplace(int64_t *out, Py_ssize_t size, int64_t numerator,
                         int64_t denominator) except -1 nogil

# The same of the bytes of an ExactSampler, which may come from Python: needs the GIL.
cdef int exact_normals(object sampler, int64_t *out, Py_ssize_t size, int bits) except -1
cdef int exact_laplace(object sampler, int64_t *out, Py_ssize_t size, int64_t numerator,
                       int64_t denominator) except -1

# `out[i] = grid (nearest(value[i] / grid) + noise[i])` without the GIL; ties to even, saturating.
cdef void add_noise(const double *value, const int64_t *noise, double *out, Py_ssize_t size,
                    double grid) noexcept nogil

# ---- of our own query session; these may change ------------------------------------------------

# A vector of p values, or a symmetric matrix of p rows with a grid off its diagonal.
cdef struct noisy_part:
    double *values
    Py_ssize_t p
    int bits  # of the grid
    double grid
    double grid_off  # 0 of a vector

# Replaces values by their release, in place: noise of one draw from a source of dpfast.privacy, as
# `dpfast.privacy.mechanisms.release_together` adds it.  Needs the GIL.
cdef int release_in_place(object source, noisy_part *parts, int n_parts) except -1
