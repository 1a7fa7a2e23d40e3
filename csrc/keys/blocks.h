/* Whole numbers made of a block of entries, compiled for several instruction sets: the same in each,
 * because all of it is integers but for one subtraction. */
#ifndef DPFAST_KEYS_BLOCKS_H
#define DPFAST_KEYS_BLOCKS_H

#include "isa.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_ROWS = 128, WINDOW_CELLS = 4096, SIDE_OCTAVES = 100 };

/* Places in the table of parts beyond those of an octave: of no entry, and of one that is too far. */
enum { PART_OF_NONE = 512, PART_OF_FAR = 513, KEYS_PARTS = 514 };

/* Rows whose packed parts fit 32 bits each. */
enum { PACKED_ROWS = 4096 - BLOCK_ROWS };

#define TARGET
#define NAME(function) function##_base
#include "loops.h"
#undef TARGET
#undef NAME

#ifdef DPFAST_X86
#define TARGET __attribute__((target("avx2")))
#define NAME(function) function##_avx2
#include "loops.h"
#undef TARGET
#undef NAME

#define TARGET __attribute__((target("avx512f,avx512dq,avx512vl")))
#define NAME(function) function##_avx512
#include "loops.h"
#undef TARGET
#undef NAME

#define CHOSEN(isa, function, ...)                                                              \
    do {                                                                                        \
        if ((isa) == ISA_AVX512)                                                                \
            function##_avx512(__VA_ARGS__);                                                     \
        else if ((isa) == ISA_AVX2)                                                             \
            function##_avx2(__VA_ARGS__);                                                       \
        else                                                                                    \
            function##_base(__VA_ARGS__);                                                       \
    } while (0)
#else
#define CHOSEN(isa, function, ...) function##_base(__VA_ARGS__)
#endif

/* Columns of m rows of q doubles, so many bytes apart, BLOCK_ROWS apart. */
static inline void turn_rows(int isa, const char *at, ptrdiff_t row, size_t m, size_t q,
                             double *block)
{
    CHOSEN(isa, turned, at, row, m, q, block);
}

/* 1 for each of m records whose columns, BLOCK_ROWS apart, have no missing entry; 0 for others, all of
 * whose entries become NaN. */
static inline void usable_records(int isa, double *block, size_t m, size_t columns,
                                  int64_t *complete)
{
    CHOSEN(isa, usable, block, m, columns, complete);
}

/* Count m entries in the cells of a window, in several tables of WINDOW_CELLS + 1 in turn, the last of
 * each for all that are in none; `tables` is a power of 2. */
static inline void count_in_window(int isa, const double *x, const int64_t *complete, size_t m,
                                   int64_t first, int shift, uint32_t *counts, size_t tables)
{
    int32_t cell[BLOCK_ROWS];
    CHOSEN(isa, cells_of, x, complete, m, first, shift, cell);
    for (size_t i = 0; i < m; i++)
        counts[(i & (tables - 1)) * (WINDOW_CELLS + 1) + (size_t)cell[i]] += 1;
}

/* The number of m entries of complete records that are below a limit; others are NaN. */
static inline int64_t count_below(int isa, const double *x, size_t m, double limit)
{
#ifdef DPFAST_X86
    if (isa == ISA_AVX512)
        return below_avx512(x, m, limit);
    if (isa == ISA_AVX2)
        return below_avx2(x, m, limit);
#endif
    return below_base(x, m, limit);
}

/* Add the packed parts of m entries, NaN of incomplete records, to four tables of two sides of
 * octaves, in turn.  The last of so many octaves, at most SIDE_OCTAVES, has all that is farther away. */
static inline void add_distances(int isa, const double *x, size_t m, double centre, double nearest,
                                 int32_t octaves, const uint64_t *packed, uint64_t *sums)
{
    enum { TABLE = 2 * SIDE_OCTAVES };
    int32_t cell[BLOCK_ROWS], part[BLOCK_ROWS];
    size_t i = 0;
    CHOSEN(isa, octaves_of, x, m, centre, nearest, octaves, cell, part);
    for (; i + 4 <= m; i += 4) { /* an entry need not wait for the one before to be added */
        sums[cell[i]] += packed[part[i]];
        sums[TABLE + cell[i + 1]] += packed[part[i + 1]];
        sums[2 * TABLE + cell[i + 2]] += packed[part[i + 2]];
        sums[3 * TABLE + cell[i + 3]] += packed[part[i + 3]];
    }
    for (; i < m; i++)
        sums[cell[i]] += packed[part[i]];
}

/* Unpack those of so many octaves: the lower half is of the cell, the upper one of the next on its
 * side, and zero for the last. */
static inline void unpack_distances(uint64_t *sums, size_t octaves, int64_t *cells)
{
    for (size_t side = 0; side < 2; side++, sums += SIDE_OCTAVES, cells += SIDE_OCTAVES) {
        uint64_t above = 0;
        for (size_t i = 0; i < octaves; i++) {
            uint64_t both = 0;
            for (size_t k = 0; k < 4; k++) {
                both += sums[k * 2 * SIDE_OCTAVES + i];
                sums[k * 2 * SIDE_OCTAVES + i] = 0;
            }
            cells[i] += (int64_t)((both & UINT32_MAX) + above);
            above = both >> 32;
        }
    }
}

#endif
