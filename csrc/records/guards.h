/* Step 2: rows that are not finite, or too long for their squares. */

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
