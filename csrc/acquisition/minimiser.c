/* Projected L-BFGS in a box: Bertsekas' two-metric projection with a limited-memory Hessian.
 *
 * Coordinates at a bound whose derivative points outside are fixed; the two-loop recursion runs on
 * the others, with inner products over them only; the step is projected on the box and shortened
 * until the value has decreased enough (Armijo along the projection arc), or lengthened while the
 * value still falls nearly as steeply as at the start: where the function is not convex, no
 * curvature can be learnt and unit steps would crawl.
 */
#include "minimiser.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "-ffast-math deletes the NaN checks; build without it"
#endif

#define PAIRS 12
#define DECREASE 1e-4
#define MOST_SHORTENINGS 25
#define STEEP 0.9
#define MOST_LENGTHENINGS 5

typedef struct {
    size_t n, count, next;
    double *lower, *upper;
    double *s[PAIRS], *y[PAIRS]; /* differences of points and of gradients, a ring */
    double curvature[PAIRS];     /* s'y / y'y */
    double *is_free;             /* 0 where a coordinate is fixed at a bound, otherwise 1 */
} workspace;

static double clip(const workspace *w, size_t i, double value)
{
    double low = w->lower[i], high = w->upper[i];
    return value < low ? low : value > high ? high : value;
}

/* Inner product over the free coordinates; partial sums, or each addition would wait
 * for the last. */
