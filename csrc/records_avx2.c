/* The record loops for x86-64 with AVX2 and FMA; chosen at run time by records_base.c. */
#include "records.h"

#ifdef DPFAST_X86
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>
#define LANES 4
#define CHUNK_NAME records_chunk_avx2
/* Sixteen registers: tiles of 4 x 2 columnar, 4 x 12 by rows. */
#define FIRST_ROWS 4
#define COLUMN_ROWS 4
#define COLUMN_COLUMNS 2
#define PANEL_VECTORS 3
#include "records/chunk.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int records_avx2_is_empty;
#endif
