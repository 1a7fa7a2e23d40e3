/* The acquisition, compiled once per instruction set.
 *
 * The including file defines LANES (doubles per vector), TILE_ROWS and LOOPS_NAME, and selects the
 * instruction set before including this file.  acquisition.pyx has the formulas.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "acquisition.h"

#include "dense.h"

#include "covariances.h"

static void transpose(size_t rows, size_t columns, const double *from, size_t ldf, double *to,
                      size_t ldt)
{
    for (size_t j = 0; j < columns; j++) {
        for (size_t i = 0; i < rows; i++)
            to[j * ldt + i] = from[i * ldf + j];
        for (size_t i = rows; i < ldt; i++)
            to[j * ldt + i] = 0.0;
    }
}

/* Noise onto the diagonal; `noise` keeps what no pivot may fall below. */
static void add_noise(const acquisition_model *model, size_t b, double *S, size_t lds, double *noise)
{
    for (size_t j = 0; j < b; j++) {
        noise[j] = model->noise + ACQUISITION_JITTER * S[j * lds + j];
        S[j * lds + j] += noise[j];
    }
}

static void extend(acquisition_model *model, size_t from)
{
    size_t count = model->m - from, columns = whole(count);
    double *zt = model->work, *noise = zt + model->d * columns;
    double *V = model->U + from, *S = model->U + from * model->ldu + from;
    const double *y = model->y + from * model->dp;
    transpose(count, model->d, y, model->dp, zt, columns);
    covariances(model, from, model->y, columns, zt, columns, V, model->ldu, NULL, 0);
    covariances(model, count, y, columns, zt, columns, S, model->ldu, NULL, 0);
    add_noise(model, count, S, model->ldu, noise);
    solve_forward(from, model->U, model->ldu, model->inverse_diagonal, V, columns, model->ldu);
    subtract_product(count, columns, from, V, 1, model->ldu, V, model->ldu, S, model->ldu, 1);
    factorise(count, S, model->ldu, model->inverse_diagonal + from, noise);
}

