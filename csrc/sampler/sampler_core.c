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
#include <string.h>

#define DIGIT_BITS 4
#define MAX_DIGITS 512     /* 2048 equal bits in a row: P < 2^-2000 */
#define MAX_RUN 4096       /* geometric runs: P <= exp(-2048) */
#define MAX_ATTEMPTS 16384 /* every attempt accepts with probability > 1/8: P < 2^-3000 */
#define MAX_INTEGER 256    /* integer part of |Z|: P < exp(-32000) */
#define CLAMP 2251799813685248.0 /* 2^51 */

/* The first 512 hexadecimal digits of exp(-1/2), rounded down. */
static const char EXP_MINUS_HALF[MAX_DIGITS + 1] =
    "9B4597E37CB04FF3D675A35530CDD767E347BF8AD0E80ABBCE4AE95861014318"
    "7944CF1032E9A4B09167A9A5702402AD0B36B8009DAAD52A21B5E185D8F98E32"
    "7727E2567A45A9591BE6DDA2AABDFAE9C6DBBA09B0F238E3F65E59911E1C8455"
    "397F2B63BCDE142A2D26D2CAE5E54723202D3C981997B6943C910080B1D0FAAC"
    "6D9E9204CDA57263A8A9A1F48E62276F2A4863ECFC8EC08C3C552847F30BCC6F"
    "27B78BB81065324C23A55D1C7C0B379116D4638159B2DE165FC9C636E2F70C31"
    "84482956AC34A2F58AB144FEC78F0C28F637BD57A0672F21401D184C449DED00"
    "C95ADA63D5EF3B4018415D69B89218BA3A3AE69B0D089FDD093E520BFE15D4A1";

/* ---- bits --------------------------------------------------------------------------------- */

/* Moves four bytes of the page to its bits, erasing them; 0 once the stream has failed.  There is
 * room for them: fewer than n <= 32 bits are left when take(n) calls, and at most 31 afterwards.
 * After a failure every caller runs into one of the bounds above without drawing any more. */
static int more_bits(dpf_stream *stream)
{
    uint32_t word;
    if (stream->length - stream->position < sizeof word) {
        if (stream->status != DPF_OK)
            return 0;
        if (stream->refill(stream) != 0 || stream->length - stream->position < sizeof word) {
            if (stream->status == DPF_OK)
                stream->status = DPF_REFILL_FAILED;
            return 0;
        }
    }
    unsigned char *bytes = stream->bytes + stream->position;
    word = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16
           | (uint32_t)bytes[3] << 24;
    memset(bytes, 0, sizeof word);
    stream->position += sizeof word;
    stream->consumed += sizeof word;
    stream->bits |= (uint64_t)word << stream->left;
    stream->left += 32;
    return 1;
}

/* The next n <= 32 bits, which leave the page. */
static inline uint32_t take(dpf_stream *stream, unsigned n)
{
    if (stream->left < n && !more_bits(stream))
        return 0;
    uint32_t value = (uint32_t)(stream->bits & (((uint64_t)1 << n) - 1));
    stream->bits >>= n;
    stream->left -= n;
    return value;
}

static inline uint64_t take_long(dpf_stream *stream, unsigned n)
{
    uint64_t high = n > 32 ? take(stream, n - 32) : 0;
    return high << 32 | take(stream, n > 32 ? 32 : n);
}

static inline void not_random(dpf_stream *stream)
{
    if (stream->status == DPF_OK)
        stream->status = DPF_NOT_RANDOM;
}

/* ---- uniform deviates, drawn digit by digit -------------------------------------------------- */

typedef struct {
    int known;
    uint8_t digit[MAX_DIGITS]; /* most significant first; digit[known..] not drawn yet */
} uniform;

