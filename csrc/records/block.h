/* One block of records: what it is made of, and how the next one is fetched meanwhile. */

#define LINE 64 /* bytes of memory that are fetched together */

/* Ask for so many lines from `from` on; where the next ones are.  They wait in the second-level cache:
 * the first holds two blocks and their copies, and lines that drive those out are read twice (on an
 * AMD of the fourth generation they cost half of the speed of a gradient). */
static INLINE const char *fetch(const char *from, size_t lines)
{
    for (size_t k = 0; k < lines; k++, from += LINE)
        __builtin_prefetch(from, 0, 2);
    return from;
}

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

/* The first `count` of LANES numbers, then zeros. */
static INLINE vd vload_part(const double *p, size_t count)
{
#if LANES == 8
    return (vd)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1u), p);
#elif LANES == 4
    static const long long edge[8] = {-1, -1, -1, -1, 0, 0, 0, 0};
    return (vd)_mm256_maskload_pd(p, _mm256_loadu_si256((const __m256i *)(edge + 4 - count)));
#else
    return (vd){count > 0 ? p[0] : 0.0, 0.0};
#endif
}

/* In: LANES vectors.  Out: vector whose lane i is the sum over the lanes of v[i]. */
static INLINE vd sum_lanes(const vd *v)
{
#if LANES == 8
    vd pair[4], quad[2];
    UNROLL for (int i = 0; i < 4; i++) {
        vd a = v[2 * i], b = v[2 * i + 1];
        pair[i] = SHUFFLE(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
                  SHUFFLE(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        vd a = pair[2 * i], b = pair[2 * i + 1];
        quad[i] = SHUFFLE(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                  SHUFFLE(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    return SHUFFLE(quad[0], quad[1], 0, 1, 2, 3, 8, 9, 10, 11) +
           SHUFFLE(quad[0], quad[1], 4, 5, 6, 7, 12, 13, 14, 15);
#elif LANES == 4
    vd low = SHUFFLE(v[0], v[1], 0, 4, 2, 6) + SHUFFLE(v[0], v[1], 1, 5, 3, 7);
    vd high = SHUFFLE(v[2], v[3], 0, 4, 2, 6) + SHUFFLE(v[2], v[3], 1, 5, 3, 7);
    return SHUFFLE(low, high, 0, 1, 4, 5) + SHUFFLE(low, high, 2, 3, 6, 7);
#else
    return SHUFFLE(v[0], v[1], 0, 2) + SHUFFLE(v[0], v[1], 1, 3);
#endif
}

typedef struct {
    const records_task *task;
    size_t rows;   /* records in this block */
    size_t padded; /* the same rounded up to whole vectors */
    /* Rows in place (not columnar): first row and distance between rows, in doubles. */
    const double *x;
    ptrdiff_t step;
    /* Per-record vectors, `padded` long. */
    double *dot, *dot_new, *dot_step, *norm2;
    double *g, *h, *m;
    double *y_copy;
    double *a, *o;      /* weight and offset of each record, where there are any */
    const double *y;    /* in place, or y_copy */
    double *factor;     /* BOUNDED: shrinkage of the x part; SCHWEPPE: of the whole stored row */
    double *q, *hr, *hr2, *gq; /* free scale: its score, and multipliers of x, 1 and x */
    double *down, *up;  /* careful rows: stored row = down * x, up = 1/down; else 1 */
    double *gathered;   /* rows copied here when they cannot be used in place */
    double *columns;    /* groups of columns, or the last panel */
    double *scaled;
    double *own;        /* a view: a block of the records' own rows, and groups of them in units */
    /* What of a coming block has yet to be fetched.  That is done a few lines at a time in all that
     * is done with this one, so that memory is kept busy all the while. */
    const char *ahead, *ahead_end;
    int careful;        /* some row of this block was repaired or rescaled */
    int shrunk;         /* some factor < 1 */
    int down_dirty;     /* down and up are not all ones */
} block;

/* Whether lengths are counted, and nothing is summed. */
static INLINE int only_counts(const records_task *task)
{
    return (task->want & (WANT_LENGTHS | WANT_GRADIENT | WANT_HESSIAN | WANT_MEAT)) == WANT_LENGTHS;
}

static int wants_matrix(const records_task *task)
{
    return (task->want & (WANT_HESSIAN | WANT_MEAT)) != 0;
}

/* What of the coming block remains to be fetched, in so many equal parts. */
static INLINE size_t lines_left(const block *b, size_t parts)
{
    size_t each = parts * LINE;
    return b->ahead < b->ahead_end ? ((size_t)(b->ahead_end - b->ahead) + each - 1) / each : 0;
}

/* Where to fetch from on, `lines` lines so many times. */
static INLINE const char *take_ahead(block *b, size_t lines, size_t times)
{
    const char *from = b->ahead;
    b->ahead += lines * times * LINE;
    return from;
}

#define VECTORS 15
#define WEIGHT_AND_OFFSET 2 /* further ones, where records have weights or offsets */
#define SCALED_ROWS 8

static int has_weight_or_offset(const records_data *data) { return data->weight || data->offset; }

static void block_init(block *b, const records_task *task, double *scratch)
{
    size_t rows = task->plan.block_rows;
    double **slots[VECTORS] = {&b->dot, &b->dot_new, &b->dot_step, &b->norm2,
                               &b->g,   &b->h,       &b->m,        &b->y_copy,
                               &b->factor, &b->down, &b->up,
                               &b->q,   &b->hr,      &b->hr2,      &b->gq};
    memset(b, 0, sizeof *b);
    b->task = task;
    for (int i = 0; i < VECTORS; i++, scratch += rows)
        *slots[i] = scratch;
    for (size_t i = 0; i < rows; i++)
        b->down[i] = b->up[i] = b->factor[i] = 1.0;
    b->gathered = scratch;
    scratch += rows * task->width;
    b->columns = scratch;
    scratch += rows * task->width;
    b->scaled = scratch;
    b->a = b->scaled + SCALED_ROWS * rows;
    b->o = b->a + rows;
    b->own = b->a + (has_weight_or_offset(&task->data) ? WEIGHT_AND_OFFSET * rows : 0);
}
