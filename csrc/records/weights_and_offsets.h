/* The weight and the offset of a record, where there are any.
 *
 * The loops over losses and weightings do not use them.  Before these loops, an offset is subtracted
 * from the response or added to the stored products; after them, results are multiplied by the
 * weight.  So records without either are summed as if neither existed.
 */

static const char *at_row(const char *column, ptrdiff_t step, size_t row)
{
    return column + (ptrdiff_t)row * step;
}

/* Offsets of losses of the predictor are added later, by add_offsets. */
static int offset_joins_predictor(const records_task *task)
{
    return task->data.offset && records_loss_traits(task->model.loss) & OF_PREDICTOR;
}

/* Weights clipped to [0, largest_weight], NaN to 0.  A record whose weight is zero or whose offset is
 * not finite gets a missing response, and so contributes exactly zero. */
static void load_weights_and_offsets(block *b, size_t first)
{
    const records_data *data = &b->task->data;
    const double most = b->task->model.largest_weight;
    const int joins = offset_joins_predictor(b->task);
    for (size_t i = 0; i < b->rows; i++) {
        if (data->weight) {
            double a = element(at_row(data->weight, data->weight_step, first + i));
            a = a > 0.0 ? a : 0.0;
            b->a[i] = a < most ? a : most;
            if (!(a > 0.0))
                b->y_copy[i] = NAN;
        }
        if (data->offset) {
            double o = element(at_row(data->offset, data->offset_step, first + i));
            int finite = fabs(o) <= DBL_MAX;
            b->o[i] = finite ? o : 0.0;
            if (!finite)
                b->y_copy[i] = NAN;
            else if (!joins)
                b->y_copy[i] -= o;
        }
    }
    for (size_t i = b->rows; i < b->padded; i++)
        b->a[i] = b->o[i] = 0.0;
}

/* After this x'theta is the predictor without its constant; a projected row's is divided by the
 * factor that it will be multiplied by.  Differences of parameters have no offset. */
static void add_offsets(block *b)
{
    const records_task *task = b->task;
    const int projected = task->model.weighting == WEIGHT_BOUNDED;
    for (size_t i = 0; i < b->padded; i += L) {
        vd o = vload(b->o + i);
        if (projected)
            o = o / vload(b->factor + i);
        vstore(b->dot + i, vload(b->dot + i) + o);
        if (task->want & (WANT_DIFFERENCE | WANT_CHANGE))
            vstore(b->dot_new + i, vload(b->dot_new + i) + o);
    }
}

static INLINE void times(double *values, size_t i, vd factor)
{
    vstore(values + i, vload(values + i) * factor);
}

/* a on scores and curvatures, a^2 on products of scores. */
static void weigh(const block *b)
{
    const records_task *task = b->task;
    const int free_scale = task->model.scale_factor > 0.0;
    for (size_t i = 0; i < b->padded; i += L) {
        vd a = vload(b->a + i);
        times(b->g, i, a);
        if (wants_matrix(task)) {
            times(b->h, i, a);
            times(b->m, i, a * a);
        }
        if (free_scale) {
            times(b->q, i, a);
            times(b->hr, i, a);
            times(b->hr2, i, a);
            times(b->gq, i, a * a);
        }
    }
}
