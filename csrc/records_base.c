/* The portable variant of the record loops, and the driver: planning, threads, final scaling. */
#define _GNU_SOURCE
#include "records.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"

#define LANES 2
#define CHUNK_NAME records_chunk_base
#define FIRST_ROWS 4
#define COLUMN_ROWS 4
#define COLUMN_COLUMNS 2
#define PANEL_VECTORS 4
#include "records/chunk.h"

/* ------------------------------------------------------------------ losses ----------------- */

#define LOSS_ROW(NAME, name, code, falling, rising, traits, scale_part) {#name, code, traits},
const records_loss_row records_losses[] = {BUILT_IN_LOSSES(LOSS_ROW){NULL, -1, 0}};

int records_loss_traits(int loss)
{
    for (const records_loss_row *row = records_losses; row->name; row++)
        if (row->code == loss)
            return row->traits;
    return loss == LOSS_USER ? USES_H : -1;
}

double records_steepest(int loss, double c, double h) { return steepest_slope(loss, c, h); }

/* ------------------------------------------------------------------ instruction sets ------- */

static _Atomic(records_chunk) chosen;

const char *const *records_isas(void) { return isa_names(); }

int records_set_isa(const char *name)
{
    int isa = isa_of(name);
    records_chunk chunk = records_chunk_base;
    if (isa == ISA_NONE)
        return -1;
#ifdef DPFAST_X86
    if (isa == ISA_AVX512)
        chunk = records_chunk_avx512;
    else if (isa == ISA_AVX2)
        chunk = records_chunk_avx2;
#endif
    atomic_store(&chosen, chunk);
    return 0;
}

static records_chunk variant(void)
{
    records_chunk chunk = atomic_load(&chosen);
    if (!chunk) {
        records_set_isa("");
        chunk = atomic_load(&chosen);
    }
    return chunk;
}

/* 0: nobody chose a number, and no quota is known. */
static _Atomic int chosen_threads, quota_threads;

void records_set_default_threads(int chosen, int quota)
{
    atomic_store(&chosen_threads, chosen);
    atomic_store(&quota_threads, quota);
}

static int allowed_cpus(void)
{
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        int count = CPU_COUNT(&allowed);
        return count > 0 ? count : 1;
    }
#endif
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (int)count : 1;
}

int records_default_threads(void)
{
    int chosen = atomic_load(&chosen_threads), quota = atomic_load(&quota_threads);
    if (chosen > 0)
        return chosen;
    int cpus = allowed_cpus(); /* asked each time: callers narrow it as they like */
    return quota > 0 && quota < cpus ? quota : cpus;
}

/* ------------------------------------------------------------------ plan ------------------- */

enum {
    COLUMNAR_GRADIENT = 24, /* widest p that is transposed: no matrix wanted */
    COLUMNAR_MATRIX = RECORDS_COLUMNAR, /* and with matrices */
    MOST_CHUNKS = 64,
    WORTH_WAKING = 150000, /* cycles: a thread that sleeps takes tens of microseconds to join */
    /* Doubles of all chunks together, unless fewer than 4 chunks: from 32 MB on malloc returns
     * memory to the system at once, and touching it anew costs more than the sums. */
    MOST_SUMS = 3 << 20
};

static size_t at_most(size_t value, size_t limit) { return value < limit ? value : limit; }
static size_t at_least_1(size_t value) { return value ? value : 1; }

/* The largest power of two up to value >= 1: as many chunks are shared evenly by threads. */
static size_t power_of_two_in(size_t value)
{
    size_t power = 1;
    while (power <= value / 2)
        power *= 2;
    return power;
}

typedef struct {
    double per_row; /* chunks that n records are worth, over n */
    size_t most;    /* chunks there may be */
} chunk_limits;

/* About the cycles of one row. */
static double row_cycles(size_t p, size_t matrices)
{
    double columns = (double)p;
    return 8.0 + 0.6 * columns + (double)matrices * (4.0 + columns * columns / 9.0);
}

/* A chunk is worth a couple of microseconds, and much more than zeroing its sums and adding them
 * up, some 6 cycles an entry. */
