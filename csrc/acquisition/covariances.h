/* Covariance functions and their derivatives.  Included by acquisition_impl.h after dense.h. */

/* exp(-a) for a >= 0; exactly zero beyond 708. */
static INLINE vd decay(vd a)
{
    vd exponential, unused;
    exp_minus(a, &exponential, &unused);
    return exponential;
}

/* phi(q) and two derivatives; for the polynomial, f(p) and two derivatives. */
static INLINE void profile(int family, double offset, vd argument, vd *value, vd *first, vd *second)
{
    if (family == RBF) {
        vd e = decay(vset(0.5) * argument);
        *value = e;
        *first = vset(-0.5) * e;
        *second = vset(0.25) * e;
    } else if (family == POLYNOMIAL2) {
        vd t = argument + vset(offset);
        *value = t * t;
        *first = t + t;
        *second = vset(2.0);
    } else if (family == MATERN52) {
        vd r = vmin(vsqrt(vset(5.0) * argument), vset(1000.0)); /* where exp(-r) is zero */
        vd e = decay(r);
        *value = (vset(1.0) + r + r * r * vset(1.0 / 3.0)) * e;
        *first = vset(-5.0 / 6.0) * (vset(1.0) + r) * e;
        *second = vset(25.0 / 12.0) * e;
    } else {
        vd r = vmin(vsqrt(vset(7.0) * argument), vset(1000.0));
        vd e = decay(r);
        *value = (vset(1.0) + r * (vset(1.0) + r * (vset(0.4) + r * vset(1.0 / 15.0)))) * e;
        *first = vset(-7.0 / 30.0) * (vset(3.0) + r * (vset(3.0) + r)) * e;
        *second = vset(49.0 / 60.0) * (vset(1.0) + r) * e;
    }
}

/* What multiplies phi' in the derivative of k(y, z) in z, along z - y (stationary) or y. */
static INLINE double slope_factor(const acquisition_model *model)
{
    return model->family == POLYNOMIAL2 ? model->scale2 : 2.0 * model->scale2;
}

/* Squared distances, or inner products, of R points with columns of zt. */
static INLINE void argument_tile(const int R, const int NV, const int inner, size_t d,
                                 const double *y, size_t dp, const double *zt, size_t ldz,
                                 double *out, size_t ldo)
{
    vd acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            acc[r][v] = vset(0.0);
    for (size_t k = 0; k < d; k++) {
        vd z[TILE_VECTORS];
        UNROLL for (int v = 0; v < NV; v++)
            z[v] = vload(zt + k * ldz + v * L);
        UNROLL for (int r = 0; r < R; r++) {
            vd x = vset(y[r * dp + k]);
            UNROLL for (int v = 0; v < NV; v++) {
                vd step = inner ? z[v] : z[v] - x;
                acc[r][v] += step * (inner ? x : step);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int v = 0; v < NV; v++)
            vstore(out + r * ldo + v * L, acc[r][v]);
}

#define ARGUMENTS(INNER)                                                                        \
    for (size_t v = 0; v < N; v += TILE_VECTORS * L) {                                          \
        size_t vectors = tile_vectors(N - v);                                                   \
        for (size_t i = 0, rows; i < n; i += rows) {                                            \
            rows = tile_rows(n - i);                                                            \
            DISPATCH(rows, vectors, argument_tile, INNER, model->d, y + i * model->dp,          \
                     model->dp, zt + v, ldz, values + i * ldv + v, ldv)                         \
        }                                                                                       \
    }

/* Covariances of n points with N columns of zt, (n, ldv), and unless `slopes` is NULL what
 * multiplies z - y (or y) in their derivatives with respect to z. */
static void covariances(const acquisition_model *model, size_t n, const double *y, size_t N,
                        const double *zt, size_t ldz, double *values, size_t ldv, double *slopes,
                        size_t lds)
{
    const int family = model->family;
    if (family == POLYNOMIAL2) {
        ARGUMENTS(1)
    } else {
        ARGUMENTS(0)
    }
    vd scale = vset(model->scale2), factor = vset(slope_factor(model)), value, first, second;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < N; v += L) {
            profile(family, model->offset, vload(values + i * ldv + v), &value, &first, &second);
            vstore(values + i * ldv + v, scale * value);
            if (slopes)
                vstore(slopes + i * lds + v, factor * first);
        }
}

static double argument_of(const acquisition_model *model, const double *y, const double *z)
{
    vd acc = vset(0.0);
    if (model->family == POLYNOMIAL2) {
        for (size_t k = 0; k < model->dp; k += L)
            acc += vload(y + k) * vload(z + k);
    } else {
        for (size_t k = 0; k < model->dp; k += L) {
            vd step = vload(z + k) - vload(y + k);
            acc += step * step;
        }
    }
    return vsum(acc);
}

/* Row of A' at a point: covariance of its value with the gradient at theta, (dp). */
static void gradient_row(const acquisition_model *model, const double *y, double *row)
{
    const int inner = model->family == POLYNOMIAL2;
    vd value, first, second, argument = vset(0.0);
    for (size_t k = 0; k < model->d; k++) {
        double step = inner ? y[k] : y[k] - model->theta[k];
        row[k] = step;
        argument += vset(step * (inner ? model->theta[k] : step));
    }
    profile(model->family, model->offset, argument, &value, &first, &second);
    double factor = inner ? slope_factor(model) * first[0] : -slope_factor(model) * first[0];
    for (size_t k = 0; k < model->d; k++)
        row[k] *= factor * model->inverse[k];
    for (size_t k = model->d; k < model->dp; k++)
        row[k] = 0.0;
}

/* Add to the derivative (row of dp, in z) twice that of <G, A(theta; z)>, G' the row `g`. */
static void add_gradient_row_derivative(const acquisition_model *model, const double *z,
                                        const double *g, double *out)
{
    const int inner = model->family == POLYNOMIAL2;
    vd value, first, second, argument = vset(0.0);
    double along = 0.0;
    for (size_t k = 0; k < model->d; k++) {
        double step = inner ? z[k] : z[k] - model->theta[k];
        argument += vset(step * (inner ? model->theta[k] : step));
        along += g[k] * model->inverse[k] * step;
    }
    profile(model->family, model->offset, argument, &value, &first, &second);
    double sign = inner ? 1.0 : -1.0, factor = 2.0 * sign * slope_factor(model);
    double turn = factor * second[0] * along, straight = factor * first[0];
    for (size_t k = 0; k < model->d; k++) {
        double toward = inner ? model->theta[k] : 2.0 * (z[k] - model->theta[k]);
        out[k] += turn * toward + straight * g[k] * model->inverse[k];
    }
}
