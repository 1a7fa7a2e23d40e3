# Noise on public grids for other compiled modules.
#
# A release is private only if its noise is of a source that nobody else has seen, on a grid that was
# chosen before (claim C16 of dpfast/privacy/PROOFS.md), and if a ledger was charged for it.
from libc.stdint cimport int64_t

# `floor(2^bits Z)` of `size` independent exactly normal Z, of the bytes of an ExactSampler.  Needs
# the GIL, because bytes come from Python; -1 with an exception set where they do not.
cdef int exact_normals(object sampler, int64_t *out, Py_ssize_t size, int bits) except -1

# Integers with probabilities in proportion to exp(-|j| numerator/denominator), likewise.
cdef int exact_laplace(object sampler, int64_t *out, Py_ssize_t size, int64_t numerator,
                       int64_t denominator) except -1

# `out[i] = grid (nearest(value[i] / grid) + noise[i])` without the GIL; ties to even, saturating.
cdef void add_noise(const double *value, const int64_t *noise, double *out, Py_ssize_t size,
                    double grid) noexcept nogil
