/* Products and triangular systems with few right-hand sides, on matrices of a few hundred rows.
 *
 * Included once per instruction set by acquisition_impl.h; needs LANES and TILE_ROWS.
 *
 * Written here, not taken from a BLAS, for three reasons: a BLAS spends longer on dispatch and
 * packing than on sixteen columns; it starts threads, which inside a caller's threads costs more
 * than it gains; and the order of its sums depends on the machine.  Here each entry of U is one sum
 * in index order, so a factor that grew point by point equals, to the last bit, the one computed at
 * once.
 *
 * A tile of TILE_ROWS x 3 vectors is held in registers.  `a` is read one number at a time with
 * any two strides (so that no operand is ever transposed), `B` in whole vectors.
 */

#include "vectors.h"

#define TILE_VECTORS 3

static INLINE double vsum(vd a)
{
    double sum = a[0];
    UNROLL for (int i = 1; i < LANES; i++)
        sum += a[i];
    return sum;
}

static INLINE size_t whole(size_t n) { return (n + L - 1) / L * L; }

/* Run F(rows, vectors, ...) with both numbers constant, so that the tile stays in registers. */
#if TILE_ROWS == 8
#define TALL(F, ...)                                                                            \
    case 8 * 4 + 1: F(8, 1, __VA_ARGS__); break;                                                \
    case 8 * 4 + 2: F(8, 2, __VA_ARGS__); break;                                                \
    case 8 * 4 + 3: F(8, 3, __VA_ARGS__); break;
#else
#define TALL(F, ...)
#endif
#define DISPATCH(rows, vectors, F, ...)                                                         \
    switch ((rows) * 4 + (vectors)) {                                                           \
        TALL(F, __VA_ARGS__)                                                                    \
    case 4 * 4 + 1: F(4, 1, __VA_ARGS__); break;                                                \
    case 4 * 4 + 2: F(4, 2, __VA_ARGS__); break;                                                \
    case 4 * 4 + 3: F(4, 3, __VA_ARGS__); break;                                                \
    case 2 * 4 + 1: F(2, 1, __VA_ARGS__); break;                                                \
    case 2 * 4 + 2: F(2, 2, __VA_ARGS__); break;                                                \
    case 2 * 4 + 3: F(2, 3, __VA_ARGS__); break;                                                \
    case 1 * 4 + 1: F(1, 1, __VA_ARGS__); break;                                                \
    case 1 * 4 + 2: F(1, 2, __VA_ARGS__); break;                                                \
    case 1 * 4 + 3: F(1, 3, __VA_ARGS__); break;                                                \
    }

static INLINE size_t tile_rows(size_t left)
{
    size_t rows = TILE_ROWS;
    while (rows > left)
        rows /= 2;
    return rows;
}

static INLINE size_t tile_vectors(size_t columns)
{
    size_t vectors = whole(columns) / L;
    return vectors < TILE_VECTORS ? vectors : TILE_VECTORS;
}

/* ------------------------------------------------------------------ products --------------- */

