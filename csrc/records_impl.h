/* The loop over one chunk of records, compiled once per instruction set.
 *
 * The including file defines LANES (doubles per vector) and CHUNK_NAME, and selects the
 * instruction set before including this file.
 *
 * A chunk is worked through in blocks of rows that fit the cache.  Each block goes through
 *   1. products: x'theta and ||x||^2, reading the rows from memory once;
 *   2. guards: rows that are not finite are zeroed, rows whose squared norm overflows (or, for
 *      clipping, underflows) are rescaled by a power of two that the weights then undo;
 *   3. loss and weights: vectors of records, no branches, giving one multiplier per record and
 *      wanted sum;
 *   4. sums: the block's contribution to the gradient and, as rank-k updates of the lower
 *      triangle with tiles of accumulators held in registers, to the Hessian and the meat.
 *
 * Small p ("columnar"): the block is transposed into groups of LANES rows, group g holding its
 * p columns one after the other, so that every product runs over records and nothing is padded.
 * Larger p: the rows are used where they are, and so they are in Hessian and meat, in panels of
 * LANES columns; only the last panel is copied.  The intercept is the LAST column inside this file.
 *
 * While a block is worked through the next one is fetched, a few lines at a time: memory must never
 * wait, and no stage may ask for more than its share of the time, for then the stage waits.
 */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "records.h"

#include "vectors.h"

#define LINE 64 /* bytes of memory that are fetched together */

/* Ask for so many lines from `from` on; where the next ones are. */
static INLINE const char *fetch(const char *from, size_t lines)
{
    for (size_t k = 0; k < lines; k++, from += LINE)
        __builtin_prefetch(from, 0, 3);
    return from;
}

/* One line, no nearer than the second-level cache: matrices fill the first. */
static INLINE const char *fetch_line_beside_matrix(const char *from)
{
    __builtin_prefetch(from, 0, 2);
    return from + LINE;
}

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

/* The first `count` of LANES numbers, then zeros. */
static INLINE vd vload_part(const double *p, size_t count)
{
#if LANES == 8
    return (vd)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1u), p);
#elif LANES == 4
    static const long long edge[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
    return (vd)_mm256_maskload_pd(p, _mm256_loadu_si256((const __m256i *)(edge + 4 - count)));
#else
    return (vd){count > 0 ? p[0] : 0.0, 0.0};
#endif
}

/* In: LANES vectors.  Out: vector whose lane i is the sum over the lanes of v[i]. */
static INLINE vd sum_lanes(const vd *v)
{
#if LANES == 8
    vd pair[4], quad[2];
    UNROLL for (int i = 0; i < 4; i++) {
        vd a = v[2 * i], b = v[2 * i + 1];
        pair[i] = SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
                  SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        vd a = pair[2 * i], b = pair[2 * i + 1];
        quad[i] = SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                  SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    return SHUFFLE(quad[0], quad[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           SHUFFLE(quad[0], quad[1], 4, 5, 6, 7, 12, 13, 14, 15);
#elif LANES == 4
    vd low = SHUFFLE(v[0], v[1], 0, 4, 2, 6) + SHUFFLE(v[0], v[1], 1, 5, 3, 7);
    vd high = SHUFFLE(v[2], v[3], 0, 4, 2, 6) + SHUFFLE(v[2], v[3], 1, 5, 3, 7);
    return SHUFFLE(low, high, 0, 1, 4, 5) + SHUFFLE(low, high, 2, 3, 6, 7);
#else
    return SHUFFLE(v[0], v[1], 0, 2) + SHUFFLE(v[0], v[1], 1, 3);
#endif
}

#include "losses.h"

/* ------------------------------------------------------------------ scratch of one block --- */

typedef struct {
    const records_task *task;
    size_t rows;   /* records in this block */
    size_t padded; /* the same rounded up to whole vectors */
    /* Rows in place (not columnar): first row and distance between rows, in doubles. */
    const double *x;
    ptrdiff_t step;
    /* Per-record vectors, `padded` long. */
    double *dot, *dot_new, *dot_step, *norm2;
    double *g, *h, *m;
    double *y_copy;
    const double *y;    /* in place, or y_copy */
    double *factor;     /* BOUNDED: shrinkage of the x part; SCHWEPPE: of the whole stored row */
    double *q, *hr, *hr2, *gq; /* free scale: its score, and multipliers of x, 1 and x */
    double *down, *up;  /* careful rows: stored row = down * x, up = 1/down; else 1 */
    double *gathered;   /* rows copied here when they cannot be used in place */
    double *columns;    /* groups of columns, or the last panel */
    double *scaled;
    /* What of the next block has yet to be fetched.  That is done a few lines at a time in all that
     * is done with this one, so that memory is kept busy all the while. */
    const char *ahead, *ahead_end;
    int careful;        /* some row of this block was repaired or rescaled */
    int shrunk;         /* some factor < 1 */
    int down_dirty;     /* down and up are not all ones */
} block;

static int wants_matrix(const records_task *task)
{
    return (task->want & (WANT_HESSIAN | WANT_MEAT)) != 0;
}

/* What of the next block remains to be fetched, in so many equal parts. */
static INLINE size_t lines_left(const block *b, size_t parts)
{
    size_t each = parts * LINE;
    return b->ahead < b->ahead_end ? ((size_t)(b->ahead_end - b->ahead) + each - 1) / each : 0;
}

/* Where to fetch from on, `lines` lines so many times. */
static INLINE const char *take_ahead(block *b, size_t lines, size_t times)
{
    const char *from = b->ahead;
    b->ahead += lines * times * LINE;
    return from;
}

#define VECTORS 15

static void block_init(block *b, const records_task *task, double *scratch)
{
    size_t rows = task->plan.block_rows;
    double **slots[VECTORS] = {&b->dot, &b->dot_new, &b->dot_step, &b->norm2,
                               &b->g,   &b->h,       &b->m,        &b->y_copy,
                               &b->factor, &b->down, &b->up,
                               &b->q,   &b->hr,      &b->hr2,      &b->gq};
    memset(b, 0, sizeof *b);
    b->task = task;
    for (int i = 0; i < VECTORS; i++, scratch += rows)
        *slots[i] = scratch;
    for (size_t i = 0; i < rows; i++)
        b->down[i] = b->up[i] = b->factor[i] = 1.0;
    b->gathered = scratch;
    scratch += rows * task->width;
    b->columns = scratch;
    scratch += rows * task->width;
    b->scaled = scratch;
}

/* ------------------------------------------------------------- columnar blocks: step 1 ----- */

/* Transpose `count` columns of LANES rows, rows `step` doubles apart, into v[0..count). */
#if LANES == 8
static INLINE void transpose_4(const double *x, ptrdiff_t step, vd *v)
{
    vd z[4];
    UNROLL for (int i = 0; i < 4; i++) {
        z[i] = (vd)_mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(x + i * step)),
                                      _mm256_loadu_pd(x + (i + 4) * step), 1);
    }
    vd a = SHUFFLE(z[0], z[1], 0, 8, 2, 10, 4, 12, 6, 14);
    vd b = SHUFFLE(z[0], z[1], 1, 9, 3, 11, 5, 13, 7, 15);
    vd c = SHUFFLE(z[2], z[3], 0, 8, 2, 10, 4, 12, 6, 14);
    vd d = SHUFFLE(z[2], z[3], 1, 9, 3, 11, 5, 13, 7, 15);
    v[0] = SHUFFLE(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
    v[1] = SHUFFLE(b, d, 0, 1, 8, 9, 4, 5, 12, 13);
    v[2] = SHUFFLE(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
    v[3] = SHUFFLE(b, d, 2, 3, 10, 11, 6, 7, 14, 15);
}

static INLINE vd every_other_row(const double *x, ptrdiff_t step)
{
    __m256d low = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x)),
                                       _mm_loadu_pd(x + 2 * step), 1);
    __m256d high = _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + 4 * step)),
                                        _mm_loadu_pd(x + 6 * step), 1);
    return (vd)_mm512_insertf64x4(_mm512_castpd256_pd512(low), high, 1);
}

static INLINE void transpose_2(const double *x, ptrdiff_t step, vd *v)
{
    vd even = every_other_row(x, step), odd = every_other_row(x + step, step);
    v[0] = SHUFFLE(even, odd, 0, 8, 2, 10, 4, 12, 6, 14);
    v[1] = SHUFFLE(even, odd, 1, 9, 3, 11, 5, 13, 7, 15);
}

static INLINE void transpose_1(const double *x, ptrdiff_t s, vd *v)
{
    v[0] = (vd){x[0],     x[s],     x[2 * s], x[3 * s],
                x[4 * s], x[5 * s], x[6 * s], x[7 * s]};
}
#elif LANES == 4
static INLINE void transpose_4(const double *x, ptrdiff_t step, vd *v)
{
    vd a = vload(x), b = vload(x + step), c = vload(x + 2 * step), d = vload(x + 3 * step);
    vd ab = SHUFFLE(a, b, 0, 4, 2, 6), AB = SHUFFLE(a, b, 1, 5, 3, 7);
    vd cd = SHUFFLE(c, d, 0, 4, 2, 6), CD = SHUFFLE(c, d, 1, 5, 3, 7);
    v[0] = SHUFFLE(ab, cd, 0, 1, 4, 5);
    v[1] = SHUFFLE(AB, CD, 0, 1, 4, 5);
    v[2] = SHUFFLE(ab, cd, 2, 3, 6, 7);
    v[3] = SHUFFLE(AB, CD, 2, 3, 6, 7);
}

static INLINE void transpose_2(const double *x, ptrdiff_t step, vd *v)
{
    vd even = (vd)_mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x)),
                                       _mm_loadu_pd(x + 2 * step), 1);
    vd odd = (vd)_mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(x + step)),
                                      _mm_loadu_pd(x + 3 * step), 1);
    v[0] = SHUFFLE(even, odd, 0, 4, 2, 6);
    v[1] = SHUFFLE(even, odd, 1, 5, 3, 7);
}

static INLINE void transpose_1(const double *x, ptrdiff_t s, vd *v)
{
    v[0] = (vd){x[0], x[s], x[2 * s], x[3 * s]};
}
#else
static INLINE void transpose_2(const double *x, ptrdiff_t step, vd *v)
{
    vd a = vload(x), b = vload(x + step);
    v[0] = SHUFFLE(a, b, 0, 2);
    v[1] = SHUFFLE(a, b, 1, 3);
}

static INLINE void transpose_1(const double *x, ptrdiff_t s, vd *v) { v[0] = (vd){x[0], x[s]}; }
#endif

