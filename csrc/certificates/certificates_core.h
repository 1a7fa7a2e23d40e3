/* Recursive eigenvalue certificates: counts of a public recursion, its inverse and its integral.
 *
 * Knows nothing of records or budgets: everything here is a function of public constants and of one
 * number.  The proofs (rounding included) are claims R12 and R13 of
 * dpfast/privacy/release/PROOFS-release.md; the NumPy twin is tests/twins/certificates.py.
 */
#ifndef DPFAST_CERTIFICATES_CORE_H
#define DPFAST_CERTIFICATES_CORE_H

#ifdef __FAST_MATH__
#error "fast-math breaks the outward rounding that privacy rests on; build without it"
#endif

#include <stddef.h>
#include <stdint.h>

/* R(x) = x - step(x), cut at zero, and zero up to the threshold.  With s = x + ridge:
 * kind 0: step = x (exp(k (1 - sqrt(1 - a/s))) - 1) + g      (linear models)
 * kind 1: step = x - sqrt(x^2 - a) + g                       (smooth losses; ridge unused) */
typedef struct {
    int kind;
    double a, k, g, ridge, threshold;
} dpf_recursion;

/* The plain recursion: min{N : R^N(x) = 0}, at most `most`.  For comparison; its rounding is not
 * part of any claim. */
int64_t dpf_recursion_count(const dpf_recursion *r, double x, int64_t most);

/* Nodes b[0] < ... < b[m-1] >= largest with heights D[j], so that the interpolated D is at least
 * step + 2 eta with room for rounding (R12).  Returns the number of nodes; with b == NULL only
 * counts them.  growth > 1 is the ratio of consecutive nodes. */
size_t dpf_table_size(const dpf_recursion *r, double largest, double eta, double growth);
int dpf_table_fill(const dpf_recursion *r, double largest, double eta, double growth, size_t m,
                   double *b, double *D, double *e, double *slope, double *prefix);

/* min{N : S^N(x) = 0} of the tabulated minorant S(x) = e + slope (x - b) of R. */
int64_t dpf_table_count(size_t m, const double *b, const double *e, const double *slope, double x);
/* A point whose count is at most `count`, within rounding of the largest; b[m-1] at most. */
double dpf_table_inverse(size_t m, const double *b, const double *e, const double *slope,
                         int64_t count);
/* Integral of 1/D from b[0] to x, and a point where it is at most t. */
double dpf_table_integral(size_t m, const double *b, const double *D, const double *prefix,
                          double x);
double dpf_table_integral_inverse(size_t m, const double *b, const double *D, const double *prefix,
                                  double t);

#endif
