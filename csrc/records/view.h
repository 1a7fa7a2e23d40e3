/* Step 1 of a view: rows of a block in units and under a map, and a number for each.  Later steps
 * treat them as the records. */

/* The block's rows as they are stored, in place or copied, and their stride. */
static const double *stored_rows(block *b, const char *x, ptrdiff_t *step)
{
    const records_view *view = b->task->view;
    records_data stored = b->task->data;
    stored.q = view->q;
    if (is_in_place(&stored)) {
        *step = stored.x_row / 8;
        return (const double *)x;
    }
    records_task task = *b->task;
    block copied = *b;
    task.data = stored;
    copied.task = &task;
    gather_rows(&copied, x, b->own);
    *step = (ptrdiff_t)view->q;
    return b->own;
}

/* Rows from `start` on as a group, zeros after the last. */
static const double *padded_group(const double *x, ptrdiff_t *step, size_t rows, size_t q,
                                 double *padded)
{
    if (rows >= L)
        return x;
    memset(padded, 0, L * q * sizeof(double));
    for (size_t i = 0; i < rows; i++)
        memcpy(padded + i * q, x + (ptrdiff_t)i * *step, q * sizeof(double));
    *step = (ptrdiff_t)q;
    return padded;
}

/* Remove a record from all sums, whatever a map or units made of it. */
static void clear_lane(block *b, size_t i)
{
    size_t p = b->task->p;
    for (size_t j = 0; j < p; j++)
        b->columns[(i / L) * p * L + j * L + i % L] = 0.0;
}

/* A map may have infinite entries: lanes beyond the last record become zero. */
static void clear_lanes(block *b)
{
    for (size_t i = b->rows; i < b->padded; i++)
        clear_lane(b, i);
}

/* The block's view as columns: predictors in dot, squared norms, and NaN in g if not finite. */
static void view_columns(block *b, const char *x)
{
    const records_task *task = b->task;
    const records_view *view = task->view;
    size_t q = view->q, p = task->p, groups = b->padded / L;
    double *z = b->own + task->plan.block_rows * q, *tail = z + 2 * q * L;
    ptrdiff_t step;
    const double *stored = stored_rows(b, x, &step);
    const int counts = only_counts(task); /* nothing else could fetch */
    size_t lines = (lines_left(b, groups) + !counts) / (counts ? 1 : 2);
    const char *ahead = take_ahead(b, lines, groups);
    const double *map = task->map + task->width;
    size_t begins[RECORDS_COLUMNAR / MAP_COLUMNS];
    for (size_t i = 0, n = 0; i < p; i += MAP_COLUMNS)
        begins[n++] = zero_rows(task->map_zeros + i, p - i < MAP_COLUMNS ? p - i : MAP_COLUMNS);
    for (size_t g = 0, some; g < groups; g += some) {
        some = groups - g < 2 ? 1 : 2;
        for (size_t k = 0; k < some; k++) {
            size_t row = (g + k) * L, rows = row < b->rows ? b->rows - row : 0;
            ptrdiff_t stride = step;
            const double *from = padded_group(stored + (ptrdiff_t)row * step, &stride, rows, q, tail);
            ahead = fetch(ahead, lines);
            vstore(b->g + row, group_in_units(from, stride, q, view->centre, view->inverse,
                                              z + k * q * L, NULL, NULL, NULL, NULL, 0));
        }
        double *out = b->columns + g * p * L, *dot = b->dot + g * L, *norm2 = b->norm2 + g * L;
        if (some == 2)
            map_groups_of(z, q, begins, task->map, map, p, task->width, 2, task->theta_new, out,
                          p * L, dot, norm2);
        else
            map_groups_of(z, q, begins, task->map, map, p, task->width, 1, task->theta_new, out,
                          p * L, dot, norm2);
        for (size_t k = 0; view->predictor && k < some; k++)
            vstore(dot + k * L, group_predictor(view, z + k * q * L));
    }
    clear_lanes(b);
}

