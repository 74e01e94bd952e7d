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

/* Each written once, by fill. */
static td__kernels_table tables[TD__CPU_COUNT];

static void fill_table(void) {
    for (td__cpu cpu = TD__CPU_PORTABLE; cpu < TD__CPU_COUNT; cpu++) {
        if (variants[cpu] && td__cpu_has(cpu)) {
            variants[cpu](&tables[cpu]);
        }
    }
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

void td__kernels_use(td__cpu cpu) {
    pthread_once(&once, fill_table);
    atomic_store_explicit(&td__kernels_chosen, &tables[cpu], memory_order_release);
}

const td__kernels_table *td__kernels_choose(void) {
    pthread_once(&once, fill_table);
    const td__kernels_table *none = NULL, *chosen = &tables[td__cpu_chosen()];
    return atomic_compare_exchange_strong(&td__kernels_chosen, &none, chosen) ? chosen : none;
}
