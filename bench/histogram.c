/* How fast statistics are taken and histograms counted, one core, of what lies in the third-level cache: for
 * every set of instructions the machine has.
 *
 *     ./dev bench histogram
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/random.h"
#include "tensor/stats.h"

#include <stdio.h>
#include <stdlib.h>

enum { FLOATS = 1 << 20, ROUNDS = 100, BINS = 1 << 12 };

static float values[FLOATS];
static td__bin_counts table[BINS];

/* What is kept of a normal distribution: all of it, what a relu lets through, one in four as of an error
 * behind a pooling layer of 2 x 2. */
static const struct content {
    const char *name;
    bool positive;
    uint32_t keep_one_in;
} contents[] = {
    {"normal", false, 1}, {"behind a relu", true, 1}, {"three zeros in four", false, 4}};

static void fill(const struct content *content) {
    td__random generator;
    td__random_seed(&generator, 1, 0);
    for (size_t i = 0; i < FLOATS; i++) {
        float value = (float)td__random_normal(&generator);
        bool zero = (content->positive && value < 0) ||
                    td__random_below(&generator, content->keep_one_in) != 0;
        values[i] = zero ? 0.0f : value;
    }
}

static void pass(const td__stats_kernels *kernels, bool bins) {
    for (size_t i = 0; i < FLOATS; i += TD__BLOCK) {
        td__block block;
        td__piece piece = {.x = values + i,
                           .count = TD__BLOCK,
                           .next = i + TD__BLOCK < FLOATS ? values + i + TD__BLOCK : NULL};
        if (!kernels->block(&piece, &block)) {
            fprintf(stderr, "histogram: values out of range\n");
            exit(1);
        }
        piece.zeros = (size_t)block.zeros;
        if (bins) {
            kernels->bin(&piece, table);
        }
    }
}

/* GB/s, the best of several rounds. */
static double rate(const td__stats_kernels *kernels, bool bins) {
    double least = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        double begin = td__seconds();
        pass(kernels, bins);
        double took = td__seconds() - begin;
        least = took < least ? took : least;
    }
    return FLOATS * sizeof(float) / least * 1e-9;
}

int main(void) {
    printf("%-10s %-22s %12s %12s %14s\n", "", "GB/s", "statistics", "+ histogram", "that alone");
    for (int i = TD__CPU_PORTABLE; i < TD__CPU_COUNT; i++) {
        td__cpu cpu = (td__cpu)i;
        const td__stats_kernels *kernels = td__stats_kernels_of(cpu);
        if (!td__cpu_has(cpu) || !kernels->block) {
            continue;
        }
        for (size_t k = 0; k < sizeof contents / sizeof *contents; k++) {
            fill(&contents[k]);
            double stats = rate(kernels, false), both = rate(kernels, true);
            printf("%-10s %-22s %12.1f %12.1f %14.1f\n", td__cpu_name(cpu), contents[k].name, stats,
                   both, 1 / (1 / both - 1 / stats));
        }
    }
    return 0;
}