/* The same without a map: rows (z, 1), or z; `q` may be a constant. */
static INLINE void view_unmapped_groups(block *b, const double *stored, ptrdiff_t step, size_t q,
                                    const char *ahead, size_t shares)
{
    const records_task *task = b->task;
    const double *centre = task->view->centre, *inverse = task->view->inverse;
    const double *theta = task->theta_new;
    size_t p = task->p, lead = p - q, groups = b->padded / L;
    double *tail = b->own + task->plan.block_rows * q, *out = b->columns;
    const vd start = vset(lead ? theta[q] : 0.0), one = vset((double)lead);
    for (size_t g = 0; g < groups; g++, out += p * L) {
        size_t row = g * L, rows = row < b->rows ? b->rows - row : 0;
        ptrdiff_t stride = step;
        const double *from = padded_group(stored + (ptrdiff_t)row * step, &stride, rows, q, tail);
        vd dot[2] = {start, vset(0.0)}, norm2[2] = {one, vset(0.0)};
        if (lead)
            vstore(out + q * L, one);
        vstore(b->g + row, group_in_units(from, stride, q, centre, inverse, out, theta, dot, norm2,
                                          ahead, shares));
        ahead += shares * lines_with_group(q) * LINE;
        vstore(b->dot + row, dot[0] + dot[1]);
        vstore(b->norm2 + row, norm2[0] + norm2[1]);
    }
}

static void view_unmapped_columns(block *b, const char *x)
{
    size_t q = b->task->view->q, groups = b->padded / L;
    ptrdiff_t step;
    const double *stored = stored_rows(b, x, &step);
    size_t shares = b->ahead == b->ahead_end ? 0 : wants_matrix(b->task) ? 1 : 2;
    const char *ahead = take_ahead(b, shares * lines_with_group(q), groups);
    switch (q) {
#define PLAIN(count)                                                                            \
    case count: view_unmapped_groups(b, stored, step, count, ahead, shares); break
        PLAIN(1); PLAIN(2); PLAIN(3); PLAIN(4); PLAIN(5); PLAIN(6); PLAIN(7); PLAIN(8); PLAIN(9);
        PLAIN(10); PLAIN(11); PLAIN(12); PLAIN(13); PLAIN(14); PLAIN(15); PLAIN(16);
    default: view_unmapped_groups(b, stored, step, q, ahead, shares);
    }
    clear_lanes(b);
}

/* NaN if some lane is, else zero, where lanes are zero or NaN. */
static INLINE double some_lane(vd v)
{
#if LANES == 8
    return _mm512_reduce_add_pd((__m512d)v);
#elif LANES == 4
    return (v[0] + v[1]) + (v[2] + v[3]);
#else
    return v[0] + v[1];
#endif
}

/* One row of length q in units; NaN if some entry is not finite.  Centres and inverses are `width`
 * long: of what is not an entry they make zeros, or the constant after the last.  From the last vector
 * to the first, so that it may end where x does. */
static INLINE double row_in_units(const double *centre, const double *inverse, const double *x,
                                  size_t q, size_t width, double *out)
{
    vd finite_mark = vset(0.0);
    for (size_t j = width; j > 0;) {
        j -= L;
        vd stored = j + L <= q ? vload(x + j) : vload_part(x + j, j < q ? q - j : 0);
        vd z = (stored - vload(centre + j)) * vload(inverse + j);
        vstore(out + j, z);
        finite_mark += z * vset(0.0);
    }
    return some_lane(finite_mark);
}

/* Four rows of (1, z) W, some vectors of columns. */
static INLINE void map_rows_of(const double *const *z, size_t q, size_t begin, const double *first,
                               const double *map, size_t width, int vectors, double *const *out)
{
    vd acc[4][2];
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int v = 0; v < vectors; v++)
            acc[i][v] = first ? vload(first + (size_t)v * L) : vset(0.0);
    map += begin * width;
    for (size_t j = begin; j < q; j++, map += width) {
        vd m[2];
        UNROLL for (int v = 0; v < vectors; v++)
            m[v] = vload(map + (size_t)v * L);
        UNROLL for (int i = 0; i < 4; i++) {
            vd entry = vset(z[i][j]);
            UNROLL for (int v = 0; v < vectors; v++)
                acc[i][v] += entry * m[v];
        }
    }
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int v = 0; v < vectors; v++)
            vstore(out[i] + (size_t)v * L, acc[i][v]);
}

