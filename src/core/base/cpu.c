#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TD__CPU_COUNT] = {
#define NAME(member, name) #name,
    TD__CPU_LIST(NAME)};

bool td__cpu_has(td__cpu cpu) {
    switch (cpu) {
    case TD__CPU_PORTABLE:
        return true;
#if defined(__aarch64__)
    case TD__CPU_NEON:
        return true;
#elif defined(__x86_64__)
    case TD__CPU_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case TD__CPU_AVX512: /* with what src/engine/tape/kernels is compiled for */
        return td__cpu_has(TD__CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw");
#endif
    default:
        return false;
    }
}

const char *td__cpu_name(td__cpu cpu) {
    return names[cpu];
}

/* Written once, by choose. */
static td__cpu chosen;
static char
    refused[64]; /* the value of TAPEDECK_CPU (shortened) when this machine lacks it; or "" */

static void choose_cpu_level(void) {
    const char *wish = getenv("TAPEDECK_CPU");
    for (td__cpu cpu = TD__CPU_PORTABLE; cpu < TD__CPU_COUNT; cpu++) {
        bool has = td__cpu_has(cpu);
        chosen = has ? cpu : chosen;
        if (has && wish && strcmp(wish, names[cpu]) == 0) {
            return;
        }
    }
    (void)snprintf(refused, sizeof refused, "%s", wish ? wish : "");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

td__cpu td__cpu_chosen(void) {
    pthread_once(&once, choose_cpu_level);
    return chosen;
}

td_status td__cpu_check(td_error *error) {
    pthread_once(&once, choose_cpu_level);
    if (!*refused) {
        return TD_OK;
    }
    char has[64];
    size_t length = 0;
    for (td__cpu cpu = TD__CPU_PORTABLE; cpu < TD__CPU_COUNT; cpu++) {
        if (td__cpu_has(cpu)) {
            length += (size_t)snprintf(has + length, sizeof has - length, "%s%s",
                                       length ? ", " : "", names[cpu]);
        }
    }
    return td_error_set(error, TD_INVALID,
                        "TAPEDECK_CPU is %s, but this machine has %s; without it, the last of them "
                        "is used",
                        refused, has);
}
