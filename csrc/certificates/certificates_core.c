#include "certificates_core.h"

#include <math.h>

/* Margins, relative to the node: more than the rounding of the few operations behind each number
 * (claim R12). */
#define HEIGHT_MARGIN 0x1p-40 /* of the step itself: libm's exp and the formula */
#define NODE_MARGIN 0x1p-46   /* of the node: rounding of x - D(x) and of the slopes */
#define SLOPE_MARGIN 0x1p-48

/* x (exp(z) - 1)/x as a function of s = x + ridge; it decreases in s. */
static double bend(const dpf_recursion *r, double s)
{
    double q = r->a / s, z;
    if (!(q < 1.0))
        return INFINITY;
    /* 1 - sqrt(1 - q) without cancellation */
    z = r->k * (q / (1.0 + sqrt(1.0 - q)));
    return s * expm1(z);
}

/* An upper bound of step(x) over low <= x <= high. */
static double step_above(const dpf_recursion *r, double low, double high)
{
    if (r->kind == 1) { /* a/(x + sqrt(x^2 - a)) + g decreases */
        double inner = low * low * (1.0 - 0x1p-50) - r->a; /* rounded down */
        return r->a / (low + sqrt(inner > 0.0 ? inner : 0.0)) + r->g;
    }
    return high / (high + r->ridge) * bend(r, low + r->ridge) + r->g;
}

int64_t dpf_recursion_count(const dpf_recursion *r, double x, int64_t most)
{
    int64_t count = 0;
    if (r->kind == 1) {
        while (x > 0.0 && count < most) {
            double inner = x * x - r->a;
            x = x > r->threshold && inner > 0.0 ? sqrt(inner) - r->g : 0.0;
            count++;
        }
        return count;
    }
    while (x > 0.0 && count < most) {
        double q = r->a / (x + r->ridge);
        if (x > r->threshold && q < 1.0) {
            double z = r->k * (q / (1.0 + sqrt(1.0 - q)));
            x -= x * expm1(z) + r->g;
        } else {
            x = 0.0;
        }
        count++;
    }
    return count;
}

static double first_node(const dpf_recursion *r, double eta)
{
    double start = r->threshold > r->g ? r->threshold : r->g; /* step >= g, so R <= 0 up to g */
    return start * (1.0 + 0x1p-40) + eta;
}

size_t dpf_table_size(const dpf_recursion *r, double largest, double eta, double growth)
{
    double node = first_node(r, eta);
    size_t m = 1;
    while (node < largest && m < ((size_t)1 << 24)) {
        node *= growth;
        m++;
    }
    return m < 2 ? 2 : m;
}

/* log1p(t)/t */
static double log_ratio(double t)
{
    return fabs(t) < 1e-5 ? 1.0 - t * (0.5 - t * (1.0 / 3.0 - 0.25 * t)) : log1p(t) / t;
}

int dpf_table_fill(const dpf_recursion *r, double largest, double eta, double growth, size_t m,
                   double *b, double *D, double *e, double *slope, double *prefix)
{
    double node = first_node(r, eta);
    size_t j;
    (void)largest;
    for (j = 0; j < m; j++) {
        b[j] = node;
        node *= growth;
    }
    if (!(b[1] - b[0] > 2.0 * eta))
        return -1;
    /* 1 - a/s keeps its digits */
    if (r->kind == 0 && !(r->a <= (1.0 - 0x1p-6) * (b[0] - eta + r->ridge)))
        return -1;
    for (j = 0; j < m; j++) {
        double low = j ? b[j - 1] : b[0] - eta;
        /* no step from low or above is longer: bend() decreases and x/(x + ridge) <= 1 */
        double reach = r->kind == 1 ? 0.0 : bend(r, low + r->ridge) + r->g;
        double high = b[j] * growth * (1.0 + 0x1p-50) + reach * (1.0 + HEIGHT_MARGIN) + 4.0 * eta;
        if (!(reach < INFINITY))
            return -1;
        D[j] = step_above(r, low, high) * (1.0 + HEIGHT_MARGIN) + 2.0 * eta
               + NODE_MARGIN * (b[j] * growth);
    }
    for (j = m - 1; j-- > 0;) { /* so that x - D(x) increases */
        double least = D[j + 1] - (b[j + 1] - b[j]) * (1.0 - 0x1p-20);
        if (D[j] < least)
            D[j] = least;
    }
    prefix[0] = 0.0;
    for (j = 0; j + 1 < m; j++) {
        double h = b[j + 1] - b[j], rise;
        e[j] = b[j] - D[j];
        rise = (b[j + 1] - D[j + 1]) - e[j];
        slope[j] = rise / h - SLOPE_MARGIN * b[j + 1] / h;
        if (!(slope[j] > 0.0))
            slope[j] = 0.0;
        prefix[j + 1] = prefix[j] + h / D[j] * log_ratio((D[j + 1] - D[j]) / D[j]);
    }
    e[m - 1] = b[m - 1] - D[m - 1];
    slope[m - 1] = 0.0;
    return 0;
}