/* Rows of length q, `apart` doubles apart, times a map, into rows of `width`. */
static void map_rows(const double *z, ptrdiff_t stride, size_t rows, size_t q, const double *first,
                     const double *map, const size_t *zeros, size_t width, double *out)
{
    for (size_t j = 0; j < width; j += 2 * L) {
        size_t columns = width - j < 2 * L ? width - j : 2 * L;
        size_t begin = zero_rows(zeros + j, columns);
        const double *start = first ? first + j : NULL;
        for (size_t i = 0; i < rows; i += 4) {
            const double *from[4];
            double *to[4];
            for (size_t k = 0; k < 4; k++) { /* the last four repeat the last row */
                size_t row = i + k < rows ? i + k : rows - 1;
                from[k] = z + (ptrdiff_t)row * stride;
                to[k] = out + row * width + j;
            }
            if (columns == 2 * L)
                map_rows_of(from, q, begin, start, map + j, width, 2, to);
            else
                map_rows_of(from, q, begin, start, map + j, width, 1, to);
        }
    }
}

/* Rows in units and their predictors in one pass, for rows whose norms are known. */
static void view_rows_of_known_norm(block *b, const double *stored, ptrdiff_t step)
{
    const records_task *task = b->task;
    const double *centre = task->units, *inverse = centre + task->unit_width;
    const double *theta = task->theta_new;
    const size_t q = task->view->q, width = task->width;
    const size_t whole = (b->rows + L - 1) / L * L, parts = only_counts(task) ? 1 : 3;
    const size_t lines = (lines_left(b, whole) + parts - 1) / parts;
    const char *ahead = take_ahead(b, lines, whole);
    for (size_t i = 0; i < b->rows; i += L) {
        const double *from[LANES];
        double *to[LANES];
        vd acc[LANES];
        for (size_t k = 0; k < L; k++) { /* the last ones repeat the last row */
            size_t row = i + k < b->rows ? i + k : b->rows - 1;
            from[k] = stored + (ptrdiff_t)row * step;
            to[k] = b->gathered + row * width;
            acc[k] = vset(0.0);
        }
        for (size_t j = 0; j < width; j += L) {
            const vd c = vload(centre + j), s = vload(inverse + j), t = vload(theta + j);
            const size_t left = q > j ? q - j : 0;
            const size_t some = j / L < lines;
            UNROLL for (int k = 0; k < LANES; k++) {
                vd entry = left >= L ? vload(from[k] + j) : vload_part(from[k] + j, left);
                vd z = (entry - c) * s;
                ahead = fetch(ahead, some);
                vstore(to[k] + j, z);
                acc[k] += z * t;
            }
        }
        vstore(b->dot + i, sum_lanes(acc));
    }
    for (size_t i = 0; i < b->rows; i++) { /* an entry that is not finite makes no finite sum */
        double finite_mark = 0.0;
        if (!(fabs(b->dot[i]) <= DBL_MAX))
            for (size_t j = 0; j < q; j++)
                finite_mark += b->gathered[i * width + j] * 0.0;
        b->g[i] = finite_mark;
    }
    for (size_t i = b->rows; i < b->padded; i++)
        b->dot[i] = b->norm2[i] = b->g[i] = 0.0;
    b->x = b->gathered;
    b->step = (ptrdiff_t)width;
}

