/* Step 1, larger p: products of rows where they are. */

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