/* Largest j with b[j] < x, for x > b[0]; at most m - 2. */
static size_t locate(size_t m, const double *b, double x)
{
    size_t low = 0, high = m - 1;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (b[middle] < x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t dpf_table_count(size_t m, const double *b, const double *e, const double *slope, double x)
{
    int64_t count = 0;
    size_t j;
    if (!(x > 0.0))
        return 0;
    if (!(x > b[0]))
        return 1;
    if (x > b[m - 1])
        x = b[m - 1];
    for (j = locate(m, b, x);; j--) {
        const double node = b[j], level = e[j], rate = slope[j];
        while (x > node) {
            x = level + rate * (x - node);
            count++;
        }
        if (j == 0)
            break;
        while (j > 1 && !(x > b[j - 1])) /* a step may cross several nodes */
            j--;
    }
    return x > 0.0 ? count + 1 : count;
}

double dpf_table_inverse(size_t m, const double *b, const double *e, const double *slope,
                         int64_t count)
{
    double x = 0.0;
    size_t j = 0;
    while (count-- > 0 && x < b[m - 1]) {
        double next;
        /* the interval on which the minorant takes the value x */
        while (j + 2 < m && e[j + 1] <= x)
            j++;
        if (e[j] > x)
            next = b[0]; /* before the first node the minorant is zero */
        else
            next = slope[j] > 0.0 ? b[j] + (x - e[j]) / slope[j] : b[j + 1];
        if (next > b[j + 1])
            next = b[j + 1];
        while (next > b[j] && e[j] + slope[j] * (next - b[j]) > x)
            next = nextafter(next, 0.0);
        if (!(next > x))
            return x;
        x = next;
    }
    return x;
}

double dpf_table_integral(size_t m, const double *b, const double *D, const double *prefix,
                          double x)
{
    size_t j;
    double h;
    if (!(x > b[0]))
        return 0.0;
    if (x >= b[m - 1])
        return prefix[m - 1];
    j = locate(m, b, x);
    h = x - b[j];
    return prefix[j] + h / D[j] * log_ratio(h / (b[j + 1] - b[j]) * (D[j + 1] - D[j]) / D[j]);
}

double dpf_table_integral_inverse(size_t m, const double *b, const double *D, const double *prefix,
                                  double t)
{
    double x, part, shape, width;
    size_t j;
    int guard;
    if (!(t > 0.0))
        return 0.0;
    if (t >= prefix[m - 1])
        return b[m - 1];
    j = locate(m, prefix, t);
    width = b[j + 1] - b[j];
    shape = (D[j + 1] - D[j]) / width; /* D is D[j] + shape (x - b[j]) */
    part = t - prefix[j];
    x = part * shape;
    x = b[j] + (fabs(x) < 1e-12 ? part * D[j] : D[j] * (expm1(x) / shape));
    for (guard = 0; guard < 200 && dpf_table_integral(m, b, D, prefix, x) > t; guard++)
        x -= ldexp(x, guard - 53);
    return x;
}
