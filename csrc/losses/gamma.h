/* A positive response with a log link: t is the linear predictor, and the score the response over its
 * mean exp(t), less 1, clipped to c from above.  A negative response is zero.
 *
 * exp(-t) is computed for |t| <= 708. */

static INLINE vd gamma_ratio(vd t, vd y)
{
    return vmax(y, vset(0.0)) * uncapped_mean(vmax(-t, vset(-708.0)));
}

/* The slope is that of psi, or the bound of all: parabolas with it lie above the loss. */
static INLINE void gamma_psi_and_slope(int majorize, const loss_constants *k, vd t, vd y, vd *psi,
                                       vd *slope)
{
    const vd one = vset(1.0), most = one + k->c;
    vd ratio = gamma_ratio(t, y);
    *psi = vmin(ratio, most) - one;
    *psi = vmin(*psi, k->c);
    *slope = majorize ? most : vselect(ratio <= most, ratio, vset(0.0));
}

/* The same, whatever the mean is. */
static INLINE vd gamma_score_size(double h, vd t)
{
    (void)h, (void)t;
    return vset(1.0);
}

/* y exp(-t) + t, and in a line where the response is more than 1 + c means. */
static INLINE vd gamma_rho(const loss_constants *k, vd t, vd y)
{
    const vd most = vset(1.0) + k->c, least = vset(1e-300);
    vd ratio = gamma_ratio(t, y);
    t = vmin(vmax(t, vset(-1e300)), vset(1e300));
    vd s = log_of(vmax(y, least)) - log_of(most);
    return vselect(ratio > most, most + s - k->c * (t - s), ratio + t);
}