/* Lines that are fetched with so many columns of a group, 4, 2 or 1 of them: half of what they are. */
#define LINES_WITH(count) ((size_t)(count) * L * sizeof(double) / (2 * LINE))

/* The same for all columns of a group. */
static INLINE size_t lines_with_group(size_t q)
{
    return q / 4 * LINES_WITH(4) + q % 4 / 2 * LINES_WITH(2);
}

/* Store the columns v[0..count) of a group and add them to the group's products, each of which is
 * kept in two halves: the additions wait for one another half as long. */
static INLINE void take_columns(const vd *v, int count, int two, const double *theta,
                                const double *theta_new, double *out, vd *dot, vd *dot_new,
                                vd *norm2)
{
    UNROLL for (int i = 0; i < count; i++) {
        vstore(out + (size_t)i * L, v[i]);
        dot[i % 2] += v[i] * vset(theta[i]);
        if (two)
            dot_new[i % 2] += v[i] * vset(theta_new[i]);
        norm2[i % 2] += v[i] * v[i];
    }
}

#define TAKE(count)                                                                             \
    do {                                                                                        \
        vd v[count];                                                                            \
        transpose_##count(x + j, step, v);                                                      \
        take_columns(v, count, two, theta + j, theta_new + j, out + j * L, dot, dot_new, norm2); \
        ahead = fetch(ahead, LINES_WITH(count));                                                \
        j += count;                                                                             \
    } while (0)

/* Whole groups of rows lying contiguously (column stride one), `step` doubles apart; with `two`
 * their products with theta_new as well.  Fetches from `ahead` on. */
static INLINE void transpose_groups(const double *x, ptrdiff_t step, size_t groups, size_t q,
                                    size_t p, int two, const double *theta,
                                    const double *theta_new, const char *ahead, double *out,
                                    double *dots, double *dots_new, double *norms)
{
    for (size_t g = 0; g < groups; g++, x += (ptrdiff_t)L * step, out += p * L) {
        vd dot[2] = {{0}}, dot_new[2] = {{0}}, norm2[2] = {{0}};
        size_t j = 0;
#if LANES >= 4
        while (j + 4 <= q)
            TAKE(4);
#endif
        while (j + 2 <= q)
            TAKE(2);
        if (j < q)
            TAKE(1);
        vstore(dots + g * L, dot[0] + dot[1]);
        if (two)
            vstore(dots_new + g * L, dot_new[0] + dot_new[1]);
        vstore(norms + g * L, norm2[0] + norm2[1]);
    }
}

/* x'theta of columnar groups, and the squared norms too unless `norms` is NULL; added up in the order
 * of take_columns, so that the layout of x does not matter. */
static void column_products(const double *columns, size_t groups, size_t q, size_t p,
                            const double *theta, double *dots, double *norms)
{
    for (size_t g = 0; g < groups; g++, columns += p * L) {
        vd dot[2] = {{0}}, norm2[2] = {{0}};
        for (size_t j = 0; j < q; j++) {
            vd v = vload(columns + j * L);
            dot[j % 2] += v * vset(theta[j]);
            norm2[j % 2] += v * v;
        }
        vstore(dots + g * L, dot[0] + dot[1]);
        if (norms)
            vstore(norms + g * L, norm2[0] + norm2[1]);
    }
}

static INLINE double element(const char *p)
{
    double value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* An entry of x, of either size. */
static INLINE double entry(const char *p, size_t item)
{
    float narrow;
    if (item != sizeof narrow)
        return element(p);
    memcpy(&narrow, p, sizeof narrow);
    return narrow;
}

static int is_in_place(const records_data *data)
{
    return data->x_item == 8 && data->x_column == 8 && data->x_row % 8 == 0 &&
           (uintptr_t)data->x % 8 == 0;
}

/* Rows of floats, each lying contiguously. */
static int is_narrow(const records_data *data)
{
    return data->x_item == sizeof(float) && data->x_column == (ptrdiff_t)sizeof(float);
}

typedef float float_anywhere __attribute__((aligned(1), may_alias));

/* The block's rows of floats as doubles, one row after the other.  (Fetching the next block here
 * makes it half as slow again.) */
static void widen_rows(const block *b, const char *x, double *to)
{
    const records_data *data = &b->task->data;
    size_t rows = b->rows, length = data->q;
    if (data->x_row == (ptrdiff_t)(length * sizeof(float))) {
        length *= rows;
        rows = 1;
    }
    for (size_t i = 0; i < rows; i++, x += data->x_row, to += length) {
        const float_anywhere *from = (const float_anywhere *)x;
        for (size_t j = 0; j < length; j++)
            to[j] = from[j];
    }
}

/* Rows [first, first + count) of the data into groups, starting at group `group`; any strides. */
static INLINE void copy_to_groups_of(size_t item, const block *b, const char *x, size_t first,
                                     size_t count)
{
    const records_data *data = &b->task->data;
    size_t q = data->q, p = b->task->p;
    for (size_t j = 0; j < q; j++) {
        const char *from = x + (ptrdiff_t)j * data->x_column + (ptrdiff_t)first * data->x_row;
        for (size_t i = first; i < first + count; i++, from += data->x_row)
            b->columns[(i / L) * p * L + j * L + i % L] = entry(from, item);
    }
}

static void copy_to_groups(const block *b, const char *x, size_t first, size_t count)
{
    if (b->task->data.x_item == sizeof(float))
        copy_to_groups_of(sizeof(float), b, x, first, count);
    else
        copy_to_groups_of(sizeof(double), b, x, first, count);
}

static void columnar_load(block *b, const char *x)
{
    const records_task *task = b->task;
    const records_data *data = &task->data;
    size_t q = data->q, p = task->p, groups = b->padded / L, whole = 0;
    const int change = !!(task->want & WANT_CHANGE);
    if (is_in_place(data) || is_narrow(data)) {
        const double *from = (const double *)x;
        ptrdiff_t step = data->x_row / 8;
        if (is_narrow(data)) {
            widen_rows(b, x, b->gathered);
            from = b->gathered;
            step = (ptrdiff_t)q;
        }
        whole = b->rows / L;
        switch (change ? q + 100 : q) {
#define TRANSPOSE(count)                                                                        \
    case count:                                                                                 \
        transpose_groups(from, step, whole, count, p, 0, task->theta, task->theta, b->ahead,    \
                         b->columns, b->dot, b->dot_new, b->norm2);                             \
        break;                                                                                  \
    case 100 + count:                                                                           \
        transpose_groups(from, step, whole, count, p, 1, task->theta, task->theta_new,          \
                         b->ahead, b->columns, b->dot, b->dot_new, b->norm2);                   \
        break
            TRANSPOSE(1); TRANSPOSE(2); TRANSPOSE(3); TRANSPOSE(4); TRANSPOSE(5); TRANSPOSE(6);
            TRANSPOSE(7); TRANSPOSE(8); TRANSPOSE(9); TRANSPOSE(10); TRANSPOSE(11); TRANSPOSE(12);
            TRANSPOSE(13); TRANSPOSE(14); TRANSPOSE(15); TRANSPOSE(16);
        default:
            transpose_groups(from, step, whole, q, p, change, task->theta,
                             change ? task->theta_new : task->theta, b->ahead, b->columns, b->dot,
                             b->dot_new, b->norm2);
        }
        take_ahead(b, lines_with_group(q), whole);
    }
    if (whole < groups) {
        size_t first = whole * L;
        memset(b->columns + whole * p * L, 0, (groups - whole) * p * L * sizeof(double));
        copy_to_groups(b, x, first, b->rows - first);
        column_products(b->columns + whole * p * L, groups - whole, q, p, task->theta,
                        b->dot + first, b->norm2 + first);
        if (change)
            column_products(b->columns + whole * p * L, groups - whole, q, p, task->theta_new,
                            b->dot_new + first, NULL);
    }
    if (task->want & WANT_DIFFERENCE) {
        column_products(b->columns, groups, q, p, task->theta_new, b->dot_new, NULL);
        column_products(b->columns, groups, q, p, task->theta_step, b->dot_step, NULL);
    }
}

/* ------------------------------------------------------------ rows in place: step 1 -------- */

/* Add up long rows in pieces so that the rounding of a norm stays far below 1e-12. */
#define PIECE ((size_t)2048)

/* Products of four rows with theta, and their squared norms, added to dots[0..4), norms[0..4).
 * One row after the other, so that memory is read in order and the hardware can run ahead.  With
 * each row so many `lines` from `ahead` on are fetched. */
static INLINE void four_rows(const double *const *x, size_t q, int two, const double *theta,
                             const double *theta_new, const char *ahead, size_t lines,
                             double *dots, double *dots_new, double *norms)
{
    vd acc[16] = {{0}};
    UNROLL for (int i = 0; i < 4; i++) {
        vd dot = vset(0.0), dot_odd = vset(0.0), norm2 = vset(0.0), norm2_odd = vset(0.0);
        vd new = vset(0.0), new_odd = vset(0.0);
        const double *row = x[i];
        size_t j = 0;
        ahead = fetch(ahead, lines);
        for (; j + 2 * L <= q; j += 2 * L) {
            vd even = vload(row + j), odd = vload(row + j + L);
            dot += even * vload(theta + j);
            norm2 += even * even;
            dot_odd += odd * vload(theta + j + L);
            norm2_odd += odd * odd;
            if (two) {
                new += even * vload(theta_new + j);
                new_odd += odd * vload(theta_new + j + L);
            }
        }
        if (j + L <= q) {
            vd even = vload(row + j);
            dot += even * vload(theta + j);
            norm2 += even * even;
            if (two)
                new += even * vload(theta_new + j);
            j += L;
        }
        if (j < q) {
            vd odd = vload_part(row + j, q - j);
            dot_odd += odd * vload(theta + j); /* theta is zero-padded */
            norm2_odd += odd * odd;
            if (two)
                new_odd += odd * vload(theta_new + j);
        }
        acc[i] = dot + dot_odd;
        acc[4 + i] = norm2 + norm2_odd;
        acc[8 + i] = new + new_odd;
    }
    double sums[16];
    for (size_t i = 0; i < (two ? 16 : 8); i += L)
        vstore(sums + i, sum_lanes(acc + i));
    for (int i = 0; i < 4; i++) {
        dots[i] += sums[i];
        norms[i] += sums[4 + i];
        if (two)
            dots_new[i] += sums[8 + i];
    }
}

/* The last group of four rows repeats the last row. */
static INLINE const double *row_at(const double *x, ptrdiff_t step, size_t row, size_t rows)
{
    return x + (ptrdiff_t)(row < rows ? row : rows - 1) * step;
}

static INLINE void long_row_products(const double *x, ptrdiff_t step, size_t rows, size_t q,
                                     int two, const double *theta, const double *theta_new,
                                     const char *ahead, size_t lines, double *dots,
                                     double *dots_new, double *norms)
{
    for (size_t i = 0; i < rows; i += 4, ahead += 4 * lines * LINE) {
        double dot[4] = {0}, dot_new[4] = {0}, norm2[4] = {0};
        for (size_t j = 0; j < q; j += PIECE) {
            const double *at[4];
            for (size_t k = 0; k < 4; k++)
                at[k] = row_at(x, step, i + k, rows) + j;
            four_rows(at, q - j < PIECE ? q - j : PIECE, two, theta + j, theta_new + j, ahead,
                      j == 0 ? lines : 0, dot, dot_new, norm2);
        }
        memcpy(dots + i, dot, sizeof dot);
        if (two)
            memcpy(dots_new + i, dot_new, sizeof dot_new);
        memcpy(norms + i, norm2, sizeof norm2);
    }
}

/* Rows of few vectors: the coefficients stay in registers. */
static INLINE void short_row_products(const double *x, ptrdiff_t step, size_t rows, int vectors,
                                      size_t tail, int two, const double *theta,
                                      const double *theta_new, const char *ahead, size_t lines,
                                      double *dots, double *dots_new, double *norms)
{
    vd coefficient[8], other[8];
    UNROLL for (int v = 0; v < vectors; v++) {
        coefficient[v] = vload(theta + (size_t)v * L);
        if (two)
            other[v] = vload(theta_new + (size_t)v * L);
    }
    for (size_t i = 0; i < rows; i += 4) {
        vd acc[16] = {{0}};
        ahead = fetch(ahead, 4 * lines);
        UNROLL for (int k = 0; k < 4; k++) {
            const double *row = row_at(x, step, i + (size_t)k, rows);
            vd dot = vset(0.0), new = vset(0.0), norm2 = vset(0.0);
            UNROLL for (int v = 0; v < vectors; v++) {
                const double *from = row + (size_t)v * L;
                vd value = v + 1 < vectors || tail == L ? vload(from) : vload_part(from, tail);
                dot += value * coefficient[v];
                norm2 += value * value;
                if (two)
                    new += value * other[v];
            }
            acc[k] = dot;
            acc[4 + k] = norm2;
            acc[8 + k] = new;
        }
        double sums[16];
        UNROLL for (size_t k = 0; k < 8; k += L)
            vstore(sums + k, sum_lanes(acc + k));
        if (two) {
            UNROLL for (size_t k = 8; k < 16; k += L)
                vstore(sums + k, sum_lanes(acc + k));
        }
        memcpy(dots + i, sums, 4 * sizeof(double));
        memcpy(norms + i, sums + 4, 4 * sizeof(double));
        if (two)
            memcpy(dots_new + i, sums + 8, 4 * sizeof(double));
    }
}

static INLINE void row_products_of(const double *x, ptrdiff_t step, size_t rows, size_t q, int two,
                                   const double *theta, const double *theta_new,
                                   const char *ahead, size_t lines, double *dots,
                                   double *dots_new, double *norms)
{
    size_t tail = q % L ? q % L : L;
    switch ((q + L - 1) / L) {
#define SHORT_ROWS(vectors)                                                                     \
    case vectors:                                                                               \
        if (tail == L)                                                                          \
            short_row_products(x, step, rows, vectors, L, two, theta, theta_new, ahead, lines,  \
                               dots, dots_new, norms);                                          \
        else                                                                                    \
            short_row_products(x, step, rows, vectors, tail, two, theta, theta_new, ahead,      \
                               lines, dots, dots_new, norms);                                   \
        break
        SHORT_ROWS(2); SHORT_ROWS(3); SHORT_ROWS(4); SHORT_ROWS(5); SHORT_ROWS(6); SHORT_ROWS(7);
        SHORT_ROWS(8);
    default:
        long_row_products(x, step, rows, q, two, theta, theta_new, ahead, lines, dots, dots_new,
                          norms);
    }
}

/* x'theta and the squared norms of the block's rows. */
static void row_products(const block *b, const double *theta, const char *ahead, size_t lines,
                         double *dots, double *norms)
{
    row_products_of(b->x, b->step, b->rows, b->task->data.q, 0, theta, theta, ahead, lines, dots,
                    dots, norms);
}

/* The same with two parameters in one read of the rows. */
static void row_products_twice(const block *b, const double *theta, const double *theta_new,
                               const char *ahead, size_t lines)
{
    row_products_of(b->x, b->step, b->rows, b->task->data.q, 1, theta, theta_new, ahead, lines,
                    b->dot, b->dot_new, b->norm2);
}

/* Copy the block's rows one after the other, going along the shorter stride. */
static INLINE void gather_rows_of(size_t item, const block *b, const char *x, double *to)
{
    const records_data *data = &b->task->data;
    size_t q = data->q, rows = b->rows;
    ptrdiff_t row = data->x_row, column = data->x_column;
    if ((row < 0 ? -row : row) < (column < 0 ? -column : column)) {
        for (size_t j = 0; j < q; j++)
            for (size_t i = 0; i < rows; i++)
                to[i * q + j] = entry(x + (ptrdiff_t)i * row + (ptrdiff_t)j * column, item);
    } else {
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < q; j++)
                to[i * q + j] = entry(x + (ptrdiff_t)i * row + (ptrdiff_t)j * column, item);
    }
}