/* The block's view as rows, likewise. */
static void view_rows(block *b, const char *x)
{
    const records_task *task = b->task;
    const records_view *view = task->view;
    size_t q = view->q;
    ptrdiff_t step;
    const double *stored = stored_rows(b, x, &step);
    if (view->squares) {
        view_rows_of_known_norm(b, stored, step);
        return;
    }
    const double *centre = task->units, *inverse = centre + task->unit_width;
    double *z = view->matrix ? b->own : b->gathered;
    for (size_t i = b->rows; i-- > 0;) /* stored rows may be in z's place, closer together */
        b->g[i] = row_in_units(centre, inverse, stored + (ptrdiff_t)i * step, q, task->unit_width,
                               z + i * task->unit_width);
    if (view->matrix)
        map_rows(b->own, (ptrdiff_t)task->unit_width, b->rows, q, task->map,
                 task->map + task->width, task->map_zeros, task->width, b->gathered);
    b->x = b->gathered;
    b->step = (ptrdiff_t)task->width;
    size_t lines = lines_left(b, b->rows);
    row_products(b, task->theta_new, take_ahead(b, lines, (b->rows + 3) / 4 * 4), lines, b->dot,
                 b->norm2);
    for (size_t i = 0; view->predictor && i < b->rows; i++)
        b->dot[i] = row_predictor(view, z + i * task->unit_width);
    for (size_t i = b->rows; i < b->padded; i++)
        b->dot[i] = b->norm2[i] = b->g[i] = 0.0;
}

/* |a B|^2 in `norms` and a'theta in `dots`, for leverage weights. */
static void far_products(block *b, double *dots, double *norms)
{
    const records_task *task = b->task;
    size_t p = task->p, width = task->width;
    if (task->plan.columnar) {
        for (size_t g = 0; g < b->padded / L; g++)
            map_groups_of(b->columns + g * p * L, p, NULL, NULL, task->back, p, width, 1,
                          task->theta_step, NULL, 0, NULL, norms + g * L);
        column_products(b->columns, b->padded / L, p, p, task->theta_step, dots, NULL);
        return;
    }
    block turned = *b;
    double *unused = b->q;
    map_rows(b->x, b->step, b->rows, p, NULL, task->back, task->back_zeros, width, b->columns);
    turned.x = b->columns;
    row_products(&turned, task->theta_step, b->ahead, 0, unused, norms);
    row_products(b, task->theta_step, b->ahead, 0, dots, unused);
    for (size_t i = b->rows; i < b->padded; i++)
        dots[i] = norms[i] = 0.0;
}

/* Multiply rows by their factors, in place: they are copies already. */
static void multiply_rows(block *b, const double *factor)
{
    const records_task *task = b->task;
    size_t p = task->p;
    if (task->plan.columnar) {
        for (size_t g = 0; g < b->padded / L; g++) {
            double *group = b->columns + g * p * L;
            vd times_this = vload(factor + g * L);
            for (size_t j = 0; j < p; j++)
                vstore(group + j * L, vload(group + j * L) * times_this);
        }
        column_products(b->columns, b->padded / L, p, p, task->theta, b->dot, b->norm2);
        return;
    }
    for (size_t i = 0; i < b->rows; i++) {
        double *row = b->gathered + (ptrdiff_t)i * b->step;
        for (size_t j = 0; j < p; j++)
            row[j] *= factor[i];
    }
    row_products(b, task->theta, b->ahead, 0, b->dot, b->norm2);
}

/* Whether weights are part of the view, and these weights; one if not. */
static INLINE int view_has_weights(const records_task *task)
{
    return task->view->weigh > 0.0 && has_weight_or_offset(&task->data);
}

static INLINE vd view_weight(const block *b, size_t i)
{
    return view_has_weights(b->task) ? vload(b->a + i) : vset(1.0);
}

/* Responses in units in y_copy, NaN if missing; weights in a, and offsets in o.  With a loss, offsets
 * are added to the predictor; without one, they are subtracted from the response. */
