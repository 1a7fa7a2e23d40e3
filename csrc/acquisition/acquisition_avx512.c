/* The acquisition for x86-64 with AVX-512; chosen at run time by acquisition_base.c. */
#include "acquisition.h"

#ifdef DPFAST_X86
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#endif
#include <immintrin.h>
#define LANES 8
#define TILE_ROWS 8
#define LOOPS_NAME acquisition_avx512
#include "acquisition_impl.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int acquisition_avx512_is_empty;
#endif