static void gather_rows(const block *b, const char *x, double *to)
{
    if (is_narrow(&b->task->data))
        widen_rows(b, x, to);
    else if (b->task->data.x_item == sizeof(float))
        gather_rows_of(sizeof(float), b, x, to);
    else
        gather_rows_of(sizeof(double), b, x, to);
}

static void rows_load(block *b, const char *x)
{
    const records_task *task = b->task;
    const records_data *data = &task->data;
    size_t q = data->q;
    if (is_in_place(data)) {
        b->x = (const double *)x;
        b->step = data->x_row / 8;
    } else {
        gather_rows(b, x, b->gathered);
        b->x = b->gathered;
        b->step = (ptrdiff_t)q;
    }
    /* Half of what goes with each row; matrices take so long that they do it all. */
    size_t lines = wants_matrix(task) ? 0 : (lines_left(b, b->rows) + 1) / 2;
    const char *ahead = take_ahead(b, lines, (b->rows + 3) / 4 * 4);
    if (task->want & WANT_CHANGE)
        row_products_twice(b, task->theta, task->theta_new, ahead, lines);
    else
        row_products(b, task->theta, ahead, lines, b->dot, b->norm2);
    if (task->want & WANT_DIFFERENCE) {
        double *unused = b->g; /* overwritten later */
        row_products(b, task->theta_new, ahead, 0, b->dot_new, unused);
        row_products(b, task->theta_step, ahead, 0, b->dot_step, unused);
    }
    for (size_t i = b->rows; i < b->padded; i++)
        b->dot[i] = b->dot_new[i] = b->dot_step[i] = 0.0;
}

/* ----------------------------------------------------------------- step 2: guards ---------- */

/* Row i of a block we own: entries x[0], x[gap], ...  Replace a row that is not finite by zeros
 * with an undefined predictor; rescale any other by a power of two. */
static void repair_row(block *b, size_t i, double *x, size_t gap)
{
    const records_task *task = b->task;
    size_t q = task->data.q;
    double largest = 0.0;
    int finite = 1;
    for (size_t j = 0; j < q; j++) {
        double size = fabs(x[j * gap]);
        finite &= size <= DBL_MAX;
        largest = size > largest ? size : largest;
    }
    if (!finite) {
        for (size_t j = 0; j < q; j++)
            x[j * gap] = 0.0;
        b->norm2[i] = 0.0;
        b->dot[i] = b->dot_new[i] = NAN;
        b->dot_step[i] = 0.0;
        return;
    }
    if (largest == 0.0)
        return;
    int shift = ilogb(largest) - task->safe_exponent;
    double norm2 = 0.0, dot = 0.0, dot_new = 0.0, dot_step = 0.0;
    for (size_t j = 0; j < q; j++) {
        double v = ldexp(x[j * gap], -shift);
        x[j * gap] = v;
        norm2 += v * v;
        dot += v * task->theta[j];
        if (task->want & (WANT_DIFFERENCE | WANT_CHANGE))
            dot_new += v * task->theta_new[j];
        if (task->want & WANT_DIFFERENCE) {
            dot_step += v * task->theta_step[j];
        }
    }
    b->norm2[i] = norm2;
    b->dot_step[i] = dot_step;
    if (task->model.weighting == WEIGHT_SCHWEPPE) {
        /* The scaled row does not depend on the length either, but its intercept does. */
        b->down[i] = ldexp(1.0, -shift);
        b->up[i] = ldexp(1.0, shift);
        b->down_dirty = 1;
    }
    if (task->model.weighting == WEIGHT_BOUNDED || task->model.weighting == WEIGHT_SCHWEPPE) {
        /* The projection does not depend on the row's length: nothing else to undo. */
        b->dot[i] = dot;
        b->dot_new[i] = dot_new;
        return;
    }
    b->dot[i] = ldexp(dot, shift);
    b->dot_new[i] = ldexp(dot_new, shift);
    b->down[i] = ldexp(1.0, -shift);
    b->up[i] = ldexp(1.0, shift);
    b->down_dirty = 1;
}

static void guard(block *b)
{
    const records_task *task = b->task;
    size_t q = task->data.q, p = task->p;
    const vd lo = vset(task->norm2_lo), hi = vset(task->norm2_hi);
    vi ordinary = vseti(-1);
    if (b->down_dirty) {
        for (size_t i = 0; i < task->plan.block_rows; i++)
            b->down[i] = b->up[i] = 1.0;
        b->down_dirty = 0;
    }
    for (size_t i = 0; i < b->padded; i += L) {
        vd norm2 = vload(b->norm2 + i);
        ordinary &= (norm2 < hi) & (norm2 >= lo);
    }
    b->careful = 0;
    for (size_t i = 0; i < L; i++)
        b->careful |= !ordinary[i];
    if (!b->careful)
        return;
    if (!task->plan.columnar && b->x != b->gathered) {
        for (size_t i = 0; i < b->rows; i++)
            memcpy(b->gathered + i * q, b->x + (ptrdiff_t)i * b->step, q * sizeof(double));
        b->x = b->gathered;
        b->step = (ptrdiff_t)q;
    }
    for (size_t i = 0; i < b->rows; i++) {
        if (b->norm2[i] < task->norm2_hi && b->norm2[i] >= task->norm2_lo)
            continue;
        if (task->plan.columnar)
            repair_row(b, i, b->columns + (i / L) * p * L + i % L, L);
        else
            repair_row(b, i, b->gathered + (ptrdiff_t)i * b->step, 1);
    }
}

