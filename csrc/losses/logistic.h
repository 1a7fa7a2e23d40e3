/* Cross-entropy of a response in {0, 1}; r is the margin (2y - 1) t. */

static INLINE fraction logistic_fraction(const loss_constants *k, double far, vd r, vd y)
{
    const vd one = vset(1.0);
    fraction psi = {one, one, one, one};
    vd a = vabs(r);
    (void)k, (void)far;
    vd margin = vmin(vmax(r, vset(-708.0)), vset(708.0));
    exp_within(margin, &psi.exponential, &psi.minus_one);
    /* Exactly zero in the end: a score may be clipped after a scaling by 2^1024. */
    psi.numerator = vselect(r > vset(708.0), vset(0.0), y + y - one);
    psi.denominator = one + psi.exponential;
    psi.exponential = vselect(a > vset(708.0), vset(0.0), psi.exponential);
    return psi;
}

/* That of the rarer response. */
static INLINE vd logistic_score_size(double h, vd t)
{
    vd e, unused;
    (void)h;
    exp_minus(vabs(t), &e, &unused);
    return vset(1.0) / (vset(1.0) + e);
}

/* psi', or tanh(t/2)/(2t), whose parabola lies above the loss everywhere. */
static INLINE vd logistic_slope(int majorize, const loss_constants *k, vd a, fraction psi,
                                vd inverse, vd size)
{
    (void)k, (void)size;
    if (!majorize)
        return psi.exponential * inverse * inverse;
    vd tanh = vabs(psi.minus_one * inverse);
    return vselect(a > vset(1e-150), vmin(tanh / (a + a), vset(0.25)), vset(0.25));
}

/* The complement is max(-margin, 0) - rho. */
static INLINE vd logistic_rho(const loss_constants *k, vd r, vd *complement)
{
    vd e, unused;
    (void)k;
    exp_minus(vabs(r), &e, &unused);
    vd tail = log_one_plus(e);
    *complement = -tail;
    return vmax(-r, vset(0.0)) + tail;
}
