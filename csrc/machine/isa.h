/* Instruction sets that the vectorised loops are compiled for. */
#ifndef DPFAST_ISA_H
#define DPFAST_ISA_H

#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define DPFAST_X86 1
#endif

enum { ISA_BASE, ISA_AVX2, ISA_AVX512, ISA_NONE = -1 };

/* Names of those this machine can run, best first, ending in NULL. */
static inline const char *const *isa_names(void)
{
    static const char *names[4];
    int count = 0;
#ifdef DPFAST_X86
    __builtin_cpu_init();
    int fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        names[count++] = "avx512";
    if (fma)
        names[count++] = "avx2";
#endif
    names[count++] = "base";
    names[count] = NULL;
    return names;
}

/* The named one, "" the best; ISA_NONE if this machine cannot run it. */
static inline int isa_of(const char *name)
{
    for (const char *const *known = isa_names(); *known; known++) {
        if (*name && strcmp(name, *known) != 0)
            continue;
        return strcmp(*known, "avx512") == 0 ? ISA_AVX512
               : strcmp(*known, "avx2") == 0 ? ISA_AVX2
                                             : ISA_BASE;
    }
    return ISA_NONE;
}

#endif
