/* The acquisition for x86-64 with AVX2 and FMA; chosen at run time by acquisition_base.c. */
#include "acquisition.h"

#ifdef DPFAST_X86
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#include <immintrin.h>
#define LANES 4
#define TILE_ROWS 4
#define LOOPS_NAME acquisition_avx2
#include "acquisition_impl.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
typedef int acquisition_avx2_is_empty;
#endif