/* ----------------------------------------------------- step 3: loss and weights ------------ */

/* BOUNDED: the factor that puts x back on the declared ball; 1 for rows inside. */
static void shrink_factors(block *b)
{
    const vd room = vset(b->task->room), one = vset(1.0);
    vi all_inside = vseti(-1);
    for (size_t i = 0; i < b->padded; i += L) {
        vd factor = vmin(room / vsqrt(vload(b->norm2 + i)), one);
        all_inside &= factor == one;
        vstore(b->factor + i, factor);
    }
    b->shrunk = 0;
    for (size_t i = 0; i < L; i++)
        b->shrunk |= !all_inside[i];
}

/* theta0 + factor * dot (factor 1 unless BOUNDED). */
static INLINE vd predictor(const block *b, int weighting, vd theta0, const double *dot, size_t i)
{
    vd t = vload(dot + i);
    return weighting == WEIGHT_BOUNDED ? theta0 + vload(b->factor + i) * t : theta0 + t;
}

/* Squared length of the stored design row: ||x||^2 plus the intercept's entry squared (`ones` for
 * ordinary rows). */
static INLINE vd stored_norm2(const block *b, size_t i, int careful, vd ones)
{
    if (careful && b->task->model.intercept) {
        vd entry = vload(b->down + i);
        return vload(b->norm2 + i) + entry * entry;
    }
    return vload(b->norm2 + i) + ones;
}

/* SCHWEPPE: the factor that puts the whole stored row, intercept included, on the ball.  Rows that
 * were rescaled are longer than the radius. */
static void scale_factors(block *b)
{
    const vd room = vset(b->task->room), one = vset(1.0);
    const vd ones = vset((double)b->task->model.intercept);
    for (size_t i = 0; i < b->padded; i += L)
        vstore(b->factor + i, vmin(room / vsqrt(stored_norm2(b, i, b->careful, ones)), one));
    b->shrunk = 0;
}

/* Any weighting, chosen outside the loop: the residual, and whether the record counts.  With Schweppe
 * weights both y and the row are multiplied by v = factor * down. */
static INLINE vd residual_of(int loss, int weighting, const loss_constants *k, const block *b,
                             double theta0, const double *dot, size_t i, vi *ok)
{
    vd y = vload(b->y + i), t;
    if (weighting == WEIGHT_SCHWEPPE) {
        vd factor = vload(b->factor + i), down = vload(b->down + i);
        t = factor * (vset(theta0) * down + vload(dot + i));
        *ok = usable(loss, t, y);
        return (factor * (down * y) - t) * k->inverse_scale;
    }
    t = predictor(b, weighting, vset(theta0), dot, i);
    *ok = usable(loss, t, y);
    return residual(loss, k, t, y);
}

/* Losses and weightings without a loop of their own below: psi and slope of the whole block at
 * theta0 + dot are stored first, and weighted afterwards. */
enum { STORED = -1 };

enum { NO_MATRIX, CURVATURE, CHORD }; /* is h wanted, and is it psi' or the majorizer's chord */

/* Lines of the next block that are fetched with each vector of scores: of what is left all but one,
 * which goes with the gradient; half of those already while psi is stored, where it is. */
static INLINE size_t lines_while_scoring(const block *b)
{
    size_t lines = lines_left(b, b->padded / L);
    return !b->task->plan.columnar || wants_matrix(b->task) ? 0 : lines > 1 ? lines - 1 : lines;
}

static INLINE size_t lines_while_storing(const block *b) { return lines_while_scoring(b) / 2; }

static INLINE void store_slopes(int loss, int majorize, block *b, double theta0,
                                const double *dot, double *psi, double *slope)
{
    const int weighting = b->task->model.weighting;
    const loss_constants k = loss_prepare(&b->task->model);
    const size_t lines = lines_while_storing(b);
    const char *ahead = take_ahead(b, lines, b->padded / L);
    for (size_t i = 0; i < b->padded; i += L) {
        vd size, bend;
        vi ok;
        ahead = fetch(ahead, lines);
        vd r = residual_of(loss, weighting, &k, b, theta0, dot, i, &ok);
        psi_and_slope_at(loss, majorize, &k, r, vload(b->y + i), ok, &size, &bend);
        vstore(psi + i, size);
        vstore(slope + i, bend);
    }
}

/* A user's functions are believed only within the declared bounds; NaN becomes zero. */
static INLINE vd held(vd value, vd low, vd high)
{
    return (vd)((vi)vmin(vmax(value, low), high) & (value == value));
}

/* A user's psi of the whole block at theta0 + dot, and unless NO_MATRIX the slope.  `most` is
 * overwritten with the bound on each psi: zero where the record does not count. */
static void store_user_slopes(int matrices, block *b, double theta0, const double *dot,
                              double *psi, double *slope, double *most)
{
    const records_model *model = &b->task->model;
    const int weighting = model->weighting;
    const loss_constants k = loss_prepare(model);
    const vd zero = vset(0.0), one = vset(1.0);
    const size_t lines = lines_while_storing(b);
    const char *ahead = take_ahead(b, lines, b->padded / L);
    for (size_t i = 0; i < b->padded; i += L) {
        vi ok;
        ahead = fetch(ahead, lines);
        vd r = residual_of(LOSS_USER, weighting, &k, b, theta0, dot, i, &ok);
        ok &= r == r;
        vstore(b->g + i, (vd)((vi)r & ok));
        vstore(most + i, (vd)((vi)k.c & ok));
    }
    if (matrices == NO_MATRIX) {
        model->user_psi(b->g, psi, b->padded);
        for (size_t i = 0; i < b->padded; i += L) {
            vd bound = vload(most + i);
            vstore(psi + i, held(vload(psi + i), -bound, bound));
        }
        return;
    }
    model->user_slopes(b->g, psi, slope, b->padded);
    for (size_t i = 0; i < b->padded; i += L) {
        vd r = vload(b->g + i), bound = vload(most + i), steepest = k.h;
        vd size = held(vload(psi + i), -bound, bound), bend = vload(slope + i);
        if (matrices == CHORD) {
            bend = vselect(vabs(r) > vset(1e-150), size / r, bend);
        } else if (model->user_coupled) {
            vd tau = size * k.inverse_c;
            steepest = vmax(k.h * (one - tau * tau), zero);
        }
        vstore(psi + i, size);
        vstore(slope + i, (vd)((vi)held(bend, zero, steepest) & (bound > zero)));
    }
}

/* psi and, unless NO_MATRIX, the slope; `spare` is overwritten. */
static void store_slopes_of_loss(int matrices, block *b, double theta0, const double *dot,
                                 double *psi, double *slope, double *spare)
{
    switch (b->task->model.loss) {
#define STORE_SLOPES(code)                                                                      \
    case code:                                                                                  \
        if (matrices == CHORD)                                                                  \
            store_slopes(code, 1, b, theta0, dot, psi, slope);                                  \
        else                                                                                    \
            store_slopes(code, 0, b, theta0, dot, psi, slope);                                  \
        break
        STORE_SLOPES(LOSS_HUBER);
        STORE_SLOPES(LOSS_LOG_COSH);
        STORE_SLOPES(LOSS_PSEUDO_HUBER);
        STORE_SLOPES(LOSS_LOGISTIC);
        STORE_SLOPES(LOSS_SMOOTHED_HUBER);
        STORE_SLOPES(LOSS_OSTROVSKII_BACH);
        STORE_SLOPES(LOSS_SMOOTH_ABSOLUTE);
    case LOSS_USER: store_user_slopes(matrices, b, theta0, dot, psi, slope, spare); break;
#define STORE_PSI(code)                                                                         \
    case code: store_slopes(code, 0, b, theta0, dot, psi, slope); break
        STORE_PSI(LOSS_TUKEY);
        STORE_PSI(LOSS_GEMAN_MCCLURE);
        STORE_PSI(LOSS_WELSCH);
        STORE_PSI(LOSS_CAUCHY);
    default: break;
    }
}

/* Before columnar matrices: half of what is left; their tiles fetch a line a group. */
static INLINE size_t lines_while_weighing(const block *b)
{
    return b->task->plan.columnar ? lines_left(b, 2 * b->padded / L) : 0;
}

/* Multipliers of the stored row (x part times factor): g for the score, with the sign of the
 * gradient of the loss; h and m, if there are `matrices`, for xi xi'. */
static INLINE void multipliers_of(int loss, int weighting, int careful, int matrices, block *b)
{
    const records_task *task = b->task;
    const records_model *model = &task->model;
    const loss_constants k = loss_prepare(model);
    const vd one = vset(1.0), radius = vset(model->radius), theta0 = vset(task->theta0);
    const vd radius2 = vset(model->radius * model->radius), ones = vset((double)model->intercept);
    const size_t lines = lines_while_weighing(b);
    const char *ahead = take_ahead(b, lines, b->padded / L);
    for (size_t i = 0; i < b->padded; i += L) {
        ahead = fetch(ahead, lines);
        vd psi, slope, g;
        if (loss == STORED) {
            psi = vload(b->dot_new + i);
            slope = matrices ? vload(b->dot_step + i) : one;
        } else {
            psi_and_slope(loss, matrices == CHORD, &k, predictor(b, weighting, theta0, b->dot, i),
                          vload(b->y + i), &psi, &slope);
        }
        if (weighting == WEIGHT_BOUNDED) {
            g = -psi;
        } else if (weighting == WEIGHT_SCHWEPPE) {
            vd factor = vload(b->factor + i);
            g = -psi * factor;
            slope = slope * factor * factor;
        } else if (weighting == WEIGHT_MALLOWS_LINEAR) {
            /* Rescaled rows are longer than the radius and need no correction. */
            g = -psi * vmin(radius / vsqrt(stored_norm2(b, i, careful, ones)), one);
        } else if (weighting == WEIGHT_MALLOWS) {
            vd weight = vmin(radius2 / stored_norm2(b, i, careful, ones), one);
            g = -psi * weight;
            if (careful)
                g = g * vload(b->down + i);
            slope = slope * weight;
        } else {
            vd cap = radius / vsqrt(stored_norm2(b, i, careful, ones));
            vd size = vabs(psi);
            if (careful)
                size = size * vload(b->up + i);
            g = vcopysign(vmin(size, cap), -psi);
        }
        vstore(b->g + i, g);
        if (matrices) {
            vstore(b->h + i, slope);
            vstore(b->m + i, g * g);
        }
    }
}

