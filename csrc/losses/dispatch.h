/* From a loss's code to its functions; `loss` is a constant wherever speed matters.
 *
 * Each row of list.h brings
 *
 *   vd name_rho(k, r, *complement)   rho, and what is left of an asymptote: |r| times the slope on its
 *                                    side, less rho, bounded, so that differences of losses stay finite
 *                                    when the losses do not
 *   void name_chi_and_reach(k, a, *chi, *reach), where the scale can be free
 *
 * and either, in FUSED_LOSSES,
 *
 *   fraction name_fraction(k, far, r, y)   psi; residuals may be clipped to `far` times c
 *   vd name_slope(majorize, k, a, psi, inverse, size)   from it, 1/denominator and psi's value
 *
 * or, in STORED_LOSSES, void name_psi_and_slope(majorize, k, r, *psi, *slope).  In PREDICTOR_LOSSES
 * these are name_psi_and_slope(majorize, k, t, y, *psi, *slope) and vd name_rho(k, t, y), and r stands
 * for the predictor t in what follows, or for the margin of a label.  All losses of a predictor bring
 * vd name_score_size(h, t), about how large a score may be there, whatever the response is.
 *
 * The slope is psi'(r) or, with `majorize`, the chord psi(r)/r, whose parabola lies above the loss.
 */

#include "base.h"

#include "gamma.h"
#include "logistic.h"
#include "poisson.h"
#include "probit.h"
#include "redescending.h"
#include "robust.h"
#include "smooth.h"

/* The largest -psi; a user's loss, and psi that is stored already: c. */
static INLINE double falling_slope(int loss, double c, double h)
{
    switch (loss) {
#define FALLING(NAME, name, code, falling, rising, traits, scale_part)                          \
    case code: return falling;
        BUILT_IN_LOSSES(FALLING)
#undef FALLING
    default: (void)h; return c;
    }
}

/* The largest psi. */
static INLINE double rising_slope(int loss, double c, double h)
{
    switch (loss) {
#define RISING(NAME, name, code, falling, rising, traits, scale_part)                           \
    case code: return rising;
        BUILT_IN_LOSSES(RISING)
#undef RISING
    default: (void)h; return c;
    }
}

/* sup |psi|. */
static INLINE double steepest_slope(int loss, double c, double h)
{
    double falling = falling_slope(loss, c, h), rising = rising_slope(loss, c, h);
    return falling > rising ? falling : rising;
}

static INLINE loss_constants loss_prepare(int loss, const records_model *model)
{
    return (loss_constants){vset(model->c), vset(1.0 / model->scale), vset(1.0 / model->c),
                            vset(model->c * model->c), vset(model->h), vset(1.0 / model->h),
                            vset(falling_slope(loss, model->c, model->h)),
                            vset(rising_slope(loss, model->c, model->h)),
                            vset(steepest_slope(loss, model->c, model->h))};
}

static INLINE int has_trait(int loss, int trait)
{
    switch (loss) {
#define TRAITS(NAME, name, code, falling, rising, traits, scale_part)                           \
    case code: return !!((traits) & trait);
        BUILT_IN_LOSSES(TRAITS)
#undef TRAITS
    default: return 0;
    }
}

static INLINE int is_fused(int loss)
{
    switch (loss) {
#define FUSED(NAME, name, code, falling, rising, traits, scale_part) case code:
        FUSED_LOSSES(FUSED)
#undef FUSED
        return 1;
    default: return 0;
    }
}

/* Records that count: t is a number, y finite (and 0 or 1 where it is a label). */
static INLINE vi usable(int loss, vd t, vd y)
{
    if (has_trait(loss, LABELS))
        return (t == t) & ((y == vset(0.0)) | (y == vset(1.0)));
    return (t == t) & (vabs(y) <= vset(DBL_MAX));
}

/* The scaled residual r, the margin (2y - 1) t of a label, or the predictor. */
static INLINE vd residual(int loss, const loss_constants *k, vd t, vd y)
{
    if (has_trait(loss, LABELS))
        return (y + y - vset(1.0)) * t;
    if (has_trait(loss, OF_PREDICTOR))
        return t;
    return (y - t) * k->inverse_scale;
}

/* Where psi has long reached its bound: residuals beyond are clipped to so many c.  A weight may then
 * multiply the denominator (up to 1e200) without overflow; psi' r^2 needs psi' farther out.  Powers
 * of two: psi is then exactly c. */
#define FAR_FOR_SCORES 0x1p200
#define FAR_FOR_SLOPES 0x1p400