static void view_responses(block *b, size_t first)
{
    const records_task *task = b->task;
    const records_view *view = task->view;
    const records_data *data = &task->data;
    const double most = task->model.largest_weight;
    const char *y = data->y + (ptrdiff_t)first * data->y_step;
    for (size_t i = 0; i < b->rows; i++)
        b->y_copy[i] = (element(y + (ptrdiff_t)i * data->y_step) - view->y_centre) / view->y_spread;
    for (size_t i = b->rows; i < b->padded; i++)
        b->y_copy[i] = NAN; /* lanes beyond the last record are ignored */
    b->y = b->y_copy;
    if (!has_weight_or_offset(data))
        return;
    for (size_t i = 0; i < b->rows; i++) {
        double a = element(at_row(data->weight, data->weight_step, first + i));
        double o = element(at_row(data->offset, data->offset_step, first + i));
        int weightless = !(a > 0.0) && !(task->want & (WANT_LENGTHS | WANT_SCORES));
        a = a > 0.0 ? a : 0.0;
        a = a < most ? a : most;
        b->a[i] = view_has_weights(task) ? a * view->weigh : a;
        b->o[i] = o;
        if (weightless)
            b->y_copy[i] = NAN;
        else if (view->loss == NO_LOSS && !(task->want & WANT_LENGTHS))
            b->y_copy[i] = fabs(o) <= DBL_MAX ? b->y_copy[i] - o : NAN;
    }
    for (size_t i = b->rows; i < b->padded; i++)
        b->a[i] = b->o[i] = 0.0;
}

/* psi and curvature at the predictors `dots`; NaN for responses that the loss cannot have. */
static INLINE void view_slopes(int loss, const records_view *view, double scale, const block *b,
                               const double *dots, double *psi, double *slope)
{
    records_model model = b->task->model;
    model.c = view->c, model.h = view->h, model.scale = scale;
    const loss_constants k = loss_prepare(loss, &model);
    const vd none = vset(NAN), times_scale = vset(has_trait(loss, OF_PREDICTOR) ? 1.0 : scale);
    for (size_t i = 0; i < b->padded; i += L) {
        vd t = vload(dots + i), y = vload(b->y + i), size, bend;
        vi ok = usable(loss, t, y);
        psi_and_slope_at(loss, 0, &k, residual(loss, &k, t, y), y, ok, &size, &bend);
        vstore(psi + i, vselect(ok, size * times_scale, none));
        vstore(slope + i, vselect(ok, bend, none));
    }
}

static void plain_slopes(const block *b, const double *dots, double *psi, double *slope)
{
    for (size_t i = 0; i < b->padded; i += L) {
        vstore(psi + i, vload(b->y + i) - vload(dots + i));
        vstore(slope + i, vset(1.0));
    }
}

static void slopes_of_view(const block *b, double scale, const double *dots, double *psi,
                           double *slope)
{
    const records_view *view = b->task->view;
    switch (view->loss) {
#define VIEW_LOSS(NAME, name, code, falling, rising, traits, scale_part)                        \
    case code: view_slopes(code, view, scale, b, dots, psi, slope); break;
        BUILT_IN_LOSSES(VIEW_LOSS)
#undef VIEW_LOSS
    default: plain_slopes(b, dots, psi, slope); break;
    }
}

static INLINE vd view_score_size(const records_view *view, vd t)
{
    return score_size(view->loss, view->c, view->h, t);
}

/* The response, or NaN if the loss cannot have it. */
static INLINE vd possible(int loss, vd y)
{
    vi labels = vseti(has_trait(loss, LABELS) ? -1 : 0);
    vi label = (y == vset(0.0)) | (y == vset(1.0));
    vi ok = (vabs(y) <= vset(DBL_MAX)) & (~labels | label);
    if (has_trait(loss, NOT_NEGATIVE))
        y = vmax(y, vset(0.0));
    return vselect(ok, y, vset(NAN));
}

