/* Redescending losses: psi returns to zero, so that gross outliers have no influence at all.
 *
 * Included by losses.h.  With u = |r|/c and v = u^2:
 *
 *                 rho                        |psi|                largest |psi|
 *   Tukey         c^2 (1 - (1-v)^3)/6        c u (1-v)^2, u <= 1  16 c/(25 sqrt 5)
 *   Geman-McClure c^2 v/(2(1+v))             c u/(1+v)^2          9 c/(16 sqrt 3)
 *   Welsch        c^2 (1 - exp(-v))/2        c u exp(-v)          c exp(-1/2)/sqrt 2
 *   Cauchy        c^2 log(1+v)/2             c u/(1+v)            c/2
 *
 * The slope of psi lies in [-0.8, 1]: it can be negative, so these losses have no Hessian here.
 */

static INLINE vd redescending_size(int loss, const loss_constants *k, vd r)
{
    const vd one = vset(1.0);
    vd u = vmin(vabs(r) * k->inverse_c, vset(1e120));
    if (loss == LOSS_TUKEY) {
        u = vmin(u, one);
        vd rest = one - u * u;
        return k->c * (u * rest * rest);
    }
    if (loss == LOSS_GEMAN_MCCLURE) {
        vd inverse = one / (one + u * u);
        return k->c * (u * inverse * inverse);
    }
    if (loss == LOSS_WELSCH) {
        vd e, unused;
        exp_minus(u * u, &e, &unused);
        return k->c * (u * e);
    }
    return k->c * (u / (one + u * u));
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

static INLINE vd redescending_rho(int loss, const loss_constants *k, vd r)
{
    const vd one = vset(1.0), half = vset(0.5);
    vd u = vmin(vabs(r) * k->inverse_c, vset(1e120)), v = u * u;
    if (loss == LOSS_TUKEY) {
        v = vmin(v, one);
        return k->c2 * vset(1.0 / 6.0) * (v * (vset(3.0) - v * (vset(3.0) - v)));
    }
    if (loss == LOSS_GEMAN_MCCLURE)
        return half * k->c2 * (v / (one + v));
    if (loss == LOSS_WELSCH) {
        vd unused, minus_one;
        exp_minus(v, &unused, &minus_one);
        return half * k->c2 * -minus_one;
    }
    return half * k->c2 * log_one_plus_any(v);
}
