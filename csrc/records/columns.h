/* Step 1, small p: rows are transposed into groups of columns while their products are taken. */

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