/* The clipping factors of rows; whether any is below 1. */
static int clipping_factors(block *b, const double *dots, double *factor)
{
    const records_view *view = b->task->view;
    const vd one = vset(1.0);
    if (view->back) {
        double *far_dots = b->dot_step, *norms = b->m, *psi = b->up;
        far_products(b, far_dots, norms);
        if (has_weight_or_offset(&b->task->data))
            for (size_t i = 0; i < b->padded; i += L)
                vstore(far_dots + i, vload(far_dots + i) + vload(b->o + i));
        slopes_of_view(b, view->far_scale, far_dots, psi, factor);
        int any_clipped = 0;
        for (size_t i = 0; i < b->padded; i++) {
            double weight = view_has_weights(b->task) ? b->a[i] : 1.0;
            double size = sqrt(norms[i]) * sqrt(factor[i] * weight);
            int beyond = size > view->radius;
            factor[i] = beyond ? pow(view->radius / size, 2.0 * view->power) : 1.0;
            any_clipped |= beyond;
            b->up[i] = 1.0;
        }
        return any_clipped;
    }
    if (!(view->reach <= DBL_MAX))
        return 0;
    const vd reach = vset(view->reach);
    vi some = vseti(0);
    for (size_t i = 0; i < b->padded; i += L) {
        vd size = vsqrt(vload(b->norm2 + i)) * view_score_size(view, vload(dots + i)) * view_weight(b, i);
        vi beyond = size > reach;
        some |= beyond;
        vstore(factor + i, vselect(beyond, reach / size, one));
    }
    int any_clipped = 0;
    for (size_t i = 0; i < L; i++)
        any_clipped |= some[i] != 0;
    return any_clipped;
}

/* Range of stored squared lengths, and the factor that rounds them up.  The roundings of a map are far
 * smaller (for maps that claim C94 names). */
#define MIN_STORED 1e-200
#define MAX_STORED 1e200
#define ROUND_UP (1.0 + 0x1p-23)

static void keep_squares(const block *b, size_t first)
{
    double *keep = b->task->view->keep + first;
    for (size_t i = 0; i < b->rows; i++) {
        double square = b->norm2[i] + b->g[i];
        double most = square > MIN_STORED ? square : MIN_STORED;
        keep[i] = square <= MAX_STORED ? most * ROUND_UP : INFINITY;
    }
}

/* Stored squared norms; rows without one become zero, with the number NaN. */
static void take_squares(block *b, size_t first)
{
    const double *squares = b->task->view->squares + first;
    size_t p = b->task->p, width = b->task->width;
    for (size_t i = 0; i < b->rows; i++) {
        double finite_mark = b->g[i];
        b->norm2[i] = squares[i];
        if (squares[i] <= DBL_MAX && finite_mark == finite_mark)
            continue;
        if (b->task->plan.columnar)
            clear_lane(b, i);
        else
            memset(b->gathered + i * width, 0, p * sizeof(double));
        b->norm2[i] = 1.0;
        b->dot[i] = 0.0;
        b->g[i] = NAN;
    }
}

/* Multipliers of rows with stored lengths: of scores clipped to the radius, or of curvatures; zero if
 * the number is NaN. */
static void stored_length_multipliers(block *b)
{
    const int scores = b->task->view->what == VIEW_SCORE;
    const vd radius = vset(b->task->model.radius), zero = vset(0.0);
    /* sums fetch the others, and matrices all of them */
    const size_t lines = wants_matrix(b->task) ? 0 : lines_left(b, b->padded / L) / 2;
    const char *ahead = take_ahead(b, lines, b->padded / L);
    for (size_t i = 0; i < b->padded; i += L) {
        ahead = fetch(ahead, lines);
        vd y = vload(b->y_copy + i), factor = vload(b->h + i);
        vd most = radius / vsqrt(vload(b->norm2 + i));
        vi ok = vabs(y) <= vset(DBL_MAX);
        vd g = vselect(ok, -vcopysign(vmin(vabs(y) * factor, most), y), zero);
        vd curved = factor * factor; /* the loss's curvature */
        ok &= curved >= zero;
        vstore(b->g + i, g);
        vstore(b->h + i, scores ? g * g : vselect(ok, vmin(curved, most * most), zero));
    }
    b->careful = b->shrunk = 0;
}