static double dot_free(const workspace *w, const double *a, const double *b)
{
    const double *is_free = w->is_free;
    double sums[8] = {0.0};
    size_t i = 0;
    for (; i + 8 <= w->n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sums[k] += is_free[i + k] * a[i + k] * b[i + k];
    for (; i < w->n; i++)
        sums[0] += is_free[i] * a[i] * b[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
           ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/* Mark the coordinates fixed at x; return the largest move of a projected unit gradient step. */
static double hold(workspace *w, const double *x, const double *g)
{
    double largest = 0.0;
    for (size_t i = 0; i < w->n; i++) {
        int at_bound = (x[i] <= w->lower[i] && g[i] > 0.0) || (x[i] >= w->upper[i] && g[i] < 0.0);
        w->is_free[i] = at_bound ? 0.0 : 1.0;
        double move = fabs(clip(w, i, x[i] - g[i]) - x[i]);
        if (move > largest)
            largest = move;
    }
    return largest;
}

/* direction = -H g on the free coordinates, zero on the fixed ones. */
static void direction_of(const workspace *w, const double *g, double *direction)
{
    double alpha[PAIRS], inner[PAIRS];
    double scale = 0.0;
    for (size_t i = 0; i < w->n; i++)
        direction[i] = -g[i] * w->is_free[i];
    for (size_t k = 0; k < w->count; k++) {
        size_t j = (w->next + PAIRS - 1 - k) % PAIRS;
        inner[j] = dot_free(w, w->s[j], w->y[j]);
        double squared = dot_free(w, w->y[j], w->y[j]);
        if (!(inner[j] > 1e-10 * squared * w->curvature[j])) {
            inner[j] = 0.0; /* no curvature left among the free coordinates */
            continue;
        }
        if (scale == 0.0)
            scale = inner[j] / squared;
        alpha[j] = dot_free(w, w->s[j], direction) / inner[j];
        for (size_t i = 0; i < w->n; i++)
            direction[i] -= w->is_free[i] * alpha[j] * w->y[j][i];
    }
    if (scale > 0.0)
        for (size_t i = 0; i < w->n; i++)
            direction[i] *= scale;
    for (size_t k = w->count; k-- > 0;) {
        size_t j = (w->next + PAIRS - 1 - k) % PAIRS;
        if (inner[j] == 0.0)
            continue;
        double beta = alpha[j] - dot_free(w, w->y[j], direction) / inner[j];
        for (size_t i = 0; i < w->n; i++)
            direction[i] += w->is_free[i] * beta * w->s[j][i];
    }
}

static void remember(workspace *w, const double *x, const double *x_new, const double *g,
                     const double *g_new)
{
    double *s = w->s[w->next], *y = w->y[w->next], inner = 0.0, squared = 0.0, step = 0.0;
    for (size_t i = 0; i < w->n; i++) {
        s[i] = x_new[i] - x[i];
        y[i] = g_new[i] - g[i];
        inner += s[i] * y[i];
        squared += y[i] * y[i];
        step += s[i] * s[i];
    }
    if (!(inner > 1e-8 * sqrt(squared * step)))
        return; /* the function is not convex here: the pair says nothing about a minimum */
    w->curvature[w->next] = inner / squared;
    w->next = (w->next + 1) % PAIRS;
    if (w->count < PAIRS)
        w->count++;
}

/* x_new = projection of x + step * direction; the change of value a linear function would have. */
static double move(const workspace *w, const double *x, double step, const double *direction,
                   const double *g, double *x_new)
{
    double predicted = 0.0;
    for (size_t i = 0; i < w->n; i++) {
        x_new[i] = clip(w, i, x[i] + step * direction[i]);
        predicted += g[i] * (x_new[i] - x[i]);
    }
    return predicted;
}

static void swap(double **a, double **b)
{
    double *c = *a;
    *a = *b;
    *b = c;
}

int minimise_in_box(minimiser_objective objective, void *context, size_t n, double *x,
                    const double *lower, const double *upper, size_t period,
                    minimiser_options *options, double *value)
{
    workspace w = {.n = n};
    double *memory = malloc(((9 + 2 * PAIRS) * n + 1) * sizeof(double));
    if (!memory)
        return -1;
    double *x_new = memory, *g = memory + n, *g_new = memory + 2 * n, *direction = memory + 3 * n;
    double *x_try = memory + 4 * n, *g_try = memory + 5 * n;
    for (size_t k = 0; k < PAIRS; k++) {
        w.s[k] = memory + (6 + 2 * k) * n;
        w.y[k] = w.s[k] + n;
    }
    w.is_free = memory + (6 + 2 * PAIRS) * n;
    w.lower = w.is_free + n;
    w.upper = w.lower + n;
    for (size_t i = 0; i < n; i++) {
        w.lower[i] = lower[i % period];
        w.upper[i] = upper[i % period];
    }

    for (size_t i = 0; i < n; i++)
        x[i] = clip(&w, i, x[i]);
    double f = objective(context, x, g);
    options->evaluations = 1;
    while (options->evaluations < options->max_evaluations && f > options->target) {
        double largest = hold(&w, x, g);
        if (!(largest > options->gradient_tolerance))
            break;
        direction_of(&w, g, direction);
        double slope = dot_free(&w, g, direction), squared = dot_free(&w, g, g);
        if (!(slope < -1e-12 * squared)) { /* not a descent direction: start again */
            w.count = 0;
            direction_of(&w, g, direction);
            slope = -squared;
        }
        double step = 1.0, gained = -1.0;
        if (w.count == 0) {
            double most = 0.0;
            for (size_t i = 0; i < n; i++)
                most = fabs(direction[i]) > most ? fabs(direction[i]) : most;
            step = options->first_step / most;
        }
        for (int k = 0; k < MOST_SHORTENINGS && options->evaluations < options->max_evaluations;
             k++) {
            double predicted = move(&w, x, step, direction, g, x_new);
            double f_new = objective(context, x_new, g_new);
            options->evaluations++;
            if (!(f_new <= f + DECREASE * predicted && f_new <= f)) {
                /* Minimum of the parabola through both values and the slope, within limits. */
                double shorter = -0.5 * predicted / (f_new - f - predicted);
                step *= shorter > 0.1 ? (shorter < 0.5 ? shorter : 0.5) : 0.1;
                continue;
            }
            for (int more = 0; k == 0 && more < MOST_LENGTHENINGS && f_new > options->target &&
                               options->evaluations < options->max_evaluations &&
                               dot_free(&w, g_new, direction) < STEEP * slope;
                 more++) {
                step *= 2.0;
                move(&w, x, step, direction, g, x_try);
                double f_try = objective(context, x_try, g_try);
                options->evaluations++;
                if (!(f_try < f_new))
                    break;
                f_new = f_try;
                swap(&x_new, &x_try);
                swap(&g_new, &g_try);
            }
            gained = f - f_new;
            remember(&w, x, x_new, g, g_new);
            f = f_new;
            break;
        }
        if (gained < 0.0) {
            if (w.count == 0)
                break;
            w.count = 0; /* the curvature misled: once more along the gradient */
            continue;
        }
        memcpy(x, x_new, n * sizeof(double));
        swap(&g, &g_new);
        if (gained <= options->value_tolerance)
            break;
    }
    *value = f;
    free(memory);
    return 0;
}
