/* The losses, one vector of records at a time: psi, psi', rho and its bounded complement.
 *
 * Included by records_impl.h, which defines the vector types and vmin, vmax, vsqrt, vselect.
 * No branches: infinities saturate, NaNs pass through and are masked by the caller.
 */

typedef struct {
    vd c, inverse_scale, inverse_c, c2;
    vd h, inverse_h; /* smoothed Huber: width of the corner; a user's loss: the bound on psi' */
    vd steepest;     /* sup |psi| */
} loss_constants;

static INLINE loss_constants loss_prepare(const records_model *model)
{
    double steepest = model->c;
    if (model->loss == LOSS_LOGISTIC || model->loss == LOSS_SMOOTH_ABSOLUTE)
        steepest = 1.0;
    else if (model->loss == LOSS_SMOOTHED_HUBER)
        steepest = model->c + 0.5 * model->h;
    return (loss_constants){vset(model->c), vset(1.0 / model->scale), vset(1.0 / model->c),
                            vset(model->c * model->c), vset(model->h), vset(1.0 / model->h),
                            vset(steepest)};
}

static INLINE vd vabs(vd x) { return (vd)((vi)x & vseti(0x7fffffffffffffffLL)); }
static INLINE vd vcopysign(vd size, vd sign)
{
    return (vd)(((vi)size & vseti(0x7fffffffffffffffLL)) | ((vi)sign & vseti(INT64_MIN)));
}

/* log(1 + z) for z in [-0.3, 1] through 2 atanh(s). */
static INLINE vd log_one_plus(vd z)
{
    vi high = z > vset(0.41421356237309515);
    vd f = vselect(high, vset(0.5) * (z - vset(1.0)), z);
    vd s = f / (vset(2.0) + f);
    vd w = s * s, w2 = w * w;
    vd p = (vset(0x1.5555555555558p-1) + w * vset(0x1.99999999952bfp-2)) +
           w2 * ((vset(0x1.2492492df5266p-2) + w * vset(0x1.c71c62e0922bcp-3)) +
                 w2 * ((vset(0x1.7462b61242bb4p-3) + w * vset(0x1.39fe31c77715cp-3)) +
                       w2 * vset(0x1.2b5a8aca255fdp-3)));
    vd result = s * (vset(2.0) + w * p);
    return result + vselect(high, vset(0x1.62e42fefa39efp-1), vset(0.0));
}

#include "redescending.h"
#include "smooth_losses.h"

/* Records that count: t is a number, y finite (and 0 or 1 for the logistic loss). */
static INLINE vi usable(int loss, vd t, vd y)
{
    if (loss == LOSS_LOGISTIC)
        return (t == t) & ((y == vset(0.0)) | (y == vset(1.0)));
    return (t == t) & (vabs(y) <= vset(DBL_MAX));
}

/* The scaled residual r, or the margin (2y - 1) t of the logistic loss. */
static INLINE vd residual(int loss, const loss_constants *k, vd t, vd y)
{
    if (loss == LOSS_LOGISTIC)
        return (y + y - vset(1.0)) * t;
    return (y - t) * k->inverse_scale;
}

/* psi(r) as a fraction, so that a weight can share its division; and what the slope needs besides.
 * The denominator is from 1 to 1e308, or NaN where r is. */
typedef struct {
    vd numerator, denominator, exponential, minus_one;
} fraction;

static INLINE int has_fraction(int loss)
{
    return loss == LOSS_HUBER || loss == LOSS_LOG_COSH || loss == LOSS_PSEUDO_HUBER ||
           loss == LOSS_LOGISTIC;
}

/* Where psi has long reached its bound: residuals beyond are held to so many c.  A weight may then
 * multiply the denominator (up to 1e200) without overflow; psi' r^2 needs psi' farther out.  Powers
 * of two: psi is then exactly c. */
#define FAR_FOR_SCORES 0x1p200
#define FAR_FOR_SLOPES 0x1p400

static INLINE fraction psi_fraction(int loss, const loss_constants *k, double far, vd r, vd y)
{
    const vd one = vset(1.0);
    fraction psi = {one, one, one, one};
    vd a = vabs(r);
    if (loss == LOSS_LOGISTIC) {
        vd margin = vmin(vmax(r, vset(-708.0)), vset(708.0));
        exp_within(margin, &psi.exponential, &psi.minus_one);
        /* Exactly zero in the end: a score may be clipped after a scaling by 2^1024. */
        psi.numerator = vselect(r > vset(708.0), vset(0.0), y + y - one);
        psi.denominator = one + psi.exponential;
        psi.exponential = vselect(a > vset(708.0), vset(0.0), psi.exponential);
        return psi;
    }
    if (loss == LOSS_HUBER) {
        psi.numerator = vmin(a, k->c);
    } else if (loss == LOSS_LOG_COSH) {
        exp_minus((a + a) * k->inverse_c, &psi.exponential, &psi.minus_one);
        psi.numerator = k->c * -psi.minus_one;
        psi.denominator = vset(2.0) + psi.minus_one;
    } else {
        vd u = vmin(a * k->inverse_c, vset(far));
        psi.numerator = k->c * u;
        psi.denominator = vsqrt(one + u * u);
    }
    psi.numerator = vcopysign(psi.numerator, r);
    return psi;
}