static chunk_limits limit_chunks(size_t p, size_t matrices)
{
    double least = 8000.0 + 48.0 * (double)matrices * (double)p * (double)p;
    size_t most = MOST_SUMS / ((1 + matrices * p) * p + 64);
    most = most < 4 ? 4 : at_most(most, MOST_CHUNKS);
    return (chunk_limits){row_cycles(p, matrices) / least, power_of_two_in(most)};
}

static size_t whole_chunks(chunk_limits limits, size_t n, size_t n_blocks)
{
    double chunks = (double)n * limits.per_row;
    size_t count = chunks < (double)limits.most ? (size_t)chunks : limits.most;
    return at_most(power_of_two_in(at_least_1(count)), n_blocks);
}

records_plan records_make_plan(size_t n, size_t p, int want)
{
    records_plan plan;
    size_t matrices = !!(want & WANT_HESSIAN) + !!(want & WANT_MEAT);
    int wide = matrices || want & WANT_VIEW; /* rows under a map are copies anyway */
    plan.columnar = p <= (wide ? COLUMNAR_MATRIX : COLUMNAR_GRADIENT);
    /* Without matrices a block and its copy fit the first-level cache, or rows are so long that few
     * of them do.  With matrices of many columns blocks are long enough to spread
     * the cost of adding up a tile. */
    if (plan.columnar)
        plan.block_rows = wide || p <= 16 ? 128 : 48;
    else if (matrices)
        plan.block_rows = p <= 64 ? 64 : p <= 256 ? 128 : p <= 1024 ? 64 : 32;
    else
        plan.block_rows = p <= 80 ? 32 : p <= 160 ? 16 : 8;
    plan.n_blocks = at_least_1((n + plan.block_rows - 1) / plan.block_rows);

    plan.n_chunks = whole_chunks(limit_chunks(p, matrices), n, plan.n_blocks);
    plan.blocks_per_chunk = (plan.n_blocks + plan.n_chunks - 1) / plan.n_chunks;
    plan.n_chunks = (plan.n_blocks + plan.blocks_per_chunk - 1) / plan.blocks_per_chunk;
    plan.one_thread =
        plan.n_chunks == 1 || (double)n * row_cycles(p, matrices) < (double)WORTH_WAKING;
    return plan;
}

size_t records_summation_depth(size_t n, size_t p, int want)
{
    /* Nondecreasing in n, so that the depth of a data set covers its blocks and samples, too:
     * with c the chunks m <= n records are worth, they get one chunk (c < 2), more than c/2 chunks
     * (c below the most), the most, or one a block; so a chunk has at most 2/(per_row * block_rows)
     * + 2 blocks, or those of n records cut into the most chunks, or one. */
    size_t matrices = !!(want & WANT_HESSIAN) + !!(want & WANT_MEAT);
    chunk_limits limits = limit_chunks(p, matrices);
    records_plan plan = records_make_plan(n, p, want);
    size_t few = (size_t)(2.0 / (limits.per_row * (double)plan.block_rows)) + 2;
    size_t many = (plan.n_blocks + limits.most - 1) / limits.most;
    size_t blocks = at_most(plan.n_blocks, few > many ? few : many);
    return plan.block_rows + 1 + blocks + whole_chunks(limits, n, plan.n_blocks) + 8;
}

/* ------------------------------------------------------------------ task ------------------- */

/* Which squared norms of x the fast path may see (records/guards.h).  Inside [lo, hi) no
 * weight underflows enough to matter; a rescaled row must be longer than any radius in force. */
static void set_limits(records_task *task)
{
    const records_model *model = &task->model;
    double radius2 = model->radius * model->radius;
    task->norm2_lo = 0.0;
    if (model->weighting == WEIGHT_CLIP) {
        task->norm2_hi = radius2 < 1e-50 ? radius2 * 1e250 : 1e200;
        if (!model->intercept)
            task->norm2_lo = 1e-200;
        task->safe_exponent = 0;
    } else {
        task->norm2_hi = radius2 < 1.0 ? radius2 * 1e200 : 1e200;
        task->safe_exponent = ilogb(sqrt(task->norm2_hi)) + 2;
    }
    task->room = model->radius;
    if (model->weighting == WEIGHT_BOUNDED && model->intercept)
        task->room = sqrt((model->radius - 1.0) * (model->radius + 1.0));
}

