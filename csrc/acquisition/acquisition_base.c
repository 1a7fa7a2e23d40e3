/* The portable variant of the acquisition, and what all variants share: memory and choice. */
#include "acquisition.h"

#include <stdatomic.h>
#include <stdlib.h>

#define LANES 2
#define TILE_ROWS 4
#define LOOPS_NAME acquisition_base
#include "acquisition_impl.h"

/* ------------------------------------------------------------------ instruction sets ------- */

static _Atomic(const acquisition_loops *) chosen;

const char *const *acquisition_isas(void) { return isa_names(); }

int acquisition_set_isa(const char *name)
{
    int isa = isa_of(name);
    const acquisition_loops *loops = &acquisition_base;
    if (isa == ISA_NONE)
        return -1;
#ifdef DPFAST_X86
    if (isa == ISA_AVX512)
        loops = &acquisition_avx512;
    else if (isa == ISA_AVX2)
        loops = &acquisition_avx2;
#endif
    atomic_store(&chosen, loops);
    return 0;
}

static const acquisition_loops *loops(void)
{
    const acquisition_loops *best = atomic_load(&chosen);
    if (!best) {
        acquisition_set_isa("");
        best = atomic_load(&chosen);
    }
    return best;
}

/* ------------------------------------------------------------------ memory ----------------- */

/* Rows end on a multiple of the longest vector, whatever the instruction set. */
static size_t padded(size_t n) { return (n + 7) / 8 * 8; }

/* Zeroed: padding is read in whole vectors and multiplied by zero, so it must be finite. */
static double *doubles(size_t count)
{
    double *memory = NULL;
    count = padded(count + 8);
    if (posix_memalign((void **)&memory, 64, count * sizeof(double)) != 0)
        return NULL;
    memset(memory, 0, count * sizeof(double));
    return memory;
}

int acquisition_new(acquisition_model *model, int family, size_t d, const double *length_scales,
                    double scale2, double offset, double noise)
{
    memset(model, 0, sizeof *model);
    model->family = family;
    model->d = d;
    model->dp = padded(d + 1);
    model->scale2 = scale2;
    model->offset = offset;
    model->noise = noise;
    model->inverse = doubles(model->dp);
    model->theta = doubles(model->dp);
    if (!model->inverse || !model->theta)
        return -1;
    for (size_t k = 0; k < d; k++)
        model->inverse[k] = 1.0 / length_scales[k];
    return 0;
}

void acquisition_free(acquisition_model *model)
{
    free(model->inverse);
    free(model->theta);
    free(model->y);
    free(model->U);
    free(model->inverse_diagonal);
    free(model->B);
    free(model->work);
    memset(model, 0, sizeof *model);
}

/* Room for the evaluation at b points, or for extending by b. */
static int reserve_work(acquisition_model *model, size_t b)
{
    size_t m = padded(model->m) + 8, bp = padded(b), dp = model->dp;
    size_t many = 2 * dp * bp + 3 * m * bp + 3 * b * bp + b * dp + 2 * bp;
    size_t one = 3 * m + dp;
    size_t points = 2 * bp * dp; /* z and its gradient, padded, at the end */
    size_t needed = (many > one ? many : one) + points;
    if (needed <= model->work_capacity)
        return 0;
    double *work = doubles(needed);
    if (!work)
        return -1;
    free(model->work);
    model->work = work;
    model->work_capacity = needed;
    return 0;
}

static int reserve_points(acquisition_model *model, size_t m)
{
    if (m <= model->capacity && model->y)
        return 0;
    size_t capacity = (m + m / 2 + 63) / 64 * 64;
    size_t ldu = capacity + 8;
    if (ldu / 8 % 2 == 0) /* a power-of-two stride would put a column into one cache set */
        ldu += 8;
    double *y = doubles(capacity * model->dp), *B = doubles(capacity * model->dp);
    double *U = doubles(capacity * ldu), *inverse_diagonal = doubles(capacity);
    if (!y || !B || !U || !inverse_diagonal) {
        free(y);
        free(B);
        free(U);
        free(inverse_diagonal);
        return -1;
    }
    if (model->m) {
        memcpy(y, model->y, model->m * model->dp * sizeof(double));
        memcpy(inverse_diagonal, model->inverse_diagonal, model->m * sizeof(double));
        for (size_t i = 0; i < model->m; i++)
            memcpy(U + i * ldu, model->U + i * model->ldu, model->m * sizeof(double));
    }
    free(model->y);
    free(model->B);
    free(model->U);
    free(model->inverse_diagonal);
    model->y = y;
    model->B = B;
    model->U = U;
    model->inverse_diagonal = inverse_diagonal;
    model->capacity = capacity;
    model->ldu = ldu;
    return 0;
}

