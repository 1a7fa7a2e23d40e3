/* A response in {0, 1} that is 1 with the probability of a normal number below the predictor; r is the
 * margin (2y - 1) t, clipped to at least -c. */

#define PROBIT_TERMS 26

/* (1 + 2 a) erfcx(a) in powers of (a - 3.75)/(a + 3.75), for all a >= 0: relative error 4e-16
 * (Shepherd and Laframboise 1981; these coefficients are those of the Chebyshev interpolant). */
static const double probit_terms[PROBIT_TERMS] = {
    0x1.3ccda0b5d5dc2p+0, -0x1.1f367683f89a7p-3, 0x1.d5f294815a405p-9,
    0x1.510169d0967fep-4, -0x1.bda9309a2949ap-4, 0x1.7a14188a99bbdp-4,
    -0x1.e0d0fa6ddfe85p-5, 0x1.d0b0037dca912p-6, -0x1.3f603c398c6c5p-7,
    0x1.cc3a0e231627ep-10, 0x1.33fb2968decd9p-12, -0x1.303f9da131ea2p-12,
    0x1.b1439865f8d9ep-15, 0x1.778a2b8f2e752p-16, -0x1.800077b775cf3p-17,
    -0x1.0525b6d7eefd4p-20, 0x1.d6339f66a50f8p-20, -0x1.f479469e8aafcp-25,
    -0x1.15be4201dc721p-22, 0x1.a14b81d0a6467p-26, 0x1.4c37f59c36e71p-25,
    -0x1.2da11a81e0e15p-28, -0x1.638dcc665be8dp-28, 0x1.2c02a9487e3bcp-31,
    0x1.d3744857e262bp-32, -0x1.4a219c71bb4d2p-35,
};

/* exp(a^2) erfc(a) for a >= 0 */
static INLINE vd scaled_erfc(vd a)
{
    const vd middle = vset(3.75);
    vd s = (a - middle) / (a + middle), s2 = s * s;
    vd even = vset(probit_terms[PROBIT_TERMS - 2]), odd = vset(probit_terms[PROBIT_TERMS - 1]);
    UNROLL for (int i = PROBIT_TERMS - 4; i >= 0; i -= 2) {
        even = even * s2 + vset(probit_terms[i]);
        odd = odd * s2 + vset(probit_terms[i + 1]);
    }
    return (even + s * odd) / (vset(1.0) + a + a);
}

/* The density over the distribution function at r: about -r far below zero, nothing far above. */
static INLINE vd hazard(vd r)
{
    const vd root = vset(0x1.6a09e667f3bcdp-1), density = vset(0x1.9884533d43651p-2);
    vd a = vmin(vabs(r), vset(1e200)) * root, e, unused, rest = scaled_erfc(a);
    exp_minus(vmin(a * a, vset(1e3)), &e, &unused);
    vd below = (density + density) / rest;
    vd above = density * e / (vset(1.0) - vset(0.5) * e * rest);
    return vselect(r < vset(0.0), below, above);
}

/* How large the score of the rarer response is. */
static INLINE vd probit_score_size(double h, vd t)
{
    (void)h;
    return hazard(-vabs(t));
}

/* The slope is h (h + r), h the hazard, in [0, 1]: far below zero 1 - 1/r^2 + 6/r^4. */
static INLINE void probit_psi_and_slope(int majorize, const loss_constants *k, vd r, vd y, vd *psi,
                                        vd *slope)
{
    const vd zero = vset(0.0), one = vset(1.0);
    vd size = vmin(hazard(vmax(r, -k->c)), k->rising), w = one / (r * r);
    vd near = vmin(vmax(size * (size + r), zero), one);
    vd far = one - w * (one - vset(6.0) * w);
    vd bend = vselect(r < vset(-200.0), far, near);
    *psi = (y + y - one) * size;
    *slope = majorize ? one : vselect(r < -k->c, zero, bend);
}

/* -log of the distribution function, and on in a line from -c. */
static INLINE vd probit_rho(const loss_constants *k, vd r, vd y)
{
    const vd zero = vset(0.0), one = vset(1.0), half = vset(0.5);
    const vd root = vset(0x1.6a09e667f3bcdp-1);
    (void)y;
    r = vmin(vmax(r, vset(-1e300)), vset(1e300));
    vd clipped = vmax(r, -k->c), a = vmin(vabs(clipped), vset(1e150)) * root, e, unused;
    vd rest = scaled_erfc(a), a2 = a * a;
    exp_minus(vmin(a2, vset(1e3)), &e, &unused);
    vd below = a2 - log_of(half * rest);
    vd lost = half * e * rest; /* at most a half */
    vd above = -vselect(lost < vset(0.25), log_one_plus(-lost), log_of(one - lost));
    return vselect(clipped < zero, below, above) + vmax(clipped - r, zero) * hazard(clipped);
}
