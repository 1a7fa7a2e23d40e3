/* Huber, log-cosh and pseudo-Huber: psi rises from -c to c.  a = |r|, u = a/c. */

/* ---- Huber */

static INLINE fraction huber_fraction(const loss_constants *k, double far, vd r, vd y)
{
    const vd one = vset(1.0);
    fraction psi = {one, one, one, one};
    vd a = vabs(r);
    (void)far, (void)y;
    psi.numerator = vmin(a, k->c);
    psi.numerator = vcopysign(psi.numerator, r);
    return psi;
}

static INLINE vd huber_slope(int majorize, const loss_constants *k, vd a, fraction psi, vd inverse,
                             vd size)
{
    (void)psi, (void)inverse, (void)size;
    return majorize ? k->c / vmax(a, k->c) : vselect(a <= k->c, vset(1.0), vset(0.0));
}

static INLINE vd huber_rho(const loss_constants *k, vd r, vd *complement)
{
    vd a = vabs(r);
    vi inside = a <= k->c;
    vd half = vset(0.5) * vmin(a, k->c) * vmin(a, k->c);
    *complement = vselect(inside, k->c * a - half, vset(0.5) * k->c2);
    return vselect(inside, half, k->c * a - half);
}

static INLINE void huber_chi_and_reach(const loss_constants *k, vd a, vd *chi, vd *reach)
{
    a = vmin(a, k->c);
    *chi = vset(0.5) * a * a;
    *reach = a;
}

/* ---- clipped response: Huber's psi beside the curvature of least squares, so that one read gives a
 * clipped moment and a Gram.  The slope is not that of psi. */

static INLINE void clipped_response_psi_and_slope(int majorize, const loss_constants *k, vd r,
                                                  vd *psi, vd *slope)
{
    (void)majorize;
    *psi = vcopysign(vmin(vabs(r), k->c), r);
    *slope = vset(1.0);
}

static INLINE vd clipped_response_rho(const loss_constants *k, vd r, vd *complement)
{
    return huber_rho(k, r, complement);
}

/* ---- log-cosh: psi = c tanh u */

static INLINE fraction log_cosh_fraction(const loss_constants *k, double far, vd r, vd y)
{
    const vd one = vset(1.0);
    fraction psi = {one, one, one, one};
    vd a = vabs(r);
    (void)far, (void)y;
    exp_minus((a + a) * k->inverse_c, &psi.exponential, &psi.minus_one);
    psi.numerator = k->c * -psi.minus_one;
    psi.denominator = vset(2.0) + psi.minus_one;
    psi.numerator = vcopysign(psi.numerator, r);
    return psi;
}

static INLINE vd log_cosh_slope(int majorize, const loss_constants *k, vd a, fraction psi,
                                vd inverse, vd size)
{
    const vd one = vset(1.0);
    vd u = a * k->inverse_c;
    if (majorize)
        return vselect(u > vset(1e-150), vmin(vabs(size) * k->inverse_c / u, one), one);
    return vset(4.0) * psi.exponential * inverse * inverse;
}

static INLINE vd log_cosh_rho(const loss_constants *k, vd r, vd *complement)
{
    vd a = vabs(r), u = a * k->inverse_c, e, em1;
    exp_minus(u + u, &e, &em1);
    vd tanh2 = em1 / (vset(2.0) + em1);
    tanh2 = tanh2 * tanh2;
    vi central = tanh2 < vset(0.29);
    vd logarithm = log_one_plus(vselect(central, -tanh2, e));
    vd rest = logarithm - vset(0x1.62e42fefa39efp-1);
    vd value = k->c2 * vselect(central, vset(-0.5) * logarithm, u + rest);
    *complement = vselect(central, k->c * a - value, k->c2 * -rest);
    return value;
}

static INLINE void log_cosh_chi_and_reach(const loss_constants *k, vd a, vd *chi, vd *reach)
{
    const vd one = vset(1.0);
    vd u = vmin(a * k->inverse_c, vset(1e3)), e, em1;
    exp_minus(u + u, &e, &em1);
    vd inverse = one / (vset(2.0) + em1), tanh = vmin(-em1 * inverse, one);
    vi central = tanh < vset(0.5);
    vd logarithm = log_one_plus(vselect(central, -tanh * tanh, e));
    *chi = k->c2 * vselect(central, u * tanh + vset(0.5) * logarithm,
                           vset(0x1.62e42fefa39efp-1) - logarithm - (u + u) * e * inverse);
    *reach = u * k->c;
}

/* ---- pseudo-Huber: psi = c u/sqrt(1 + u^2) */

static INLINE fraction pseudo_huber_fraction(const loss_constants *k, double far, vd r, vd y)
{
    const vd one = vset(1.0);
    fraction psi = {one, one, one, one};
    vd a = vabs(r);
    (void)y;
    vd u = vmin(a * k->inverse_c, vset(far));
    psi.numerator = k->c * u;
    psi.denominator = vsqrt(one + u * u);
    psi.numerator = vcopysign(psi.numerator, r);
    return psi;
}

static INLINE vd pseudo_huber_slope(int majorize, const loss_constants *k, vd a, fraction psi,
                                    vd inverse, vd size)
{
    (void)k, (void)a, (void)psi, (void)size;
    return majorize ? inverse : inverse * inverse * inverse;
}

static INLINE vd pseudo_huber_rho(const loss_constants *k, vd r, vd *complement)
{
    const vd one = vset(1.0);
    vd a = vabs(r), u = vmin(a * k->inverse_c, vset(1e120));
    vd root = vsqrt(one + u * u);
    *complement = k->c2 * (one - one / (root + u));
    return k->c * a * (u / (one + root));
}

static INLINE void pseudo_huber_chi_and_reach(const loss_constants *k, vd a, vd *chi, vd *reach)
{
    const vd one = vset(1.0);
    vd u = vmin(a * k->inverse_c, vset(1e120));
    vd root = vsqrt(one + u * u);
    *chi = k->c2 * (u / root) * (u / (one + root));
    *reach = u * k->c;
}
