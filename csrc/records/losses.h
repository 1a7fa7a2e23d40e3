/* Sums of losses and of their differences. */

/* By its covariates: weight of the record's loss, and what turns the stored row's xi'delta into the weighted one: the
 * stored row of a careful record is down * x. */
static INLINE void design_weights_of(const block *b, size_t i, vd *of_loss, vd *of_row)
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

/* The same times the record's own weight, if it has one. */
static INLINE void weights_of(const block *b, size_t i, vd *of_loss, vd *of_row)
{
    design_weights_of(b, i, of_loss, of_row);
    if (b->task->data.weight) {
        vd a = vload(b->a + i);
        *of_loss *= a;
        *of_row *= a;
    }
}

/* A user's rho at theta0 + dot of the whole block. */
static INLINE void store_user_values(const block *b, double theta0, const double *dot,
                                     double *values)
{
    const records_model *model = &b->task->model;
    const int weighting = model->weighting;
    const loss_constants k = loss_prepare(LOSS_USER, model);
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
    const loss_constants k = loss_prepare(loss, &task->model);
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
            value = rho(loss, &k, r, vload(b->y + i), &unused) + half_kappa;
        }
        weights_of(b, i, &weight, &unused);
        value = value * weight;
        total += (vd)((vi)value & ok);
    }
    sums[task->loss_at] += sum_block(total)[0];
}

/* Per record, with delta = xi'(theta_new - theta_old): the part linear in |r| changes by exactly
 * -sign(r) psi_max delta / sigma where r keeps its sign, so that huge losses cancel on paper and
 * not in floating point; the result is clipped to the proved bound psi_max |w delta|.  The sum is in
 * units of the score (sigma cancels). */
static INLINE void loss_differences_of(int loss, const block *b, double *sums)
{
    const records_task *task = b->task;
    const int weighting = task->model.weighting;
    const loss_constants k = loss_prepare(loss, &task->model);
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
            old_rho = rho(loss, &k, old_r, y, &old_rest);
            new_rho = rho(loss, &k, new_r, y, &new_rest);
        }
        vd direct = scale * weight * (new_rho - old_rho);
        vd linear, rest = scale * weight * (old_rest - new_rest);
        vi same, central;
        if (has_trait(loss, LABELS)) {
            same = ((old_r >= zero) & (new_r >= zero)) | ((old_r < zero) & (new_r < zero));
            linear = vselect(old_r < zero, (vset(1.0) - y - y) * weighted_step, zero);
            central = vseti(0);
        } else {
            same = ((old_r >= zero) & (new_r >= zero)) | ((old_r <= zero) & (new_r <= zero));
            linear = vselect(old_r + new_r < zero, k.falling * weighted_step,
                             -(k.rising * weighted_step));
            central = (vabs(old_r) <= k.c) & (vabs(new_r) <= k.c);
        }
        if (loss == LOSS_USER || has_trait(loss, NO_ASYMPTOTE))
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
        break;
#define LOSS_ROW(NAME, name, code, falling, rising, traits, scale_part) LOSS_CASE(code)
        BUILT_IN_LOSSES(LOSS_ROW)
        LOSS_CASE(LOSS_USER)
#undef LOSS_ROW
#undef LOSS_CASE
    default: break;
    }
}
