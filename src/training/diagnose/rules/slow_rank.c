#include "diagnose/loop.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

#define SHARE 0.8 /* of the steps in which one rank is the slowest */
#define RATIO 1.3 /* its time and the mean of the others', in the middle of the steps */

enum { FEWEST_STEPS = 8, MOST_STEPS = 4096, MOST_RANKS = 1 << 16 };
static const char signal_name[] = "local_seconds";

typedef struct slowest {
    int64_t rank, steps, all;
    double ratio, seconds; /* of the step in the middle */
} slowest;

static int by_ratio(const void *a, const void *b) {
    double x = ((const slowest *)a)->ratio, y = ((const slowest *)b)->ratio;
    return (x > y) - (x < y);
}

/* The rank that most steps wait for. */
static slowest find_slowest(const td_spread *spread, size_t count, slowest *each) {
    int64_t times[MOST_STEPS];
    slowest found = {.rank = -1};
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const td_spread *s = &spread[i];
        double others = ((double)s->ranks * s->mean - s->max) / (double)(s->ranks - 1);
        if (s->ranks > 1 && others > 0 && s->max_rank < MOST_RANKS) {
            each[used++] = (slowest){
                .rank = s->max_rank, .ratio = s->max / others, .seconds = s->max - others};
        }
    }
    for (size_t i = 0; i < used; i++) {
        times[i] = 0;
        for (size_t k = 0; k < used; k++) {
            times[i] += each[k].rank == each[i].rank;
        }
        if (times[i] > found.steps) {
            found = (slowest){.rank = each[i].rank, .steps = times[i]};
        }
    }
    qsort(each, used, sizeof *each, by_ratio);
    found.all = (int64_t)used;
    found.ratio = used ? each[used / 2].ratio : 0;
    found.seconds = used ? each[used / 2].seconds : 0;
    return found;
}

static void find_slow_rank(td__case *c) {
    td_run *run = c->history->run;
    const td_run_signal *signal = td_run_signal_find(run, signal_name);
    td_spread *spread = signal ? td__calloc(MOST_STEPS, sizeof *spread) : NULL;
    slowest *each = spread ? td__calloc(MOST_STEPS, sizeof *each) : NULL;
    slowest s = {0};
    if (each) {
        size_t count = td_run_spread(run, signal, NULL, INT64_MIN, INT64_MAX, spread, MOST_STEPS);
        s = find_slowest(spread, count, each);
    }
    td__free(each);
    td__free(spread);
    if (s.all < FEWEST_STEPS || (double)s.steps < SHARE * (double)s.all || !(s.ratio >= RATIO)) {
        return;
    }
    td__suspicion *found = td__loop_error(c, TD_LIKELY, NULL, 1,
                                          "look at that rank's machine, data and examples: their "
                                          "number, their length, where they come from");
    td__because(found, NULL, 1, s.ratio,
                td__say(c,
                        "in %lld of %lld steps rank %lld begins its backward pass last: it takes "
                        "%.3g times as long as "
                        "the others, which wait %.3g s for it",
                        (long long)s.steps, (long long)s.all, (long long)s.rank, s.ratio,
                        s.seconds));
}

const td__rule td__rule_slow_rank = {
    .info = {.name = "slow_rank",
             .meaning = "the ranks wait for one of them in every step",
             .reads = "local_seconds of all ranks: from an update to the next backward pass, in "
                      "which no rank of a "
                      "DistributedDataParallel model waits for another",
             .statistic =
                 "the slowest rank of each step, and its time over the mean of the others'",
             .threshold = "the same rank in four of five steps, eight at least, and 1.3 times the "
                          "others' time in the "
                          "middle of the steps",
             .remedy = "look at that rank's machine, data and examples"},
    .title = "one rank is slow",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_slow_rank,
    .after = true,
};
