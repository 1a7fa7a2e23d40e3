/* Columns of groups of records in units, and their products with a map. */

#define MAP_COLUMNS (LANES == 8 ? 8 : 4) /* of two groups of rows: their sums fill the registers */

/* Columns v[0..count) in units; `finite_mark` is NaN from the first entry that is not finite.  With theta
 * they are added to the group's products, as take_columns adds them. */
static INLINE void put_in_units(const vd *v, int count, const double *centre,
                                const double *inverse, double *out, vd *finite_mark, const double *theta,
                                vd *dot, vd *norm2)
{
    UNROLL for (int i = 0; i < count; i++) {
        vd z = (v[i] - vset(centre[i])) * vset(inverse[i]);
        vstore(out + (size_t)i * L, z);
        finite_mark[i % 2] += z * vset(0.0);
        if (theta) {
            dot[i % 2] += z * vset(theta[i]);
            norm2[i % 2] += z * z;
        }
    }
}

#define PUT(count)                                                                              \
    do {                                                                                        \
        vd v[count];                                                                            \
        transpose_##count(x + j, step, v);                                                      \
        put_in_units(v, count, centre + j, inverse + j, out + j * L, finite_mark,                      \
                     theta ? theta + j : NULL, dot, norm2);                                     \
        ahead = fetch(ahead, shares * LINES_WITH(count));                                       \
        j += count;                                                                             \
    } while (0)

/* LANES rows of length q, `step` doubles apart, as columns in units; so many `shares`, of two, of as
 * many rows are fetched from `ahead` on. */
static INLINE vd group_in_units(const double *x, ptrdiff_t step, size_t q, const double *centre,
                                const double *inverse, double *out, const double *theta, vd *dot,
                                vd *norm2, const char *ahead, size_t shares)
{
    vd finite_mark[2] = {{0}};
    size_t j = 0;
#if LANES >= 4
    while (j + 4 <= q)
        PUT(4);
#endif
    while (j + 2 <= q)
        PUT(2);
    if (j < q)
        PUT(1);
    return finite_mark[0] + finite_mark[1];
}

/* How many rows of a map begin with zeros in these columns: of a triangular one half of them. */
static size_t zero_rows(const size_t *zeros, size_t columns)
{
    size_t rows = zeros[0];
    for (size_t i = 1; i < columns; i++)
        rows = zeros[i] < rows ? zeros[i] : rows;
    return rows;
}

/* `count` columns of (1, z) W for some groups of z, their products with theta and with themselves;
 * rows of W before `begin` are zero. */
static INLINE void map_columns(const double *z, size_t q, size_t begin, const double *first,
                               const double *map, size_t width, int groups, int count,
                               const double *theta, double *out, size_t group, vd *dot, vd *norm2)
{
    vd acc[2][MAP_COLUMNS];
    UNROLL for (int g = 0; g < groups; g++)
        UNROLL for (int i = 0; i < count; i++)
            acc[g][i] = first ? vset(first[i]) : vset(0.0);
    map += begin * width;
    for (size_t j = begin; j < q; j++, map += width) {
        vd entry[2];
        UNROLL for (int g = 0; g < groups; g++)
            entry[g] = vload(z + ((size_t)g * q + j) * L);
        UNROLL for (int i = 0; i < count; i++) {
            vd m = vset(map[i]);
            UNROLL for (int g = 0; g < groups; g++)
                acc[g][i] += entry[g] * m;
        }
    }
    UNROLL for (int g = 0; g < groups; g++) {
        UNROLL for (int i = 0; i < count; i++) {
            if (out)
                vstore(out + (size_t)g * group + (size_t)i * L, acc[g][i]);
            dot[g] += acc[g][i] * vset(theta[i]);
            norm2[g] += acc[g][i] * acc[g][i];
        }
    }
}

/* Groups of z, one after the other, times a map: stored in `out`, unless that is NULL, whose groups
 * are `group` doubles apart. */
static INLINE void map_groups_of(const double *z, size_t q, const size_t *begins,
                                 const double *first, const double *map, size_t p, size_t width,
                                 int groups, const double *theta, double *out, size_t group,
                                 double *dots, double *norms)
{
    vd dot[2] = {{0}}, norm2[2] = {{0}};
    for (size_t i = 0, left; i < p; i += left) {
        size_t begin = begins ? begins[i / MAP_COLUMNS] : 0;
        double *to = out ? out + i * L : NULL;
        const double *start = first ? first + i : NULL;
        left = p - i < MAP_COLUMNS ? p - i : MAP_COLUMNS;
        switch (left) {
#define MAP(count)                                                                              \
    case count:                                                                                 \
        map_columns(z, q, begin, start, map + i, width, groups, count, theta + i, to, group,    \
                    dot, norm2);                                                                \
        break
            MAP(1); MAP(2); MAP(3); MAP(4);
#if LANES == 8
            MAP(5); MAP(6); MAP(7); MAP(8);
#endif
        default: break;
        }
    }
    UNROLL for (int g = 0; g < groups; g++) {
        if (dots)
            vstore(dots + (size_t)g * L, dot[g]);
        vstore(norms + (size_t)g * L, norm2[g]);
    }
}

/* Predictors of LANES records, (1, z)'predictor, instead of those of the mapped rows. */
static vd group_predictor(const records_view *view, const double *z)
{
    vd dot = vset(view->predictor[0]);
    for (size_t j = 0; j < view->q; j++)
        dot += vload(z + j * L) * vset(view->predictor[j + 1]);
    return dot;
}

/* The same of one record. */
static double row_predictor(const records_view *view, const double *z)
{
    double dot = view->predictor[0];
    for (size_t j = 0; j < view->q; j++)
        dot += z[j] * view->predictor[j + 1];
    return dot;
}