/* Count the block's records in the cells of their lengths.  Several tables are used in turn, so that
 * one addition does not wait for the one before.  Records in no cell are counted after the last. */
static void count_lengths(block *b, double *counts)
{
    const records_view *view = b->task->view;
    const double *edges = view->edges;
    double *lengths = b->q;
    const size_t none = view->n_edges + 1;
    for (size_t i = 0; i < b->padded; i += L) {
        vd y = vload(b->y_copy + i), length = vsqrt(vload(b->norm2 + i));
        length = view->what >= VIEW_RESIDUAL ? vabs(y) : length * vload(b->h + i);
        if (view->what == VIEW_SCORE || view->what == VIEW_SCORE_SIZE)
            length = length * vabs(y);
        vstore(lengths + i, vselect(vabs(y) <= vset(DBL_MAX), length, vset(NAN)));
    }
    for (size_t i = 0; i < b->rows; i++) {
        double length = lengths[i];
        uint64_t bits;
        memcpy(&bits, &length, sizeof bits);
        size_t cell = view->first[bits >> 52 & 2047];
        for (size_t k = 0; k < view->most; k++)
            cell += length > edges[cell];
        cell = length == length ? cell : none;
        double *table = counts + i % COUNT_TABLES * (none + 1);
        table[cell] += view->whole > 0.0 ? floor(view->whole * b->a[i]) : 1.0;
    }
}

/* Step 1: rows, squared norms and numbers of the block.  The factors of rows are in h where lengths
 * are counted; for sums rows are multiplied by them. */
static void make_view(block *b, const char *x, size_t first, double *counts)
{
    const records_task *task = b->task;
    const records_view *view = task->view;
    double *finite_mark = b->g, *factor = b->h, *psi = b->dot_new, *slope = b->dot_step;
    int multiply = 0;
    if (!task->plan.columnar)
        view_rows(b, x);
    else if (view->matrix)
        view_columns(b, x);
    else
        view_unmapped_columns(b, x);
    if (view->keep)
        keep_squares(b, first);
    if (view->squares)
        take_squares(b, first);
    view_responses(b, first);
    if (view->loss != NO_LOSS) {
        for (size_t i = 0; i < b->padded; i += L) {
            if (has_weight_or_offset(&task->data))
                vstore(b->dot + i, vload(b->dot + i) + vload(b->o + i));
            vstore(b->y_copy + i, possible(view->loss, vload(b->y_copy + i)));
        }
    }
    if (view->what == VIEW_SCORE) {
        slopes_of_view(b, view->scale, b->dot, psi, slope);
        multiply = clipping_factors(b, b->dot, factor);
        for (size_t i = 0; i < b->padded; i += L)
            vstore(b->y_copy + i, vload(psi + i) * view_weight(b, i));
    } else if (view->what == VIEW_CURVATURE) {
        slopes_of_view(b, view->scale, b->dot, psi, slope);
        multiply = view_has_weights(task) || view->loss != PLAIN_SQUARES;
        for (size_t i = 0; i < b->padded; i += L)
            vstore(factor + i, vsqrt(vload(slope + i) * view_weight(b, i)));
    } else if (view->what == VIEW_RESPONSE && view_has_weights(task)) {
        multiply = 1;
        for (size_t i = 0; i < b->padded; i += L)
            vstore(factor + i, vsqrt(view_weight(b, i)));
    }
    for (size_t i = 0; i < b->padded; i += L) {
        vd y = vload(b->y_copy + i), t = vload(b->dot + i);
        if (view->what == VIEW_RESPONSE)
            y = (y - vset(view->shift)) * vsqrt(view_weight(b, i));
        else if (view->what == VIEW_SCORE_SIZE)
            y = y * vset(0.0) + view_score_size(view, t) * view_weight(b, i);
        else if (view->what == VIEW_RESIDUAL)
            y = y - t;
        else if (view->what == VIEW_WEIGHT)
            y = y * vset(0.0) + (has_weight_or_offset(&task->data) ? vload(b->a + i) : vset(1.0));
        vstore(b->y_copy + i, y + vload(finite_mark + i));
        vstore(b->dot + i, vset(0.0));
        if (!multiply)
            vstore(factor + i, vset(1.0));
    }
    for (size_t i = b->rows; i < b->padded; i++) {
        b->norm2[i] = 1.0;
        factor[i] = 1.0;
    }
    if (task->want & WANT_LENGTHS)
        count_lengths(b, counts);
    if (multiply && !only_counts(task) && !view->squares)
        multiply_rows(b, factor);
    for (size_t i = b->rows; i < b->padded; i++)
        b->norm2[i] = 1.0;
    for (size_t i = 0; view_has_weights(task) && i < b->rows; i++)
        b->a[i] = 1.0;
}

