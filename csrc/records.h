/* Sums over records: gradient, Hessian, meat, loss and loss difference of M-estimators.
 *
 * Nothing here knows of budgets or noise.  What the callers' proofs rely on:
 *
 * 1. Bounds.  For every float64 record the contribution that is summed has norm at most the
 *    declared bound times (1 + 1e-12); a record that is not usable contributes exactly zero.
 *
 * 2. Summation.  The order of the additions depends on (n, p, want) only, never on the number of
 *    threads.  A record's contribution to any entry of a result passes through at most
 *    records_summation_depth(n, p, want) = d roundings: those of the products that form the
 *    contribution, one per addition, and those of the final division.  Hence, entry by entry and
 *    whether or not the compiler fuses a product with an addition,
 *
 *        |computed - exact| <= gamma_d * sum over records of |contribution|,
 *        gamma_d = d u / (1 - d u),  u = 2^-53,
 *
 *    up to underflow, where "contribution" is the exact value formed from the record's computed
 *    multiplier and its entries.  d is nondecreasing in n.  With the plan's B rows a block, at most
 *    b blocks a chunk and m chunks for n or fewer records,
 *        d = (B + 1) + b + m + 8
 *    (for a difference of losses, too, where "contribution" is the record's computed difference):
 *    at most B additions inside a block plus one to join the halves of a vector, one per block of
 *    the chunk, one per chunk, and at most eight roundings outside the additions (projection of
 *    two entries, their scaling, their product, the score scale sigma and the divisor).  The
 *    factor of a free scale takes the place of the second entry's projection and scaling.
 *    Throughout, p is the number of entries of a design row.
 */
#ifndef DPFAST_RECORDS_H
#define DPFAST_RECORDS_H

#ifdef __FAST_MATH__
#error "fast-math deletes the NaN guards that privacy rests on; build without it"
#endif

#include <stddef.h>
#include <stdint.h>

#include "isa.h"
#include "losses/list.h"

enum { WEIGHT_BOUNDED = 0, WEIGHT_MALLOWS = 1, WEIGHT_CLIP = 2, WEIGHT_SCHWEPPE = 3,
       /* min(1, R / ||xi||): the score is bounded, the Hessian is not */
       WEIGHT_MALLOWS_LINEAR = 4 };
enum { WANT_GRADIENT = 1, WANT_HESSIAN = 2, WANT_MEAT = 4, WANT_LOSS = 8, WANT_DIFFERENCE = 16,
       /* with WANT_HESSIAN: curvature psi(r)/r, which majorises the loss, in place of psi'(r) */
       WANT_MAJORIZE = 32,
       /* with WANT_GRADIENT: each record's change of gradient between two parameters */
       WANT_CHANGE = 1024,
       /* with a view: the number of records in each cell of lengths; and the other sums of a view */
       WANT_LENGTHS = 2048, WANT_VIEW = 4096,
       /* with a view: each group's sum of its rows times their numbers */
       WANT_SCORES = 8192 };

/* A user's loss: psi and psi', psi alone, and rho, of `count` residuals (finite or infinite, never
 * NaN).  Any values may come back; they must not raise, and must be safe to call from several threads. */
typedef void (*records_user_slopes)(const double *r, double *psi, double *psi_prime,
                                    size_t count);
typedef void (*records_user_values)(const double *r, double *values, size_t count);

/* With scale_factor f > 0 the scale is a parameter, too: theta has one more entry, z, last, the
 * scale is f z, and the loss of a record is w (sigma rho(r) + kappa sigma / 2).  Its score with
 * respect to (beta, z) is w (-psi x, f (kappa/2 - chi)), chi = r psi - rho; its Hessian
 * (w psi'/sigma) a a' with a = (x, f r), the majorising one (w/sigma) diag((psi/r) xx', f^2 kappa).
 * All are bounded, whatever the record: |chi| <= c^2 times 1/2 (Huber), log 2 (log-cosh), 1
 * (pseudo-Huber); psi' r^2 <= c^2 times 1, 0.4393 and 0.3850. */
typedef struct {
    int loss, weighting, intercept;
    double c, scale, radius; /* LOSS_USER: c is the bound on |psi| */
    double scale_factor, kappa;
    double h; /* second constant of the loss; LOSS_USER: the bound on psi' */
    double largest_weight; /* records' own weights are clipped to it */
    int user_coupled; /* hold psi'/h to at most 1 - (psi/c)^2 as well */
    records_user_slopes user_slopes;
    records_user_values user_psi, user_values;
} records_model;