/* The same for ordinary rows and the score alone, with one division for psi and its weight, or for
 * the weight of the stored psi. */
static INLINE void scores_of(int loss, int weighting, block *b)
{
    const records_task *task = b->task;
    const records_model *model = &task->model;
    const loss_constants k = loss_prepare(model);
    const vd one = vset(1.0), theta0 = vset(task->theta0);
    const double inverse = 1.0 / model->radius, square = 1.0 / (model->radius * model->radius);
    const vd inverse_radius = vset(inverse), inverse_radius2 = vset(square);
    /* ||xi||^2 / R^2 = ||x||^2 / R^2 + shift */
    const vd ones = vset((double)model->intercept), shift = ones * inverse_radius2;
    const double *dot = b->dot, *norm2 = b->norm2, *y = b->y;
    double *g = b->g;
    const size_t lines = lines_while_scoring(b);
    const char *ahead = take_ahead(b, lines, b->padded / L);
    for (size_t i = 0; i < b->padded; i += L) {
        ahead = fetch(ahead, lines);
        fraction psi = {.denominator = one};
        vi ok = vseti(-1);
        if (loss == STORED) {
            psi.numerator = vload(b->dot_new + i);
        } else {
            vd label = vload(y + i), t = predictor(b, weighting, theta0, dot, i);
            vd r = residual(loss, &k, t, label);
            ok = usable(loss, t, label);
            psi = psi_fraction(loss, &k, FAR_FOR_SCORES, r, label);
        }
        vd divisor = psi.denominator;
        if (weighting == WEIGHT_MALLOWS) {
            divisor *= vmax(vload(norm2 + i) * inverse_radius2 + shift, one);
        } else if (weighting == WEIGHT_CLIP) {
            vd length = vsqrt(vload(norm2 + i) + ones) * inverse_radius;
            divisor = vmax(divisor, vabs(psi.numerator) * length);
        }
        vstore(g + i, (vd)((vi)(-psi.numerator / divisor) & ok));
    }
}

/* What the free scale adds, from g and h (chord: majorising curvature, which has no cross part). */
static INLINE void scale_multipliers_of(int loss, int careful, int chord, const block *b)
{
    const records_task *task = b->task;
    const records_model *model = &task->model;
    const loss_constants k = loss_prepare(model);
    const vd zero = vset(0.0), one = vset(1.0), ones = vset((double)model->intercept);
    const vd theta0 = vset(task->theta0), factor = vset(model->scale_factor);
    const vd radius2 = vset(model->radius * model->radius), half = vset(0.5 * model->kappa);
    const int mallows = model->weighting == WEIGHT_MALLOWS;
    for (size_t i = 0; i < b->padded; i += L) {
        vd chi, reach, weight = one, t = predictor(b, model->weighting, theta0, b->dot, i);
        vd y = vload(b->y + i), g = vload(b->g + i), h = vload(b->h + i);
        chi_and_reach(loss, &k, t, y, &chi, &reach);
        if (mallows) {
            /* The true weight is this times down^2; h has this one. */
            weight = vmin(radius2 / stored_norm2(b, i, careful, ones), one);
        }
        vd q = vselect(usable(loss, t, y), factor * (half - chi) * weight, zero);
        vd hr = zero;
        vd hr2 = vselect(usable(loss, t, y), factor * factor * model->kappa * weight, zero);
        if (!chord && task->want & WANT_HESSIAN) {
            reach = factor * reach;
            hr = h * reach;
            hr2 = hr * reach;
        }
        if (careful) {
            vd down = vload(b->down + i);
            q = q * down * down;
            hr = hr * down;
            hr2 = hr2 * down * down;
        }
        vstore(b->q + i, q);
        vstore(b->hr + i, hr);
        vstore(b->hr2 + i, hr2);
        vstore(b->gq + i, g * q);
    }
}

static void scale_multipliers(const block *b)
{
    int chord = !!(b->task->want & WANT_MAJORIZE);
    int careful = b->careful && b->task->model.weighting != WEIGHT_BOUNDED;
    switch (b->task->model.loss) {
    case LOSS_HUBER: scale_multipliers_of(LOSS_HUBER, careful, chord, b); break;
    case LOSS_LOG_COSH: scale_multipliers_of(LOSS_LOG_COSH, careful, chord, b); break;
    default: scale_multipliers_of(LOSS_PSEUDO_HUBER, careful, chord, b); break;
    }
}

static INLINE int matrices_wanted(int want)
{
    return want & WANT_MAJORIZE                 ? CHORD
           : want & (WANT_HESSIAN | WANT_MEAT) ? CURVATURE
                                                : NO_MATRIX;
}

static INLINE void multipliers_for_loss(int loss, block *b)
{
    int want = b->task->want, weighting = b->task->model.weighting;
    int matrices = matrices_wanted(want);
    /* Careful blocks are rare: one variant serves whether or not matrices are wanted.  The
     * projection of a bounded record needs no further care. */
    int careful = b->careful && weighting != WEIGHT_BOUNDED;
    if (careful && matrices == NO_MATRIX)
        matrices = CURVATURE;
    switch (weighting * 8 + careful * 4 + matrices) {
#define SCORES(weighting)                                                                       \
    case (weighting) * 8 + NO_MATRIX: scores_of(loss, weighting, b); break
        SCORES(WEIGHT_BOUNDED);
        SCORES(WEIGHT_MALLOWS);
        SCORES(WEIGHT_CLIP);
#define MULTIPLIERS(weighting, careful, matrices)                                               \
    case (weighting) * 8 + (careful) * 4 + (matrices):                                          \
        multipliers_of(loss, weighting, careful, matrices, b);                                  \
        break
        MULTIPLIERS(WEIGHT_BOUNDED, 0, CURVATURE);
        MULTIPLIERS(WEIGHT_BOUNDED, 0, CHORD);
        MULTIPLIERS(WEIGHT_MALLOWS, 0, CURVATURE);
        MULTIPLIERS(WEIGHT_MALLOWS, 0, CHORD);
        MULTIPLIERS(WEIGHT_MALLOWS, 1, CURVATURE);
        MULTIPLIERS(WEIGHT_MALLOWS, 1, CHORD);
        MULTIPLIERS(WEIGHT_CLIP, 0, CURVATURE);
        MULTIPLIERS(WEIGHT_CLIP, 1, CURVATURE);
    default: break;
    }
}

static void multipliers_stored(block *b)
{
    int want = b->task->want, weighting = b->task->model.weighting;
    int careful = b->careful && weighting != WEIGHT_BOUNDED && weighting != WEIGHT_SCHWEPPE;
    int matrices = matrices_wanted(want);
    store_slopes_of_loss(matrices, b, b->task->theta0, b->dot, b->dot_new, b->dot_step, b->m);
    switch (weighting * 4 + careful * 2 + (matrices != NO_MATRIX)) {
#define SCORES_STORED(weighting)                                                                \
    case (weighting) * 4: scores_of(STORED, weighting, b); break
        SCORES_STORED(WEIGHT_BOUNDED);
        SCORES_STORED(WEIGHT_MALLOWS);
        SCORES_STORED(WEIGHT_CLIP);
#define MULTIPLIERS_STORED(weighting, careful, matrices)                                        \
    case (weighting) * 4 + (careful) * 2 + (matrices):                                          \
        multipliers_of(STORED, weighting, careful, matrices, b);                                \
        break
        MULTIPLIERS_STORED(WEIGHT_BOUNDED, 0, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS, 0, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS, 1, NO_MATRIX);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS, 1, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_CLIP, 0, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_CLIP, 1, NO_MATRIX);
        MULTIPLIERS_STORED(WEIGHT_CLIP, 1, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_SCHWEPPE, 0, NO_MATRIX);
        MULTIPLIERS_STORED(WEIGHT_SCHWEPPE, 0, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS_LINEAR, 0, NO_MATRIX);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS_LINEAR, 0, CURVATURE);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS_LINEAR, 1, NO_MATRIX);
        MULTIPLIERS_STORED(WEIGHT_MALLOWS_LINEAR, 1, CURVATURE);
    default: break;
    }
}

static void multipliers(block *b)
{
    if (b->task->model.weighting > WEIGHT_CLIP) {
        multipliers_stored(b);
        return;
    }
    switch (b->task->model.loss) {
    case LOSS_HUBER: multipliers_for_loss(LOSS_HUBER, b); break;
    case LOSS_LOG_COSH: multipliers_for_loss(LOSS_LOG_COSH, b); break;
    case LOSS_PSEUDO_HUBER: multipliers_for_loss(LOSS_PSEUDO_HUBER, b); break;
    case LOSS_LOGISTIC: multipliers_for_loss(LOSS_LOGISTIC, b); break;
    default: multipliers_stored(b); break;
    }
}

/* Squared length of xi as its multiplier finds it. */
static INLINE vd length2(const block *b, int weighting, int careful, vd ones, size_t i)
{
    if (weighting != WEIGHT_BOUNDED)
        return stored_norm2(b, i, careful, ones);
    vd factor = vload(b->factor + i);
    return ones + factor * factor * vload(b->norm2 + i);
}

/* Multipliers of the stored row for the change of the score between two parameters, each record's
 * change held to a norm of `limit`.  With clipping it is the clipped scores that change.  Square
 * roots are taken only in blocks where some record may be beyond the limit. */