/* The factor that makes a row its score over `longest`, clipped to norm 1; NaN if not finite.  Rows
 * whose squares may under- or overflow are first scaled to entries of at most 1. */
static INLINE double times_of_score(double *row, ptrdiff_t stride, size_t p, double square,
                                    double value, double longest)
{
    double largest = 1.0, size = sqrt(square);
    if (!(square > MIN_STORED && square < MAX_STORED)) {
        largest = square = 0.0;
        for (size_t j = 0; j < p; j++) {
            double entry = fabs(row[(ptrdiff_t)j * stride]);
            largest = entry > largest ? entry : largest;
        }
        if (largest == 0.0)
            return 0.0;
        for (size_t j = 0; j < p; j++) {
            double entry = row[(ptrdiff_t)j * stride] /= largest;
            square += entry * entry;
        }
        size = sqrt(square);
    }
    double length = value == 0.0 ? 0.0 : size * (largest * (fabs(value) / longest));
    return copysign(length < 1.0 ? length : 1.0, value) / size;
}

/* Round to integers, below 2^51. */
static INLINE vd nearest_whole(vd v)
{
    const vd shift = vset(0x1.8p52);
    return (v + shift) - shift;
}

/* Add the scores of the block's rows to those of their groups. */
static void add_scores(block *b, size_t first)
{
    const records_view *view = b->task->view;
    const size_t p = b->task->p, columnar = b->task->plan.columnar, width = b->task->width;
    const size_t lead = !view->matrix && p > view->q; /* the constant is last in rows, and first in scores */
    const ptrdiff_t stride = columnar ? L : 1;
    for (size_t at = 0; at < b->rows; at += L) {
        const size_t some = b->rows - at < L ? b->rows - at : L;
        double *score[LANES], *row[LANES], times[LANES] = {0};
        for (size_t k = 0; k < some; k++) {
            const size_t i = at + k;
            const ptrdiff_t group = view->group_of_row[first + i] - view->first_group;
            row[k] = columnar ? b->columns + at * p + k : b->gathered + i * width;
            score[k] = NULL;
            if (group < 0 || (size_t)group >= view->groups || !(fabs(b->y_copy[i]) <= DBL_MAX))
                continue;
            times[k] = times_of_score(row[k], stride, p, b->norm2[i], b->y_copy[i], view->longest);
            if (times[k] != times[k])
                continue;
            times[k] *= b->a[i] * 0x1p44;
            score[k] = view->scores + (size_t)group * p;
            view->has_row[group] = 1;
        }
        for (size_t j = 0; columnar && j < p; j++) {
            double *column = b->columns + at * p + j * L;
            vstore(column, nearest_whole(vload(column) * vload(times)));
        }
        for (size_t k = 0; k < some; k++) {
            if (!score[k])
                continue;
            for (size_t j = 0; !columnar && j < width; j += L)
                vstore(row[k] + j, nearest_whole(vload(row[k] + j) * vset(times[k])));
            for (size_t j = 0; j + lead < p; j++)
                score[k][j + lead] += row[k][(ptrdiff_t)j * stride];
            if (lead)
                score[k][0] += row[k][(ptrdiff_t)(p - 1) * stride];
        }
    }
}
