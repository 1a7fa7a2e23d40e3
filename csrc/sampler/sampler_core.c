/* See sampler_core.h.
 *
 * The normal sampler is algorithm N of C. F. F. Karney, "Sampling exactly from the normal
 * distribution", ACM TOMS 42(1), 2016: rejection with probabilities of the form exp(-q) that are
 * realised by comparing uniform deviates (von Neumann).  A uniform deviate is an infinite string
 * of digits of which only those that a comparison needs are ever drawn, so no comparison is ever
 * rounded.  Only integers are used.
 *
 * The discrete Laplace sampler follows C. L. Canonne, G. Kamath, T. Steinke, "The discrete
 * Gaussian for differential privacy", 2020, algorithms 1 and 2; integers only.
 */
#include "sampler_core.h"

#include <math.h>

#define DIGIT_BITS 16
#define MAX_DIGITS 128     /* 2048 equal bits in a row: P < 2^-2000 */
#define MAX_RUN 4096       /* geometric runs: P <= exp(-2048) */
#define MAX_ATTEMPTS 16384 /* every attempt accepts with probability > 1/8: P < 2^-3000 */
#define MAX_INTEGER 256    /* integer part of |Z|: P < exp(-32000) */
#define CLAMP 2251799813685248.0 /* 2^51 */

/* ---- bytes -------------------------------------------------------------------------------- */

/* The next two bytes, erased as they are used; 0 once the stream has failed.  After a failure
 * every caller runs into one of the bounds above without drawing any more. */
static inline uint32_t next_digit(dpf_stream *stream)
{
    if (stream->length - stream->position < 2) {
        if (stream->status != DPF_OK)
            return 0;
        if (stream->refill(stream) != 0 || stream->length - stream->position < 2) {
            stream->status = DPF_REFILL_FAILED;
            return 0;
        }
    }
    unsigned char *bytes = stream->buffer + stream->position;
    uint32_t digit = (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8);
    bytes[0] = bytes[1] = 0;
    stream->position += 2;
    stream->consumed += 2;
    return digit;
}

static inline void not_random(dpf_stream *stream)
{
    if (stream->status == DPF_OK)
        stream->status = DPF_NOT_RANDOM;
}

/* ---- uniform deviates, drawn digit by digit -------------------------------------------------- */

typedef struct {
    int known;
    uint16_t digit[MAX_DIGITS]; /* most significant first; digit[known..] not drawn yet */
} uniform;

static inline uint32_t digit_of(dpf_stream *stream, uniform *u, int i)
{
    if (i == u->known) {
        u->digit[i] = (uint16_t)next_digit(stream);
        u->known++;
    }
    return u->digit[i];
}

static inline int less(dpf_stream *stream, uniform *a, uniform *b)
{
    for (int i = 0; i < MAX_DIGITS; i++) {
        uint32_t x = digit_of(stream, a, i);
        uint32_t y = digit_of(stream, b, i);
        if (x != y)
            return x < y;
    }
    not_random(stream);
    return 0;
}

/* Uniform integer in [0, m), 1 <= m <= 2^16: multiply and shift, rejecting the 2^16 mod m
 * products that would make some results one digit more likely than others (Lemire 2019). */
static inline uint32_t below(dpf_stream *stream, uint32_t m)
{
    uint32_t threshold = (uint32_t)(65536u % m);
    for (int i = 0; i < MAX_RUN; i++) {
        uint32_t product = next_digit(stream) * m;
        if ((product & 0xFFFFu) >= threshold)
            return product >> DIGIT_BITS;
    }
    not_random(stream);
    return 0;
}

/* ---- Karney's algorithm N ------------------------------------------------------------------- */

/* True with probability exp(-1/2): the length n of 1/2 > U_1 > U_2 > ... > U_n is even. */
static int exp_minus_half(dpf_stream *stream)
{
    uniform storage[2];
    uniform *last = &storage[0], *next = &storage[1];
    last->known = 0;
    if (digit_of(stream, last, 0) >= 32768u)
        return 1;
    for (int n = 1; n < MAX_RUN; n++) {
        next->known = 0;
        if (!less(stream, next, last))
            return (n & 1) == 0;
        uniform *swap = last;
        last = next;
        next = swap;
    }
    not_random(stream);
    return 0;
}

/* True with probability exp(-x(2k+x)/(2k+2)): the length n of x > U_1 > ... > U_n is even, where
 * every element must also pass a test of probability (2k+x)/(2k+2). */
static int exp_step(dpf_stream *stream, uint32_t k, uniform *x)
{
    uniform storage[2], fraction;
    uniform *last = x, *next = &storage[0], *spare = &storage[1];
    for (int n = 0; n < MAX_RUN; n++) {
        uint32_t choice = below(stream, 2 * k + 2);
        if (choice == 2 * k + 1)
            return (n & 1) == 0;
        next->known = 0;
        if (!less(stream, next, last))
            return (n & 1) == 0;
        if (choice == 2 * k) {
            fraction.known = 0;
            if (!less(stream, &fraction, x))
                return (n & 1) == 0;
        }
        uniform *swap = (last == x) ? spare : last;
        last = next;
        next = swap;
    }
    not_random(stream);
    return 0;
}

