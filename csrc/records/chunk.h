/* The loop over one chunk of records, compiled once per instruction set.
 *
 * The including file defines LANES (doubles per vector) and CHUNK_NAME, and selects the
 * instruction set before including this file.
 *
 * A chunk is worked through in blocks of rows that fit the cache.  Each block goes through
 *   1. products: x'theta and ||x||^2, reading the rows from memory once;
 *   2. guards: rows that are not finite are zeroed, rows whose squared norm overflows (or, for
 *      clipping, underflows) are rescaled by a power of two that the weights then undo;
 *   3. loss and weights: vectors of records, no branches, giving one multiplier per record and
 *      wanted sum, which weights_and_offsets.h multiplies by the record's own weight, if it has one;
 *   4. sums: the block's contribution to the gradient and, as rank-k updates of the lower
 *      triangle with tiles of accumulators held in registers, to the Hessian and the meat.
 *
 * Small p ("columnar"): the block is transposed into groups of LANES rows, group g holding its
 * p columns one after the other, so that every product runs over records and nothing is padded.
 * Larger p: the rows are used where they are, and so they are in Hessian and meat, in panels of
 * LANES columns; only the last panel is copied.  The intercept is the LAST column inside this file.
 *
 * While a block is worked through a coming one is fetched, a few lines at a time: memory must never
 * wait, and no stage may ask for more than its share of the time, for then the stage waits.
 */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "../records.h"
#include "../vectors.h"

#include "../losses/dispatch.h"

#include "block.h"
#include "columns.h"
#include "rows.h"

#include "weights_and_offsets.h"
#include "guards.h"
#include "weights.h"

#include "gradient.h"
#include "losses.h"
#include "matrix.h"
#include "maps.h"
#include "view.h"

/* For the matrices columnar blocks hold xi itself: the projected x, then the intercept's entry. */
static void finish_columns(const block *b)
{
    const records_task *task = b->task;
    size_t q = task->data.q, p = task->p;
    for (size_t k = 0; k < b->padded / L; k++) {
        double *group = b->columns + k * p * L;
        if (b->shrunk) {
            vd factor = vload(b->factor + k * L);
            for (size_t j = 0; j < q; j++)
                vstore(group + j * L, factor * vload(group + j * L));
        }
        if (task->model.intercept)
            vstore(group + q * L, vload(b->down + k * L));
    }
}

static void load_y(block *b, size_t first)
{
    const records_data *data = &b->task->data;
    ptrdiff_t step = data->y_step;
    const char *y = data->y + (ptrdiff_t)first * step;
    int other = has_weight_or_offset(data);
    if (step == 8 && b->rows == b->padded && (uintptr_t)y % 8 == 0 && !other) {
        b->y = (const double *)y;
        return;
    }
    for (size_t i = 0; i < b->rows; i++)
        b->y_copy[i] = element(y + (ptrdiff_t)i * step);
    for (size_t i = b->rows; i < b->padded; i++) {
        b->y_copy[i] = NAN; /* lanes beyond the last record count for nothing */
        b->norm2[i] = b->task->norm2_lo;
    }
    if (other)
        load_weights_and_offsets(b, first);
    b->y = b->y_copy;
}

/* out += sum over records of g xi, the intercept's entry last; overwrites g with the multiplier of
 * the x part as stored. */
static void vector_sum(block *b, double *g, double *out)
{
    const records_task *task = b->task;
    const int projected = wants_matrix(task); /* finish_columns or finish_rows has done it */
    if (task->model.intercept) {
        vd total = vset(0.0);
        for (size_t i = 0; i < b->padded; i += L)
            total += vload(g + i) * vload(b->down + i);
        out[task->data.q] += sum_block(total)[0];
    }
    if (b->shrunk && !projected) {
        for (size_t i = 0; i < b->padded; i += L)
            vstore(g + i, vload(g + i) * vload(b->factor + i));
    }
    if (task->plan.columnar)
        columnar_gradient(b, g, out);
    else
        rows_gradient(b, g, out);
}

static double product_sum(const block *b, const double *a, const double *c)
{
    vd total = vset(0.0);
    for (size_t i = 0; i < b->padded; i += L)
        total += c ? vload(a + i) * vload(c + i) : vload(a + i);
    return sum_block(total)[0];
}