static INLINE fraction psi_fraction(int loss, const loss_constants *k, double far, vd r, vd y)
{
    switch (loss) {
#define FRACTION(NAME, name, code, falling, rising, traits, scale_part)                         \
    case code: return name##_fraction(k, far, r, y);
        FUSED_LOSSES(FRACTION)
#undef FRACTION
    default: return (fraction){vset(0.0), vset(1.0), vset(0.0), vset(0.0)};
    }
}

/* psi(r) and its slope.  Zero where not `ok`. */
static INLINE void psi_and_slope_at(int loss, int majorize, const loss_constants *k, vd r, vd y,
                                    vi ok, vd *psi, vd *slope)
{
    vd size = vset(0.0), bend = vset(0.0), inverse;
    fraction f = psi_fraction(loss, k, FAR_FOR_SLOPES, r, y);
    switch (loss) {
#define FUSED(NAME, name, code, falling, rising, traits, scale_part)                            \
    case code:                                                                                  \
        inverse = vset(1.0) / f.denominator;                                                    \
        size = f.numerator * inverse;                                                           \
        bend = name##_slope(majorize, k, vabs(r), f, inverse, size);                            \
        break;
        FUSED_LOSSES(FUSED)
#undef FUSED
#define STORED_LOSS(NAME, name, code, falling, rising, traits, scale_part)                      \
    case code: name##_psi_and_slope(majorize, k, r, &size, &bend); break;
        STORED_LOSSES(STORED_LOSS)
#undef STORED_LOSS
#define PREDICTOR_LOSS(NAME, name, code, falling, rising, traits, scale_part)                   \
    case code: name##_psi_and_slope(majorize, k, r, y, &size, &bend); break;
        PREDICTOR_LOSSES(PREDICTOR_LOSS)
#undef PREDICTOR_LOSS
    default: break;
    }
    *psi = (vd)((vi)size & ok);
    *slope = (vd)((vi)bend & ok);
}

static INLINE void psi_and_slope(int loss, int majorize, const loss_constants *k, vd t, vd y,
                                 vd *psi, vd *slope)
{
    psi_and_slope_at(loss, majorize, k, residual(loss, k, t, y), y, usable(loss, t, y), psi,
                     slope);
}

/* chi(r) = r psi(r) - rho(r), the scale's score, bounded and increasing in |r|; and r itself, held
 * to where psi' vanishes in double precision, so that psi' r and psi' r^2 are never 0 * inf. */
static INLINE void chi_and_reach(int loss, const loss_constants *k, vd t, vd y, vd *chi, vd *reach)
{
    vd r = residual(loss, k, t, y), value, size;
    switch (loss) {
#define CHI(NAME, name, code, falling, rising, traits, scale_part)                              \
    case code: scale_part(k, vabs(r), &value, &size); break;
        BUILT_IN_LOSSES(CHI)
#undef CHI
    default: no_scale_part(k, r, &value, &size); break;
    }
    vi ok = usable(loss, t, y);
    *chi = (vd)((vi)value & ok);
    *reach = (vd)((vi)vcopysign(size, r) & ok);
}

/* How large a score may be at a predictor, whatever the response is; NaN where that is none. */
static INLINE vd score_size(int loss, double c, double h, vd t)
{
    vd size;
    switch (loss) {
#define SCORE_SIZE(NAME, name, code, falling, rising, traits, scale_part)                       \
    case code: size = name##_score_size(h, t); break;
        FUSED_PREDICTOR_LOSSES(SCORE_SIZE)
        PREDICTOR_LOSSES(SCORE_SIZE)
#undef SCORE_SIZE
    default: return vset(loss < 0 ? 1.0 : steepest_slope(loss, c, h));
    }
    return vselect(t == t, size, t);
}

static INLINE vd rho(int loss, const loss_constants *k, vd r, vd y, vd *complement)
{
    switch (loss) {
#define RHO(NAME, name, code, falling, rising, traits, scale_part)                              \
    case code: return name##_rho(k, r, complement);
        FUSED_LOSSES(RHO)
        STORED_LOSSES(RHO)
#undef RHO
#define RHO_OF_PREDICTOR(NAME, name, code, falling, rising, traits, scale_part)                 \
    case code: *complement = vset(0.0); return name##_rho(k, r, y);
        PREDICTOR_LOSSES(RHO_OF_PREDICTOR)
#undef RHO_OF_PREDICTOR
    default: *complement = vset(0.0); return vset(0.0);
    }
}
