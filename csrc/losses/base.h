/* What the losses share, one vector of records at a time.
 *
 * Included by dispatch.h after vectors.h.  No branches: infinities saturate, NaNs pass through and
 * are masked by the caller.
 */

typedef struct {
    vd c, inverse_scale, inverse_c, c2;
    vd h, inverse_h; /* second constant; a user's loss: the bound on psi' */
    vd falling, rising, steepest; /* sup -psi, sup psi, sup |psi| */
} loss_constants;

/* psi(r) as a fraction, so that a weight can share its division; and what the slope needs besides.
 * The denominator is from 1 to 1e308, or NaN where r is. */
typedef struct {
    vd numerator, denominator, exponential, minus_one;
} fraction;

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

/* log(1 + v) for v in [0, 1e240]: 1 + v = m 2^e with m in [1, 2). */
static INLINE vd log_one_plus_any(vd v)
{
    vi bits = (vi)(vset(1.0) + v);
    vd m = (vd)((bits & vseti(0x000fffffffffffffLL)) | vseti(0x3ff0000000000000LL));
    /* exponent + 2^52 as a double, without a conversion of integers */
    vd e = (vd)((vi)((bits >> 52) & vseti(0x7ff)) | vseti(0x4330000000000000LL)) -
           vset(0x1p52 + 1023.0);
    vi small = v <= vset(1.0);
    vd part = log_one_plus(vselect(small, v, m - vset(1.0)));
    return part + vselect(small, vset(0.0), e * vset(0x1.62e42fefa39efp-1));
}

/* log(x) of normal numbers x > 0 */
static INLINE vd log_of(vd x)
{
    vi bits = (vi)x;
    vd m = (vd)((bits & vseti(0x000fffffffffffffLL)) | vseti(0x3ff0000000000000LL));
    vd e = (vd)(((bits >> 52) & vseti(0x7ff)) | vseti(0x4330000000000000LL)) -
           vset(0x1p52 + 1023.0);
    return log_one_plus(m - vset(1.0)) + e * vset(0x1.62e42fefa39efp-1);
}

/* exp(t), computed for |t| <= 708: less is nothing, more is beyond any cap. */
static INLINE vd uncapped_mean(vd t)
{
    vd mean, unused;
    exp_within(vmin(vmax(t, vset(-708.0)), vset(708.0)), &mean, &unused);
    return vselect(t < vset(-708.0), vset(0.0), mean);
}

/* Losses whose scale is known: never called. */
static INLINE void no_scale_part(const loss_constants *k, vd a, vd *chi, vd *reach)
{
    *chi = *reach = vset(0.0) * a * k->c;
}