static double sum_of_squares(const double *x, size_t count)
{
    vd acc[4] = {vset(0.0), vset(0.0), vset(0.0), vset(0.0)};
    size_t i = 0;
    for (; i + 4 * L <= count; i += 4 * L)
        UNROLL for (int v = 0; v < 4; v++)
            acc[v] += vload(x + i + v * L) * vload(x + i + v * L);
    for (; i < count; i += L) /* rows are padded to whole vectors */
        acc[0] += vload(x + i) * vload(x + i);
    return vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

static void condition(acquisition_model *model)
{
    size_t m = model->m, dp = model->dp;
    for (size_t i = 0; i < m; i++)
        gradient_row(model, model->y + i * dp, model->B + i * dp);
    solve_forward(m, model->U, model->ldu, model->inverse_diagonal, model->B, dp, dp);
    model->trace -= sum_of_squares(model->B, m * dp);
}

static void weights(const acquisition_model *model, double *W)
{
    memcpy(W, model->B, model->m * model->dp * sizeof(double));
    solve_backward(model->m, model->U, model->ldu, model->inverse_diagonal, W, model->dp,
                   model->dp);
}

static void mean_weights(const acquisition_model *model, double *w)
{
    const size_t m = model->m, mp = whole(m) + L;
    for (size_t i = 0; i < mp; i++)
        w[i] = i < m ? 1.0 : 0.0;
    solve_forward_one(m, model->U, model->ldu, model->inverse_diagonal, w);
    solve_backward_one(m, model->U, model->ldu, model->inverse_diagonal, w);
}

/* d gain / dz from the sums over points: out holds sum_i q_i y_i, then sum_i q_i. */
static void finish_gradient(const acquisition_model *model, const double *z, const double *g,
                            double *out)
{
    double total = model->family == POLYNOMIAL2 ? 0.0 : out[model->d];
    double sign = model->family == POLYNOMIAL2 ? 2.0 : -2.0;
    for (size_t k = 0; k < model->d; k++)
        out[k] = sign * (out[k] - total * z[k]);
    add_gradient_row_derivative(model, z, g, out);
    for (size_t k = 0; k < model->d; k++)
        out[k] = -out[k];
    for (size_t k = model->d; k < model->dp; k++)
        out[k] = 0.0;
}

/* One new point: the matrices are read once per use, so vectors run along their rows. */
static double evaluate_one(acquisition_model *model, const double *z, double *gradient)
{
    const size_t m = model->m, dp = model->dp, mp = whole(m) + L;
    double *v = model->work, *e = v + mp, *p = e + mp, *g = p + mp;
    vd value, first, second, scale = vset(model->scale2), factor = vset(slope_factor(model));
    for (size_t i = 0; i < m; i++)
        v[i] = argument_of(model, model->y + i * dp, z);
    for (size_t i = m; i < mp; i++)
        v[i] = 0.0;
    for (size_t i = 0; i < m; i += L) {
        profile(model->family, model->offset, vload(v + i), &value, &first, &second);
        vstore(v + i, scale * value);
        vstore(e + i, factor * first);
    }
    for (size_t i = m; i < mp; i++)
        v[i] = 0.0;
    solve_forward_one(m, model->U, model->ldu, model->inverse_diagonal, v);

    profile(model->family, model->offset, vset(argument_of(model, z, z)), &value, &first, &second);
    double own = model->scale2 * value[0], noise = model->noise + ACQUISITION_JITTER * own;
    double pivot = own + noise - sum_of_squares(v, whole(m));
    pivot = pivot > noise ? pivot : noise;
    gradient_row(model, z, g);
    subtract_product(1, dp, m, v, 1, 1, model->B, dp, g, dp, 0);
    double square = sum_of_squares(g, dp), inverse = 1.0 / pivot;
    if (!gradient)
        return model->trace - square * inverse;

    for (size_t k = 0; k < dp; k++)
        g[k] *= inverse;
    double M = square * inverse * inverse;
    for (size_t i = 0; i < m; i++) {
        vd acc = vset(0.0);
        for (size_t k = 0; k < dp; k += L)
            acc += vload(model->B + i * dp + k) * vload(g + k);
        p[i] = v[i] * M - vsum(acc);
    }
    for (size_t i = m; i < mp; i++)
        p[i] = 0.0;
    solve_backward_one(m, model->U, model->ldu, model->inverse_diagonal, p);
    for (size_t i = 0; i < m; i += L)
        vstore(p + i, vload(p + i) * vload(e + i));
    multiply(1, dp, m, p, 1, 1, model->y, dp, gradient, dp);
    if (model->family == POLYNOMIAL2) {
        double pull = M * slope_factor(model) * first[0] * (1.0 + ACQUISITION_JITTER);
        for (size_t k = 0; k < model->d; k++)
            gradient[k] -= pull * z[k];
    }
    finish_gradient(model, z, g, gradient);
    return model->trace - square * inverse;
}

/* See acquisition.pyx for the formulas. */
static double evaluate(acquisition_model *model, const double *z, size_t b, double *gradient)
{
    if (b == 1)
        return evaluate_one(model, z, gradient);
    const size_t m = model->m, d = model->d, dp = model->dp, bp = whole(b);
    double *zt = model->work, *V = zt + d * bp, *E = V + m * bp, *P = E + m * bp;
    double *S = P + m * bp, *F = S + b * bp, *M = F + b * bp, *Y = M + b * bp;
    double *Gt = Y + b * dp, *inverse_diagonal = Gt + d * bp, *noise = inverse_diagonal + bp;

    transpose(b, d, z, dp, zt, bp);
    covariances(model, m, model->y, bp, zt, bp, V, bp, gradient ? E : NULL, bp);
    covariances(model, b, z, bp, zt, bp, S, bp, gradient ? F : NULL, bp);
    add_noise(model, b, S, bp, noise);
    solve_forward(m, model->U, model->ldu, model->inverse_diagonal, V, bp, bp);
    subtract_product(b, bp, m, V, 1, bp, V, bp, S, bp, 1);
    for (size_t j = 0; j < b; j++)
        gradient_row(model, z + j * dp, Y + j * dp);
    subtract_product(b, dp, m, V, 1, bp, model->B, dp, Y, dp, 0);
    factorise(b, S, bp, inverse_diagonal, noise);
    solve_forward(b, S, bp, inverse_diagonal, Y, dp, dp);
    double value = model->trace - sum_of_squares(Y, b * dp);
    if (!gradient)
        return value;

    solve_backward(b, S, bp, inverse_diagonal, Y, dp, dp);
    transpose(b, d, Y, dp, Gt, bp);
    multiply(b, bp, d, Y, dp, 1, Gt, bp, M, bp);
    multiply(m, bp, b, V, bp, 1, M, bp, P, bp);
    subtract_product(m, bp, d, model->B, dp, 1, Gt, bp, P, bp, 0);
    solve_backward(m, model->U, model->ldu, model->inverse_diagonal, P, bp, bp);
    for (size_t i = 0; i < m * bp; i += L)
        vstore(P + i, vload(P + i) * vload(E + i));
    for (size_t i = 0; i < b * bp; i += L)
        vstore(M + i, vload(M + i) * vload(F + i));
    for (size_t j = 0; j < b; j++)
        M[j * bp + j] *= 1.0 + ACQUISITION_JITTER;
    multiply(b, dp, m, P, 1, bp, model->y, dp, gradient, dp);
    subtract_product(b, dp, b, M, bp, 1, z, dp, gradient, dp, 0);
    for (size_t j = 0; j < b; j++)
        finish_gradient(model, z + j * dp, Y + j * dp, gradient + j * dp);
    return value;
}

const acquisition_loops LOOPS_NAME = {extend, condition, evaluate, weights, mean_weights};
