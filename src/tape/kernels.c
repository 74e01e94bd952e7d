/* Chooses the variant of the kernels. */
#include "tape/kernels.h"

#include "base/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void td__fill_kernels_portable(td__kernels_table *table);
#if defined(__x86_64__)
void td__fill_kernels_avx2(td__kernels_table *table);
void td__fill_kernels_avx512(td__kernels_table *table);
#endif

static bool machine_has_portable(void) {
    return true;
}

/* Best first. */
static const struct {
    const char *name;
    bool (*machine_has)(void);
    void (*fill)(td__kernels_table *table);
} variants[] = {
#if defined(__x86_64__)
    {"avx512", td__cpu_has_avx512, td__fill_kernels_avx512},
    {"avx2", td__cpu_has_avx2, td__fill_kernels_avx2},
#endif
    {"portable", machine_has_portable, td__fill_kernels_portable},
};

/* Written once, by choose. */
static td__kernels_table chosen;
static const char *chosen_name;

static void choose(void) {
    const char *wish = getenv("TAPEDECK_CPU");
    size_t count = sizeof variants / sizeof variants[0], first = 0;
    for (size_t i = 0; wish && i < count; i++) {
        first = strcmp(wish, variants[i].name) == 0 ? i : first;
    }
    while (!variants[first].machine_has()) {
        first++; /* ends at portable */
    }
    variants[first].fill(&chosen);
    chosen_name = variants[first].name;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

const td__kernels_table *td__kernels(void) {
    pthread_once(&once, choose);
    return &chosen;
}

const char *td__kernels_name(void) {
    pthread_once(&once, choose);
    return chosen_name;
}
