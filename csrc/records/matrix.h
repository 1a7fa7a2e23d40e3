/* Step 4: rank-k updates of the lower triangle of Hessian and meat. */

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
            ahead = fetch(ahead, 1);
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
            ahead = fetch(ahead, 1);
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
