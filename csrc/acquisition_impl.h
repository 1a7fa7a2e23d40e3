/* The loops of the acquisition, compiled once per instruction set.
 *
 * The including file defines LANES (doubles per vector), TILE_ROWS and LOOPS_NAME, and selects the
 * instruction set before including this file.
 *
 * Everything is a product or a triangular solve with few right-hand sides, on matrices of a few
 * hundred rows.  They are written here, not taken from a BLAS, for three reasons: a BLAS spends
 * longer on dispatch and packing than on sixteen columns; it starts threads, which inside a
 * caller's threads costs more than it gains; and the order of its sums depends on the machine.
 * Here each entry of U is one sum in index order, so a factor that grew point by point equals, to
 * the last bit, the one computed at once.
 *
 * A tile of TILE_ROWS x 3 vectors is held in registers.  `a` is read one number at a time with
 * any two strides (so that no operand is ever transposed), `B` in whole vectors.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "acquisition.h"

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

#define L ((size_t)LANES)
#define TILE_VECTORS 3

typedef double vd __attribute__((vector_size(8 * LANES)));
typedef long long vi __attribute__((vector_size(8 * LANES)));
typedef double vd_anywhere __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

static INLINE vd vload(const double *p) { return *(const vd_anywhere *)p; }
static INLINE void vstore(double *p, vd x) { *(vd_anywhere *)p = x; }
static INLINE vd vset(double x) { return x - (vd){0}; }
static INLINE vi vseti(long long x) { return x - (vi){0}; }
static INLINE vd vselect(vi mask, vd yes, vd no)
{
    return (vd)(((vi)yes & mask) | ((vi)no & ~mask));
}
static INLINE vd vmin(vd a, vd b) { return vselect(a < b, a, b); }

static INLINE vd vsqrt(vd a)
{
#if LANES == 8
    return (vd)_mm512_sqrt_pd((__m512d)a);
#elif LANES == 4
    return (vd)_mm256_sqrt_pd((__m256d)a);
#else
    return (vd){sqrt(a[0]), sqrt(a[1])};
#endif
}

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

/* ------------------------------------------------------------------ covariances ------------ */

/* exp(-a) for a >= 0 to about one unit in the last place; exactly zero beyond 708. */
static INLINE vd exp_minus(vd a)
{
    const vd magic = vset(0x1.8p52);
    vd x = -vmin(a, vset(708.0));
    vd shifted = x * vset(0x1.71547652b82fep+0) + magic;
    vd k = shifted - magic;
    vd r = x - k * vset(0x1.62e42fefa0000p-1);
    r = r - k * vset(0x1.cf79abc9e3b3ap-40);
    vd r2 = r * r, r4 = r2 * r2;
    vd p01 = vset(0x1.0000000000001p-1) + r * vset(0x1.5555555555556p-3);
    vd p23 = vset(0x1.5555555553d63p-5) + r * vset(0x1.11111111109b3p-7);
    vd p45 = vset(0x1.6c16c1788bd90p-10) + r * vset(0x1.a01a01a7c41d5p-13);
    vd p67 = vset(0x1.a019b90d2ae7ap-16) + r * vset(0x1.71de0dae63bb3p-19);
    vd p89 = vset(0x1.289185613a3d6p-22) + r * vset(0x1.af38a9b0ec855p-26);
    vd p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
    vd power = (vd)(((vi)shifted << 52) + vseti(0x3ff0000000000000LL));
    return vselect(a > vset(708.0), vset(0.0), power + power * (r + r2 * p));
}

/* phi(q) and two derivatives; for the polynomial, f(p) and two derivatives. */
static INLINE void profile(int family, double offset, vd argument, vd *value, vd *first, vd *second)
{
    if (family == RBF) {
        vd e = exp_minus(vset(0.5) * argument);
        *value = e;
        *first = vset(-0.5) * e;
        *second = vset(0.25) * e;
    } else if (family == POLYNOMIAL2) {
        vd t = argument + vset(offset);
        *value = t * t;
        *first = t + t;
        *second = vset(2.0);
    } else if (family == MATERN52) {
        vd r = vmin(vsqrt(vset(5.0) * argument), vset(1000.0)); /* where exp(-r) is zero */
        vd e = exp_minus(r);
        *value = (vset(1.0) + r + r * r * vset(1.0 / 3.0)) * e;
        *first = vset(-5.0 / 6.0) * (vset(1.0) + r) * e;
        *second = vset(25.0 / 12.0) * e;
    } else {
        vd r = vmin(vsqrt(vset(7.0) * argument), vset(1000.0));
        vd e = exp_minus(r);
        *value = (vset(1.0) + r * (vset(1.0) + r * (vset(0.4) + r * vset(1.0 / 15.0)))) * e;
        *first = vset(-7.0 / 30.0) * (vset(3.0) + r * (vset(3.0) + r)) * e;
        *second = vset(49.0 / 60.0) * (vset(1.0) + r) * e;
    }
}

