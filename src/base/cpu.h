/* What the processor that this runs on can do: the one place that asks. */
#ifndef TAPEDECK_BASE_CPU_H
#define TAPEDECK_BASE_CPU_H

#include <stdbool.h>

#if defined(__x86_64__)
static inline bool td__cpu_has_sse42(void) {
    return __builtin_cpu_supports("sse4.2");
}

static inline bool td__cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

/* With what src/tape/kernels is compiled for. */
static inline bool td__cpu_has_avx512(void) {
    return td__cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw");
}
#endif

#endif
