/* The record loops for x86-64 with AVX-512; chosen at run time by records_base.c. */
#include "records.h"

#ifdef DPFAST_X86
#if defined(__clang__)
#pragma clang attribute push(                                                                   \
    __attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>
#define LANES 8
#define CHUNK_NAME records_chunk_avx512
/* Thirty-two registers: tiles of 4 x 6 columnar, 8 x 24 by rows. */
#define FIRST_ROWS 6
#define COLUMN_ROWS 4
#define COLUMN_COLUMNS 6
#define PANEL_VECTORS 3
#include "records/chunk.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int records_avx512_is_empty;
#endif
