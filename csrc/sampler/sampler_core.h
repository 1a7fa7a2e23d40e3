/* Exact samplers on a stream of random bytes, and the addition of noise on a public grid.
 *
 * Nothing here knows about Python or about where the bytes come from.  The proofs of exactness
 * are claims C15 (normal), C22 (discrete Laplace) and C16 (grid) of dpfast/privacy/PROOFS.md.
 */
#ifndef DPFAST_SAMPLER_CORE_H
#define DPFAST_SAMPLER_CORE_H

#ifdef __FAST_MATH__
#error "fast-math deletes the NaN guards that privacy rests on; build without it"
#endif

#include <stddef.h>
#include <stdint.h>

/* Reasons why a draw stops.  All are independent of any record: they concern bytes only. */
enum {
    DPF_OK = 0,
    DPF_REFILL_FAILED = -1, /* there were no bytes */
    DPF_NOT_RANDOM = -2     /* an event of probability below 2^-1000 under uniform bytes */
};

#define DPF_PAGE_SIZE 4096
#define DPF_PAGE_BYTES (DPF_PAGE_SIZE - 72)

/* A page of memory with all that is left of random bytes: the low `left` bits of `bits`, then
 * bytes[position .. length).  A page that is all zeros, as a fork leaves it, has none.
 *
 * refill() puts fresh bytes into the page and sets position and length, or returns a non-zero
 * value.  A draw interrupted by an empty page simply goes on: nothing is restarted, no bias. */
typedef struct dpf_stream {
    uint64_t bits;
    uint64_t left;
    uint64_t position;
    uint64_t length;
    uint64_t consumed;  /* bytes used so far, for tests and benchmarks */
    int64_t process_id; /* whose bytes these are */
    int (*refill)(struct dpf_stream *stream);
    void *owner;
    int64_t status;
    unsigned char bytes[DPF_PAGE_BYTES];
} dpf_stream;

/* out[i] = floor(2^bits * Z_i) with Z_i exactly standard normal; 1 <= bits <= 44. */
int dpf_normals(dpf_stream *stream, int64_t *out, size_t size, int bits);

/* P(out[i] = j) proportional to exp(-|j| * numerator / denominator), exactly;
 * 0 < numerator, denominator < 2^62 and numerator/denominator >= 2^-40. */
int dpf_discrete_laplace(dpf_stream *stream, int64_t *out, size_t size, uint64_t numerator,
                         uint64_t denominator);

/* The integer nearest to value/grid (exactly, up to a relative 2^-52 at the midpoints), clamped
 * to [-2^51, 2^51]; NaN gives 0. */
int64_t dpf_nearest(double value, double grid);

/* out[i] = grid * (nearest(value[i]/grid) + noise[i]). */
void dpf_release(const double *value, const int64_t *noise, double *out, size_t size,
                 double grid);

/* The same for the upper triangle (row-major, i <= j) of a p x p row-major matrix: grid for the
 * diagonal, grid_off for the entries above it, mirrored below it.  noise has p(p+1)/2 entries. */
void dpf_release_symmetric(const double *matrix, const int64_t *noise, double *out, size_t p,
                           double grid, double grid_off);

#endif
