# Eigenvalues of a small symmetric matrix for other compiled modules.
#
# `values` has room for p numbers, `vectors` (eigenvectors as rows) and `scratch` for p * p;
# `scratch` holds the symmetric part of `A` afterwards.  Returns 0, 1 where `A` is not finite
# (values and vectors are then NaN) or -1 where memory ran out.
cdef int symmetric_eigen(const double *A, Py_ssize_t p, double *values, double *vectors,
                         double *scratch) noexcept nogil