static INLINE void changes_of(int loss, int weighting, int careful, const block *b)
{
    const records_task *task = b->task;
    const records_model *model = &task->model;
    const loss_constants k = loss_prepare(model);
    const vd one = vset(1.0), radius = vset(model->radius), limit = vset(task->limit);
    const vd radius2 = vset(model->radius * model->radius), ones = vset((double)model->intercept);
    /* A little below the square of the limit; squares that underflow are far below it. */
    const vd safe2 = vset(task->limit_square);
    vi beyond = vseti(0);
    for (size_t i = 0; i < b->padded; i += L) {
        vd y = vload(b->y + i), before, after, unused, change;
        vd norm2 = length2(b, weighting, careful, ones, i);
        if (loss == STORED) {
            before = vload(b->h + i);
            after = vload(b->m + i);
        } else {
            psi_and_slope(loss, 0, &k, predictor(b, weighting, vset(task->theta0), b->dot, i), y,
                          &before, &unused);
            psi_and_slope(loss, 0, &k,
                          predictor(b, weighting, vset(task->theta0_new), b->dot_new, i), y,
                          &after, &unused);
        }
        if (weighting == WEIGHT_BOUNDED) {
            change = before - after;
        } else if (weighting == WEIGHT_MALLOWS) {
            change = (before - after) * vmin(radius2 / norm2, one);
            if (careful)
                change = change * vload(b->down + i);
        } else if (weighting == WEIGHT_SCHWEPPE) {
            change = (before - after) * vload(b->factor + i);
        } else if (weighting == WEIGHT_MALLOWS_LINEAR) {
            change = (before - after) * vmin(radius / vsqrt(norm2), one);
        } else {
            vd cap = radius / vsqrt(norm2), up = careful ? vload(b->up + i) : one;
            change = vcopysign(vmin(vabs(before) * up, cap), before) -
                     vcopysign(vmin(vabs(after) * up, cap), after);
        }
        beyond |= ~(change * change * norm2 <= safe2);
        vstore(b->g + i, change);
    }
    int clip = 0;
    for (size_t i = 0; i < L; i++)
        clip |= beyond[i] != 0;
    if (!clip)
        return;
    for (size_t i = 0; i < b->padded; i += L) {
        vd change = vload(b->g + i), norm2 = length2(b, weighting, careful, ones, i);
        vstore(b->g + i, vcopysign(vmin(vabs(change), limit / vsqrt(norm2)), change));
    }
}

static INLINE void changes_for_loss(int loss, const block *b)
{
    int weighting = b->task->model.weighting;
    switch (weighting * 2 + (b->careful && weighting != WEIGHT_BOUNDED)) {
#define CHANGES(weighting, careful)                                                             \
    case (weighting) * 2 + (careful):                                                           \
        changes_of(loss, weighting, careful, b);                                                \
        break
        CHANGES(WEIGHT_BOUNDED, 0);
        CHANGES(WEIGHT_MALLOWS, 0);
        CHANGES(WEIGHT_MALLOWS, 1);
        CHANGES(WEIGHT_CLIP, 0);
        CHANGES(WEIGHT_CLIP, 1);
    default: break;
    }
}

static void changes_stored(block *b)
{
    const records_task *task = b->task;
    double *unused = b->dot_step, *spare = b->gq;
    store_slopes_of_loss(NO_MATRIX, b, task->theta0, b->dot, b->h, unused, spare);
    store_slopes_of_loss(NO_MATRIX, b, task->theta0_new, b->dot_new, b->m, unused, spare);
    switch (task->model.weighting) {
#define CHANGES_STORED(code)                                                                    \
    case code: changes_of(STORED, code, 1, b); break
        CHANGES_STORED(WEIGHT_BOUNDED);
        CHANGES_STORED(WEIGHT_MALLOWS);
        CHANGES_STORED(WEIGHT_CLIP);
        CHANGES_STORED(WEIGHT_SCHWEPPE);
        CHANGES_STORED(WEIGHT_MALLOWS_LINEAR);
    default: break;
    }
}

static void changes(block *b)
{
    if (b->task->model.weighting > WEIGHT_CLIP) {
        changes_stored(b);
        return;
    }
    switch (b->task->model.loss) {
#define CHANGES_CASE(code) case code: changes_for_loss(code, b); break
        CHANGES_CASE(LOSS_HUBER);
        CHANGES_CASE(LOSS_LOG_COSH);
        CHANGES_CASE(LOSS_PSEUDO_HUBER);
        CHANGES_CASE(LOSS_LOGISTIC);
    default: changes_stored(b); break;
    }
}

/* ------------------------------------------------------------- step 4: gradient ------------ */

/* out[0..count) += sum over groups of g * column; with each group so many `lines` from `ahead` on are
 * fetched. */
static INLINE void column_gradient(const double *columns, size_t groups, size_t p, const double *g,
                                   int count, const char *ahead, size_t lines, double *out)
{
    vd acc[12 + LANES] = {{0}};
    for (size_t k = 0; k < groups; k++, columns += p * L) {
        ahead = fetch(ahead, lines);
        vd multiplier = vload(g + k * L);
        UNROLL for (int i = 0; i < count; i++)
            acc[i] += multiplier * vload(columns + (size_t)i * L);
    }
    UNROLL for (int i = 0; i < count; i += LANES)
        vstore(out + i, vload(out + i) + sum_lanes(acc + i));
}

static void columnar_gradient(block *b, const double *g, double *out)
{
    size_t q = b->task->data.q, p = b->task->p, groups = b->padded / L;
    size_t lines = wants_matrix(b->task) ? 0 : lines_left(b, groups);
    const char *ahead = take_ahead(b, lines, groups);
    const double *x = b->columns;
    for (; q > 12; q -= 8, x += 8 * L, out += 8, lines = 0)
        column_gradient(x, groups, p, g, 8, ahead, lines, out);
    switch (q) {
#define COLUMN_GRADIENT(count)                                                                  \
    case count:                                                                                 \
        column_gradient(x, groups, p, g, count, ahead, lines, out);                             \
        break
        COLUMN_GRADIENT(1); COLUMN_GRADIENT(2); COLUMN_GRADIENT(3); COLUMN_GRADIENT(4);
        COLUMN_GRADIENT(5); COLUMN_GRADIENT(6); COLUMN_GRADIENT(7); COLUMN_GRADIENT(8);
        COLUMN_GRADIENT(9); COLUMN_GRADIENT(10); COLUMN_GRADIENT(11); COLUMN_GRADIENT(12);
    default: break;
    }
}

/* out += sum over rows of g[i] * (columns of x), `vectors` vectors wide, the last one holding
 * `tail` columns; `chains` accumulators per vector hide the latency of narrow tiles.  With each row
 * so many `lines` from `ahead` on are fetched. */
static INLINE void row_gradient(const double *x, ptrdiff_t step, size_t rows, const double *g,
                                int vectors, size_t tail, int chains, const char *ahead,
                                size_t lines, double *out)
{
    vd acc[8] = {{0}};
    size_t i = 0;
    for (; i + (size_t)chains <= rows; i += (size_t)chains) {
        ahead = fetch(ahead, lines * (size_t)chains);
        UNROLL for (int c = 0; c < chains; c++) {
            vd multiplier = vset(g[i + (size_t)c]);
            UNROLL for (int v = 0; v < vectors; v++) {
                const double *from = x + (size_t)v * L;
                vd value = v + 1 < vectors || tail == L ? vload(from) : vload_part(from, tail);
                acc[c * vectors + v] += multiplier * value;
            }
            x += step;
        }
    }
    for (; i < rows; i++, x += step) {
        vd multiplier = vset(g[i]);
        UNROLL for (int v = 0; v < vectors; v++) {
            const double *from = x + (size_t)v * L;
            vd value = v + 1 < vectors || tail == L ? vload(from) : vload_part(from, tail);
            acc[v] += multiplier * value;
        }
    }
    UNROLL for (int c = chains - 1; c > 0; c--) {
        UNROLL for (int v = 0; v < vectors; v++)
            acc[(c - 1) * vectors + v] += acc[c * vectors + v];
    }
    UNROLL for (int v = 0; v < vectors; v++)
        vstore(out + (size_t)v * L, vload(out + (size_t)v * L) + acc[v]);
}

#define ROW_GRADIENT(vectors, chains)                                                           \
    case vectors:                                                                               \
        if (tail == L)                                                                          \
            row_gradient(x, b->step, b->rows, g, vectors, L, chains, ahead, lines, out);        \
        else                                                                                    \
            row_gradient(x, b->step, b->rows, g, vectors, tail, chains, ahead, lines, out);     \
        break

static void rows_gradient(const block *b, const double *g, double *out)
{
    size_t q = b->task->data.q, total = (q + L - 1) / L, tiles = (total + 7) / 8;
    const double *x = b->x;
    const char *ahead = b->ahead;
    size_t lines = lines_left(b, b->rows * tiles);
    for (size_t tile = 0; tile < tiles; tile++, ahead += b->rows * lines * LINE) {
        size_t first = tile * total / tiles, next = (tile + 1) * total / tiles;
        size_t tail = next == total && q % L ? q % L : L;
        switch (next - first) {
            ROW_GRADIENT(1, 4);
            ROW_GRADIENT(2, 4);
            ROW_GRADIENT(3, 2);
            ROW_GRADIENT(4, 2);
            ROW_GRADIENT(5, 1);
            ROW_GRADIENT(6, 1);
            ROW_GRADIENT(7, 1);
            ROW_GRADIENT(8, 1);
        default: break;
        }
        x += (next - first) * L;
        out += (next - first) * L;
    }
}

/* ------------------------------------------------------------- step 4: matrices ------------ */

/* Columnar tile: c[i][j] += sum over groups of (d a_i) * b_j, ni rows by nj columns; `triangle`
 * takes j <= i only (then ni == nj). */
static INLINE void column_tile(block *owner, const double *d, const double *a, const double *b,
                               size_t groups, size_t p, int ni, int nj, int triangle, double *c,
                               size_t width)
{
    const char *ahead = owner->ahead, *ahead_end = owner->ahead_end;
    enum { MOST = 24 };
    vd acc[MOST + LANES] = {{0}};
    for (size_t k = 0; k < groups; k++, a += p * L, b += p * L) {
        if (ahead < ahead_end)
            ahead = fetch_line_beside_matrix(ahead);
        vd right[6], multiplier = vload(d + k * L);
        UNROLL for (int j = 0; j < nj; j++)
            right[j] = vload(b + (size_t)j * L);
        UNROLL for (int i = 0; i < ni; i++) {
            vd left = multiplier * vload(a + (size_t)i * L);
            UNROLL for (int j = 0; j < nj; j++)
                if (!triangle || j <= i)
                    acc[triangle ? i * (i + 1) / 2 + j : i * nj + j] += left * right[j];
        }
    }
    owner->ahead = ahead;
    double sums[MOST + LANES];
    int count = triangle ? ni * (ni + 1) / 2 : ni * nj, n = 0;
    UNROLL for (int i = 0; i < count; i += LANES)
        vstore(sums + i, sum_lanes(acc + i));
    UNROLL for (int i = 0; i < ni; i++)
        UNROLL for (int j = 0; j < nj; j++)
            if (!triangle || j <= i)
                c[(size_t)i * width + (size_t)j] += sums[n++];
}

#define COLUMN_TILE(ni, nj)                                                                     \
    case (ni) * 8 + (nj):                                                                       \
        column_tile(b, d, a, x, groups, p, ni, nj, 0, out, width);                              \
        break
