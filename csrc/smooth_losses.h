/* Smoothed Huber, Ostrovskii-Bach and smooth absolute loss, one vector of records at a time.
 *
 * Included by losses.h after redescending.h; uses the helpers of both.  No branches; infinities saturate.  u = |r| >= 0.
 */

/* Position in the corner of the smoothed Huber: 0 up to c, 1 from c + h on. */
static INLINE vd corner(const loss_constants *k, vd a)
{
    return vmin(vmax((a - k->c) * k->inverse_h, vset(0.0)), vset(1.0));
}

static INLINE void smooth_size_and_bend(int loss, int majorize, const loss_constants *k, vd a,
                                        vd *size, vd *bend)
{
    const vd one = vset(1.0), two = vset(2.0), half = vset(0.5);
    if (loss == LOSS_SMOOTHED_HUBER) {
        vd s = corner(k, a), rest = one - s;
        /* s - s^3 + s^4/2, increasing to 1/2 */
        vd rise = s * (one - s * s * (one - half * s));
        *size = vmin(vmin(a, k->c) + k->h * rise, k->steepest);
        *bend = majorize ? vselect(a <= k->c, one, vmin(*size / a, one))
                         : rest * rest * (one + two * s);
    } else if (loss == LOSS_OSTROVSKII_BACH) {
        vd u = vmin(a * k->inverse_c, vset(1e120));
        vd root = vsqrt(one + vset(4.0) * u * u), inverse = one / (one + root);
        *size = k->c * vmin(two * u / (one + root), one);
        *bend = majorize ? two * inverse : two * inverse / root;
        *bend = vselect(a <= vset(DBL_MAX), *bend, vset(0.0));
    } else { /* smooth absolute: tanh(a/2), 1 - tanh^2 over 2 */
        vd e, em1;
        exp_minus(a, &e, &em1);
        vd inverse = one / (two + em1);
        *size = vmin(-em1 * inverse, one);
        if (majorize)
            *bend = vselect(a > vset(1e-150), vmin(*size / a, half), half);
        else
            *bend = two * e * inverse * inverse;
    }
}

/* rho, and steepest |r| - rho (Ostrovskii-Bach: grows like a logarithm). */
static INLINE vd smooth_rho(int loss, const loss_constants *k, vd a, vd *complement)
{
    const vd one = vset(1.0), two = vset(2.0), half = vset(0.5);
    if (loss == LOSS_SMOOTHED_HUBER) {
        vd s = corner(k, a), inner = vmin(a, k->c), end = k->c + k->h, s2 = s * s;
        vd bent = half * inner * inner + k->c * k->h * s +
                  k->h * k->h * s2 * (half - s2 * (vset(0.25) - vset(0.1) * s));
        *complement = k->steepest * vmin(a, end) - bent;
        return bent + k->steepest * vmax(a - end, vset(0.0));
    }
    if (loss == LOSS_OSTROVSKII_BACH) {
        vd u = vmin(a * k->inverse_c, vset(1e120));
        vd root = vsqrt(one + vset(4.0) * u * u), inverse = one / (one + root);
        vd logarithm = log_one_plus_any(two * u * u * inverse);
        *complement = k->c2 * (u * (one + one / (root + two * u)) * inverse + half * logarithm);
        return k->c * a * (two * u * inverse) - k->c2 * half * logarithm;
    }
    vd e, unused;
    exp_minus(a, &e, &unused);
    vd tail = two * log_one_plus(e);
    *complement = -tail;
    return a + tail;
}
