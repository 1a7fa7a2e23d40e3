/* Step 4: sums of multiples of the rows. */

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