#define COLUMN_TRIANGLE(n)                                                                      \
    case n:                                                                                     \
        column_tile(b, d, x, x, groups, p, n, n, 1, out, width);                                \
        break

/* Rows of the matrix from row i on whose tiles are done together: as many as fill the registers,
 * which for the triangle at the top are more. */
static INLINE size_t tile_rows(size_t p, size_t i)
{
    size_t most = i ? COLUMN_ROWS : FIRST_ROWS;
    return p - i < most ? p - i : most;
}

/* Lower triangle of sum d xi xi' over a columnar block. */
static void columnar_matrix(block *b, const double *d, double *c)
{
    size_t p = b->task->p, width = b->task->width, groups = b->padded / L;
    for (size_t i = 0, ni; i < p; i += ni) {
        ni = tile_rows(p, i);
        const double *a = b->columns + i * L;
        for (size_t j = 0, nj; j < i; j += nj) {
            nj = i - j < COLUMN_COLUMNS ? i - j : COLUMN_COLUMNS;
            const double *x = b->columns + j * L;
            double *out = c + i * width + j;
            switch (ni * 8 + nj) {
                COLUMN_TILE(1, 1); COLUMN_TILE(1, 2); COLUMN_TILE(2, 1); COLUMN_TILE(2, 2);
#if COLUMN_ROWS > 2
                COLUMN_TILE(3, 1); COLUMN_TILE(3, 2); COLUMN_TILE(4, 1); COLUMN_TILE(4, 2);
#endif
#if COLUMN_COLUMNS > 2
                COLUMN_TILE(1, 3); COLUMN_TILE(2, 3); COLUMN_TILE(3, 3); COLUMN_TILE(4, 3);
                COLUMN_TILE(1, 4); COLUMN_TILE(2, 4); COLUMN_TILE(3, 4); COLUMN_TILE(4, 4);
                COLUMN_TILE(1, 5); COLUMN_TILE(2, 5); COLUMN_TILE(3, 5); COLUMN_TILE(4, 5);
                COLUMN_TILE(1, 6); COLUMN_TILE(2, 6); COLUMN_TILE(3, 6); COLUMN_TILE(4, 6);
#endif
            default: break;
            }
        }
        const double *x = b->columns + i * L;
        double *out = c + i * width + i;
        switch (ni) {
            COLUMN_TRIANGLE(1); COLUMN_TRIANGLE(2); COLUMN_TRIANGLE(3); COLUMN_TRIANGLE(4);
#if FIRST_ROWS > 4
            COLUMN_TRIANGLE(5); COLUMN_TRIANGLE(6);
#endif
        default: break;
        }
    }
}

/* Multiply the rows by their factors: a copy of them, which replaces them. */
static void project_rows(block *b)
{
    const size_t q = b->task->data.q;
    for (size_t i = 0; i < b->rows; i++) {
        const double *from = b->x + (ptrdiff_t)i * b->step;
        for (size_t j = 0; j < q; j++)
            b->gathered[i * q + j] = b->factor[i] * from[j];
    }
    b->x = b->gathered;
    b->step = (ptrdiff_t)q;
}

/* The panel of LANES columns that holds the last entries of the design rows. */
static INLINE size_t last_panel(const records_task *task) { return (task->p - 1) / L; }

/* For the matrices rows hold xi itself: the projected x where it is; the last panel, which may have
 * few columns and holds the intercept's entry, gets a packed copy. */
static void finish_rows(block *b)
{
    const records_task *task = b->task;
    size_t q = task->data.q, first = last_panel(task) * L;
    double *packed = b->columns;
    if (b->shrunk)
        project_rows(b);
    for (size_t i = 0; i < b->rows; i++, packed += L) {
        const double *from = b->x + (ptrdiff_t)i * b->step + first;
        vstore(packed, q - first == L ? vload(from) : vload_part(from, q - first));
        if (task->model.intercept)
            packed[q - first] = b->down[i];
    }
}

/* c[ni rows][nv vectors] += sum over rows of a[row][i] * x[row], rows of x being `step` apart.  With
 * each of the first `lines` rows a line of the next block is fetched. */
static INLINE void panel_tile(block *owner, const double *a, const double *x, ptrdiff_t step,
                              int ni, int nv, size_t lines, double *c, size_t width)
{
    const char *ahead = owner->ahead, *ahead_end = ahead + lines * LINE;
    vd acc[LANES][PANEL_VECTORS];
    UNROLL for (int i = 0; i < ni; i++)
        UNROLL for (int v = 0; v < nv; v++)
            acc[i][v] = vset(0.0);
    for (size_t k = 0; k < owner->rows; k++, a += L, x += step) {
        if (ahead < ahead_end)
            ahead = fetch_line_beside_matrix(ahead);
        vd right[PANEL_VECTORS];
        UNROLL for (int v = 0; v < nv; v++)
            right[v] = vload(x + (size_t)v * L);
        UNROLL for (int i = 0; i < ni; i++) {
            vd left = vset(a[i]);
            UNROLL for (int v = 0; v < nv; v++)
                acc[i][v] += left * right[v];
        }
    }
    owner->ahead = ahead;
    UNROLL for (int i = 0; i < ni; i++) {
        UNROLL for (int v = 0; v < nv; v++) {
            double *out = c + (size_t)i * width + (size_t)v * L;
            vstore(out, vload(out) + acc[i][v]);
        }
    }
}

#define PANEL_TILE(ni, nv)                                                                      \
    case (ni) * 8 + (nv): panel_tile(b, b->scaled, x, step, ni, nv, lines, c, width); break
#if PANEL_VECTORS > 3
#define PANEL_TILES(ni)                                                                         \
    PANEL_TILE(ni, 1); PANEL_TILE(ni, 2); PANEL_TILE(ni, 3); PANEL_TILE(ni, 4)
#else
#define PANEL_TILES(ni) PANEL_TILE(ni, 1); PANEL_TILE(ni, 2); PANEL_TILE(ni, 3)
#endif

static void panel_tiles(block *b, const double *x, ptrdiff_t step, size_t ni, size_t nv,
                        size_t lines, double *c)
{
    const size_t width = b->task->width;
    switch (ni * 8 + nv) {
        PANEL_TILES(2);
#if LANES > 2
        PANEL_TILES(4);
#endif
#if LANES > 4
        PANEL_TILES(8);
#endif
    default: break;
    }
}

/* Lower triangle (in whole tiles) of sum d xi xi' over rows.  As rows of the result the columns of
 * the last panel get tiles of their own. */
static void panel_matrix(block *b, const double *d, double *c)
{
    const size_t p = b->task->p, width = b->task->width, last = last_panel(b->task);
    /* A tile for about every PANEL_VECTORS panels, and half a tile more for each row of them. */
    const size_t tiles = (last + 1) * (last + 1 + PANEL_VECTORS) / (2 * PANEL_VECTORS);
    const size_t lines = lines_left(b, tiles + 1);
    for (size_t i = 0; i <= last; i++, c += L * width) {
        size_t left = p - i * L, ni = left >= L ? L : left <= 2 ? 2 : left <= 4 ? 4 : L;
        size_t in_place = i < last ? i + 1 : last;
        const double *from = i < last ? b->x + i * L : b->columns;
        ptrdiff_t step = i < last ? b->step : (ptrdiff_t)L;
        for (size_t k = 0; k < b->rows; k++, from += step)
            vstore(b->scaled + k * L, vset(d[k]) * vload(from));
        for (size_t j = 0, nv; j < in_place; j += nv) {
            nv = in_place - j < PANEL_VECTORS ? in_place - j : PANEL_VECTORS;
            panel_tiles(b, b->x + j * L, b->step, ni, nv, lines, c + j * L);
        }
        if (i == last)
            panel_tiles(b, b->columns, (ptrdiff_t)L, ni, 1, lines, c + i * L);
    }
}

static void matrix(block *b, const double *d, double *c)
{
    if (b->task->plan.columnar)
        columnar_matrix(b, d, c);
    else
        panel_matrix(b, d, c);
}

/* ------------------------------------------------------------------ losses ----------------- */

/* Weight of the record's loss, and what turns the stored row's xi'delta into the weighted one: the
 * stored row of a careful record is down * x. */
static INLINE void weights_of(const block *b, size_t i, vd *of_loss, vd *of_row)
{
    const records_model *model = &b->task->model;
    const vd one = vset(1.0);
    *of_loss = *of_row = one;
    if (model->weighting == WEIGHT_BOUNDED)
        return;
    if (model->weighting == WEIGHT_SCHWEPPE) {
        *of_row = vload(b->factor + i);
        return;
    }
    vd norm2 = stored_norm2(b, i, 1, vset(0.0)), down = vload(b->down + i);
    if (model->weighting == WEIGHT_MALLOWS_LINEAR) {
        *of_row = vmin(vset(model->radius) / vsqrt(norm2), one);
    } else {
        *of_row = vmin(vset(model->radius * model->radius) / norm2, one) * down;
    }
    *of_loss = *of_row * down;
}

/* A user's rho at theta0 + dot of the whole block. */
static INLINE void store_user_values(const block *b, double theta0, const double *dot,
                                     double *values)
{
    const records_model *model = &b->task->model;
    const int weighting = model->weighting;
    const loss_constants k = loss_prepare(model);
    for (size_t i = 0; i < b->padded; i += L) {
        vi ok;
        vd r = residual_of(LOSS_USER, weighting, &k, b, theta0, dot, i, &ok);
        vstore(b->g + i, (vd)((vi)r & ok & (r == r)));
    }
    model->user_values(b->g, values, b->padded);
}

static INLINE vd sum_block(vd total)
{
    vd parts[LANES] = {total};
    return sum_lanes(parts);
}

static INLINE void losses_of(int loss, const block *b, double *sums)
{
    const records_task *task = b->task;
    const int weighting = task->model.weighting;
    const loss_constants k = loss_prepare(&task->model);
    const vd half_kappa = vset(task->model.scale_factor > 0.0 ? 0.5 * task->model.kappa : 0.0);
    vd total = vset(0.0);
    if (loss == LOSS_USER)
        store_user_values(b, task->theta0, b->dot, b->h);
    for (size_t i = 0; i < b->padded; i += L) {
        vi ok;
        vd r = residual_of(loss, weighting, &k, b, task->theta0, b->dot, i, &ok);
        vd value, weight, unused;
        if (loss == LOSS_USER) {
            value = vload(b->h + i);
            ok &= (r == r) & (value == value);
        } else {
            value = rho(loss, &k, r, &unused) + half_kappa;
        }
        weights_of(b, i, &weight, &unused);
        value = value * weight;
        total += (vd)((vi)value & ok);
    }
    sums[task->loss_at] += sum_block(total)[0];
}

