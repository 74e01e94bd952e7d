#include "diagnose/rule.h"

#include <math.h>

#define SAME 1e-7

static bool stays(const td__series *series) {
    double low = td__series_least(series, NULL), high = td__series_most(series, NULL);
    return high - low <= SAME * fmax(fabs(high), fabs(low));
}

static void find_unchanged_weights(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_PARAMETER, &at));) {
        const td__series *norm = td__series_of(c->history, signal->name, "norm");
        const td__series *mean = td__series_of(c->history, signal->name, "mean");
        if (norm->count >= 3 && stays(norm) && stays(mean)) {
            td__found(c, signal->info->layer, signal->first_step, signal->name,
                      td__series_last(norm),
                      td__say(c, "%s.%s does not change: its norm stays %.6g", signal->info->layer,
                              signal->info->parameter, td__series_last(norm)));
            return;
        }
    }
}

const td__rule td__rule_unchanged_weights = {
    .info = {.name = "unchanged_weights",
             .symptom = true,
             .meaning = "a parameter does not change",
             .reads = "LAYER.PARAMETER (norm, mean)",
             .statistic = "its norm and mean, first against last",
             .threshold = "the same to seven digits over all records",
             .remedy = ""},
    .symptom = TD__INDEX_UNCHANGED_WEIGHTS,
    .needs = TD__NEEDS_PARAMETERS,
    .find = find_unchanged_weights,
    .after = true,
};
