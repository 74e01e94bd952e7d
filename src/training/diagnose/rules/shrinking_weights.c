#include "diagnose/rule.h"

#include <math.h>

#define SHARE 0.1

static void find_shrinking_weights(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_PARAMETER, &at));) {
        const td__series *norm = td__series_of(c->history, signal->name, "norm");
        double first = td__series_first(norm), last = td__series_last(norm);
        if (norm->count >= 3 && first > 0 && last < SHARE * first) {
            td__found(c, signal->info->layer, signal->last_step, signal->name, last,
                      td__say(c, "the norm of %s.%s shrinks from %.3g to %.3g", signal->info->layer,
                              signal->info->parameter, first, last));
            return;
        }
    }
}

const td__rule td__rule_shrinking_weights = {
    .info = {.name = "shrinking_weights",
             .symptom = true,
             .meaning = "weights shrink to nothing",
             .reads = "LAYER.PARAMETER (norm)",
             .statistic = "the last norm of a kernel against the first",
             .threshold = "a tenth",
             .remedy = ""},
    .symptom = TD__INDEX_SHRINKING_WEIGHTS,
    .needs = TD__NEEDS_PARAMETERS,
    .find = find_shrinking_weights,
    .after = true,
};
