/* The gradient-information trace of a Gaussian process and its derivatives, and their minimisation.
 *
 * Coordinates are scaled: divided by the length-scales (and, for stationary covariances, moved to
 * the middle of the domain).  Matrices are row-major; rows of points are `dp` doubles long and
 * hold a one after the last coordinate (stationary) or a zero, then zeros.
 */
#ifndef DPFAST_ACQUISITION_H
#define DPFAST_ACQUISITION_H

#include <stddef.h>

#include "isa.h"

#include "minimiser.h"

#ifdef __FAST_MATH__
#error "-ffast-math deletes the NaN checks; build without it"
#endif

enum { RBF = 0, MATERN52 = 1, MATERN72 = 2, POLYNOMIAL2 = 3 };

/* Relative to the prior variance at a point: added to its noise variance, always. */
#define ACQUISITION_JITTER 1e-10

typedef struct {
    int family;
    size_t d, dp;          /* coordinates; the same and the one, rounded up to whole vectors */
    double scale2, offset; /* s^2 and c */
    double noise;          /* variance of an evaluation */
    double *inverse;       /* 1 / length-scale, (dp), zeros at the end */

    /* What depends on the evaluated points only.  K + noise = U'U. */
    size_t m, capacity, ldu;
    double *y;       /* points, (capacity, dp) */
    double *U;       /* upper triangle, (capacity, ldu) */
    double *inverse_diagonal;

    /* What depends on theta too. */
    double *theta; /* (dp), zeros at the end */
    double *B;     /* U'^-1 A', (capacity, dp) */
    double trace;  /* of the posterior gradient covariance given the points */

    /* Workspace of one evaluation. */
    size_t work_capacity;
    double *work;
} acquisition_model;

/* The loops, compiled once per instruction set. */
typedef struct {
    /* Factorise rows `from` to m of K + noise; the points are in y. */
    void (*extend)(acquisition_model *model, size_t from);
    /* B and the trace at `theta`; on entry the trace is the one without points. */
    void (*condition)(acquisition_model *model);
    /* The trace once b points have joined and, unless `gradient` is NULL, its derivative.
     * z and gradient: (b, dp). */
    double (*evaluate)(acquisition_model *model, const double *z, size_t b, double *gradient);
    /* W = U^-1 B, (m, dp). */
    void (*weights)(const acquisition_model *model, double *W);
    /* (K + noise)^-1 1, (m), in an array of m rounded up to whole vectors and one vector more. */
    void (*mean_weights)(const acquisition_model *model, double *w);
} acquisition_loops;

extern const acquisition_loops acquisition_base;
#ifdef DPFAST_X86
extern const acquisition_loops acquisition_avx2, acquisition_avx512;
#endif

/* Names of the instruction sets this machine has, best first, NULL-terminated; choose one by name
 * ("" for the best), 0 on success. */
const char *const *acquisition_isas(void);
int acquisition_set_isa(const char *name);

/* All return 0, or -1 without memory. */
int acquisition_new(acquisition_model *model, int family, size_t d, const double *length_scales,
                    double scale2, double offset, double noise);
void acquisition_free(acquisition_model *model);
/* Keep the first `keep` points and append `count` scaled ones, (count, d). */
int acquisition_points(acquisition_model *model, size_t keep, const double *y, size_t count);
/* Scaled theta, (d). */
void acquisition_theta(acquisition_model *model, const double *theta);
/* z: (b, d), gradient: (b, d) or NULL; both scaled. */
int acquisition_evaluate(acquisition_model *model, const double *z, size_t b, double *value,
                         double *gradient);
void acquisition_weights(const acquisition_model *model, double *W);
/* w: room for m + 16. */
void acquisition_mean_weights(const acquisition_model *model, double *w);

/* Minimise over z, (b, d), within the scaled box lower, upper, (d), from z on entry. */
int acquisition_minimise(acquisition_model *model, double *z, size_t b, const double *lower,
                         const double *upper, minimiser_options *options, double *value);

#endif
