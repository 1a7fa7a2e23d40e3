/* Counts with a log link: t is the linear predictor, the mean is exp(t) up to h and h beyond, and the
 * residual, count less mean, is clipped at c on either side.  A negative count is a count of zero.
 *
 * exp(t) is computed for |t| <= 708: less is nothing beside any h, more is beyond all of them. */

static INLINE vd uncapped_mean(vd t)
{
    vd mean, unused;
    exp_within(vmin(vmax(t, vset(-708.0)), vset(708.0)), &mean, &unused);
    return vselect(t < vset(-708.0), vset(0.0), mean);
}

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
static INLINE vd poisson_foreseen(double h, vd t) { return vsqrt(vmin(uncapped_mean(t), vset(h))); }

/* log(x) of normal numbers x > 0 */
static INLINE vd log_of(vd x)
{
    vi bits = (vi)x;
    vd m = (vd)((bits & vseti(0x000fffffffffffffLL)) | vseti(0x3ff0000000000000LL));
    vd e = (vd)(((bits >> 52) & vseti(0x7ff)) | vseti(0x4330000000000000LL)) -
           vset(0x1p52 + 1023.0);
    return log_one_plus(m - vset(1.0)) + e * vset(0x1.62e42fefa39efp-1);
}

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
