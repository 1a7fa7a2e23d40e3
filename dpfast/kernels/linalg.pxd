# Eigenvalues of a small symmetric matrix for other compiled modules.
#
# `values` has room for p numbers, `vectors` (eigenvectors as rows) and `scratch` for p * p;
# `scratch` holds the symmetric part of `A` afterwards.  Returns 0, 1 where `A` is not finite
# (values and vectors are then NaN) or -1 where memory ran out.
cdef int symmetric_eigen(const double *A, Py_ssize_t p, double *values, double *vectors,
                         double *scratch) noexcept nogil

# `out = A B` of square matrices, which do not overlap.
cdef void multiply(const double *A, const double *B, Py_ssize_t p, double *out) noexcept nogil

# `out = A S A'` of a symmetric S, exactly symmetric; `scratch` has p * p numbers, `out` may be `S`.
cdef void congruent(const double *A, const double *S, Py_ssize_t p, double *scratch,
                    double *out) noexcept nogil

# Solves `A x = b`; x replaces b, and A is overwritten.  Returns 0, 1 where A is exactly singular or
# -1 where memory ran out.
cdef int solve_in_place(double *A, Py_ssize_t p, double *b) noexcept nogil

# Products with BLAS, whatever their size: their bits are those of NumPy's `@`.  Entries of a and of
# b are `step` apart.
cdef double inner(const double *a, const double *b, Py_ssize_t p, Py_ssize_t step) noexcept nogil

# `out = A x`, or `A' x`, which does not overlap with x.
cdef void apply(const double *A, bint transposed, const double *x, Py_ssize_t p,
                double *out) noexcept nogil

# `out = A B` of square matrices, likewise.
cdef void multiply_by_blas(const double *A, const double *B, Py_ssize_t p,
                           double *out) noexcept nogil

# Solves `A x = b` by LAPACK for p right-hand sides, the rows of a matrix, which the solutions
# replace; `memory` has p * p + p numbers.  Returns 0, or 1 where A is exactly singular.
cdef int solve_rows(const double *A, Py_ssize_t p, double *rows, double *memory) noexcept nogil