static inline uint32_t digit_of(dpf_stream *stream, uniform *u, int i)
{
    if (i == u->known) {
        u->digit[i] = (uint8_t)take(stream, DIGIT_BITS);
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

/* Uniform integer in [0, m), 1 <= m < 2^62: as many bits as m - 1 has, rejected if too large. */
static uint64_t below(dpf_stream *stream, uint64_t m)
{
    unsigned width = m > 1 ? 64 - (unsigned)__builtin_clzll(m - 1) : 0;
    for (int i = 0; i < MAX_RUN; i++) {
        uint64_t candidate = take_long(stream, width);
        if (candidate < m)
            return candidate;
    }
    not_random(stream);
    return 0;
}

/* ---- Karney's algorithm N ------------------------------------------------------------------- */

/* True with probability exp(-1/2): a uniform deviate is below it, digit by digit. */
static inline int exp_minus_half(dpf_stream *stream)
{
    for (int i = 0; i < MAX_DIGITS; i++) {
        char c = EXP_MINUS_HALF[i];
        uint32_t bound = (uint32_t)(c <= '9' ? c - '0' : c - 'A' + 10);
        uint32_t digit = take(stream, DIGIT_BITS);
        if (digit != bound)
            return digit < bound;
    }
    not_random(stream);
    return 0;
}

/* True with probability exp(-x), or exp(-x^2/2) if `halved`: the length n of x > U_1 > ... > U_n
 * is even, where every element of the second must also pass a test of probability x/2. */
static inline int exp_minus(dpf_stream *stream, uniform *x, int halved)
{
    uniform storage[2], fraction;
    uniform *last = x, *next = &storage[0], *spare = &storage[1];
    for (int n = 0; n < MAX_RUN; n++) {
        if (halved && take(stream, 1))
            return (n & 1) == 0;
        next->known = 0;
        if (!less(stream, next, last))
            return (n & 1) == 0;
        if (halved) {
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

/* The first `bits` binary digits of x, drawing those that no comparison has needed. */
static inline uint64_t leading_bits(dpf_stream *stream, uniform *x, int bits)
{
    uint64_t value = 0;
    int have = 0;
    for (int i = 0; i < x->known && have < bits; i++, have += DIGIT_BITS)
        value = (value << DIGIT_BITS) | x->digit[i];
    if (have > bits)
        return value >> (have - bits);
    return value << (bits - have) | take_long(stream, (unsigned)(bits - have));
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
        accepted = exp_minus(stream, &x, 1);
        for (uint32_t i = 0; accepted && i < k; i++) /* with probability exp(-x^2/2 - kx) */
            accepted = exp_minus(stream, &x, 0);
        if (!accepted)
            continue;
        if (k >= MAX_INTEGER) {
            not_random(stream);
            return 0;
        }
        uint64_t fraction = leading_bits(stream, &x, bits);
        int64_t magnitude = (int64_t)(((uint64_t)k << bits) | fraction);
        /* floor(-2^bits (k + x)) = -(magnitude + 1): the rest of x is positive almost surely. */
        return take(stream, 1) ? magnitude : -magnitude - 1;
    }
    not_random(stream);
    return 0;
}

int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits)
{
    stream->status = DPF_OK;
    for (size_t i = 0; i < size && stream->status == DPF_OK; i++)
        out[i] = normal(stream, bits);
    return (int)stream->status;
}

/* ---- discrete Laplace ------------------------------------------------------------------------ */

/* True with probability exp(-u/t), 0 <= u <= t. */
static int exp_minus_ratio(dpf_stream *stream, uint64_t u, uint64_t t)
{
    for (uint32_t k = 1; k < MAX_RUN; k++)
        if (below(stream, k) != 0 || below(stream, t) >= u)
            return k & 1;
    not_random(stream);
    return 0;
}

static int64_t discrete_laplace(dpf_stream *stream, uint64_t s, uint64_t t)
{
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        if (stream->status != DPF_OK)
            return 0;
        uint64_t u = below(stream, t);
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
        if (take(stream, 1)) {
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
    return (int)stream->status;
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