typedef struct {
    records_task task;
    records_chunk chunk;
    size_t shares;                    /* the chunks are cut into so many, one for each thread */
    atomic_size_t taken[MOST_CHUNKS]; /* chunks of each share that some thread has begun */
    double *scratch;                  /* one piece per thread */
    double *sums;                     /* one piece per chunk */
} records_job;

static void do_chunk(records_job *job, size_t chunk, double *scratch)
{
    const records_plan *plan = &job->task.plan;
    size_t chunk_rows = plan->blocks_per_chunk * plan->block_rows, first = chunk * chunk_rows;
    double *sums = job->sums + chunk * job->task.sum_doubles;
    memset(sums, 0, job->task.sum_doubles * sizeof(double));
    job->chunk(&job->task, first, at_most(first + chunk_rows, job->task.data.n), scratch, sums);
}

/* Every thread does its own share first, which from the last call on may lie in its cache, and then
 * what remains of the others'. */
static void work(void *context, int slot)
{
    records_job *job = context;
    double *scratch = job->scratch + (size_t)slot * job->task.scratch_doubles;
    for (size_t k = 0; k < job->shares; k++) {
        size_t share = ((size_t)slot + k) % job->shares;
        size_t first = share * job->task.plan.n_chunks / job->shares;
        size_t chunks = (share + 1) * job->task.plan.n_chunks / job->shares - first, next;
        while ((next = atomic_fetch_add(&job->taken[share], 1)) < chunks)
            do_chunk(job, first + next, scratch);
    }
}

/* Put p coefficients (intercept first) into q zero-padded slots and *intercept. */
static void split_theta(const records_task *task, const double *theta, double *slots,
                        double *intercept)
{
    int shift = task->model.intercept;
    *intercept = shift ? theta[0] : 0.0;
    for (size_t j = 0; j < task->width; j++)
        slots[j] = j < task->data.q ? theta[j + (size_t)shift] : 0.0;
}

/* Rows of a matrix, zero-padded; the first one last, if it is that of a constant that is. */
static void pad_rows(const double *from, size_t rows, size_t p, size_t width, int last, double *to)
{
    for (size_t i = 0; i < rows; i++) {
        const double *row = from + (!last ? i : i + 1 < rows ? i + 1 : 0) * p;
        for (size_t j = 0; j < width; j++)
            to[i * width + j] = j < p ? row[j] : 0.0;
    }
}

/* Count the zeros that each column of a matrix begins with. */
static void count_zeros(const double *matrix, size_t rows, size_t width, size_t *zeros)
{
    for (size_t j = 0; j < width; j++)
        zeros[j] = rows;
    for (size_t i = rows; i-- > 0;)
        for (size_t j = 0; j < width; j++)
            zeros[j] = matrix[i * width + j] != 0.0 ? i : zeros[j];
}

/* Whether the last entry of a row, inside, is the constant. */
static int constant_is_last(const records_task *task)
{
    return task->model.intercept || (task->view && !task->view->matrix && task->p > task->view->q);
}

/* A view's parameters take the places of those that differences have. */
static void lay_out_view(records_task *task, double *room)
{
    const records_view *view = task->view;
    size_t p = view->p, q = view->q, width = task->width;
    double *map = room + 3 * width, *back = map + (view->matrix ? q + 1 : 0) * width;
    double *units = back + (view->back ? p : 0) * width;
    size_t *zeros = (size_t *)(units + 2 * task->unit_width);
    int last = constant_is_last(task);
    memset(room, 0, 3 * width * sizeof(double)); /* what is seen is there already */
    pad_rows(view->centre, 1, q, task->unit_width, 0, units);
    pad_rows(view->inverse, 1, q, task->unit_width, 0, units + task->unit_width);
    if (last) /* 0 in units */
        units[q] = -1.0, units[task->unit_width + q] = 1.0;
    pad_rows(view->theta, p, 1, 1, last, room + width);
    pad_rows(view->back ? view->far_theta : view->theta, p, 1, 1, last, room + 2 * width);
    if (view->matrix) {
        pad_rows(view->matrix, q + 1, p, width, 0, map);
        count_zeros(map + width, q, width, zeros);
    }
    if (view->back) {
        pad_rows(view->back, p, p, width, last, back);
        count_zeros(back, p, width, zeros + width);
    }
    task->theta_new = room + width;
    task->theta_step = room + 2 * width;
    task->map = map;
    task->back = back;
    task->map_zeros = zeros;
    task->back_zeros = zeros + width;
    task->units = units;
}

