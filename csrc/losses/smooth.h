/* Smoothed Huber, Ostrovskii-Bach, smooth absolute and smoothed quantile loss.  a = |r|, u = a/c. */

/* ---- smoothed Huber: the corner is bent on [c, c + h] */

/* Position in the corner: 0 up to c, 1 from c + h on. */
static INLINE vd corner(const loss_constants *k, vd a)
{
    return vmin(vmax((a - k->c) * k->inverse_h, vset(0.0)), vset(1.0));
}

static INLINE void smoothed_huber_psi_and_slope(int majorize, const loss_constants *k, vd r,
                                                vd *psi, vd *slope)
{
    const vd one = vset(1.0), two = vset(2.0), half = vset(0.5);
    vd a = vabs(r), s = corner(k, a), rest = one - s;
    /* s - s^3 + s^4/2, increasing to 1/2 */
    vd rise = s * (one - s * s * (one - half * s));
    vd size = vmin(vmin(a, k->c) + k->h * rise, k->steepest);
    *psi = vcopysign(size, r);
    *slope = majorize ? vselect(a <= k->c, one, vmin(size / a, one))
                      : rest * rest * (one + two * s);
}

static INLINE vd smoothed_huber_rho(const loss_constants *k, vd r, vd *complement)
{
    const vd half = vset(0.5);
    vd a = vabs(r), s = corner(k, a), inner = vmin(a, k->c), end = k->c + k->h, s2 = s * s;
    vd bent = half * inner * inner + k->c * k->h * s +
              k->h * k->h * s2 * (half - s2 * (vset(0.25) - vset(0.1) * s));
    *complement = k->steepest * vmin(a, end) - bent;
    return bent + k->steepest * vmax(a - end, vset(0.0));
}

/* ---- Ostrovskii-Bach */

static INLINE void ostrovskii_bach_psi_and_slope(int majorize, const loss_constants *k, vd r,
                                                 vd *psi, vd *slope)
{
    const vd one = vset(1.0), two = vset(2.0);
    vd a = vabs(r), u = vmin(a * k->inverse_c, vset(1e120));
    vd root = vsqrt(one + vset(4.0) * u * u), inverse = one / (one + root);
    vd bend = majorize ? two * inverse : two * inverse / root;
    *psi = vcopysign(k->c * vmin(two * u / (one + root), one), r);
    *slope = vselect(a <= vset(DBL_MAX), bend, vset(0.0));
}

/* The complement grows like a logarithm. */
static INLINE vd ostrovskii_bach_rho(const loss_constants *k, vd r, vd *complement)
{
    const vd one = vset(1.0), two = vset(2.0), half = vset(0.5);
    vd a = vabs(r), u = vmin(a * k->inverse_c, vset(1e120));
    vd root = vsqrt(one + vset(4.0) * u * u), inverse = one / (one + root);
    vd logarithm = log_one_plus_any(two * u * u * inverse);
    *complement = k->c2 * (u * (one + one / (root + two * u)) * inverse + half * logarithm);
    return k->c * a * (two * u * inverse) - k->c2 * half * logarithm;
}

/* ---- smooth absolute: psi = tanh(r/2) */

static INLINE void smooth_absolute_psi_and_slope(int majorize, const loss_constants *k, vd r,
                                                 vd *psi, vd *slope)
{
    const vd one = vset(1.0), two = vset(2.0), half = vset(0.5);
    vd a = vabs(r), e, em1;
    (void)k;
    exp_minus(a, &e, &em1);
    vd inverse = one / (two + em1), size = vmin(-em1 * inverse, one);
    *psi = vcopysign(size, r);
    *slope = majorize ? vselect(a > vset(1e-150), vmin(size / a, half), half)
                      : two * e * inverse * inverse;
}

static INLINE vd smooth_absolute_rho(const loss_constants *k, vd r, vd *complement)
{
    vd a = vabs(r), e, unused;
    (void)k;
    exp_minus(a, &e, &unused);
    vd tail = vset(2.0) * log_one_plus(e);
    *complement = -tail;
    return a + tail;
}

/* ---- smoothed quantile: c is the bandwidth, h the level; psi rises from h - 1 to h */

static INLINE void quantile_psi_and_slope(int majorize, const loss_constants *k, vd r, vd *psi,
                                          vd *slope)
{
    const vd one = vset(1.0), two = vset(2.0), steepest = vset(0.25) * k->inverse_c;
    vd a = vabs(r), e, em1;
    exp_minus(a * k->inverse_c, &e, &em1);
    vd inverse = one / (two + em1), tail = e * inverse;
    *psi = vselect(r < vset(0.0), tail - k->falling, k->rising - tail);
    /* The chord of the symmetric part: the rest of the loss is linear. */
    *slope = majorize ? vselect(a > vset(1e-150), vmin(-em1 * inverse / (a + a), steepest), steepest)
                      : tail * inverse * k->inverse_c;
}

static INLINE vd quantile_rho(const loss_constants *k, vd r, vd *complement)
{
    vd a = vabs(r), e, unused;
    exp_minus(a * k->inverse_c, &e, &unused);
    vd tail = k->c * log_one_plus(e);
    *complement = -tail;
    return a * vselect(r < vset(0.0), k->falling, k->rising) + tail;
}

/* Curvature and majorising steps are those of bandwidth c, the score beside a curvature or alone that
 * of c/3 (claim C73): exp(-3a/c) is a product. */
static INLINE vd cube(vd e) { return e * e * e; }

static INLINE void narrow_quantile_psi_and_slope(int majorize, const loss_constants *k, vd r,
                                                 vd *psi, vd *slope)
{
    const vd one = vset(1.0), two = vset(2.0);
    vd e, em1;
    if (majorize) {
        quantile_psi_and_slope(1, k, r, psi, slope);
        return;
    }
    exp_minus(vabs(r) * k->inverse_c, &e, &em1);
    vd inverse = one / (two + em1), e3 = cube(e), tail = e3 / (one + e3);
    *psi = vselect(r < vset(0.0), tail - k->falling, k->rising - tail);
    *slope = e * inverse * inverse * k->inverse_c;
}

static INLINE vd narrow_quantile_rho(const loss_constants *k, vd r, vd *complement)
{
    vd a = vabs(r), e, unused;
    exp_minus(a * k->inverse_c, &e, &unused);
    vd tail = k->c * vset(1.0 / 3.0) * log_one_plus(cube(e));
    *complement = -tail;
    return a * vselect(r < vset(0.0), k->falling, k->rising) + tail;
}