/* Strides are in bytes and may be anything, zero and negative included.  An entry of x is a double
 * (x_item 8) or a float (x_item 4).  Every float is a double: floats are widened while a block is
 * copied, nothing is rounded, and all that is said of float64 records holds for the widened ones.
 * The results are those of the widened x, bit for bit.
 *
 * A record's own weight a, clipped to [0, A] with A = largest_weight (NaN: 0), multiplies its loss,
 * score, curvature and change of gradient, and a^2 its part of the meat: each bound times A, or A^2.
 * Its offset is taken from y, or for a loss OF_PREDICTOR added to x'theta; a record whose offset is
 * not finite contributes zero.  Divisors are the caller's and have nothing to do with weights. */
typedef struct {
    const char *x;
    ptrdiff_t x_row, x_column;
    size_t x_item;
    const char *y;
    ptrdiff_t y_step;
    const char *weight, *offset; /* doubles; NULL where records have none */
    ptrdiff_t weight_step, offset_step;
    size_t n, q;
} records_data;

/* View of a record: a row a = (1, z) W, z = (x - centre) inverse, and one number.
 *
 *                    row        number
 *   VIEW_RESPONSE    a          (y - y_centre) / y_spread - shift, less the offset without a loss
 *   VIEW_CURVATURE   sqrt(c) a  the response; c is the loss's curvature in the predictor a'theta
 *   VIEW_SCORE       d a        the score psi; d is the row's clipping factor
 *   VIEW_SCORE_SIZE  a          how large a score may be at this predictor
 *   VIEW_RESIDUAL    a          y - a'theta
 *   VIEW_WEIGHT      a          the record's own weight
 *
 * With weigh > 0 a record's weight, times weigh, is part of the view: its root multiplies rows and
 * responses, and the whole multiplies scores and their sizes.  Sums then use no weights.
 *
 * The number is NaN if any entry of x is not finite, or if the loss cannot have the response.  A view
 * is a function of one record, whatever its position. */
enum { VIEW_RESPONSE, VIEW_CURVATURE, VIEW_SCORE, VIEW_SCORE_SIZE, VIEW_RESIDUAL, VIEW_WEIGHT };
enum { NO_LOSS = -1, PLAIN_SQUARES = -2 }; /* psi = y - a'theta without a bound, curvature 1 */

typedef struct {
    size_t q, p;
    int what, loss; /* a built-in loss, or one of the two above */
    double c, h, scale, shift, y_centre, y_spread, weigh;
    const double *centre, *inverse; /* q */
    const double *matrix; /* (q + 1) rows of p; of the constant first; NULL: rows (1, z), or z */
    const double *theta;            /* p */
    const double *predictor; /* q + 1, with a map: predictors are (1, z)'predictor; NULL: a'theta */
    double reach; /* rows are shortened until |a| times the score size is at most this */
    /* Or by (radius / size)^(2 power) where size = sqrt(c at far_theta) |a B| is more; B may be NULL. */
    const double *back, *far_theta; /* p rows of p; p */
    double far_scale, radius, power;
    /* For views without a map: |a|^2 of each record under some other map, rounded up.  The view is then
     * that of a row a of this length, summed as (1, z).  Only for sums of clipped scores, of curvatures
     * with Mallows weights, and lengths; of records without weights and offsets. */
    const double *squares;
    double *keep; /* with a map: where to store them; infinite for records that are not usable */
    const double *edges; /* WANT_LENGTHS: increasing; inside, `most` infinities come after them */
    size_t n_edges;
    double whole; /* if positive, a record with weight a is counted floor(whole a) times */
    /* WANT_SCORES: the group of each row; `groups` groups from first_group on, and their sums. */
    const ptrdiff_t *group_of_row;
    ptrdiff_t first_group;
    size_t groups;
    double longest, *scores;
    unsigned char *has_row;
    const uint32_t *first; /* inside: for each exponent the first cell of such lengths, and how many */
    size_t most;           /* edges one exponent has at most */
} records_view;

/* Outputs: gradient p doubles; hessian and meat p * p doubles; any not wanted may be NULL.
 * threads <= 0 means the CPUs this process may use.  Return 0, or -1 when out of memory.
 * p is the number of entries of theta, the free scale included. */
int records_sums(const records_model *model, const records_data *data, const double *theta,
                 int want, double divisor, int threads, double *gradient, double *hessian,
                 double *meat);
/* The same for a view of the records: x has view->q columns, p = view->p, no intercept.  Unless
 * `counts` is NULL, lengths are counted in the same pass, as records_lengths does. */
int records_sums_of_view(const records_model *model, const records_data *data,
                         const records_view *view, const double *theta, int want, double divisor,
                         int threads, double *gradient, double *hessian, double *meat,
                         long long *counts);
/* Number of records with a length |row| |number| (of curvatures |row|, of residuals |number|) up to each
 * edge and above the one before; above all: counts[n_edges].  NaN is in no cell.  Weights do not matter
 * unless they are part of the view. */
