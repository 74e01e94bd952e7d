#include "diagnose/rule.h"

#include <math.h>

#define TIMES 1e3
#define LARGE 100.0

static void find_exploding_gradient(td__case *c) {
    const td_run_signal *signal, *worst = NULL;
    double largest = 0;
    int64_t step = 0;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_GRADIENT, &at));) {
        const td__series *norm = td__series_of(c->history, signal->name, "norm");
        int64_t when = 0;
        double high = td__series_most(norm, &when), first = td__series_first(norm);
        if (high > LARGE && (high > TIMES * first || high > TIMES * LARGE) && high > largest) {
            worst = signal;
            largest = high;
            step = when;
        }
    }
    if (worst) {
        td__found(c, worst->info->layer, step, worst->name, largest,
                  td__say(c, "the gradient of %s.%s reaches a norm of %.3g in step %lld",
                          worst->info->layer, worst->info->parameter, largest, (long long)step));
    }
}

const td__rule td__rule_exploding_gradient = {
    .info = {.name = "exploding_gradient",
             .symptom = true,
             .meaning = "gradients grow beyond all measure",
             .reads = "LAYER.PARAMETER.gradient (norm)",
             .statistic = "the largest norm against the median of the first records, and by "
                          "itself",
             .threshold = "a thousand times as large, and above 100",
             .remedy = ""},
    .symptom = TD__INDEX_EXPLODING_GRADIENT,
    .needs = TD__NEEDS_GRADIENTS,
    .find = find_exploding_gradient,
    .after = true,
};
