# Eigenvalues of small symmetric matrices: rotations, LAPACK beyond; part of linalg.pyx.

cdef void _symmetric_part(const double *A, Py_ssize_t p, double *S) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef double a, b
    for i in range(p):
        S[i * p + i] = A[i * p + i]
        for j in range(i + 1, p):
            a = A[i * p + j]
            b = A[j * p + i]
            if a != b:                      # also avoids 0.5 * subnormal for symmetric input
                a = 0.5 * a + 0.5 * b
            S[i * p + j] = a
            S[j * p + i] = a


cdef double _largest(const double *A, Py_ssize_t size) noexcept nogil:
    """Compute the largest absolute entry; NaN if any is NaN or infinite."""
    cdef Py_ssize_t i
    cdef double largest = 0.0, value
    for i in range(size):
        value = fabs(A[i])
        if not value <= DBL_MAX:
            return NAN
        if value > largest:
            largest = value
    return largest


@cython.cdivision(True)
cdef int _jacobi(double *A, Py_ssize_t p, double *values, double *vectors) noexcept nogil:
    """Diagonalise by cyclic Jacobi rotations the upper triangle of `A`, entries at most 1.

    Golub and Van Loan, section 8.5.  Quadratically convergent, so that the sweep after the
    off-diagonal norm passes 1e-9 brings it below rounding.
    """
    cdef Py_ssize_t i, j, k, sweep
    cdef double off, total, x, y, t, c, s
    memset(vectors, 0, p * p * sizeof(double))
    for i in range(p):
        vectors[i * p + i] = 1.0
    for sweep in range(MAX_SWEEPS):
        off = 0.0
        total = 0.0
        for i in range(p):
            total += A[i * p + i] * A[i * p + i]
            for j in range(i + 1, p):
                off += A[i * p + j] * A[i * p + j]
        # A relative off-diagonal norm of 2^-60 moves no eigenvalue by more than 2^-60 ||A||_F.
        if off <= 7.5231638452626401e-37 * (total + off):
            for i in range(p):
                values[i] = A[i * p + i]
            return 0
        for i in range(p - 1):
            for j in range(i + 1, p):
                x = A[i * p + j]
                # Rounding alone would turn the vectors of equal eigenvalues, anew on each processor.
                if fabs(x) <= 8.8817841970012523e-16 * (fabs(A[i * p + i]) + fabs(A[j * p + j])):
                    A[i * p + j] = 0.0
                    continue
                # tan of the smaller rotation angle; an overflowing square means t = 0, rightly.
                t = (A[j * p + j] - A[i * p + i]) / (2.0 * x)
                t = (1.0 if t >= 0.0 else -1.0) / (fabs(t) + sqrt(t * t + 1.0))
                c = 1.0 / sqrt(1.0 + t * t)
                s = t * c
                A[i * p + i] -= t * x
                A[j * p + j] += t * x
                A[i * p + j] = 0.0
                for k in range(i):
                    x = A[k * p + i]
                    y = A[k * p + j]
                    A[k * p + i] = c * x - s * y
                    A[k * p + j] = s * x + c * y
                for k in range(i + 1, j):
                    x = A[i * p + k]
                    y = A[k * p + j]
                    A[i * p + k] = c * x - s * y
                    A[k * p + j] = s * x + c * y
                for k in range(j + 1, p):
                    x = A[i * p + k]
                    y = A[j * p + k]
                    A[i * p + k] = c * x - s * y
                    A[j * p + k] = s * x + c * y
                for k in range(p):
                    x = vectors[i * p + k]
                    y = vectors[j * p + k]
                    vectors[i * p + k] = c * x - s * y
                    vectors[j * p + k] = s * x + c * y
    return 1


cdef void _sort_ascending(double *values, double *vectors, Py_ssize_t p) noexcept nogil:
    cdef Py_ssize_t i, j, k, smallest
    cdef double swap
    for i in range(p - 1):
        smallest = i
        for j in range(i + 1, p):
            if values[j] < values[smallest]:
                smallest = j
        if smallest != i:
            swap = values[i]
            values[i] = values[smallest]
            values[smallest] = swap
            for k in range(p):
                swap = vectors[i * p + k]
                vectors[i * p + k] = vectors[smallest * p + k]
                vectors[smallest * p + k] = swap


cdef int _lapack(double *vectors, Py_ssize_t p, double *values) noexcept nogil:
    """Call LAPACK's dsyevd in place: `vectors` holds the matrix on entry."""
    cdef int n = <int> p, info = 0
    cdef int lwork = 1 + 6 * n + 2 * n * n, liwork = 3 + 5 * n
    cdef double *work = <double *> malloc(lwork * sizeof(double) + liwork * sizeof(int))
    if work == NULL:
        return -1
    dsyevd(b"V", b"L", &n, vectors, &n, values, work, &lwork, <int *> (work + lwork),
           &liwork, &info)
    free(work)
    return info


cdef int _rotated(const double *S, Py_ssize_t p, double largest, double *values, double *vectors,
                  double *work) noexcept nogil:
    """Compute eigenvalues and vectors by rotations; entries are at most `largest`."""
    cdef Py_ssize_t i
    cdef int exponent
    cdef double unit
    # A power of two brings the entries to at most 1: no square overflows, nothing rounds.
    frexp(largest, &exponent)
    if exponent < -1000:
        exponent = -1000
    unit = ldexp(1.0, -exponent)
    for i in range(p * p):
        work[i] = S[i] * unit
    if _jacobi(work, p, values, vectors) != 0:
        return 1
    for i in range(p):
        values[i] = ldexp(values[i], exponent)
    _sort_ascending(values, vectors, p)
    return 0


cdef int symmetric_eigen(const double *A, Py_ssize_t p, double *values, double *vectors,
                         double *scratch) noexcept nogil:
    """Compute eigenvalues, ascending, and eigenvectors, as rows, of `A`'s symmetric part.

    `scratch` has room for p*p numbers and holds the symmetric part of `A` afterwards.
    Returns 0, or 1 where `A` is not finite (values and vectors are then NaN), or -1 (no memory).
    """
    cdef Py_ssize_t i
    cdef int status = 1
    cdef double largest = _largest(A, p * p)
    cdef double[JACOBI_MAX_P * JACOBI_MAX_P] few
    cdef double *many
    _symmetric_part(A, p, scratch)
    if largest == largest:
        if p <= JACOBI_MAX_P:
            status = _rotated(scratch, p, largest, values, vectors, few)
        if status > 0:
            memcpy(vectors, scratch, p * p * sizeof(double))
            status = _lapack(vectors, p, values)
        if status > 0 and p > JACOBI_MAX_P:
            # LAPACK gives up on some matrices whose entries span hundreds of orders of magnitude.
            many = <double *> malloc(p * p * sizeof(double))
            if many == NULL:
                return -1
            status = _rotated(scratch, p, largest, values, vectors, many)
            free(many)
    if status > 0:
        for i in range(p):
            values[i] = NAN
        for i in range(p * p):
            vectors[i] = NAN
    return status