/* psi(r) and its slope: psi'(r), or with `majorize` the chord psi(r)/r (logistic:
 * tanh(t/2)/(2t)), whose parabola lies above the loss everywhere.  Zero where not `ok`. */
static INLINE void psi_and_slope_at(int loss, int majorize, const loss_constants *k, vd r, vd y,
                                    vi ok, vd *psi, vd *slope)
{
    vd size, bend, a = vabs(r);
    const vd one = vset(1.0);
    if (has_fraction(loss)) {
        fraction f = psi_fraction(loss, k, FAR_FOR_SLOPES, r, y);
        vd inverse = one / f.denominator, e = f.exponential;
        size = f.numerator * inverse;
        if (loss == LOSS_LOGISTIC && majorize) {
            vd tanh = vabs(f.minus_one * inverse);
            bend = vselect(a > vset(1e-150), vmin(tanh / (a + a), vset(0.25)), vset(0.25));
        } else if (loss == LOSS_LOGISTIC) {
            bend = e * inverse * inverse;
        } else if (loss == LOSS_HUBER) {
            bend = majorize ? k->c / vmax(a, k->c) : vselect(a <= k->c, one, vset(0.0));
        } else if (loss == LOSS_LOG_COSH) {
            vd u = a * k->inverse_c;
            if (majorize)
                bend = vselect(u > vset(1e-150), vmin(vabs(size) * k->inverse_c / u, one), one);
            else
                bend = vset(4.0) * e * inverse * inverse;
        } else {
            bend = majorize ? inverse : inverse * inverse * inverse;
        }
        *psi = (vd)((vi)size & ok);
        *slope = (vd)((vi)bend & ok);
        return;
    }
    if (loss >= LOSS_TUKEY) {
        size = redescending_size(loss, k, r);
        bend = vset(0.0); /* never used: there is no Hessian */
    } else {
        smooth_size_and_bend(loss, majorize, k, a, &size, &bend);
    }
    *psi = (vd)((vi)vcopysign(size, r) & ok);
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
    const vd one = vset(1.0);
    vd r = residual(loss, k, t, y), a = vabs(r), u, value;
    if (loss == LOSS_HUBER) {
        a = vmin(a, k->c);
        value = vset(0.5) * a * a;
    } else if (loss == LOSS_LOG_COSH) {
        vd e, em1;
        u = vmin(a * k->inverse_c, vset(1e3));
        exp_minus(u + u, &e, &em1);
        vd inverse = one / (vset(2.0) + em1), tanh = vmin(-em1 * inverse, one);
        vi central = tanh < vset(0.5);
        vd logarithm = log_one_plus(vselect(central, -tanh * tanh, e));
        value = k->c2 * vselect(central, u * tanh + vset(0.5) * logarithm,
                                vset(0x1.62e42fefa39efp-1) - logarithm -
                                    (u + u) * e * inverse);
        a = u * k->c;
    } else {
        u = vmin(a * k->inverse_c, vset(1e120));
        vd root = vsqrt(one + u * u);
        value = k->c2 * (u / root) * (u / (one + root));
        a = u * k->c;
    }
    vi ok = usable(loss, t, y);
    *chi = (vd)((vi)value & ok);
    *reach = (vd)((vi)vcopysign(a, r) & ok);
}

/* rho, and its complement: steepest |r| - rho (logistic: max(-margin, 0) - rho), which is bounded, so
 * that differences of losses stay finite when the losses themselves do not. */
static INLINE vd rho(int loss, const loss_constants *k, vd r, vd *complement)
{
    const vd one = vset(1.0);
    vd a = vabs(r), u = a * k->inverse_c, value;
    if (loss == LOSS_LOGISTIC) {
        vd e, unused;
        exp_minus(a, &e, &unused);
        vd tail = log_one_plus(e);
        *complement = -tail;
        return vmax(-r, vset(0.0)) + tail;
    }
    if (loss == LOSS_HUBER) {
        vi inside = a <= k->c;
        vd half = vset(0.5) * vmin(a, k->c) * vmin(a, k->c);
        *complement = vselect(inside, k->c * a - half, vset(0.5) * k->c2);
        return vselect(inside, half, k->c * a - half);
    }
    if (loss == LOSS_LOG_COSH) {
        vd e, em1;
        exp_minus(u + u, &e, &em1);
        vd tanh2 = em1 / (vset(2.0) + em1);
        tanh2 = tanh2 * tanh2;
        vi central = tanh2 < vset(0.29);
        vd logarithm = log_one_plus(vselect(central, -tanh2, e));
        vd rest = logarithm - vset(0x1.62e42fefa39efp-1);
        value = k->c2 * vselect(central, vset(-0.5) * logarithm, u + rest);
        *complement = vselect(central, k->c * a - value, k->c2 * -rest);
        return value;
    }
    if (loss >= LOSS_TUKEY) {
        *complement = vset(0.0); /* never used: differences are taken of rho itself */
        return redescending_rho(loss, k, r);
    }
    if (loss != LOSS_PSEUDO_HUBER)
        return smooth_rho(loss, k, a, complement);
    u = vmin(u, vset(1e120));
    vd root = vsqrt(one + u * u);
    *complement = k->c2 * (one - one / (root + u));
    return k->c * a * (u / (one + root));
}
