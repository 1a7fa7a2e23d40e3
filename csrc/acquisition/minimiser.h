/* Projected L-BFGS in a box. */
#ifndef DPFAST_MINIMISER_H
#define DPFAST_MINIMISER_H

#include <stddef.h>

/* The value at x and its derivative. */
typedef double (*minimiser_objective)(void *context, const double *x, double *gradient);

typedef struct {
    size_t max_evaluations;
    double first_step;         /* most a coordinate moves in the first step */
    double gradient_tolerance; /* stop when no entry of the projected gradient is larger */
    double value_tolerance;    /* stop when a step gains less than this */
    double target;             /* stop when the value is at most this */
    size_t evaluations;        /* out: how many there were */
} minimiser_options;

/* Minimise over x, n coordinates, from x on entry; the bounds repeat with the given period.
 * The value never ends above the first one.  Returns -1 without memory, otherwise 0. */
int minimise_in_box(minimiser_objective objective, void *context, size_t n, double *x,
                    const double *lower, const double *upper, size_t period,
                    minimiser_options *options, double *value);

#endif