/* The row and column of the free scale. */
static void scale_sums(block *b, double *sums)
{
    const records_task *task = b->task;
    double *scalars = sums + task->scale_at;
    if (task->want & WANT_GRADIENT)
        scalars[0] += product_sum(b, b->q, NULL);
    if (task->want & WANT_HESSIAN) {
        scalars[1] += product_sum(b, b->hr2, NULL);
        if (!(task->want & WANT_MAJORIZE))
            vector_sum(b, b->hr, sums + task->hessian_cross_at);
    }
    if (task->want & WANT_MEAT) {
        scalars[2] += product_sum(b, b->q, b->q);
        vector_sum(b, b->gq, sums + task->meat_cross_at);
    }
}

static void block_rows(block *b, size_t first, size_t last_row)
{
    size_t left = last_row - first, most = b->task->plan.block_rows;
    b->rows = left < most ? left : most;
    b->padded = (b->rows + 7) / 8 * 8;
}

static const char *row_of(const records_task *task, size_t row)
{
    return task->data.x + (ptrdiff_t)row * task->data.x_row;
}

/* What step 2 and, for the projection, step 3 need besides the products. */
static void finish_load(block *b, size_t first)
{
    load_y(b, first);
    guard(b);
    if (b->task->model.weighting == WEIGHT_BOUNDED)
        shrink_factors(b);
    else if (b->task->model.weighting == WEIGHT_SCHWEPPE)
        scale_factors(b);
    if (offset_joins_predictor(b->task))
        add_offsets(b);
}

enum { WORTH_FETCHING = 1 << 19 }; /* bytes: fewer are in the second-level cache, or soon will be */

/* Where the block after the next lies, if the rows follow one another and memory may be slow: one
 * block takes less time than memory to answer.  Where three blocks fill the cache it is the next. */
static void look_ahead(block *b, size_t first)
{
    const records_task *task = b->task;
    const records_data *data = &task->data;
    size_t row = data->x_item * (task->view ? task->view->q : data->q), bytes = row * task->plan.block_rows;
    int contiguous = data->x_row == (ptrdiff_t)row;
    b->ahead = b->ahead_end = task->data.x;
    if (data->n * row < WORTH_FETCHING || !contiguous || !(is_in_place(data) || is_narrow(data)))
        return;
    b->ahead = row_of(task, first) + (3 * bytes <= WORTH_FETCHING ? 2 : 1) * bytes;
    b->ahead_end = b->ahead + bytes;
}

static void run_block(block *b, size_t first, double *sums)
{
    const records_task *task = b->task;
    look_ahead(b, first);
    if (task->view) {
        make_view(b, row_of(task, first), first, sums + task->counts_at);
        if (only_counts(task))
            return;
        if (task->want & WANT_SCORES) {
            add_scores(b, first);
            return;
        }
        if (task->view->squares) {
            stored_length_multipliers(b);
            if (wants_matrix(task) && !task->plan.columnar)
                finish_rows(b);
            if (wants_matrix(task))
                matrix(b, b->h, sums + (task->want & WANT_MEAT ? task->meat_at : task->hessian_at));
            if (task->want & WANT_GRADIENT)
                vector_sum(b, b->g, sums);
            return;
        }
        guard(b);
    } else {
        if (task->plan.columnar)
            columnar_load(b, row_of(task, first));
        else
            rows_load(b, row_of(task, first));
        finish_load(b, first);
    }
    if (task->want & (WANT_LOSS | WANT_DIFFERENCE)) {
        losses(b, sums);
        return;
    }
    if (task->want & WANT_CHANGE)
        changes(b);
    else
        multipliers(b);
    if (task->model.scale_factor > 0.0)
        scale_multipliers(b);
    if (task->data.weight)
        weigh(b);
    if (wants_matrix(task)) {
        if (task->plan.columnar)
            finish_columns(b);
        else
            finish_rows(b);
    }
    if (task->want & WANT_HESSIAN)
        matrix(b, b->h, sums + task->hessian_at);
    if (task->want & WANT_MEAT)
        matrix(b, b->m, sums + task->meat_at);
    if (task->model.scale_factor > 0.0)
        scale_sums(b, sums);
    if (task->want & WANT_GRADIENT)
        vector_sum(b, b->g, sums);
}

void CHUNK_NAME(const records_task *task, size_t first_row, size_t last_row, double *scratch,
                double *sums)
{
    block b;
    block_init(&b, task, scratch);
    for (size_t first = first_row; first < last_row; first += task->plan.block_rows) {
        block_rows(&b, first, last_row);
        run_block(&b, first, sums);
    }
}
