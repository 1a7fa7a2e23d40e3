/* Step 3: from products and responses to one multiplier a record and wanted sum. */

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
    const loss_constants k = loss_prepare(loss, &b->task->model);
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
static INLINE vd clamp(vd value, vd low, vd high)
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
    const loss_constants k = loss_prepare(LOSS_USER, model);
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
            vstore(psi + i, clamp(vload(psi + i), -bound, bound));
        }
        return;
    }
    model->user_slopes(b->g, psi, slope, b->padded);
    for (size_t i = 0; i < b->padded; i += L) {
        vd r = vload(b->g + i), bound = vload(most + i), steepest = k.h;
        vd size = clamp(vload(psi + i), -bound, bound), bend = vload(slope + i);
        if (matrices == CHORD) {
            bend = vselect(vabs(r) > vset(1e-150), size / r, bend);
        } else if (model->user_coupled) {
            vd tau = size * k.inverse_c;
            steepest = vmax(k.h * (one - tau * tau), zero);
        }
        vstore(psi + i, size);
        vstore(slope + i, (vd)((vi)clamp(bend, zero, steepest) & (bound > zero)));
    }
}

/* psi and, unless NO_MATRIX, the slope; `spare` is overwritten. */
static void store_slopes_of_loss(int matrices, block *b, double theta0, const double *dot,
                                 double *psi, double *slope, double *spare)
{
    switch (b->task->model.loss) {
#define STORE_SLOPES(NAME, name, code, falling, rising, traits, scale_part)                     \
    case code:                                                                                  \
        if (matrices == CHORD && !((traits) & NO_CURVATURE))                                    \
            store_slopes(code, 1, b, theta0, dot, psi, slope);                                  \
        else                                                                                    \
            store_slopes(code, 0, b, theta0, dot, psi, slope);                                  \
        break;
        BUILT_IN_LOSSES(STORE_SLOPES)
#undef STORE_SLOPES
    case LOSS_USER: store_user_slopes(matrices, b, theta0, dot, psi, slope, spare); break;
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
    const loss_constants k = loss_prepare(loss, model);
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
    const loss_constants k = loss_prepare(loss, model);
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
    const loss_constants k = loss_prepare(loss, model);
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
#define SCALE_PART(NAME, name, code, falling, rising, traits, scale_part)                       \
    case code:                                                                                  \
        if ((traits) & FREE_SCALE)                                                              \
            scale_multipliers_of(code, careful, chord, b);                                      \
        break;
        BUILT_IN_LOSSES(SCALE_PART)
#undef SCALE_PART
    default: break;
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
#define FUSED(NAME, name, code, falling, rising, traits, scale_part)                            \
    case code: multipliers_for_loss(code, b); break;
        FUSED_LOSSES(FUSED)
#undef FUSED
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
 * change clipped to a norm of `limit`.  With clipping it is the clipped scores that change.  Square
 * roots are taken only in blocks where some record may be beyond the limit. */
static INLINE void changes_of(int loss, int weighting, int careful, const block *b)
{
    const records_task *task = b->task;
    const records_model *model = &task->model;
    const loss_constants k = loss_prepare(loss, model);
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
#define FUSED(NAME, name, code, falling, rising, traits, scale_part)                            \
    case code: changes_for_loss(code, b); break;
        FUSED_LOSSES(FUSED)
#undef FUSED
    default: changes_stored(b); break;
    }
}