/* Per record, with delta = xi'(theta_new - theta_old): the part linear in |r| changes by exactly
 * -sign(r) psi_max delta / sigma where r keeps its sign, so that huge losses cancel on paper and
 * not in floating point; the result is held to the proved bound psi_max |w delta|.  The sum is in
 * units of the score (sigma cancels). */
static INLINE void loss_differences_of(int loss, const block *b, double *sums)
{
    const records_task *task = b->task;
    const int weighting = task->model.weighting;
    const loss_constants k = loss_prepare(&task->model);
    const vd zero = vset(0.0), scale = vset(task->model.scale);
    vd total = zero;
    if (loss == LOSS_USER) {
        store_user_values(b, task->theta0, b->dot, b->h);
        store_user_values(b, task->theta0_new, b->dot_new, b->m);
    }
    for (size_t i = 0; i < b->padded; i += L) {
        vd y = vload(b->y + i), weight, row_weight;
        vi old_ok, new_ok;
        vd old_r = residual_of(loss, weighting, &k, b, task->theta0, b->dot, i, &old_ok);
        vd new_r = residual_of(loss, weighting, &k, b, task->theta0_new, b->dot_new, i, &new_ok);
        /* xi'(theta_new - theta_old) of the stored row */
        vd step = vload(b->dot_step + i);
        if (task->model.weighting == WEIGHT_BOUNDED)
            step = vset(task->theta0_step) + vload(b->factor + i) * step;
        else
            step = vset(task->theta0_step) * vload(b->down + i) + step;
        weights_of(b, i, &weight, &row_weight);
        vd weighted_step = row_weight * step;
        vd old_rest = zero, new_rest = zero, old_rho, new_rho;
        if (loss == LOSS_USER) {
            old_rho = vload(b->h + i);
            new_rho = vload(b->m + i);
        } else {
            old_rho = rho(loss, &k, old_r, &old_rest);
            new_rho = rho(loss, &k, new_r, &new_rest);
        }
        vd direct = scale * weight * (new_rho - old_rho);
        vd linear, rest = scale * weight * (old_rest - new_rest);
        vi same, central;
        if (loss == LOSS_LOGISTIC) {
            same = ((old_r >= zero) & (new_r >= zero)) | ((old_r < zero) & (new_r < zero));
            linear = vselect(old_r < zero, (vset(1.0) - y - y) * weighted_step, zero);
            central = vseti(0);
        } else {
            same = ((old_r >= zero) & (new_r >= zero)) | ((old_r <= zero) & (new_r <= zero));
            linear = k.steepest * vselect(old_r + new_r < zero, weighted_step, -weighted_step);
            central = (vabs(old_r) <= k.c) & (vabs(new_r) <= k.c);
            if (loss == LOSS_USER)
                central = vseti(-1); /* its asymptote is not known */
        }
        if (loss >= LOSS_TUKEY) /* no asymptote, and rho stays small */
            central = vseti(-1);
        vd value = vselect(same & ~central, linear + rest, direct);
        vd limit = k.steepest * vabs(weighted_step);
        value = vmin(vmax(value, -limit), limit);
        vi ok = old_ok & new_ok & (old_r == old_r) & (new_r == new_r) & (value == value) &
                (limit <= vset(DBL_MAX));
        total += (vd)((vi)value & ok);
    }
    sums[task->loss_at] += sum_block(total)[0];
}

static void losses(block *b, double *sums)
{
    int difference = b->task->want & WANT_DIFFERENCE;
    switch (b->task->model.loss) {
#define LOSS_CASE(code)                                                                         \
    case code:                                                                                  \
        if (difference)                                                                         \
            loss_differences_of(code, b, sums);                                                 \
        else                                                                                    \
            losses_of(code, b, sums);                                                           \
        break
        LOSS_CASE(LOSS_HUBER);
        LOSS_CASE(LOSS_LOG_COSH);
        LOSS_CASE(LOSS_PSEUDO_HUBER);
        LOSS_CASE(LOSS_LOGISTIC);
        LOSS_CASE(LOSS_TUKEY);
        LOSS_CASE(LOSS_GEMAN_MCCLURE);
        LOSS_CASE(LOSS_WELSCH);
        LOSS_CASE(LOSS_CAUCHY);
        LOSS_CASE(LOSS_SMOOTHED_HUBER);
        LOSS_CASE(LOSS_OSTROVSKII_BACH);
        LOSS_CASE(LOSS_SMOOTH_ABSOLUTE);
        LOSS_CASE(LOSS_USER);
    default: break;
    }
}

/* ------------------------------------------------------------------ the chunk -------------- */

/* For the matrices columnar blocks hold xi itself: the projected x, then the intercept's entry. */
static void finish_columns(const block *b)
{
    const records_task *task = b->task;
    size_t q = task->data.q, p = task->p;
    for (size_t k = 0; k < b->padded / L; k++) {
        double *group = b->columns + k * p * L;
        if (b->shrunk) {
            vd factor = vload(b->factor + k * L);
            for (size_t j = 0; j < q; j++)
                vstore(group + j * L, factor * vload(group + j * L));
        }
        if (task->model.intercept)
            vstore(group + q * L, vload(b->down + k * L));
    }
}

static void load_y(block *b, const char *y)
{
    ptrdiff_t step = b->task->data.y_step;
    if (step == 8 && b->rows == b->padded && (uintptr_t)y % 8 == 0) {
        b->y = (const double *)y;
        return;
    }
    for (size_t i = 0; i < b->rows; i++)
        b->y_copy[i] = element(y + (ptrdiff_t)i * step);
    for (size_t i = b->rows; i < b->padded; i++) {
        b->y_copy[i] = NAN; /* lanes beyond the last record count for nothing */
        b->norm2[i] = b->task->norm2_lo;
    }
    b->y = b->y_copy;
}

/* out += sum over records of g xi, the intercept's entry last; overwrites g with the multiplier of
 * the x part as stored. */
static void vector_sum(block *b, double *g, double *out)
{
    const records_task *task = b->task;
    const int projected = wants_matrix(task); /* finish_columns or finish_rows has done it */
    if (task->model.intercept) {
        vd total = vset(0.0);
        for (size_t i = 0; i < b->padded; i += L)
            total += vload(g + i) * vload(b->down + i);
        out[task->data.q] += sum_block(total)[0];
    }
    if (b->shrunk && !projected) {
        for (size_t i = 0; i < b->padded; i += L)
            vstore(g + i, vload(g + i) * vload(b->factor + i));
    }
    if (task->plan.columnar)
        columnar_gradient(b, g, out);
    else
        rows_gradient(b, g, out);
}

static double product_sum(const block *b, const double *a, const double *c)
{
    vd total = vset(0.0);
    for (size_t i = 0; i < b->padded; i += L)
        total += c ? vload(a + i) * vload(c + i) : vload(a + i);
    return sum_block(total)[0];
}

/* The row and column of the free scale. */
static void scale_sums(block *b, double *sums)
{
    const records_task *task = b->task;
    double *scalars = sums + task->scale_at;
    if (task->want & WANT_GRADIENT)
        scalars[0] += product_sum(b, b->q, NULL);
    if (task->want & WANT_HESSIAN) {
        scalars[1] += product_sum(b, b->hr2, NULL);
        if (!(task->want & WANT_MAJORIZE))
            vector_sum(b, b->hr, sums + task->hessian_cross_at);
    }
    if (task->want & WANT_MEAT) {
        scalars[2] += product_sum(b, b->q, b->q);
        vector_sum(b, b->gq, sums + task->meat_cross_at);
    }
}

static void block_rows(block *b, size_t first, size_t last_row)
{
    size_t left = last_row - first, most = b->task->plan.block_rows;
    b->rows = left < most ? left : most;
    b->padded = (b->rows + 7) / 8 * 8;
}

static const char *row_of(const records_task *task, size_t row)
{
    return task->data.x + (ptrdiff_t)row * task->data.x_row;
}

/* What step 2 and, for the projection, step 3 need besides the products. */
static void finish_load(block *b, size_t first)
{
    const records_data *data = &b->task->data;
    load_y(b, data->y + (ptrdiff_t)first * data->y_step);
    guard(b);
    if (b->task->model.weighting == WEIGHT_BOUNDED)
        shrink_factors(b);
    else if (b->task->model.weighting == WEIGHT_SCHWEPPE)
        scale_factors(b);
}

enum { WORTH_FETCHING = 1 << 19 }; /* bytes: fewer are in the second-level cache, or soon will be */

/* Where the next block lies, if the rows follow one another and memory may be slow. */
static void look_ahead(block *b, size_t first)
{
    const records_task *task = b->task;
    const records_data *data = &task->data;
    size_t row = data->x_item * data->q, bytes = row * task->plan.block_rows;
    int contiguous = data->x_row == (ptrdiff_t)row;
    b->ahead = b->ahead_end = task->data.x;
    if (data->n * row < WORTH_FETCHING || !contiguous || !(is_in_place(data) || is_narrow(data)))
        return;
    b->ahead = row_of(task, first) + bytes;
    b->ahead_end = b->ahead + bytes;
}

static void run_block(block *b, size_t first, double *sums)
{
    const records_task *task = b->task;
    look_ahead(b, first);
    if (task->plan.columnar)
        columnar_load(b, row_of(task, first));
    else
        rows_load(b, row_of(task, first));
    finish_load(b, first);
    if (task->want & (WANT_LOSS | WANT_DIFFERENCE)) {
        losses(b, sums);
        return;
    }
    if (task->want & WANT_CHANGE)
        changes(b);
    else
        multipliers(b);
    if (task->model.scale_factor > 0.0)
        scale_multipliers(b);
    if (wants_matrix(task)) {
        if (task->plan.columnar)
            finish_columns(b);
        else
            finish_rows(b);
    }
    if (task->want & WANT_HESSIAN)
        matrix(b, b->h, sums + task->hessian_at);
    if (task->want & WANT_MEAT)
        matrix(b, b->m, sums + task->meat_at);
    if (task->model.scale_factor > 0.0)
        scale_sums(b, sums);
    if (task->want & WANT_GRADIENT)
        vector_sum(b, b->g, sums);
}

void CHUNK_NAME(const records_task *task, size_t first_row, size_t last_row, double *scratch,
                double *sums)
{
    block b;
    block_init(&b, task, scratch);
    for (size_t first = first_row; first < last_row; first += task->plan.block_rows) {
        block_rows(&b, first, last_row);
        run_block(&b, first, sums);
    }
}
