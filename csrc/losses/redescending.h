/* Redescending losses: psi returns to zero, so that gross outliers have no influence at all.
 *
 * With u = |r|/c and v = u^2:
 *
 *                 rho                        |psi|                largest |psi|
 *   Tukey         c^2 (1 - (1-v)^3)/6        c u (1-v)^2, u <= 1  16 c/(25 sqrt 5)
 *   Geman-McClure c^2 v/(2(1+v))             c u/(1+v)^2          9 c/(16 sqrt 3)
 *   Welsch        c^2 (1 - exp(-v))/2        c u exp(-v)          c exp(-1/2)/sqrt 2
 *   Cauchy        c^2 log(1+v)/2             c u/(1+v)            c/2
 *
 * The slope of psi lies in [-0.8, 1]: it can be negative, so these losses have no Hessian here, and
 * the slope they return is never used.  Differences of losses are taken of rho itself.
 */

static INLINE vd redescending_u(const loss_constants *k, vd r)
{
    return vmin(vabs(r) * k->inverse_c, vset(1e120));
}

#define REDESCENDING_PSI(name, value)                                                           \
    static INLINE void name##_psi_and_slope(int majorize, const loss_constants *k, vd r,        \
                                            vd *psi, vd *slope)                                 \
    {                                                                                           \
        (void)majorize;                                                                         \
        *psi = vcopysign(k->c * value(redescending_u(k, r)), r);                                \
        *slope = vset(0.0);                                                                     \
    }

/* ---- Tukey */

static INLINE vd tukey_psi_over_c(vd u)
{
    const vd one = vset(1.0);
    u = vmin(u, one);
    vd rest = one - u * u;
    return u * rest * rest;
}

REDESCENDING_PSI(tukey, tukey_psi_over_c)

static INLINE vd tukey_rho(const loss_constants *k, vd r, vd *complement)
{
    vd u = redescending_u(k, r), v = vmin(u * u, vset(1.0));
    *complement = vset(0.0);
    return k->c2 * vset(1.0 / 6.0) * (v * (vset(3.0) - v * (vset(3.0) - v)));
}

/* ---- Geman-McClure */

static INLINE vd geman_mcclure_psi_over_c(vd u)
{
    vd inverse = vset(1.0) / (vset(1.0) + u * u);
    return u * inverse * inverse;
}

REDESCENDING_PSI(geman_mcclure, geman_mcclure_psi_over_c)

static INLINE vd geman_mcclure_rho(const loss_constants *k, vd r, vd *complement)
{
    vd u = redescending_u(k, r), v = u * u;
    *complement = vset(0.0);
    return vset(0.5) * k->c2 * (v / (vset(1.0) + v));
}

/* ---- Welsch */

static INLINE vd welsch_psi_over_c(vd u)
{
    vd e, unused;
    exp_minus(u * u, &e, &unused);
    return u * e;
}

REDESCENDING_PSI(welsch, welsch_psi_over_c)

static INLINE vd welsch_rho(const loss_constants *k, vd r, vd *complement)
{
    vd u = redescending_u(k, r), unused, minus_one;
    exp_minus(u * u, &unused, &minus_one);
    *complement = vset(0.0);
    return vset(0.5) * k->c2 * -minus_one;
}

/* ---- Cauchy */

static INLINE vd cauchy_psi_over_c(vd u) { return u / (vset(1.0) + u * u); }

REDESCENDING_PSI(cauchy, cauchy_psi_over_c)

static INLINE vd cauchy_rho(const loss_constants *k, vd r, vd *complement)
{
    vd u = redescending_u(k, r);
    *complement = vset(0.0);
    return vset(0.5) * k->c2 * log_one_plus_any(u * u);
}

#undef REDESCENDING_PSI