int records_lengths(const records_data *data, const records_view *view, int threads,
                    long long *counts);
/* Add to each group's `scores` (p integers) the integers nearest to 2^44 a s/longest: s is the row times
 * its number, clipped to norm `longest`, and a its weight.  Exact, and so independent of the order, for
 * up to 2^42 rows with weights that add up to 1.  `has_row`: groups with a usable row. */
int records_scores(const records_data *data, const records_view *view);
int records_loss(const records_model *model, const records_data *data, const double *theta,
                 double divisor, int threads, double *result);
int records_loss_difference(const records_model *model, const records_data *data,
                            const double *theta_new, const double *theta_old, double divisor,
                            int threads, double *result);

/* Sum over records of clip(gradient at theta_new - gradient at theta_old), each record's change
 * scaled down to a norm of at most `limit`; one read of X.  The depth of its summation is that of
 * the gradient, with `limit` for the bound of a contribution. */
int records_gradient_change(const records_model *model, const records_data *data,
                            const double *theta_new, const double *theta_old, double limit,
                            double divisor, int threads, double *change);

size_t records_summation_depth(size_t n, size_t p, int want);

/* The table of losses, for callers that are not C: rows end with one whose name is NULL. */
typedef struct {
    const char *name; /* pseudo_huber */
    int code, traits;
} records_loss_row;
extern const records_loss_row records_losses[];
/* Traits of a code; -1 if there is no such loss. */
int records_loss_traits(int loss);
/* sup |psi|; LOSS_USER: its declared bound c. */
double records_steepest(int loss, double c, double h);
/* Threads of a sum that does not say how many: those chosen for the process, or else one for each
 * CPU that it may use, of which a quota allows for no more than so many at a time; 0 = not set. */
int records_default_threads(void);
void records_set_default_threads(int chosen, int quota);

/* For tests: names of the instruction sets this machine can run, best first, ending in NULL. */
const char *const *records_isas(void);
/* Use the named variant from now on ("" = the best one); -1 if this machine cannot run it. */
int records_set_isa(const char *name);

/* ---- Internal: shared by the driver and the variants compiled for each instruction set. ---- */

/* Widest rows that are ever transposed. */
enum { RECORDS_COLUMNAR = 24 };

/* Tables of lengths, which are counted in turn. */
enum { COUNT_TABLES = 4 };

/* How a problem is cut up; a function of (n, p, want) alone. */
typedef struct {
    size_t block_rows, n_blocks, blocks_per_chunk, n_chunks;
    int columnar;   /* small p: blocks are transposed into groups of columns */
    int one_thread; /* too little work to wake another thread for */
} records_plan;

records_plan records_make_plan(size_t n, size_t p, int want);

typedef struct {
    records_model model;
    records_data data;
    records_plan plan;
    const records_view *view; /* or NULL; with a view data.q is the length of its rows */
    const double *map, *back; /* its matrices, rows zero-padded to `width` */
    /* How many of the first entries of their columns are zero, without the constant's. */
    const size_t *map_zeros, *back_zeros;
    /* Its centres and inverses for rows, and the length of either: what comes after the columns is
     * zero, or where there is no map the constant and then zeros. */
    const double *units;
    size_t unit_width;
    int want;
    size_t p;      /* entries of a design row: the free scale does not count */
    size_t width;  /* p rounded up to a multiple of 8: leading dimension of the matrix sums */
    /* Coefficients of x, zero-padded to `width`, and of the intercept. */
    const double *theta, *theta_new, *theta_step;
    double theta0, theta0_new, theta0_step;
    double limit; /* WANT_CHANGE: the largest norm of one record's change */
    double limit_square; /* a little below limit^2; negative if limit is too small or large to square */
    /* Derived public constants. */
    double room;           /* BOUNDED: radius left for the x part; SCHWEPPE: the radius */
    double norm2_lo, norm2_hi; /* squared norms outside [lo, hi) take the careful path */
    int safe_exponent;     /* careful rows are rescaled to have max |x| in [2^e, 2^(e+1)) */
    size_t scratch_doubles, sum_doubles, hessian_at, meat_at, loss_at, counts_at;
    /* Free scale: sums of h r x and g q x (width each), then of q, h r^2 and q^2. */
    size_t hessian_cross_at, meat_cross_at, scale_at;
} records_task;

/* Add the records of one chunk to `sums` (zeroed by the caller). */
typedef void (*records_chunk)(const records_task *task, size_t first_row, size_t last_row,
                              double *scratch, double *sums);

void records_chunk_base(const records_task *, size_t, size_t, double *, double *);
#ifdef DPFAST_X86
void records_chunk_avx2(const records_task *, size_t, size_t, double *, double *);
void records_chunk_avx512(const records_task *, size_t, size_t, double *, double *);
#endif

#endif
