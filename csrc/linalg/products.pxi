# Products and solves of small symmetric matrices: loops, BLAS beyond; part of linalg.pyx.

cdef void _sum_of_squares(double *rows, Py_ssize_t p, double *out) noexcept nogil:
    """Compute out = sum_k rows[k] rows[k]', exactly symmetric."""
    cdef Py_ssize_t i, j, k
    cdef double factor, one = 1.0, zero = 0.0
    cdef int n = <int> p
    if p <= LOOP_MAX_P:
        memset(out, 0, p * p * sizeof(double))
        for k in range(p):
            for i in range(p):
                factor = rows[k * p + i]
                for j in range(i, p):
                    out[i * p + j] += factor * rows[k * p + j]
    else:
        # Column-major: the columns of B are our rows; its lower triangle is our upper one.
        dsyrk(b"L", b"N", &n, &n, &one, rows, &n, &zero, out, &n)
    for i in range(p):
        for j in range(i + 1, p):
            out[j * p + i] = out[i * p + j]


cdef void _product(const double *A, const double *B, Py_ssize_t p, double *out) noexcept nogil:
    """Compute out = A B."""
    cdef Py_ssize_t i, j, k
    cdef double factor, one = 1.0, zero = 0.0
    cdef int n = <int> p
    if p <= LOOP_MAX_P:
        memset(out, 0, p * p * sizeof(double))
        for i in range(p):
            for k in range(p):
                factor = A[i * p + k]
                for j in range(p):
                    out[i * p + j] += factor * B[k * p + j]
    else:
        # In the column-major eyes of BLAS all three are transposed: out' = B' A'.
        dgemm(b"N", b"N", &n, &n, &n, &one, <double *> B, &n, <double *> A, &n, &zero, out, &n)


cdef void _congruence(const double *A, const double *S, Py_ssize_t p, double *scratch,
                      double *out) noexcept nogil:
    """Compute out = A S A' for a symmetric S, exactly symmetric; `scratch` has p*p numbers.

    `out` may be `S`.
    """
    cdef Py_ssize_t i, j, k
    cdef double total, one = 1.0, zero = 0.0
    cdef int n = <int> p
    _product(A, S, p, scratch)
    if p <= LOOP_MAX_P:
        for i in range(p):
            for j in range(i, p):
                total = 0.0
                for k in range(p):
                    total += scratch[i * p + k] * A[j * p + k]
                out[i * p + j] = total
    else:
        dgemm(b"T", b"N", &n, &n, &n, &one, <double *> A, &n, scratch, &n, &zero, out, &n)
    for i in range(p):
        for j in range(i + 1, p):
            out[j * p + i] = out[i * p + j]


cdef Py_ssize_t _count_floored(const double *values, Py_ssize_t p, double floor) noexcept nogil:
    """Count the eigenvalues that are not at least `floor`, NaN included."""
    cdef Py_ssize_t i, count = 0
    for i in range(p):
        if not values[i] >= floor:
            count += 1
    return count


cdef inline double _floored(double value, double floor) noexcept nogil:
    """Compute max(value, floor); NaN stays NaN."""
    return floor if value < floor else value


cdef void _solve(const double *vectors, const double *values, const double *b, Py_ssize_t p,
                 double *x) noexcept nogil:
    """Solve: x = sum_k v_k (v_k'b) / values[k], the eigenvectors in rows."""
    cdef Py_ssize_t i, k
    cdef double coefficient
    memset(x, 0, p * sizeof(double))
    for k in range(p):
        coefficient = 0.0
        for i in range(p):
            coefficient += vectors[k * p + i] * b[i]
        coefficient /= values[k]
        for i in range(p):
            x[i] += coefficient * vectors[k * p + i]


# ---- for other compiled modules; documented in dpfast/kernels/linalg.pxd -----------------------

cdef void multiply(const double *A, const double *B, Py_ssize_t p, double *out) noexcept nogil:
    _product(A, B, p, out)


cdef void multiply_by_blas(const double *A, const double *B, Py_ssize_t p,
                           double *out) noexcept nogil:
    cdef int n = <int> p
    cdef double one = 1.0, zero = 0.0
    dgemm(b"N", b"N", &n, &n, &n, &one, <double *> B, &n, <double *> A, &n, &zero, out, &n)


cdef int solve_rows(const double *A, Py_ssize_t p, double *rows, double *memory) noexcept nogil:
    cdef int n = <int> p, info = 0
    cdef int *pivots = <int *> (memory + p * p)
    cdef Py_ssize_t i, j
    for i in range(p):  # BLAS sees the transpose
        for j in range(p):
            memory[j * p + i] = A[i * p + j]
    dgesv(&n, &n, memory, &n, pivots, rows, &n, &info)
    return info > 0


cdef void congruent(const double *A, const double *S, Py_ssize_t p, double *scratch,
                    double *out) noexcept nogil:
    _congruence(A, S, p, scratch, out)


cdef double inner(const double *a, const double *b, Py_ssize_t p, Py_ssize_t step) noexcept nogil:
    cdef int n = <int> p, apart = <int> step
    return ddot(&n, <double *> a, &apart, <double *> b, &apart)


cdef void apply(const double *A, bint transposed, const double *x, Py_ssize_t p,
                double *out) noexcept nogil:
    cdef int n = <int> p, step = 1
    cdef double one = 1.0, zero = 0.0
    # BLAS sees the transpose
    dgemv(b"N" if transposed else b"T", &n, &n, &one, <double *> A, &n, <double *> x, &step, &zero,
          out, &step)


cdef int solve_in_place(double *A, Py_ssize_t p, double *b) noexcept nogil:
    cdef int n = <int> p, one = 1, info = 0
    cdef int *pivots
    cdef Py_ssize_t i, j
    cdef double swap
    if p <= LOOP_MAX_P:
        return _eliminate(A, p, b)
    pivots = <int *> malloc(p * sizeof(int))
    if pivots == NULL:
        return -1
    for i in range(p):  # BLAS sees the transpose
        for j in range(i + 1, p):
            swap = A[i * p + j]
            A[i * p + j] = A[j * p + i]
            A[j * p + i] = swap
    dgesv(&n, &one, A, &n, pivots, b, &n, &info)
    free(pivots)
    return info > 0


cdef int _eliminate(double *A, Py_ssize_t p, double *b) noexcept nogil:
    """Solve by Gaussian elimination with partial pivoting; return 1 if a pivot is zero."""
    cdef Py_ssize_t i, j, k, best
    cdef double factor, swap
    for k in range(p):
        best = k
        for i in range(k + 1, p):
            if fabs(A[i * p + k]) > fabs(A[best * p + k]):
                best = i
        if A[best * p + k] == 0.0:
            return 1
        if best != k:
            for j in range(k, p):
                swap = A[k * p + j]
                A[k * p + j] = A[best * p + j]
                A[best * p + j] = swap
            swap = b[k]
            b[k] = b[best]
            b[best] = swap
        for i in range(k + 1, p):
            factor = A[i * p + k] / A[k * p + k]
            for j in range(k + 1, p):
                A[i * p + j] -= factor * A[k * p + j]
            b[i] -= factor * b[k]
    for i in range(p - 1, -1, -1):
        for j in range(i + 1, p):
            b[i] -= A[i * p + j] * b[j]
        b[i] /= A[i * p + i]
    return 0
