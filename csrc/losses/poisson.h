/* Counts with a log link: t is the linear predictor, the mean is exp(t) up to h and h beyond, and the
 * residual, count less mean, is clipped at c on either side.  A negative count is a count of zero.
 */

/* The slope is that of psi, or the bound of all: parabolas with it lie above the loss. */
static INLINE void poisson_psi_and_slope(int majorize, const loss_constants *k, vd t, vd y, vd *psi,
                                         vd *slope)
{
    vd mean = uncapped_mean(t), capped = vmin(mean, k->h);
    vd left = vmax(y, vset(0.0)) - capped;
    vi bends = (mean < k->h) & (vabs(left) <= k->c);
    *psi = vmin(vmax(left, -k->c), k->c);
    *slope = majorize ? k->h : vselect(bends, capped, vset(0.0));
}

/* The deviation of a Poisson count. */
static INLINE vd poisson_score_size(double h, vd t) { return vsqrt(vmin(uncapped_mean(t), vset(h))); }

/* exp(s) - y s at the s next to t where the residual is not clipped, and on from there in a line.
 * Counts beyond h + c have the same slopes as h + c. */
static INLINE vd poisson_rho(const loss_constants *k, vd t, vd y)
{
    const vd zero = vset(0.0), least = vset(1e-300);
    vd mean = uncapped_mean(t), far = vset(1e300);
    t = vmin(vmax(t, -far), far);
    y = vmin(vmax(y, zero), k->h + k->c);
    vd low = y - k->c, high = vmin(y + k->c, k->h);
    low = vselect(low > least, low, zero);
    vi below = mean < low, above = mean > high;
    vd nearest = vmin(vmax(mean, low), high);
    vd s = vselect(below | above, log_of(vmax(nearest, least)), t);
    return nearest - y * s + (nearest - y) * (t - s);
}