static int64_t normal(dpf_stream *stream, int bits)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (stream->status != DPF_OK)
            return 0;
        uint32_t k = 0;
        while (exp_minus_half(stream)) { /* P(k) proportional to exp(-k/2) */
            if (++k >= MAX_RUN) {
                not_random(stream);
                return 0;
            }
        }
        int accepted = 1; /* with probability exp(-k(k-1)/2) */
        for (uint32_t i = k * (k > 0 ? k - 1 : 0); accepted && i > 0; i--)
            accepted = exp_minus_half(stream);
        if (!accepted)
            continue;
        uniform x;
        x.known = 0;
        for (uint32_t i = 0; accepted && i <= k; i++) /* with probability exp(-x(2k+x)/2) */
            accepted = exp_step(stream, k, &x);
        if (!accepted)
            continue;
        if (k >= MAX_INTEGER) {
            not_random(stream);
            return 0;
        }
        uint64_t fraction = 0;
        int have = 0;
        for (int i = 0; have < bits; i++, have += DIGIT_BITS)
            fraction = (fraction << DIGIT_BITS) | digit_of(stream, &x, i);
        fraction >>= have - bits;
        int64_t magnitude = (int64_t)(((uint64_t)k << bits) | fraction);
        /* floor(-2^bits (k + x)) = -(magnitude + 1): the rest of x is positive almost surely. */
        return below(stream, 2) ? magnitude : -magnitude - 1;
    }
    not_random(stream);
    return 0;
}

int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits)
{
    stream->status = DPF_OK;
    for (size_t i = 0; i < size && stream->status == DPF_OK; i++)
        out[i] = normal(stream, bits);
    return stream->status;
}

/* ---- discrete Laplace ------------------------------------------------------------------------ */

/* Uniform integer in [0, m), 1 <= m < 2^62: as many bits as m - 1 has, rejected if too large. */
static uint64_t below_large(dpf_stream *stream, uint64_t m)
{
    uint64_t mask = m - 1;
    int digits = 0;
    for (uint64_t rest = mask; rest; rest >>= DIGIT_BITS)
        digits++;
    for (int shift = 1; shift < 64; shift <<= 1)
        mask |= mask >> shift;
    for (int i = 0; i < MAX_RUN; i++) {
        uint64_t candidate = 0;
        for (int j = 0; j < digits; j++)
            candidate = (candidate << DIGIT_BITS) | next_digit(stream);
        candidate &= mask;
        if (candidate < m)
            return candidate;
    }
    not_random(stream);
    return 0;
}

/* True with probability exp(-u/t), 0 <= u <= t. */
static int exp_minus_ratio(dpf_stream *stream, uint64_t u, uint64_t t)
{
    for (uint32_t k = 1; k < MAX_RUN; k++)
        if (below(stream, k) != 0 || below_large(stream, t) >= u)
            return k & 1;
    not_random(stream);
    return 0;
}

static int64_t discrete_laplace(dpf_stream *stream, uint64_t s, uint64_t t)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (stream->status != DPF_OK)
            return 0;
        uint64_t u = below_large(stream, t);
        if (!exp_minus_ratio(stream, u, t))
            continue;
        uint32_t v = 0;
        while (exp_minus_ratio(stream, 1, 1)) {
            if (++v >= MAX_RUN) {
                not_random(stream);
                return 0;
            }
        }
        /* u + t v is geometric with ratio exp(-1/t); its quotient by s has ratio exp(-s/t). */
        unsigned __int128 geometric = (unsigned __int128)t * v + u;
        int64_t magnitude = (int64_t)(geometric / s);
        if (below(stream, 2)) {
            if (magnitude == 0)
                continue; /* zero must not be counted for both signs */
            return -magnitude;
        }
        return magnitude;
    }
    not_random(stream);
    return 0;
}

int dpf_discrete_laplace(dpf_stream *stream, int64_t *out, size_t size, uint64_t numerator,
                         uint64_t denominator)
{
    stream->status = DPF_OK;
    for (size_t i = 0; i < size && stream->status == DPF_OK; i++)
        out[i] = discrete_laplace(stream, numerator, denominator);
    return stream->status;
}

/* ---- release on a grid ----------------------------------------------------------------------- */

int64_t dpf_nearest(double value, double grid)
{
    double quotient = value / grid;
    if (quotient != quotient)
        return 0;
    if (quotient >= CLAMP)
        return (int64_t)CLAMP;
    if (quotient <= -CLAMP)
        return -(int64_t)CLAMP;
    double nearest = rint(quotient);
    /* |quotient - value/grid| <= 1/4 here, so nearest is off by at most one; the remainder is
     * rounded once, by a monotone rounding that leaves grid/2 where it is, so its comparison
     * with grid/2 is wrong only within a relative 2^-53 of the midpoint. */
    double remainder = fma(-nearest, grid, value);
    if (remainder > 0.5 * grid)
        nearest += 1.0;
    else if (remainder < -0.5 * grid)
        nearest -= 1.0;
    return (int64_t)nearest;
}

void dpf_release(const double *value, const int64_t *noise, double *out, size_t size,
                 double grid)
{
    for (size_t i = 0; i < size; i++)
        out[i] = grid * (double)(dpf_nearest(value[i], grid) + noise[i]);
}

void dpf_release_symmetric(const double *matrix, const int64_t *noise, double *out, size_t p,
                           double grid, double grid_off)
{
    for (size_t i = 0; i < p; i++) {
        out[i * p + i] = grid * (double)(dpf_nearest(matrix[i * p + i], grid) + *noise++);
        for (size_t j = i + 1; j < p; j++) {
            double entry =
                grid_off * (double)(dpf_nearest(matrix[i * p + j], grid_off) + *noise++);
            out[i * p + j] = entry;
            out[j * p + i] = entry;
        }
    }
}
