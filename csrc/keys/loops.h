/* The loops of blocks.h for one instruction set; included once for each. */

TARGET static void NAME(usable)(double *block, size_t m, size_t columns, int64_t *complete)
{
    double bad[BLOCK_ROWS] = {0.0};
    int64_t all = 1;
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < m; i++)
            bad[i] += block[j * BLOCK_ROWS + i] * 0.0; /* NaN from the first that is not finite */
    for (size_t i = 0; i < m; i++)
        all &= complete[i] = bad[i] == 0.0;
    for (size_t j = 0; !all && j < columns; j++)
        for (size_t i = 0; i < m; i++)
            block[j * BLOCK_ROWS + i] = complete[i] ? block[j * BLOCK_ROWS + i] : NAN;
}

TARGET static void NAME(turned)(const char *at, ptrdiff_t row, size_t m, size_t q, double *block)
{
    size_t j = 0;
    const char *ahead = at + (ptrdiff_t)m * row; /* the next block, a line of memory at a time */
    for (; j + 4 <= q; j += 4, at += 4 * sizeof(double)) {
        double *to = block + j * BLOCK_ROWS;
        for (size_t i = 0; i < m; i++, ahead += 64) {
            double entry[4];
            __builtin_prefetch(ahead, 0, 3);
            memcpy(entry, at + (ptrdiff_t)i * row, sizeof entry);
            to[i] = entry[0];
            to[i + BLOCK_ROWS] = entry[1];
            to[i + 2 * BLOCK_ROWS] = entry[2];
            to[i + 3 * BLOCK_ROWS] = entry[3];
        }
    }
    for (; j < q; j++, at += sizeof(double))
        for (size_t i = 0; i < m; i++)
            memcpy(block + j * BLOCK_ROWS + i, at + (ptrdiff_t)i * row, sizeof(double));
}

TARGET static void NAME(cells_of)(const double *x, const int64_t *complete, size_t m,
                                  int64_t first, int shift, int32_t *cell)
{
    for (size_t i = 0; i < m; i++) {
        int64_t bits, negative, key;
        memcpy(&bits, x + i, sizeof bits);
        negative = bits >> 63;
        key = ((bits & INT64_MAX) ^ negative) - negative;
        uint64_t steps = ((uint64_t)key - (uint64_t)first) >> shift;
        int counts = (key >= first) & (steps < WINDOW_CELLS) & (complete[i] != 0);
        cell[i] = counts ? (int32_t)steps : WINDOW_CELLS;
    }
}

TARGET static void NAME(octaves_of)(const double *x, size_t m, double centre, double nearest,
                                    int32_t octaves, int32_t *cell, int32_t *part)
{
    int64_t first;
    memcpy(&first, &nearest, sizeof first);
    first >>= 52;
    for (size_t i = 0; i < m; i++) {
        double d = x[i] - centre, far = fabs(d);
        int64_t bits, octave;
        memcpy(&bits, &far, sizeof bits);
        int counts = far > nearest; /* not NaN, as all entries of an incomplete record are */
        octave = (bits >> 52) - first;
        int inside = octave < octaves - 1;
        int32_t of = inside ? (int32_t)((bits >> 43) & 511) : PART_OF_FAR;
        int32_t to = inside ? (int32_t)octave : octaves - 1;
        part[i] = counts ? of : PART_OF_NONE;
        cell[i] = (counts ? to : 0) + (d < 0.0 ? SIDE_OCTAVES : 0);
    }
}

TARGET static int64_t NAME(below)(const double *x, size_t m, double limit)
{
    int64_t count = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < m; i++)
        count += x[i] < limit; /* no entry of an incomplete record is: they are NaN */
    return count;
}