static INLINE void product_tile(const int R, const int NV, const int subtract, size_t K,
                                const double *a, size_t ra, size_t ka, const double *B, size_t ldb,
                                double *C, size_t ldc)
{
    vd acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            acc[r][v] = subtract ? vload(C + r * ldc + v * L) : vset(0.0);
    for (size_t k = 0; k < K; k++) {
        vd b[TILE_VECTORS];
        UNROLL for (int v = 0; v < NV; v++)
            b[v] = vload(B + k * ldb + v * L);
        UNROLL for (int r = 0; r < R; r++) {
            vd x = vset(a[r * ra + k * ka]);
            UNROLL for (int v = 0; v < NV; v++) {
                if (subtract)
                    acc[r][v] -= x * b[v];
                else
                    acc[r][v] += x * b[v];
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            vstore(C + r * ldc + v * L, acc[r][v]);
}

/* C = A B, or C -= A B; A(i, k) = a[i ra + k ka], B (K, N), C (M, N), N in whole vectors.  With
 * `upper` the tiles below the diagonal are left out. */
#define PRODUCT(SUBTRACT)                                                                       \
    for (size_t n = 0; n < N; n += TILE_VECTORS * L) {                                          \
        size_t vectors = tile_vectors(N - n);                                                   \
        for (size_t i = 0, rows; i < M; i += rows) {                                            \
            rows = tile_rows(M - i);                                                            \
            if (upper && n + vectors * L <= i)                                                  \
                break;                                                                          \
            DISPATCH(rows, vectors, product_tile, SUBTRACT, K, a + i * ra, ra, ka, B + n, ldb,  \
                     C + i * ldc + n, ldc)                                                      \
        }                                                                                       \
    }

static void multiply(size_t M, size_t N, size_t K, const double *a, size_t ra, size_t ka,
                     const double *B, size_t ldb, double *C, size_t ldc)
{
    const int upper = 0;
    PRODUCT(0)
}

static void subtract_product(size_t M, size_t N, size_t K, const double *a, size_t ra, size_t ka,
                             const double *B, size_t ldb, double *C, size_t ldc, int upper)
{
    PRODUCT(1)
}

/* ------------------------------------------------------------------ triangular systems ----- */

/* Rows i to i + R of U'X = C, in place; the rows above are solved. */
static INLINE void forward_tile(const int R, const int NV, size_t i, const double *U, size_t ldu,
                                const double *inverse_diagonal, double *C, size_t ldc)
{
    vd acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            acc[r][v] = vload(C + (i + r) * ldc + v * L);
    for (size_t k = 0; k < i; k++) {
        vd b[TILE_VECTORS];
        UNROLL for (int v = 0; v < NV; v++)
            b[v] = vload(C + k * ldc + v * L);
        UNROLL for (int r = 0; r < R; r++) {
            vd x = vset(U[k * ldu + i + r]);
            UNROLL for (int v = 0; v < NV; v++)
                acc[r][v] -= x * b[v];
        }
    }
    UNROLL for (int r = 0; r < R; r++) {
        UNROLL for (int s = 0; s < r; s++) {
            vd x = vset(U[(i + s) * ldu + i + r]);
            UNROLL for (int v = 0; v < NV; v++)
                acc[r][v] -= x * acc[s][v];
        }
        UNROLL for (int v = 0; v < NV; v++) {
            acc[r][v] *= vset(inverse_diagonal[i + r]);
            vstore(C + (i + r) * ldc + v * L, acc[r][v]);
        }
    }
}

static void solve_forward(size_t m, const double *U, size_t ldu, const double *inverse_diagonal,
                          double *C, size_t N, size_t ldc)
{
    for (size_t n = 0; n < N; n += TILE_VECTORS * L) {
        size_t vectors = tile_vectors(N - n);
        for (size_t i = 0, rows; i < m; i += rows) {
            rows = tile_rows(m - i);
            DISPATCH(rows, vectors, forward_tile, i, U, ldu, inverse_diagonal, C + n, ldc)
        }
    }
}

/* Rows i to i + R of UX = C, in place; the rows below are solved. */
static INLINE void backward_tile(const int R, const int NV, size_t i, size_t m, const double *U,
                                 size_t ldu, const double *inverse_diagonal, double *C, size_t ldc)
{
    vd acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            acc[r][v] = vload(C + (i + r) * ldc + v * L);
    for (size_t k = i + R; k < m; k++) {
        vd b[TILE_VECTORS];
        UNROLL for (int v = 0; v < NV; v++)
            b[v] = vload(C + k * ldc + v * L);
        UNROLL for (int r = 0; r < R; r++) {
            vd x = vset(U[(i + r) * ldu + k]);
            UNROLL for (int v = 0; v < NV; v++)
                acc[r][v] -= x * b[v];
        }
    }
    UNROLL for (int r = R - 1; r >= 0; r--) {
        UNROLL for (int s = r + 1; s < R; s++) {
            vd x = vset(U[(i + r) * ldu + i + s]);
            UNROLL for (int v = 0; v < NV; v++)
                acc[r][v] -= x * acc[s][v];
        }
        UNROLL for (int v = 0; v < NV; v++) {
            acc[r][v] *= vset(inverse_diagonal[i + r]);
            vstore(C + (i + r) * ldc + v * L, acc[r][v]);
        }
    }
}

static void solve_backward(size_t m, const double *U, size_t ldu, const double *inverse_diagonal,
                           double *C, size_t N, size_t ldc)
{
    for (size_t n = 0; n < N; n += TILE_VECTORS * L) {
        size_t vectors = tile_vectors(N - n);
        for (size_t end = m, rows; end > 0; end -= rows) {
            rows = tile_rows(end);
            DISPATCH(rows, vectors, backward_tile, end - rows, m, U, ldu, inverse_diagonal, C + n,
                     ldc)
        }
    }
}

/* The same for one right-hand side: vectors run along the rows of U.  `c` has zeros after m. */
static void solve_forward_one(size_t m, const double *U, size_t ldu, const double *inverse_diagonal,
                              double *c)
{
    size_t i = 0;
    for (; i + 8 <= m; i += 8) {
        vd x[8];
        for (size_t r = 0; r < 8; r++) {
            double value = c[i + r];
            for (size_t s = 0; s < r; s++)
                value -= U[(i + s) * ldu + i + r] * c[i + s];
            c[i + r] = value * inverse_diagonal[i + r];
            x[r] = vset(c[i + r]);
        }
        const double *row = U + i * ldu;
        for (size_t j = i + 8; j < m; j += L) {
            vd first = vload(c + j), second = vset(0.0);
            UNROLL for (int r = 0; r < 8; r += 2) {
                first -= x[r] * vload(row + r * ldu + j);
                second -= x[r + 1] * vload(row + (r + 1) * ldu + j);
            }
            vstore(c + j, first + second);
        }
    }
    for (; i < m; i++) {
        c[i] *= inverse_diagonal[i];
        for (size_t j = i + 1; j < m; j++)
            c[j] -= c[i] * U[i * ldu + j];
    }
    for (size_t j = m; j < m + L; j++)
        c[j] = 0.0;
}

static void solve_backward_one(size_t m, const double *U, size_t ldu,
                               const double *inverse_diagonal, double *c)
{
    size_t end = m;
    for (size_t rows; end > 0; end -= rows) {
        rows = end >= 8 ? 8 : 1;
        size_t i = end - rows;
        double values[8];
        if (rows == 8) {
            vd acc[8];
            UNROLL for (int r = 0; r < 8; r++)
                acc[r] = vset(0.0);
            for (size_t k = end; k < m; k += L) {
                vd x = vload(c + k);
                UNROLL for (int r = 0; r < 8; r++)
                    acc[r] += x * vload(U + (i + r) * ldu + k);
            }
            UNROLL for (int r = 0; r < 8; r++)
                values[r] = c[i + r] - vsum(acc[r]);
        } else {
            vd acc = vset(0.0);
            for (size_t k = end; k < m; k += L)
                acc += vload(c + k) * vload(U + i * ldu + k);
            values[0] = c[i] - vsum(acc);
        }
        for (size_t r = rows; r-- > 0;) {
            double value = values[r];
            for (size_t s = r + 1; s < rows; s++)
                value -= U[(i + r) * ldu + i + s] * c[i + s];
            c[i + r] = value * inverse_diagonal[i + r];
        }
    }
}

/* U'U = S in the upper triangle, in place; what is below is left undefined.  No pivot is below
 * the noise variance of its point: exactly true without rounding, so that nothing ever fails. */
static void factorise(size_t b, double *S, size_t lds, double *inverse_diagonal,
                      const double *noise)
{
    for (size_t i = 0, rows; i < b; i += rows) {
        rows = tile_rows(b - i);
        size_t first = i / L * L;
        for (size_t n = first; n < b; n += TILE_VECTORS * L) {
            size_t vectors = tile_vectors(b - n);
            DISPATCH(rows, vectors, product_tile, 1, i, S + i, 1, lds, S + n, lds,
                     S + i * lds + n, lds)
        }
        for (size_t r = 0; r < rows; r++) {
            double *row = S + (i + r) * lds;
            double pivot = row[i + r] > noise[i + r] ? row[i + r] : noise[i + r];
            double inverse = 1.0 / sqrt(pivot);
            inverse_diagonal[i + r] = inverse;
            double above[8];
            for (size_t s = r + 1; s < rows; s++)
                above[s] = row[i + s] * inverse;
            for (size_t j = first; j < b; j += L) {
                vd x = vload(row + j) * vset(inverse);
                vstore(row + j, x);
                for (size_t s = r + 1; s < rows; s++) {
                    double *below = S + (i + s) * lds + j;
                    vstore(below, vload(below) - vset(above[s]) * x);
                }
            }
        }
    }
}
