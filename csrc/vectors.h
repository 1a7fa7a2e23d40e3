/* Vectors of LANES doubles, as plain C extended by the compiler, and the exponential.
 *
 * Included once per instruction set, which the including file selects, defining LANES. */

#include <stddef.h>

#define INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 32")

#define L ((size_t)LANES)

typedef double vd __attribute__((vector_size(8 * LANES)));
typedef long long vi __attribute__((vector_size(8 * LANES)));
typedef double vd_anywhere __attribute__((vector_size(8 * LANES), aligned(8), may_alias));

static INLINE vd vload(const double *p) { return *(const vd_anywhere *)p; }
static INLINE void vstore(double *p, vd x) { *(vd_anywhere *)p = x; }
static INLINE vd vset(double x) { return x - (vd){0}; }
static INLINE vi vseti(long long x) { return x - (vi){0}; }
static INLINE vd vselect(vi mask, vd yes, vd no)
{
    return (vd)(((vi)yes & mask) | ((vi)no & ~mask));
}

/* vmin(a, b) = a < b ? a : b, like the machine instruction: b when either is NaN. */
#if LANES == 8
static INLINE vd vmin(vd a, vd b) { return (vd)_mm512_min_pd((__m512d)a, (__m512d)b); }
static INLINE vd vmax(vd a, vd b) { return (vd)_mm512_max_pd((__m512d)a, (__m512d)b); }
static INLINE vd vsqrt(vd a) { return (vd)_mm512_sqrt_pd((__m512d)a); }
#elif LANES == 4
static INLINE vd vmin(vd a, vd b) { return (vd)_mm256_min_pd((__m256d)a, (__m256d)b); }
static INLINE vd vmax(vd a, vd b) { return (vd)_mm256_max_pd((__m256d)a, (__m256d)b); }
static INLINE vd vsqrt(vd a) { return (vd)_mm256_sqrt_pd((__m256d)a); }
#else
static INLINE vd vmin(vd a, vd b) { return vselect(a < b, a, b); }
static INLINE vd vmax(vd a, vd b) { return vselect(a > b, a, b); }
static INLINE vd vsqrt(vd a) { return (vd){sqrt(a[0]), sqrt(a[1])}; }
#endif

/* exp(x) and expm1(x) for |x| <= 708 to about one unit in the last place.  Polynomial: Chebyshev
 * interpolant of (expm1(r) - r) / r^2 on |r| <= ln(2)/2, relative error 4e-17. */
static INLINE void exp_within(vd x, vd *exponential, vd *minus_one)
{
    const vd magic = vset(0x1.8p52);
    vd shifted = x * vset(0x1.71547652b82fep+0) + magic;
    vd k = shifted - magic;
    vd r = x - k * vset(0x1.62e42fefa0000p-1);
    r = r - k * vset(0x1.cf79abc9e3b3ap-40);
    vd r2 = r * r, r4 = r2 * r2;
    vd p01 = vset(0x1.0000000000001p-1) + r * vset(0x1.5555555555556p-3);
    vd p23 = vset(0x1.5555555553d63p-5) + r * vset(0x1.11111111109b3p-7);
    vd p45 = vset(0x1.6c16c1788bd90p-10) + r * vset(0x1.a01a01a7c41d5p-13);
    vd p67 = vset(0x1.a019b90d2ae7ap-16) + r * vset(0x1.71de0dae63bb3p-19);
    vd p89 = vset(0x1.289185613a3d6p-22) + r * vset(0x1.af38a9b0ec855p-26);
    vd p = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
    vd q = r + r2 * p;
    vd power = (vd)(((vi)shifted << 52) + vseti(0x3ff0000000000000LL));
    *exponential = power + power * q;
    *minus_one = power * q + (power - vset(1.0));
}

/* exp(-a) and expm1(-a) for a >= 0.  Below 2^-1021 the exponential is exactly zero. */
static INLINE void exp_minus(vd a, vd *exponential, vd *minus_one)
{
    exp_within(-vmin(a, vset(708.0)), exponential, minus_one);
    *exponential = vselect(a > vset(708.0), vset(0.0), *exponential);
}
