/* Chooses the variant of the kernels. */
#include "tape/kernels.h"

#include "base/cpu.h"

#include <pthread.h>

void td__fill_kernels_portable(td__kernels_table *table);
#if defined(__aarch64__)
void td__fill_kernels_neon(td__kernels_table *table);
#elif defined(__x86_64__)
void td__fill_kernels_avx2(td__kernels_table *table);
void td__fill_kernels_avx512(td__kernels_table *table);
#endif

static void (*const variants[TD__CPU_COUNT])(td__kernels_table *table) = {
    [TD__CPU_PORTABLE] = td__fill_kernels_portable,
#if defined(__aarch64__)
    [TD__CPU_NEON] = td__fill_kernels_neon,
#elif defined(__x86_64__)
    [TD__CPU_AVX2] = td__fill_kernels_avx2,
    [TD__CPU_AVX512] = td__fill_kernels_avx512,
#endif
};

_Atomic(const td__kernels_table *) td__kernels_chosen;

/* Written once, by choose. */
static td__kernels_table table;

static void choose(void) {
    variants[td__cpu_chosen()](&table);
    atomic_store_explicit(&td__kernels_chosen, &table, memory_order_release);
}

const td__kernels_table *td__kernels_choose(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &table;
}