/* Run the whole sum; the total is left in job->sums[0 .. sum_doubles).  Returns the allocation to
 * free, or NULL when out of memory. */
static void *run(records_job *job, const records_model *model, const records_data *data,
                 const records_view *view, const double *theta, const double *theta_new, int want,
                 double limit, int threads)
{
    records_task *task = &job->task;
    memset(job, 0, sizeof *job);
    task->limit = limit;
    task->limit_square = limit >= 1e-50 && limit <= 1e50 ? limit * limit * (1.0 - 0x1p-40) : -1.0;
    task->model = *model;
    task->data = *data;
    if (view) {
        task->data.q = view->p;
        task->view = view;
        want |= view->matrix ? WANT_VIEW : 0;
    }
    int free_scale = model->scale_factor > 0.0;
    task->want = want;
    task->p = task->data.q + (size_t)(model->intercept != 0);
    task->width = (task->p + 7) / 8 * 8;
    task->plan = records_make_plan(data->n, task->p, want);
    if (free_scale)
        task->model.scale = model->scale_factor * theta[task->p];
    set_limits(task);

    size_t matrix = task->width * task->width, rows = task->plan.block_rows;
    size_t at = task->width;
    task->hessian_at = at;
    at += want & WANT_HESSIAN ? matrix : 0;
    task->meat_at = at;
    at += want & WANT_MEAT ? matrix : 0;
    task->loss_at = at;
    at += 8;
    if (free_scale) {
        task->hessian_cross_at = at;
        task->meat_cross_at = at + task->width;
        task->scale_at = at + 2 * task->width;
        at += 2 * task->width + 8;
    }
    task->counts_at = at;
    at += want & WANT_LENGTHS ? (COUNT_TABLES * (view->n_edges + 2) + 7) / 8 * 8 : 0;
    task->sum_doubles = at;
    task->scratch_doubles =
        rows * (VECTORS + 2 * task->width + SCALED_ROWS
                + (has_weight_or_offset(data) ? WEIGHT_AND_OFFSET : 0)) + 8;
    task->unit_width = view ? (view->matrix ? (view->q + 7) / 8 * 8 : task->width) : 0;
    if (view) /* rows of their own, two groups of them in units, and one that is padded */
        task->scratch_doubles += (rows + 3 * 8) * task->unit_width;

    if (task->plan.one_thread)
        threads = 1;
    else if (threads <= 0)
        threads = records_default_threads();
    threads = (int)at_most((size_t)threads, task->plan.n_chunks);

    size_t thetas = 3 * task->width;
    size_t map_rows = view ? (view->matrix ? view->q + 1 : 0) + (view->back ? view->p : 0) : 0;
    size_t zeros = view ? 2 * task->width : 0; /* as wide as doubles, or less */
    size_t maps = map_rows * task->width + 2 * task->unit_width + zeros;
    size_t doubles = thetas + maps + (size_t)threads * task->scratch_doubles +
                     task->plan.n_chunks * task->sum_doubles;
    void *memory = malloc((doubles + 8) * sizeof(double));
    if (!memory)
        return NULL;
    double *at64 = (double *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    if (!view)
        split_theta(task, theta, at64, &task->theta0);
    task->theta = at64;
    if (theta_new) {
        double *slots = at64 + task->width, *step = at64 + 2 * task->width;
        split_theta(task, theta_new, slots, &task->theta0_new);
        task->theta_new = slots;
        for (size_t j = 0; j < task->width; j++)
            step[j] = slots[j] - at64[j];
        task->theta_step = step;
        task->theta0_step = task->theta0_new - task->theta0;
    }
    if (view)
        lay_out_view(task, at64);
    job->scratch = at64 + thetas + maps;
    job->sums = job->scratch + (size_t)threads * task->scratch_doubles;
    job->chunk = variant();
    job->shares = (size_t)threads;
    pool_run(work, job, threads);

    /* In chunk order, whatever thread did which chunk. */
    for (size_t k = 1; k < task->plan.n_chunks; k++) {
        const double *from = job->sums + k * task->sum_doubles;
        for (size_t i = 0; i < task->sum_doubles; i++)
            job->sums[i] += from[i];
    }
    return memory;
}

/* ------------------------------------------------------------------ results ---------------- */

/* Inside, the intercept is the last coefficient; outside it is the first. */
static size_t outside(const records_task *task, size_t j)
{
    return !constant_is_last(task) ? j : j + 1 == task->p ? 0 : j + 1;
}

/* `cross` and `corner` are the row of the free scale; without one they are not looked at. */
static void put_matrix(const records_task *task, const double *sums, const double *cross,
                       double corner, double scale, double divisor, double *result)
{
    size_t p = task->p, stride = p + (task->model.scale_factor > 0.0);
    for (size_t i = 0; i < p; i++) {
        size_t to_i = outside(task, i);
        for (size_t j = 0; j <= i; j++) {
            size_t to_j = outside(task, j);
            double value = sums[i * task->width + j] / scale / divisor;
            result[to_i * stride + to_j] = result[to_j * stride + to_i] = value;
        }
        if (stride > p)
            result[to_i * stride + p] = result[p * stride + to_i] = cross[i] / scale / divisor;
    }
    if (stride > p)
        result[p * stride + p] = corner / scale / divisor;
}

int records_sums(const records_model *model, const records_data *data, const double *theta,
                 int want, double divisor, int threads, double *gradient, double *hessian,
                 double *meat)
{
    return records_sums_of_view(model, data, NULL, theta, want, divisor, threads, gradient,
                                hessian, meat, NULL);
}

enum { EXPONENTS = 2048 };

/* The first cell of the lengths with each exponent; how many edges one exponent has at most. */
static size_t cells_of_exponents(const double *edges, size_t n, uint32_t *first)
{
    size_t next = 0, most = 0, same = 0;
    for (size_t k = 0; k < n; k++) {
        uint64_t bits;
        memcpy(&bits, edges + k, sizeof bits);
        size_t exponent = edges[k] > 0.0 ? bits >> 52 : 0;
        same = exponent + 1 == next ? same + 1 : 1;
        most = same > most ? same : most;
        while (next <= exponent)
            first[next++] = (uint32_t)k;
    }
    while (next < EXPONENTS)
        first[next++] = (uint32_t)n;
    return most;
}

/* Put a view's cells of lengths where kernels look them up; return the memory to free, or NULL. */
static double *lay_out_cells(records_view *view, uint32_t *first)
{
    size_t n = view->n_edges;
    view->most = cells_of_exponents(view->edges, n, first);
    double *edges = malloc((n + view->most + 1) * sizeof *edges);
    if (!edges)
        return NULL;
    for (size_t k = 0; k <= n + view->most; k++)
        edges[k] = k < n ? view->edges[k] : INFINITY;
    view->edges = edges;
    view->first = first;
    return edges;
}

/* Add up the tables of counts: whole numbers below 2^53. */
static void put_counts(const records_job *job, long long *counts)
{
    size_t n = job->task.view->n_edges;
    for (size_t k = 0; k <= n; k++) {
        counts[k] = 0;
        for (size_t table = 0; table < COUNT_TABLES; table++)
            counts[k] += (long long)job->sums[job->task.counts_at + table * (n + 2) + k];
    }
}

int records_sums_of_view(const records_model *model, const records_data *data,
                         const records_view *view, const double *theta, int want, double divisor,
                         int threads, double *gradient, double *hessian, double *meat,
                         long long *counts)
{
    records_job job;
    records_view with_cells;
    uint32_t first[EXPONENTS];
    double *edges = NULL;
    /* records with weights may count where their sums have nothing: these are read again */
    int together = counts && !has_weight_or_offset(data);
    if (together) {
        with_cells = *view;
        edges = lay_out_cells(&with_cells, first);
        if (!edges)
            return -1;
        view = &with_cells;
        want |= WANT_LENGTHS;
    }
    void *memory = run(&job, model, data, view, theta, NULL, want, 0.0, threads);
    free(edges);
    if (!memory)
        return -1;
    if (together)
        put_counts(&job, counts);
    const records_task *task = &job.task;
    /* Without a free scale these point somewhere and are not used. */
    const double *scale_sums = job.sums + task->scale_at;
    if (want & WANT_GRADIENT) {
        for (size_t j = 0; j < task->p; j++)
            gradient[outside(task, j)] = job.sums[j] / divisor;
        if (model->scale_factor > 0.0)
            gradient[task->p] = scale_sums[0] / divisor;
    }
    if (want & WANT_HESSIAN)
        put_matrix(task, job.sums + task->hessian_at, job.sums + task->hessian_cross_at,
                   scale_sums[1], task->model.scale, divisor, hessian);
    if (want & WANT_MEAT)
        put_matrix(task, job.sums + task->meat_at, job.sums + task->meat_cross_at, scale_sums[2],
                   1.0, divisor, meat);
    free(memory);
    return counts && !together ? records_lengths(data, view, threads, counts) : 0;
}

/* A view of records does not depend on a model. */
static const records_model plain = {.loss = LOSS_HUBER, .weighting = WEIGHT_CLIP, .c = 1.0,
                                    .scale = 1.0, .radius = 1.0, .h = 1.0, .largest_weight = 1.0};

int records_scores(const records_data *data, const records_view *view)
{
    records_job job;
    void *memory = run(&job, &plain, data, view, NULL, NULL, WANT_SCORES, 0.0, 1);
    free(memory);
    return memory ? 0 : -1;
}

int records_lengths(const records_data *data, const records_view *view, int threads,
                    long long *counts)
{
    records_job job;
    records_view with_cells = *view;
    uint32_t first[EXPONENTS];
    double *edges = lay_out_cells(&with_cells, first);
    if (!edges)
        return -1;
    void *memory = run(&job, &plain, data, &with_cells, NULL, NULL, WANT_LENGTHS, 0.0, threads);
    free(edges);
    if (!memory)
        return -1;
    put_counts(&job, counts);
    free(memory);
    return 0;
}

int records_loss(const records_model *model, const records_data *data, const double *theta,
                 double divisor, int threads, double *result)
{
    records_job job;
    void *memory = run(&job, model, data, NULL, theta, NULL, WANT_LOSS, 0.0, threads);
    if (!memory)
        return -1;
    *result = job.sums[job.task.loss_at] * job.task.model.scale / divisor;
    free(memory);
    return 0;
}

int records_loss_difference(const records_model *model, const records_data *data,
                            const double *theta_new, const double *theta_old, double divisor,
                            int threads, double *result)
{
    records_job job;
    void *memory = run(&job, model, data, NULL, theta_old, theta_new, WANT_DIFFERENCE, 0.0,
                       threads);
    if (!memory)
        return -1;
    *result = job.sums[job.task.loss_at] / divisor;
    free(memory);
    return 0;
}

int records_gradient_change(const records_model *model, const records_data *data,
                            const double *theta_new, const double *theta_old, double limit,
                            double divisor, int threads, double *change)
{
    records_job job;
    void *memory =
        run(&job, model, data, NULL, theta_old, theta_new, WANT_GRADIENT | WANT_CHANGE, limit,
            threads);
    if (!memory)
        return -1;
    for (size_t j = 0; j < job.task.p; j++)
        change[outside(&job.task, j)] = job.sums[j] / divisor;
    free(memory);
    return 0;
}
