/* What the processor that this runs on can do, and which of it kernels are to use: the one place that
 * asks.
 *
 * TAPEDECK_CPU in the environment names a set to use instead of the best one. The last digits of results
 * depend on the set. */
#ifndef TAPEDECK_BASE_CPU_H
#define TAPEDECK_BASE_CPU_H

#include "tapedeck/base.h"

/* Sets of instructions, each better than the one before. */
#define TD__CPU_LIST(X)                                                                            \
    X(PORTABLE, portable)                                                                          \
    X(NEON, neon)                                                                                  \
    X(AVX2, avx2)                                                                                  \
    X(AVX512, avx512)

typedef enum td__cpu {
#define TD__CPU_ENTRY(member, name) TD__CPU_##member,
    TD__CPU_LIST(TD__CPU_ENTRY)
#undef TD__CPU_ENTRY
        TD__CPU_COUNT
} td__cpu;

bool td__cpu_has(td__cpu cpu);
const char *td__cpu_name(td__cpu cpu);
/* What TAPEDECK_CPU names, where the machine has it; else the best. The same for the process's life. */
td__cpu td__cpu_chosen(void);
/* TD_INVALID where TAPEDECK_CPU names what is not known, or not this machine's. */
TD_NODISCARD td_status td__cpu_check(td_error *error);

#if defined(__x86_64__)
static inline bool td__cpu_has_sse42(void) {
    return __builtin_cpu_supports("sse4.2");
}
#endif

#endif