/* What multiplies phi' in the derivative of k(y, z) in z, along z - y (stationary) or y. */
static INLINE double slope_factor(const acquisition_model *model)
{
    return model->family == POLYNOMIAL2 ? model->scale2 : 2.0 * model->scale2;
}

/* Squared distances, or inner products, of R points with columns of zt. */
static INLINE void argument_tile(const int R, const int NV, const int inner, size_t d,
                                 const double *y, size_t dp, const double *zt, size_t ldz,
                                 double *out, size_t ldo)
{
    vd acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            acc[r][v] = vset(0.0);
    for (size_t k = 0; k < d; k++) {
        vd z[TILE_VECTORS];
        UNROLL for (int v = 0; v < NV; v++)
            z[v] = vload(zt + k * ldz + v * L);
        UNROLL for (int r = 0; r < R; r++) {
            vd x = vset(y[r * dp + k]);
            UNROLL for (int v = 0; v < NV; v++) {
                vd step = inner ? z[v] : z[v] - x;
                acc[r][v] += step * (inner ? x : step);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            vstore(out + r * ldo + v * L, acc[r][v]);
}

#define ARGUMENTS(INNER)                                                                        \
    for (size_t v = 0; v < N; v += TILE_VECTORS * L) {                                          \
        size_t vectors = tile_vectors(N - v);                                                   \
        for (size_t i = 0, rows; i < n; i += rows) {                                            \
            rows = tile_rows(n - i);                                                            \
            DISPATCH(rows, vectors, argument_tile, INNER, model->d, y + i * model->dp,          \
                     model->dp, zt + v, ldz, values + i * ldv + v, ldv)                         \
        }                                                                                       \
    }

/* Covariances of n points with N columns of zt, (n, ldv), and unless `slopes` is NULL what
 * multiplies z - y (or y) in their derivatives with respect to z. */
static void covariances(const acquisition_model *model, size_t n, const double *y, size_t N,
                        const double *zt, size_t ldz, double *values, size_t ldv, double *slopes,
                        size_t lds)
{
    const int family = model->family;
    if (family == POLYNOMIAL2) {
        ARGUMENTS(1)
    } else {
        ARGUMENTS(0)
    }
    vd scale = vset(model->scale2), factor = vset(slope_factor(model)), value, first, second;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < N; v += L) {
            profile(family, model->offset, vload(values + i * ldv + v), &value, &first, &second);
            vstore(values + i * ldv + v, scale * value);
            if (slopes)
                vstore(slopes + i * lds + v, factor * first);
        }
}

static double argument_of(const acquisition_model *model, const double *y, const double *z)
{
    vd acc = vset(0.0);
    if (model->family == POLYNOMIAL2) {
        for (size_t k = 0; k < model->dp; k += L)
            acc += vload(y + k) * vload(z + k);
    } else {
        for (size_t k = 0; k < model->dp; k += L) {
            vd step = vload(z + k) - vload(y + k);
            acc += step * step;
        }
    }
    return vsum(acc);
}

/* Row of A' at a point: covariance of its value with the gradient at theta, (dp). */
static void gradient_row(const acquisition_model *model, const double *y, double *row)
{
    /* theta has a zero where a point has its one: the extra distance of one is taken off below. */
    const int inner = model->family == POLYNOMIAL2;
    vd value, first, second, argument = vset(0.0);
    for (size_t k = 0; k < model->d; k++) {
        double step = inner ? y[k] : y[k] - model->theta[k];
        row[k] = step;
        argument += vset(step * (inner ? model->theta[k] : step));
    }
    profile(model->family, model->offset, argument, &value, &first, &second);
    double factor = inner ? slope_factor(model) * first[0] : -slope_factor(model) * first[0];
    for (size_t k = 0; k < model->d; k++)
        row[k] *= factor * model->inverse[k];
    for (size_t k = model->d; k < model->dp; k++)
        row[k] = 0.0;
}

/* Add to the derivative (row of dp, in z) twice that of <G, A(theta; z)>, G' the row `g`. */
static void add_gradient_row_derivative(const acquisition_model *model, const double *z,
                                        const double *g, double *out)
{
    const int inner = model->family == POLYNOMIAL2;
    vd value, first, second, argument = vset(0.0);
    double along = 0.0;
    for (size_t k = 0; k < model->d; k++) {
        double step = inner ? z[k] : z[k] - model->theta[k];
        argument += vset(step * (inner ? model->theta[k] : step));
        along += g[k] * model->inverse[k] * step;
    }
    profile(model->family, model->offset, argument, &value, &first, &second);
    double sign = inner ? 1.0 : -1.0, factor = 2.0 * sign * slope_factor(model);
    double turn = factor * second[0] * along, straight = factor * first[0];
    for (size_t k = 0; k < model->d; k++) {
        double toward = inner ? model->theta[k] : 2.0 * (z[k] - model->theta[k]);
        out[k] += turn * toward + straight * g[k] * model->inverse[k];
    }
}

/* ------------------------------------------------------------------ the model -------------- */

static void transpose(size_t rows, size_t columns, const double *from, size_t ldf, double *to,
                      size_t ldt)
{
    for (size_t j = 0; j < columns; j++) {
        for (size_t i = 0; i < rows; i++)
            to[j * ldt + i] = from[i * ldf + j];
        for (size_t i = rows; i < ldt; i++)
            to[j * ldt + i] = 0.0;
    }
}

/* Noise onto the diagonal; `noise` keeps what no pivot may fall below. */
static void add_noise(const acquisition_model *model, size_t b, double *S, size_t lds, double *noise)
{
    for (size_t j = 0; j < b; j++) {
        noise[j] = model->noise + ACQUISITION_JITTER * S[j * lds + j];
        S[j * lds + j] += noise[j];
    }
}

static void extend(acquisition_model *model, size_t from)
{
    size_t count = model->m - from, columns = whole(count);
    double *zt = model->work, *noise = zt + model->d * columns;
    double *V = model->U + from, *S = model->U + from * model->ldu + from;
    const double *y = model->y + from * model->dp;
    transpose(count, model->d, y, model->dp, zt, columns);
    covariances(model, from, model->y, columns, zt, columns, V, model->ldu, NULL, 0);
    covariances(model, count, y, columns, zt, columns, S, model->ldu, NULL, 0);
    add_noise(model, count, S, model->ldu, noise);
    solve_forward(from, model->U, model->ldu, model->inverse_diagonal, V, columns, model->ldu);
    subtract_product(count, columns, from, V, 1, model->ldu, V, model->ldu, S, model->ldu, 1);
    factorise(count, S, model->ldu, model->inverse_diagonal + from, noise);
}

static double sum_of_squares(const double *x, size_t count)
{
    vd acc[4] = {vset(0.0), vset(0.0), vset(0.0), vset(0.0)};
    size_t i = 0;
    for (; i + 4 * L <= count; i += 4 * L)
        UNROLL for (int v = 0; v < 4; v++)
            acc[v] += vload(x + i + v * L) * vload(x + i + v * L);
    for (; i < count; i += L) /* rows are padded to whole vectors */
        acc[0] += vload(x + i) * vload(x + i);
    return vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

static void condition(acquisition_model *model)
{
    size_t m = model->m, dp = model->dp;
    for (size_t i = 0; i < m; i++)
        gradient_row(model, model->y + i * dp, model->B + i * dp);
    solve_forward(m, model->U, model->ldu, model->inverse_diagonal, model->B, dp, dp);
    model->trace -= sum_of_squares(model->B, m * dp);
}

static void weights(const acquisition_model *model, double *W)
{
    memcpy(W, model->B, model->m * model->dp * sizeof(double));
    solve_backward(model->m, model->U, model->ldu, model->inverse_diagonal, W, model->dp,
                   model->dp);
}

/* d gain / dz from the sums over points: out holds sum_i q_i y_i, then sum_i q_i. */
static void finish_gradient(const acquisition_model *model, const double *z, const double *g,
                            double *out)
{
    double total = model->family == POLYNOMIAL2 ? 0.0 : out[model->d];
    double sign = model->family == POLYNOMIAL2 ? 2.0 : -2.0;
    for (size_t k = 0; k < model->d; k++)
        out[k] = sign * (out[k] - total * z[k]);
    add_gradient_row_derivative(model, z, g, out);
    for (size_t k = 0; k < model->d; k++)
        out[k] = -out[k];
    for (size_t k = model->d; k < model->dp; k++)
        out[k] = 0.0;
}

/* One new point: the matrices are read once per use, so vectors run along their rows. */
static double evaluate_one(acquisition_model *model, const double *z, double *gradient)
{
    const size_t m = model->m, dp = model->dp, mp = whole(m) + L;
    double *v = model->work, *e = v + mp, *p = e + mp, *g = p + mp;
    vd value, first, second, scale = vset(model->scale2), factor = vset(slope_factor(model));
    for (size_t i = 0; i < m; i++)
        v[i] = argument_of(model, model->y + i * dp, z);
    for (size_t i = m; i < mp; i++)
        v[i] = 0.0;
    for (size_t i = 0; i < m; i += L) {
        profile(model->family, model->offset, vload(v + i), &value, &first, &second);
        vstore(v + i, scale * value);
        vstore(e + i, factor * first);
    }
    for (size_t i = m; i < mp; i++)
        v[i] = 0.0;
    solve_forward_one(m, model->U, model->ldu, model->inverse_diagonal, v);

    profile(model->family, model->offset, vset(argument_of(model, z, z)), &value, &first, &second);
    double own = model->scale2 * value[0], noise = model->noise + ACQUISITION_JITTER * own;
    double pivot = own + noise - sum_of_squares(v, whole(m));
    pivot = pivot > noise ? pivot : noise;
    gradient_row(model, z, g);
    subtract_product(1, dp, m, v, 1, 1, model->B, dp, g, dp, 0);
    double square = sum_of_squares(g, dp), inverse = 1.0 / pivot;
    if (!gradient)
        return model->trace - square * inverse;

    for (size_t k = 0; k < dp; k++)
        g[k] *= inverse;
    double M = square * inverse * inverse;
    for (size_t i = 0; i < m; i++) {
        vd acc = vset(0.0);
        for (size_t k = 0; k < dp; k += L)
            acc += vload(model->B + i * dp + k) * vload(g + k);
        p[i] = v[i] * M - vsum(acc);
    }
    for (size_t i = m; i < mp; i++)
        p[i] = 0.0;
    solve_backward_one(m, model->U, model->ldu, model->inverse_diagonal, p);
    for (size_t i = 0; i < m; i += L)
        vstore(p + i, vload(p + i) * vload(e + i));
    multiply(1, dp, m, p, 1, 1, model->y, dp, gradient, dp);
    if (model->family == POLYNOMIAL2) {
        double pull = M * slope_factor(model) * first[0] * (1.0 + ACQUISITION_JITTER);
        for (size_t k = 0; k < model->d; k++)
            gradient[k] -= pull * z[k];
    }
    finish_gradient(model, z, g, gradient);
    return model->trace - square * inverse;
}

/* See acquisition.pyx for the formulas. */
static double evaluate(acquisition_model *model, const double *z, size_t b, double *gradient)
{
    if (b == 1)
        return evaluate_one(model, z, gradient);
    const size_t m = model->m, d = model->d, dp = model->dp, bp = whole(b);
    double *zt = model->work, *V = zt + d * bp, *E = V + m * bp, *P = E + m * bp;
    double *S = P + m * bp, *F = S + b * bp, *M = F + b * bp, *Y = M + b * bp;
    double *Gt = Y + b * dp, *inverse_diagonal = Gt + d * bp, *noise = inverse_diagonal + bp;

    transpose(b, d, z, dp, zt, bp);
    covariances(model, m, model->y, bp, zt, bp, V, bp, gradient ? E : NULL, bp);
    covariances(model, b, z, bp, zt, bp, S, bp, gradient ? F : NULL, bp);
    add_noise(model, b, S, bp, noise);
    solve_forward(m, model->U, model->ldu, model->inverse_diagonal, V, bp, bp);
    subtract_product(b, bp, m, V, 1, bp, V, bp, S, bp, 1);
    for (size_t j = 0; j < b; j++)
        gradient_row(model, z + j * dp, Y + j * dp);
    subtract_product(b, dp, m, V, 1, bp, model->B, dp, Y, dp, 0);
    factorise(b, S, bp, inverse_diagonal, noise);
    solve_forward(b, S, bp, inverse_diagonal, Y, dp, dp);
    double value = model->trace - sum_of_squares(Y, b * dp);
    if (!gradient)
        return value;

    solve_backward(b, S, bp, inverse_diagonal, Y, dp, dp);
    transpose(b, d, Y, dp, Gt, bp);
    multiply(b, bp, d, Y, dp, 1, Gt, bp, M, bp);
    multiply(m, bp, b, V, bp, 1, M, bp, P, bp);
    subtract_product(m, bp, d, model->B, dp, 1, Gt, bp, P, bp, 0);
    solve_backward(m, model->U, model->ldu, model->inverse_diagonal, P, bp, bp);
    for (size_t i = 0; i < m * bp; i += L)
        vstore(P + i, vload(P + i) * vload(E + i));
    for (size_t i = 0; i < b * bp; i += L)
        vstore(M + i, vload(M + i) * vload(F + i));
    for (size_t j = 0; j < b; j++)
        M[j * bp + j] *= 1.0 + ACQUISITION_JITTER;
    multiply(b, dp, m, P, 1, bp, model->y, dp, gradient, dp);
    subtract_product(b, dp, b, M, bp, 1, z, dp, gradient, dp, 0);
    for (size_t j = 0; j < b; j++)
        finish_gradient(model, z + j * dp, Y + j * dp, gradient + j * dp);
    return value;
}

const acquisition_loops LOOPS_NAME = {extend, condition, evaluate, weights};