/* ------------------------------------------------------------------ use -------------------- */

static void put_point(const acquisition_model *model, const double *from, double *to)
{
    memcpy(to, from, model->d * sizeof(double));
    memset(to + model->d, 0, (model->dp - model->d) * sizeof(double));
    if (model->family != POLYNOMIAL2)
        to[model->d] = 1.0;
}

int acquisition_points(acquisition_model *model, size_t keep, const double *y, size_t count)
{
    model->m = keep;
    if (reserve_points(model, keep + count) != 0)
        return -1;
    model->m = keep + count;
    if (reserve_work(model, count) != 0) {
        model->m = keep;
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        put_point(model, y + i * model->d, model->y + (keep + i) * model->dp);
    if (count)
        loops()->extend(model, keep);
    return 0;
}

/* Trace of the prior covariance of the gradient: -2 s^2 phi'(0) sum l^-2, or for the polynomial
 * 2 s^2 sum ((|u|^2 + c) + u_k^2) l_k^-2. */
static double prior_trace(const acquisition_model *model)
{
    static const double slope_variance[] = {1.0, 5.0 / 3.0, 7.0 / 5.0, 2.0};
    double inner = model->offset, sum = 0.0;
    int polynomial = model->family == POLYNOMIAL2;
    for (size_t k = 0; polynomial && k < model->d; k++)
        inner += model->theta[k] * model->theta[k];
    for (size_t k = 0; k < model->d; k++) {
        double own = polynomial ? inner + model->theta[k] * model->theta[k] : 1.0;
        sum += own * model->inverse[k] * model->inverse[k];
    }
    return model->scale2 * slope_variance[model->family] * sum;
}

void acquisition_theta(acquisition_model *model, const double *theta)
{
    memcpy(model->theta, theta, model->d * sizeof(double));
    model->trace = prior_trace(model);
    loops()->condition(model);
}

int acquisition_evaluate(acquisition_model *model, const double *z, size_t b, double *value,
                         double *gradient)
{
    if (b == 0) {
        *value = model->trace;
        return 0;
    }
    if (reserve_work(model, b) != 0)
        return -1;
    size_t d = model->d, dp = model->dp;
    double *g = model->work + model->work_capacity - b * dp, *padded_z = g - b * dp;
    for (size_t j = 0; j < b; j++)
        put_point(model, z + j * d, padded_z + j * dp);
    *value = loops()->evaluate(model, padded_z, b, gradient ? g : NULL);
    if (gradient)
        for (size_t j = 0; j < b; j++)
            memcpy(gradient + j * d, g + j * dp, d * sizeof(double));
    return 0;
}

void acquisition_weights(const acquisition_model *model, double *W)
{
    loops()->weights(model, W);
}

void acquisition_mean_weights(const acquisition_model *model, double *w)
{
    loops()->mean_weights(model, w);
}

typedef struct {
    acquisition_model *model;
    size_t b;
} batch;

static double value_of_batch(void *context, const double *z, double *gradient)
{
    batch *at = context;
    double value;
    /* The workspace was reserved before the first call. */
    acquisition_evaluate(at->model, z, at->b, &value, gradient);
    return value;
}

int acquisition_minimise(acquisition_model *model, double *z, size_t b, const double *lower,
                         const double *upper, minimiser_options *options, double *value)
{
    batch at = {model, b};
    if (reserve_work(model, b) != 0)
        return -1;
    return minimise_in_box(value_of_batch, &at, b * model->d, z, lower, upper, model->d, options,
                           value);
}
