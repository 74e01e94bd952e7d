#include "diagnose/rule.h"

#include <math.h>

#define HUGE 1e3

static void find_huge_activations(td__case *c) {
    const td_run_signal *signal, *worst = NULL;
    double largest = HUGE;
    int64_t step = 0;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_OUTPUT, &at));) {
        int64_t above = 0, below = 0;
        double high = td__series_most(td__series_of(c->history, signal->name, "max"), &above);
        double low = -td__series_least(td__series_of(c->history, signal->name, "min"), &below);
        double larger = fmax(high, low);
        if (larger > largest) {
            worst = signal;
            largest = larger;
            step = high >= low ? above : below;
        }
    }
    if (worst) {
        td__found(c, worst->info->layer, step, worst->name, largest,
                  td__say(c, "%s puts out numbers of up to %.3g", worst->info->layer, largest));
    }
}

const td__rule td__rule_huge_activations = {
    .info = {.name = "huge_activations",
             .symptom = true,
             .meaning = "a layer puts out huge numbers",
             .reads = "LAYER.output (max, min)",
             .statistic = "the largest output in size",
             .threshold = "beyond 1000: weights of variance 1/n on inputs of variance 1 stay "
                          "below 10",
             .remedy = ""},
    .symptom = TD__INDEX_HUGE_ACTIVATIONS,
    .needs = TD__NEEDS_OUTPUTS,
    .find = find_huge_activations,
    .after = true,
};
